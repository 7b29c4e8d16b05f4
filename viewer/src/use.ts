import { useEffect, useRef, useState } from "preact/hooks";
import type { Source } from "./api/source";

export interface Answer<T> {
  data: T | null;
  error: Error | null;
  /** Whether a newer answer is loading. The old one stays until it arrives. */
  loading: boolean;
}

/**
 * The answer to a request. A change of `dependencies` aborts the request and sends it again. The
 * old answer stays until the new one arrives, so that nothing flickers. Pass a different `identity`
 * when the old answer would be wrong.
 *
 * A change of `refresh`, such as a count of changes, repeats the request. It waits for the current
 * request instead of aborting it: a run that changes faster than the server answers would otherwise
 * never be shown.
 */
export function useAnswer<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  dependencies: readonly unknown[],
  identity = "",
  refresh: unknown = null,
): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T> & { identity: string }>({
    data: null,
    error: null,
    loading: true,
    identity,
  });
  const latest = useRef(ask);
  latest.current = ask;
  const renew = useRef<() => void>(() => {});
  useEffect(() => {
    const abort = new AbortController();
    let busy = false;
    let again = false;
    const start = async () => {
      busy = true;
      setAnswer((old) => ({ ...old, loading: true }));
      try {
        const data = await latest.current(abort.signal);
        if (!abort.signal.aborted) setAnswer({ data, error: null, loading: false, identity });
      } catch (error) {
        if (abort.signal.aborted) return;
        const reason = error instanceof Error ? error : new Error(String(error));
        setAnswer((old) => ({ ...old, error: reason, loading: false, identity }));
      }
      busy = false;
      if (again && !abort.signal.aborted) {
        again = false;
        void start();
      }
    };
    renew.current = () => {
      if (busy) again = true;
      else void start();
    };
    void start();
    return () => abort.abort();
  }, [...dependencies, identity]);
  const refreshed = useRef(refresh);
  useEffect(() => {
    if (refreshed.current === refresh) return;
    refreshed.current = refresh;
    renew.current();
  }, [refresh]);
  if (answer.identity !== identity) return { data: null, error: null, loading: true };
  return answer;
}

/** A number that grows whenever one of the runs (null: the list of runs) has changed. */
export function useChanges(source: Source, runs: string | readonly string[] | null): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const ends = [runs].flat().map((run) => source.onChange(run, () => setCount((old) => old + 1)));
    return () => {
      for (const end of ends) end();
    };
  }, [source, runs]);
  return count;
}

/** The current size of an element. */
export function useSize<E extends HTMLElement>(): [
  (element: E | null) => void,
  { width: number; height: number },
] {
  const [size, setSize] = useState({ width: 0, height: 0 });
  const observer = useRef<ResizeObserver | null>(null);
  const attach = useRef((element: E | null) => {
    observer.current?.disconnect();
    observer.current = null;
    if (element === null) return;
    observer.current = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = element;
      setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
    });
    observer.current.observe(element);
  });
  return [attach.current, size];
}

/** The current height of the window. */
export function useWindowHeight(): number {
  const [height, setHeight] = useState(window.innerHeight);
  useEffect(() => {
    const update = () => setHeight(window.innerHeight);
    window.addEventListener("resize", update);
    return () => window.removeEventListener("resize", update);
  }, []);
  return height;
}

/** The latest value that has not changed for some milliseconds. */
export function useDebounced<T>(value: T, milliseconds: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}
