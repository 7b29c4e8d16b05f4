/**
 * The widget in a notebook, as anywidget wants it. The viewer's page is in a frame of its own, so
 * that neither its style nor its address nor its keys mix with the notebook's. What the kernel
 * sends to the model is passed on to the page, and the page's requests to the kernel.
 */

/** What anywidget offers of a widget's model. */
interface Model {
  get(name: string): unknown;
  on(event: string, listener: (content: unknown) => void): void;
  off(event: string, listener: (content: unknown) => void): void;
  send(content: unknown): void;
}

const STATE = ["said", "trees", "overview"];
const CHANGES = STATE.map((name) => `change:${name}`);

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const frame = document.createElement("iframe");
  frame.title = "gradwatch";
  frame.srcdoc = String(model.get("page"));
  frame.style.cssText = "display:block;width:100%;height:100%;border:0";
  const box = document.createElement("div");
  box.style.cssText = `height:${Number(model.get("height"))}px;resize:vertical;overflow:hidden`;
  box.append(frame);
  el.append(box);

  let port: MessagePort | null = null;
  let planned = false;
  const tell = () => {
    planned = false;
    port?.postMessage(Object.fromEntries(STATE.map((name) => [name, model.get(name)])));
  };
  // Several properties change in one message: the page is told once.
  const plan = () => {
    if (!planned) queueMicrotask(tell);
    planned = true;
  };
  const answer = (content: unknown) => port?.postMessage(content);
  // A notebook that moves the widget has the frame load again.
  frame.addEventListener("load", () => {
    const channel = new MessageChannel();
    port?.close();
    port = channel.port1;
    port.onmessage = ({ data }) => model.send(data);
    frame.contentWindow?.postMessage({ dark: isDark(el) }, "*", [channel.port2]);
    tell();
  });
  for (const change of CHANGES) model.on(change, plan);
  model.on("msg:custom", answer);
  return () => {
    for (const change of CHANGES) model.off(change, plan);
    model.off("msg:custom", answer);
    port?.close();
    frame.remove();
  };
}

/** Whether the notebook is dark: by the nearest background that is not transparent. */
function isDark(element: HTMLElement): boolean {
  for (let at: HTMLElement | null = element; at !== null; at = at.parentElement) {
    const found = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(
      getComputedStyle(at).backgroundColor,
    );
    if (found === null || Number(found[4] ?? 1) < 0.5) continue;
    const [, red, green, blue] = found.map(Number);
    return 0.299 * (red ?? 0) + 0.587 * (green ?? 0) + 0.114 * (blue ?? 0) < 128;
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

export default { render };
