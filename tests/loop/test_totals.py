"""Sums, absolute sums and norms of the model, of layers and of named groups."""

import csv
import io

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Reading, Site
from gradwatch.core import STATISTICS, Grouping, Summary, l2

rng = np.random.default_rng(0)
TENSORS = {
    "encoder_1/kernel": rng.normal(size=(5, 4)),
    "encoder_1/bias": rng.normal(size=4),
    "encoder_2/kernel": rng.normal(size=(4, 4)),
    "decoder/kernel": rng.normal(size=(4, 5)),
    "decoder/bias": rng.normal(size=5),
}
GROUPS = {"encoder": "encoder*", "biases": "bias", "kernels": ["*", "!bias"]}
MEMBERS = {
    "encoder": ["encoder_1/kernel", "encoder_1/bias", "encoder_2/kernel"],
    "biases": ["encoder_1/bias", "decoder/bias"],
    "kernels": ["encoder_1/kernel", "encoder_2/kernel", "decoder/kernel"],
}


def together(paths):
    """The tensors laid side by side, as the sinks never do."""
    return np.concatenate([TENSORS[path].ravel() for path in paths])


def test_a_line_every_n_steps_has_the_totals_of_the_model_and_the_groups(make_monitor):
    out = io.StringIO()
    monitor, _ = make_monitor(sinks=[gradwatch.Totals(GROUPS, every=2, file=out)])
    for _ in range(5):
        monitor.record(gradients=TENSORS, variables=TENSORS)
    monitor.close()
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["2", "4"]
    start, *parts = lines[0].split("  ")[1:]
    assert start == "gradient"
    shown = {part.partition(":")[0]: part.partition(": ")[2].split() for part in parts}
    for name, paths in {"model": list(TENSORS), **MEMBERS}.items():
        x = together(paths)
        numbers = dict(zip(shown[name][::2], map(float, shown[name][1::2]), strict=True))
        truth = {"sum": x.sum(), "l1": np.abs(x).sum(), "l2": np.sqrt((x**2).sum())}
        assert numbers == pytest.approx(truth, rel=1e-5)


def test_named_groups_are_in_the_table_as_a_kind_of_their_own(make_monitor):
    monitor, _ = make_monitor(sinks=[gradwatch.CSV(), gradwatch.Totals(GROUPS, every=0)])
    monitor.record(gradients=TENSORS, variables=TENSORS, loss=1.0)
    monitor.close()
    with (monitor.directory / "summaries.csv").open(newline="") as file:
        rows = {(r["kind"], r["path"]): r for r in csv.DictReader(file)}
    for name, paths in MEMBERS.items():
        x = together(paths)
        for kind in ("group_gradient", "group_weight"):
            row = rows[kind, name]
            assert int(row["count"]) == x.size
            assert float(row["sum"]) == pytest.approx(x.sum())
            assert float(row["l1"]) == pytest.approx(np.abs(x).sum())
            assert float(row["l2"]) == pytest.approx(np.sqrt((x**2).sum()))
    assert sum(kind == "gradient" for kind, _ in rows) == len(TENSORS)
    assert rows["loss", "loss"]["sum"] == "1.0"


def test_totals_of_groups_of_a_loop_are_apart(make_monitor):
    out = io.StringIO()
    monitor, keep = make_monitor(sinks=[gradwatch.Totals({"biases": "bias"}, file=out)])
    monitor.record(gradients={"bias": np.ones(2)}, group="generator")
    monitor.record(gradients={"bias": np.ones(3)}, group="critic")
    monitor.close()
    first, second = out.getvalue().splitlines()
    assert "generator: sum 2" in first
    assert "generator/biases: sum 2" in first
    assert "critic/biases: sum 3" in second
    assert list(keep.readings[0].named_totals(Kind.GRADIENT)) == ["generator/biases"]


def test_elements_that_are_not_finite_are_counted_and_the_sum_is_not_finite():
    out = io.StringIO()
    totals = gradwatch.Totals(file=out, statistics=["sum", "count"])
    rows = Summary.of([1.0, np.nan, np.inf]).pack()[None]
    totals.write(Reading(3, 1, 0.0, [Site(Kind.GRADIENT, "w")], Summary.unpack(rows)))
    assert out.getvalue() == "step 3  gradient  model: sum nan count 3 nonfinite 2\n"


def test_members_leave_out_losses_and_slices():
    sites = [
        Site(Kind.GRADIENT, "lstm/kernel"),
        Site(Kind.GRADIENT, "lstm/kernel[forget]"),
        Site(Kind.LOSS, "loss"),
    ]
    reading = Reading(1, 1, 0.0, sites, Summary.empty((3,)))
    assert Grouping({"all": "*"}).attach(reading).members == {"all": (0,)}


def test_a_group_that_matches_nothing_is_said_at_the_end(make_monitor):
    monitor, _ = make_monitor(sinks=[gradwatch.Totals({"encodr": "encodr*"}, every=0)])
    monitor.record(gradients=TENSORS)
    with pytest.warns(gradwatch.GradwatchWarning, match="'encodr' matched nothing"):
        monitor.close()


def test_a_group_can_be_chosen_by_expression_or_function():
    import re

    reading = Reading(
        1, 1, 0.0, [Site(Kind.GRADIENT, p) for p in TENSORS], Summary.empty((len(TENSORS),))
    )
    grouping = Grouping(
        {"numbered": re.compile(r"_\d/"), "biases": lambda info: info.part == "bias"}
    )
    assert grouping.attach(reading).members == {"numbered": (0, 1, 2), "biases": (1, 4)}


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match=r"The group 'first'.*Received: 0"):
        Grouping({"first": 0})
    with pytest.raises(ValueError, match="every=-1"):
        gradwatch.Totals(every=-1)
    with pytest.raises(ValueError, match="no statistic 'norm'"):
        gradwatch.Totals(statistics=["norm"])


def test_the_model_and_its_layers_have_totals_in_every_reading(make_monitor):
    monitor, keep = make_monitor()
    monitor.record(gradients=TENSORS)
    monitor.close()
    (reading,) = keep.readings
    everything = together(TENSORS)
    total = reading.total(Kind.GRADIENT)
    assert float(STATISTICS["l1"](total)) == pytest.approx(np.abs(everything).sum())
    assert float(l2(total)) == pytest.approx(np.linalg.norm(everything))
    layer = reading.layers(Kind.GRADIENT)["encoder_1"]
    assert float(layer.sum) == pytest.approx(together(MEMBERS["encoder"][:2]).sum())
