import { Changes } from "./changes";
import { address, type Link, type Parameters } from "./linked";
import { RequestError } from "./source";

/** The server of this page. */
export class HttpLink extends Changes implements Link {
  constructor() {
    super("api/events");
  }

  ask<T>(name: string, parameters: Parameters, signal?: AbortSignal): Promise<T> {
    return fetched(`api/${name}`, parameters, signal);
  }
}

/** The server's answer. Throws `RequestError` with the server's message if it refuses. */
async function fetched<T>(path: string, parameters: Parameters, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(address(path, parameters), {
      signal: signal ?? null,
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, "The server does not answer. Is `gradwatch view` still running?");
  }
  if (response.ok) return (await response.json()) as T;
  throw new RequestError(response.status, await reason(response));
}

async function reason(response: Response): Promise<string> {
  if (response.status === 401)
    return "This browser has no session with the server. Open the link that `gradwatch view` printed in the terminal again.";
  try {
    const failure: unknown = await response.json();
    if (typeof failure === "object" && failure !== null && "error" in failure)
      return String(failure.error);
  } catch {
    // The answer is not JSON; the status describes the error.
  }
  return `The server answered ${response.status} ${response.statusText}.`;
}
