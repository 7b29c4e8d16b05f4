/** How columns that a run has added are joined to those that are known. */

/** The number of known columns that stay: those before the first of the new ones. */
export function keptColumns(known: readonly number[], added: readonly number[]): number {
  const begin = added[0] ?? Number.POSITIVE_INFINITY;
  let kept = known.length;
  while (kept > 0 && (known[kept - 1] ?? 0) >= begin) kept--;
  return kept;
}

export function joinedSteps(known: readonly number[], kept: number, added: readonly number[]) {
  return [...known.slice(0, kept), ...added];
}

export function joinedValues(known: Float64Array, kept: number, added: Float64Array): Float64Array {
  const joined = new Float64Array(kept + added.length).fill(Number.NaN);
  joined.set(known.subarray(0, kept));
  joined.set(added, kept);
  return joined;
}
