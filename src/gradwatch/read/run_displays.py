"""How a run is displayed in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwatch.util.display import notebook

if TYPE_CHECKING:
    from gradwatch.view.notebook import RunPlots


class RunDisplays:
    """The displays of a `Run`."""

    @property
    def plot(self) -> RunPlots:
        """Plots with matplotlib (an extra): `run.plot.heatmap()`; see docs/notebooks.md."""
        plots: RunPlots = notebook().RunPlots(self)
        return plots

    def widget(self, height: int = 640) -> Any:
        """The viewer's pages of this run, in a notebook; live while the run is recorded.

        They come through the notebook's kernel, without a server and a port; see
        docs/notebooks.md. anywidget is an extra, `pip install 'gradwatch[notebook]'`; without it
        the run is shown as it is now.

        Args:
            height: in pixels.

        Example:

        >>> import tempfile
        >>> import gradwatch, numpy as np
        >>> directory = tempfile.mkdtemp()
        >>> with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
        ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])})
        >>> widget = gradwatch.open(directory).widget()    # the last line of a cell
        >>> widget.close()
        """
        return notebook().run_widget(self, height)

    def _repr_html_(self) -> str:
        return notebook().run_html(self)
