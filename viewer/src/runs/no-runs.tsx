const EXAMPLE = `import gradwatch
model.fit(x, y, callbacks=[gradwatch.Monitor("runs/first")])`;

/** Explains how to record a run. */
export function NoRuns({ directory }: { directory: string }) {
  return (
    <div class="no-runs">
      <h1>No runs yet</h1>
      <p>
        There is none in <span class="path">{directory}</span>. Record one, and it appears here by
        itself:
      </p>
      <pre>
        <code>{EXAMPLE}</code>
      </pre>
      <p class="muted">
        In a loop of your own: <code>gradwatch.Monitor("runs/first").record(...)</code>. In plain
        torch: <code>gradwatch.watch(module, optimizer, "runs/first")</code>.
      </p>
    </div>
  );
}
