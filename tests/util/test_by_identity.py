"""Results are remembered for the very same arguments, and only for a few of them."""

from gradwatch.util.by_identity import ByIdentity


def test_a_result_is_computed_once_for_the_same_objects():
    calls = []
    joined = ByIdentity(lambda *parts: calls.append(parts) or [x for part in parts for x in part])
    a, equal, b = [1, 2], [1, 2], [3]
    assert joined(a, b) is joined(a, b)
    assert joined(b, a) == [3, 1, 2]
    assert len(calls) == 2
    assert joined(equal, b) is not joined(a, b)


def test_what_is_remembered_is_bounded_and_right_however_many_there_are():
    total = ByIdentity(sum, kept=4)
    for i in range(100):
        # Each is freed with what is remembered, so that identities come again.
        assert total((i, 1)) == i + 1
    assert len(total._known) <= 4
