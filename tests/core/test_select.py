"""Which sites a selector selects, and what it says when there are none."""

import re

import pytest

from gradwatch import Kind, Site
from gradwatch.core import SiteInfo, select
from gradwatch.core.select import SelectionError, as_selector, choose


class Conv2D:
    pass


class Dense:
    pass


class SpecialDense(Dense):
    pass


def site(path, index, owner):
    return SiteInfo(
        Site(Kind.GRADIENT, path),
        shape=(2, 3),
        dtype="float32",
        part=path.rpartition("/")[2],
        layer_indices=(index, index - 3),
        owners=(object(), owner),
    )


first, second, third = Conv2D(), Dense(), SpecialDense()
SITES = [
    site("net/conv1/kernel", 0, first),
    site("net/conv1/bias", 0, first),
    site("net/dense/kernel", 1, second),
    site("net/dense/bias", 1, second),
    site("net/block/dense_1/kernel", 2, third),
]


def chosen(*specs):
    return [i.path.removeprefix("net/") for i in choose(specs, SITES, "gradients")]


@pytest.mark.parametrize(
    ("specs", "paths"),
    [
        ([], ["conv1/kernel", "conv1/bias", "dense/kernel", "dense/bias", "block/dense_1/kernel"]),
        (["conv*"], ["conv1/kernel", "conv1/bias"]),
        (["conv*/kernel"], ["conv1/kernel"]),
        (["kernel"], ["conv1/kernel", "dense/kernel", "block/dense_1/kernel"]),
        (["dense"], ["dense/kernel", "dense/bias"]),
        (["dense*/kernel"], ["dense/kernel", "block/dense_1/kernel"]),
        (["net/dense/kernel"], ["dense/kernel"]),
        (["block/*/kernel"], ["block/dense_1/kernel"]),
        ([0], ["conv1/kernel", "conv1/bias"]),
        ([-1], ["block/dense_1/kernel"]),
        (["conv*", -1], ["conv1/kernel", "conv1/bias", "block/dense_1/kernel"]),
        ([re.compile(r"dense(_\d)?/k")], ["dense/kernel", "block/dense_1/kernel"]),
        ([Dense], ["dense/kernel", "dense/bias", "block/dense_1/kernel"]),
        ([select.layer_type("SpecialDense")], ["block/dense_1/kernel"]),
        ([select.part("bias")], ["conv1/bias", "dense/bias"]),
        ([lambda i: i.parameters == 6 and "conv" in i.path], ["conv1/kernel", "conv1/bias"]),
        (["!bias"], ["conv1/kernel", "dense/kernel", "block/dense_1/kernel"]),
        (["conv*", "dense", "!bias"], ["conv1/kernel", "dense/kernel"]),
        ([select.part("kernel") & "dense"], ["dense/kernel"]),
        ([~select.path("conv1") & ~select.layer(2)], ["dense/kernel", "dense/bias"]),
        ([select.layer(0) | Dense], chosen()),
    ],
)
def test_selectors_select(specs, paths):
    assert chosen(*specs) == paths


def test_a_selector_that_matches_nothing_lists_near_misses():
    with pytest.raises(SelectionError) as error:
        chosen("conv1", "dens/kernal")
    message = str(error.value)
    assert message.startswith("gradients('dens/kernal') matched none of 5 variables.")
    assert "net/dense/kernel" in message
    assert "gradwatch.sites(model)" in message


def test_without_near_misses_it_lists_what_there_is():
    with pytest.raises(
        SelectionError, match=r"gradients\(layer\(7\)\).*There are: net/conv1/kernel"
    ):
        chosen(7)


def test_an_exclusion_that_matches_nothing_is_an_error_too():
    with pytest.raises(SelectionError, match="'gamma'"):
        chosen("!gamma")


def test_excluding_all_that_is_selected_is_an_error():
    with pytest.raises(SelectionError, match="excluded again"):
        chosen("conv*", "!conv1")


@pytest.mark.parametrize("spec", [1.5, None, True, ["conv"]])
def test_what_is_no_selector_is_refused_with_the_culprit(spec):
    with pytest.raises(TypeError, match=re.escape(repr(spec))):
        as_selector(spec)


@pytest.mark.parametrize("pattern", ["", "a//b"])
def test_empty_components_are_refused(pattern):
    with pytest.raises(ValueError, match="empty component"):
        select.path(pattern)


def test_a_selector_says_what_it_is():
    assert repr(select.layer(0) | "conv*") == "(layer(0) | 'conv*')"
