/**
 * An exponential moving average without the bias towards 0 at the beginning, as TensorBoard
 * computes it. A weight of 0 changes nothing, and values that are not finite stay as they are.
 */
export function smoothed(values: ArrayLike<number>, weight: number): number[] {
  const given = Array.from(values);
  if (weight <= 0 || given.every((value) => value === given[0])) return given;
  let average = 0;
  let counted = 0;
  return given.map((value) => {
    if (!Number.isFinite(value)) return value;
    average = weight * average + (1 - weight) * value;
    counted++;
    return average / (1 - weight ** counted);
  });
}
