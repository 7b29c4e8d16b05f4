import { useRef, useState } from "preact/hooks";
import { type Exportable, type Format, save } from "./export";

const FORMATS: readonly Format[] = ["PNG", "SVG", "CSV"];

/** A menu that saves a chart as PNG, SVG or CSV. */
export function ExportMenu({ chart, label }: { chart: Exportable; label: string }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [failure, setFailure] = useState("");

  const close = () => menu.current?.removeAttribute("open");
  const choose = (format: Format) => {
    close();
    setFailure("");
    save(chart, format).catch((error: unknown) => setFailure(`Not saved: ${String(error)}`));
  };
  const leave = (event: FocusEvent) => {
    if (!menu.current?.contains(event.relatedTarget as Node | null)) close();
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !menu.current?.open) return;
    event.stopPropagation();
    close();
    menu.current.querySelector("summary")?.focus();
  };

  return (
    <>
      {failure && (
        <span class="chart-failure" role="alert">
          {failure}
        </span>
      )}
      <details class="chart-menu" ref={menu} onFocusOut={leave} onKeyDown={press}>
        <summary class="chart-button" aria-label={`Export ${label}`}>
          Export
        </summary>
        <div class="chart-menu-items">
          {FORMATS.map((format) => (
            <button key={format} type="button" onClick={() => choose(format)}>
              {format}
            </button>
          ))}
        </div>
      </details>
    </>
  );
}
