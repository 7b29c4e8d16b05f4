"""The loop of `gradwatch top`."""

from functools import partial

from gradwatch.read import Run
from gradwatch.view.data import combined
from gradwatch.view.terminal.frame import TopFrame, screen
from gradwatch.view.terminal.keys import KeyDecoder
from gradwatch.view.terminal.live_screen import LiveScreen
from gradwatch.view.terminal.run_poller import RunPoller
from gradwatch.view.terminal.view_options import ViewOptions


def run_top(run: Run, view: ViewOptions, *, every: float = 1.0, rank: int | None = None) -> None:
    """Show a run on the terminal of stdout, read every so many seconds, until the user quits.

    Ctrl-C raises KeyboardInterrupt once the terminal is restored. A wrong pattern in `view` raises
    ValueError. A `rank` of None is the first.
    """
    poller = RunPoller(run, rank, every)
    selector = combined(view.patterns)
    try:
        with LiveScreen() as terminal:
            poller.start(selector)
            _show(terminal, poller, view, every)
    finally:
        # After the terminal is restored: the read in progress may take a moment.
        poller.stop()


def _show(terminal: LiveScreen, poller: RunPoller, view: ViewOptions, every: float) -> None:
    decoder, mistake = KeyDecoder(), ""
    while not view.quit:
        size, version = terminal.size, poller.version
        encoding = terminal.output.encoding or "ascii"
        message = mistake or poller.error
        frame = TopFrame(poller.progress, poller.findings, view, message, encoding)
        terminal.paint(screen(frame, terminal.output, size.columns, size.lines), size)
        layers = len(frame.progress.layers) if frame.progress else 0
        page = frame.page(size.columns, size.lines)
        typed = terminal.wait(every, partial(poller.has_changed, version))
        for key in decoder.decode(typed):
            before, view = view, view.pressed(key, layers, page)
            mistake = ""
            if view.patterns != before.patterns:
                try:
                    poller.select(combined(view.patterns))
                except ValueError as error:
                    view, mistake = before.pressed("escape", layers, page), str(error)
