"""The tree of any paths has them all, once, in network order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.read import bare_info
from gradwatch.view.data.tree import Tree

words = st.sampled_from(["a", "b", "net", "", "kernel", "kernel[x]", "…", "<b>", "a b"])
paths = st.lists(st.lists(words, min_size=1, max_size=5).map("/".join), unique=True, max_size=20)


def tree_of(several):
    return Tree.of([bare_info(Site(Kind.GRADIENT, path)) for path in several])


@settings(max_examples=200, deadline=None)
@given(paths)
def test_a_tree_has_every_path_once_and_parents_come_first(several):
    tree = tree_of(several)
    found = {tree.path(i): i for i in range(len(tree)) if tree.sites[i] is not None}
    assert set(found) == set(several)
    assert len(found) == sum(site is not None for site in tree.sites)
    for node, parent in enumerate(tree.parent):
        assert parent < node
        # Its path begins with its parent's: the labels joined are the path.
        if parent >= 0:
            assert tree.path(node).startswith(f"{tree.path(parent)}/")
        children = [i for i in range(len(tree)) if tree.parent[i] == node]
        # A chain of only children is one node.
        assert tree.sites[node] is not None or len(children) > 1
        below = [i for i in found.values() if i == node or _is_below(tree, i, node)]
        assert tree.count[node] == len(below)


@given(paths)
def test_a_node_shows_its_own_site_or_else_all_whole_ones_below(several):
    tree = tree_of(several)
    for node in range(len(tree)):
        if tree.sites[node] is not None:
            assert tree.members(node) == (tree.sites[node],)
        else:
            prefix = f"{tree.path(node)}/"
            true = {p for p in several if p.startswith(prefix) and not p.endswith("]")}
            assert {site.path for site in tree.members(node)} == true


def _is_below(tree, node, other):
    while node >= 0:
        node = tree.parent[node]
        if node == other:
            return True
    return False


def test_children_are_in_network_order_and_not_in_that_of_names():
    tree = tree_of(["net/z/kernel", "net/a/kernel", "net/z/bias", "net/b"])
    assert [tree.path(i) for i in range(len(tree))] == [
        "net",
        "net/z",
        "net/z/kernel",
        "net/z/bias",
        "net/a/kernel",
        "net/b",
    ]


def test_a_name_of_many_slashes_is_a_tree_too():
    deep = "/".join(["x"] * 20_000)
    tree = tree_of([deep, f"{deep}/y", "z"])
    assert tree.label == [deep, "y", "z"]


def test_shapes_are_said_in_words():
    info = SiteInfo(Site(Kind.WEIGHT, "a/kernel"), (3, 3, 16), "float32", "kernel")
    scalar = SiteInfo(Site(Kind.WEIGHT, "a/scale"), (), "bfloat16", "scale")
    assert Tree.of([info, scalar]).shape == ["", "3x3x16 float32", "bfloat16"]


def test_other_shapes_are_another_tree():
    site = Site(Kind.WEIGHT, "a/kernel")
    one, other = (Tree.of([SiteInfo(site, (n,), "float32", "kernel")]) for n in (1, 2))
    assert one.revision != other.revision
