import { useEffect, useMemo, useState } from "preact/hooks";
import { type Kernel, KernelSource } from "../api/kernel";
import { App } from "../app";
import "./widget.css";

/** The pages of the run that a notebook's kernel sends, as soon as there is one. */
export function WidgetApp({ kernel }: { kernel: Kernel }) {
  const source = useMemo(() => new KernelSource(kernel), [kernel]);
  const [shown, setShown] = useState({ run: kernel.overview?.run.id, said: kernel.said });
  useEffect(() => {
    const update = () => {
      const now = { run: kernel.overview?.run.id, said: kernel.said };
      setShown((old) => (old.run === now.run && old.said === now.said ? old : now));
    };
    // The first message may have come already.
    update();
    return kernel.onChange(null, update);
  }, [kernel]);
  if (shown.run === undefined)
    return (
      <p class="widget-said" role="status">
        {shown.said}
      </p>
    );
  return <App source={source} reported={shown.run} />;
}
