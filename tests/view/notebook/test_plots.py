"""Plots with matplotlib: what is on the axes is what the reader says."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import gradwatch

mpl.use("agg")
from matplotlib import pyplot
from matplotlib.colors import LogNorm


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def drawn(ax):
    """Draw all of it, as saving does: names that are no formula are found out then."""
    ax.get_figure().canvas.draw()
    return ax


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_heatmap_has_the_readers_values_the_networks_first_layer_on_top(run):
    found = run.heatmap("gradient", "l2")
    ax = drawn(run.plot.heatmap())
    mesh, *overlays = ax.collections
    shown = mesh.get_array()
    bad = found.nonfinite > 0
    zero = found.values == 0
    assert bad.any()
    assert zero.any()
    np.testing.assert_array_equal(shown.mask, bad | zero)
    np.testing.assert_array_equal(shown[~shown.mask], found.values[~(bad | zero)])
    np.testing.assert_array_equal(~overlays[0].get_array().mask, zero)
    np.testing.assert_array_equal(~overlays[1].get_array().mask, bad)
    assert isinstance(mesh.norm, LogNorm)
    assert labels(ax) == [site.path.removeprefix("net/") for site in found.sites]
    bottom, top = ax.get_ylim()
    assert top < bottom  # the first row is on top
    assert ax.get_xlabel() == "step"
    bar = ax.get_figure().axes[1]
    assert bar.get_ylabel() == "gradient, L2 norm (loss per unit of weight)"
    # The step of the NaN is within its column.
    edges = mesh.get_coordinates()[0, :, 0]
    column = int(np.argwhere(bad)[0, 1])
    assert edges[column] < 7 < edges[column + 1]


def test_signed_statistics_are_coloured_around_zero(run):
    ax = drawn(run.plot.heatmap("weight", "mean"))
    norm = ax.collections[0].norm
    assert norm.vmin == -norm.vmax
    assert not isinstance(norm, LogNorm)


def test_all_plots_draw_on_the_axes_that_are_given(run, other, with_histograms):
    kept, _ = with_histograms
    _, axes = pyplot.subplots(2, 3)
    for ax, plot in zip(
        axes.flat,
        (
            lambda ax: run.plot.heatmap(ax=ax),
            lambda ax: run.plot.series("gradient", "conv", ax=ax),
            lambda ax: kept.plot.histograms("weight", "net/a/kernel", ax=ax),
            lambda ax: gradwatch.compare(run, other).plot(ax=ax),
            lambda ax: run.heatmap("weight").plot(ax=ax),
            lambda ax: run.plot.series("loss", "loss", ax=ax),
        ),
        strict=True,
    ):
        assert plot(ax) is ax
    assert len(pyplot.get_fignums()) == 1
    drawn(axes.flat[0])


def test_series_are_the_readers_and_say_what_they_are(run):
    ax = drawn(run.plot.series("gradient", "conv/kernel", "l2", "linf"))
    for line, name in zip(ax.get_lines(), ("l2", "linf"), strict=False):
        steps, values = run.series("gradient", "conv/kernel", name)
        np.testing.assert_array_equal(line.get_xdata(), steps)
        shown = np.where(steps == 7, np.nan, values)  # where there was NaN
        np.testing.assert_array_equal(line.get_ydata(), shown)
    assert ax.get_yscale() == "log"
    assert ax.get_lines()[2].get_xdata().tolist() == [7]  # where there was NaN
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["L2 norm", "largest magnitude", "NaN or Inf"]
    both = drawn(run.plot.series("gradient", ["conv/bias", "dense/bias"], "mean"))
    assert [text.get_text() for text in both.get_legend().get_texts()] == [
        "conv/bias",
        "dense/bias",
    ]
    assert both.get_yscale() == "linear"


def test_bands_hold_the_share_of_elements_that_they_say(with_histograms):
    run, tensors = with_histograms
    ax = drawn(run.plot.histograms("weight", "net/a/kernel"))
    for band, share in zip(ax.collections, (0.98, 0.90, 0.50), strict=True):
        corners = band.get_paths()[0].vertices
        for step, tensor in tensors.items():
            ends = corners[corners[:, 0] == step, 1]
            held = np.mean((tensor >= ends.min()) & (tensor <= ends.max()))
            assert held == pytest.approx(share, abs=0.03)
    medians = ax.get_lines()[0].get_ydata()
    for median, tensor in zip(medians, tensors.values(), strict=True):
        assert median == pytest.approx(np.median(tensor), rel=0.05)


def test_a_comparison_shows_powers_of_two_of_the_ratio(run, other):
    found = gradwatch.compare(run, other)
    ax = drawn(found.plot())
    shown = ax.collections[0].get_array()
    with np.errstate(all="ignore"):
        ratios = np.log2(found.values[1] / found.values[0])
    known = np.isfinite(ratios)
    np.testing.assert_allclose(np.asarray(shown)[known], ratios[known])
    # 0 compared with something is at the end of the scale, not beyond it.
    zero = np.isneginf(ratios)
    assert zero.any()
    assert set(np.asarray(shown)[zero]) == {ax.collections[0].norm.vmin}
    assert ax.get_figure().axes[1].get_ylabel() == "log2 of other / shown"


def test_hostile_names_are_drawn_as_text(hostile, recwarn):
    ax = hostile.plot.heatmap()
    # A font may lack a character, which is said by a warning: that is no fault here.
    with mpl.rc_context({"text.usetex": False}):
        ax.get_figure().canvas.draw()
    assert all("Glyph" in str(warning.message) for warning in recwarn)
    assert any(r"\$" in label for label in labels(ax))


def test_a_statistic_that_does_not_exist_is_said_as_by_the_reader(run):
    with pytest.raises(ValueError, match="There is no statistic 'l3' of gradient"):
        run.plot.heatmap("gradient", "l3")
    with pytest.raises(gradwatch.read.NotRecordedError, match="Closest"):
        run.plot.series("gradient", "conv/kernels")


def test_without_matplotlib_it_says_what_to_install(run):
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import gradwatch\n"
        f"run = gradwatch.open({str(run.path)!r})\n"
        "try: run.plot.heatmap()\n"
        "except ImportError as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "Plots need matplotlib. Install it with: pip install 'gradwatch[plot]'"
