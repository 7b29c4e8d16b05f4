"""Which layers stand out, in which order, and whose plots are carried first."""

from gradwatch import Kind, Site
from gradwatch.diagnosis.finding import Finding, Severity
from gradwatch.read import bare_info
from gradwatch.view.data.tree import Tree
from gradwatch.view.report.plot_order import plot_order
from gradwatch.view.report.worst_layers import worst_layers


def layer(name, gradient=1.0, **facts):
    plain = {"nonfinite": 0, "gradient_zero_share": 0.0, "update_ratio": 1e-3}
    return {"layer": name, "gradient_l2": gradient, **plain, **facts}


LAYERS = [
    layer("plain"),
    layer("dead", gradient=0.0, gradient_zero_share=1.0),
    layer("broken", nonfinite=3),
    layer("named"),
    layer("large", gradient=100.0),
    layer("small", gradient=1e-6),
    layer("restless", update_ratio=0.5),
]


def finding(severity, name, **more):
    return Finding("rule", severity, "It is so.", 1, 2, layer=name, **more)


def test_findings_come_before_nan_before_zeros_before_extremes():
    found = worst_layers(LAYERS, [finding(Severity.ERROR, "named").facts()], 10)
    assert list(found) == ["named", "broken", "dead", "large", "small", "restless", "plain"]
    assert found["broken"] == "NaN or Inf"
    assert found["dead"] == "gradient is 0"
    assert found["restless"] == "largest update / weight"
    assert list(worst_layers(LAYERS, [], 2)) == ["broken", "dead"]


def test_what_is_only_worth_knowing_makes_no_layer_stand_out():
    found = worst_layers(LAYERS, [finding(Severity.INFO, "named").facts()], 10)
    assert "named" not in found


def test_the_layers_of_a_findings_sites_are_named_by_it():
    sites = (Site(Kind.GRADIENT, "plain/kernel"), Site(Kind.GRADIENT, "small/kernel"))
    found = worst_layers(LAYERS, [finding(Severity.ERROR, "named", sites=sites).facts()], 3)
    assert list(found) == ["named", "plain", "small"]


def test_plots_of_what_findings_name_come_first_and_none_twice():
    paths = ("net/a/kernel", "net/a/bias", "net/b/kernel", "net/b/bias")
    trees = {
        kind: Tree.of([bare_info(Site(kind, path)) for path in paths])
        for kind in (Kind.WEIGHT, Kind.GRADIENT)
    }
    named = finding(Severity.ERROR, "net/b", sites=(Site(Kind.GRADIENT, "net/b/bias"),))
    explained = Finding("r", Severity.ERROR, "So.", 1, 2, layer="net/a", explained_by="rule")
    found = plot_order(trees, [named, explained], {})
    assert found[:4] == [
        (Kind.GRADIENT, "net/b/bias"),
        (Kind.GRADIENT, "net/b"),
        (Kind.WEIGHT, "net/b"),
        (Kind.GRADIENT, "net/b/kernel"),
    ]
    assert found[6:9] == [
        (Kind.GRADIENT, "net"),
        (Kind.WEIGHT, "net"),
        (Kind.GRADIENT, "net/a"),
    ]
    assert len(found) == len(set(found)) == 2 * (len(paths) + len(("net", "net/a", "net/b")))
