"""Displays through IPython's own formatters, as a notebook asks for them."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import gradwatch
from gradwatch.core import Histogram, Kind, Site
from gradwatch.inspection import InspectedGradient, Inspection


@pytest.fixture(scope="module")
def formatter():
    return InteractiveShell().display_formatter


def entry(path, *values, kind=Kind.GRADIENT):
    histogram = Histogram.of(np.array(values)) if values else None
    return InspectedGradient(
        Site(kind, path), "net/a", "Dense", (len(values),), "float32", True, histogram, ()
    )


def inspection():
    entries = [entry("net/a/kernel", 3.0, 4.0), entry("net/<b>/bias", 0.5), entry("net/c/none")]
    return Inspection("net", 0.25, True, entries, ["<i> is not covered"], {})


def test_a_notebook_gets_html_of_all_that_can_be_displayed(formatter, run, other):
    shown = [run, run.heatmap("gradient"), gradwatch.compare(run, other), inspection()]
    shown += [gradwatch.diagnose(run), run.at(7), run.at(7)[0]]
    for each in shown:
        bundle, _ = formatter.format(each)
        assert bundle["text/html"] == each._repr_html_()
        assert bundle["text/plain"] == repr(each)


def test_an_inspection_has_a_bar_for_each_gradient_on_a_logarithmic_scale():
    markup = inspection()._repr_html_()
    assert "&lt;b&gt;/bias" in markup
    assert "<b>/bias" not in markup
    assert "&lt;i&gt; is not covered" in markup
    assert markup.count("<svg") == 2
    assert 'aria-label="L2 5"' in markup
    assert markup.count("<tr>") == 1 + 3 + 1


def test_what_a_cell_has_shown_is_not_displayed_once_more_by_its_last_line(tmp_path):
    program = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, {root!r})
        import rich.console
        from IPython.core.interactiveshell import InteractiveShell
        from tests.view.notebook.test_ipython import inspection

        rich.console._is_jupyter = lambda: True
        shell = InteractiveShell.instance()
        shown = []
        publish = lambda data, metadata=None, **more: shown.append(data)
        shell.display_pub.publish = publish
        def write_format_data(data, metadata=None):
            shown.append(data)
        shell.displayhook.write_format_data = write_format_data
        shell.user_ns["inspection"] = inspection
        cells = [
            "from gradwatch.inspection.table_text import show",
            "found = inspection(); show(found); found",
            "found",
            "show(found)",
            "inspection()",
        ]
        for cell in cells:
            shell.run_cell(cell, store_history=True)
            sys.__stderr__.write(str([sorted(each) for each in shown]) + "\\n")
            shown.clear()
        """
    ).format(root=str(_root()))
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": ""},
    )
    both, plain = "['text/html', 'text/plain']", "['text/plain']"
    assert result.stderr.splitlines() == ["[]", f"[{both}, {plain}]", *[f"[{both}]"] * 3]


def _root():
    from pathlib import Path

    return Path(__file__).parents[3]
