/** The message of a failed request. */
export function Problem({ error }: { error: Error }) {
  return (
    <p class="problem" role="alert">
      {error.message}
    </p>
  );
}
