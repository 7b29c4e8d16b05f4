"""Which sites a name stands for."""

import pytest

from gradwatch import Kind, Site
from gradwatch.read.members import NotRecordedError, members

PATHS = ("net/a/kernel", "net/a/bias", "net/b/kernel", "net/deep/a2/kernel", "net/a/kernel[forget]")
SITES = [Site(Kind.GRADIENT, path) for path in PATHS]


def of(path):
    return [site.path for site in members(Kind.GRADIENT, path, SITES, {})]


def test_the_end_of_a_path_is_enough_if_no_other_ends_so():
    assert of("b/kernel") == ["net/b/kernel"]
    assert of("a2/kernel") == ["net/deep/a2/kernel"]
    assert of("a/kernel[forget]") == ["net/a/kernel[forget]"]


def test_the_end_of_a_layers_path_stands_for_its_sites():
    assert of("a") == ["net/a/kernel", "net/a/bias"]
    assert of("deep/a2") == ["net/deep/a2/kernel"]


@pytest.mark.parametrize("path", ["kernel", "ernel", "2/kernel", "/b/kernel", ""])
def test_what_several_paths_or_none_end_with_is_refused_and_the_nearest_are_named(path):
    with pytest.raises(NotRecordedError, match=r"net/|There are"):
        of(path)
