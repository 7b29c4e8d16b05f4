const EXAMPLE = `import gradwatch
model.fit(x, y, callbacks=[gradwatch.Monitor("runs/first")])`;

/** Explains how to record a run. */
export function NoRuns({ directory }: { directory: string }) {
  return (
    <div class="no-runs">
      <h1>No runs yet</h1>
      <p>
        The directory <span class="path">{directory}</span> contains no runs. A run appears here as
        soon as it is recorded:
      </p>
      <pre>
        <code>{EXAMPLE}</code>
      </pre>
      <p class="muted">
        In a custom training loop: <code>gradwatch.Monitor("runs/first").record(...)</code>. In
        PyTorch: <code>gradwatch.watch(module, optimizer, "runs/first")</code>.
      </p>
    </div>
  );
}
