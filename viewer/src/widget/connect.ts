import { Kernel } from "../api/kernel";
import { setHostTheme } from "../theme";

/** Whether this page is in a notebook's widget. */
export function isWidget(): boolean {
  return document.getElementById("app")?.dataset.source === "kernel";
}

/** Waits for the widget, which hands over its end of a channel; see `esm.ts`. */
export function connected(): Promise<Kernel> {
  return new Promise((resolve) => {
    window.addEventListener("message", (event: MessageEvent<{ dark?: unknown }>) => {
      const [port] = event.ports;
      if (event.source !== window.parent || port === undefined) return;
      setHostTheme(event.data.dark === true ? "dark" : "light");
      const kernel = new Kernel(port);
      port.onmessage = ({ data }) => kernel.receive(data);
      resolve(kernel);
    });
  });
}
