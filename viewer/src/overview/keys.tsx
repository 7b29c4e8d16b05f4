import { useEffect, useRef } from "preact/hooks";
import "./keys.css";

const KEYS: [keys: string[], what: string][] = [
  [["/"], "search"],
  [["Esc"], "clear the search, or the cursor"],
  [["j", "k", "↓", "↑"], "next, previous row"],
  [["→", "←"], "open, close a block"],
  [["Enter"], "open the page of the row"],
  [["Shift →", "Shift ←"], "move the cursor in time and read the value"],
  [["+", "-"], "zoom in time"],
  [[".", ","], "move to later, earlier steps"],
  [["0"], "show all steps"],
  [["?"], "show this list"],
];

const POINTER: [what: string, how: string][] = [
  ["drag", "zoom to a part of the steps"],
  ["double click", "show all steps"],
  ["Ctrl and wheel", "zoom; on the axis of steps, the wheel zooms without Ctrl"],
  ["Shift and drag, or wheel sideways", "move in time"],
];

/** The list of keys. */
export function KeysDialog({ open, close }: { open: boolean; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open) dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} class="keys" aria-label="Keys" onClose={close}>
      <h2>Keys</h2>
      <dl>
        {KEYS.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <h2>Pointer</h2>
      <dl>
        {POINTER.map(([how, what]) => (
          <div key={how}>
            <dt>{how}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
