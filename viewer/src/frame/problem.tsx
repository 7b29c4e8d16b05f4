/** A request that failed, in its own words, where its answer would have been. */
export function Problem({ error }: { error: Error }) {
  return (
    <p class="problem" role="alert">
      {error.message}
    </p>
  );
}
