import { RequestError } from "../api/source";
import { href } from "../route";

/** Why a run cannot be shown, with a way back. */
export function NoRun({ error }: { error: Error }) {
  const isUnknown = error instanceof RequestError && error.status === 404;
  return (
    <div class="no-run">
      <h1>{isUnknown ? "Not found" : "The run cannot be shown"}</h1>
      <p role="alert">{error.message}</p>
      <p>
        <a href={href({ page: "runs" })}>All runs</a>
      </p>
    </div>
  );
}
