"""Synthetic runs in which one rank differs from the others, and healthy ones."""

from dataclasses import replace

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from gradwatch.diagnosis import Severity, diagnose, silence
from gradwatch.diagnosis.replay import findings_of
from gradwatch.store.writer import StoreWriter
from tests.cli.support import invoke
from tests.diagnosis.ranks_support import (
    CHECKS,
    STEPS,
    about_ranks,
    diagnosed,
    healthy,
    record,
    the_one,
    weights,
)
from tests.diagnosis.support import reading

# Ranks that are well.


def test_healthy_ranks_are_left_alone(tmp_path):
    record(tmp_path, healthy, range(8))
    assert about_ranks(tmp_path) == []


def test_a_missing_a_late_and_a_crashed_rank_are_no_fault_of_the_others(tmp_path):
    record(tmp_path, healthy, [0, 1, 4, 5])
    record(tmp_path, healthy, [6], range(60, STEPS + 1))
    record(tmp_path, healthy, [7], range(1, 40), close=False)
    assert gradwatch.open(tmp_path).ranks == (0, 1, 4, 5, 6, 7)
    assert about_ranks(tmp_path) == []


def changed(rank, step):
    """A second attempt, whose weights are others."""
    arrays = healthy(rank, step)
    for kind, path in list(arrays):
        if kind is Kind.WEIGHT:
            arrays[kind, path] = arrays[kind, path] + np.float32(0.25)
    return arrays


def test_resumed_ranks_are_compared_within_their_attempt(tmp_path):
    record(tmp_path, healthy, range(4))
    record(tmp_path, changed, range(4), range(45, STEPS + 1), began=1000.0)
    assert about_ranks(tmp_path) == []


@pytest.mark.parametrize("first", [45, 50])
def test_what_a_rank_has_left_of_an_earlier_attempt_is_not_compared(tmp_path, first):
    record(tmp_path, healthy, range(4))
    record(tmp_path, changed, [0, 1, 2], range(first, STEPS + 1), began=1000.0)
    assert about_ranks(tmp_path) == []


def test_a_run_of_one_rank_is_not_asked_about_ranks(tmp_path):
    record(tmp_path, healthy, [0])
    assert about_ranks(tmp_path) == []


# One rank alone is not finite.


def poisoned(rank, step, *, bad=2, at=70, path="net/b", value=np.nan):
    arrays = healthy(rank, step)
    if rank == bad and step >= at:
        order = ["net/a", "net/b", "net/c"]
        for later in order[order.index(path) :]:
            arrays[Kind.OUTPUT, later] = [value, 1.0, 2.0]
        arrays[Kind.LOSS, "loss"] = [value]
    for key in arrays:
        if step >= at and key[0] in (Kind.GRADIENT, Kind.WEIGHT):
            arrays[key] = [np.nan] * 6
    return arrays


def test_the_rank_that_brought_nan_is_named_with_its_first_layer_and_step(tmp_path):
    record(tmp_path, poisoned)
    found = the_one(tmp_path, "non-finite-rank")
    assert "NaN in step 70 on rank 2 alone, first in output net/b" in found.title
    assert "it has reached the gradients of all ranks" in found.title
    assert (found.since, found.layer, found.severity) == (70, "net/b", Severity.ERROR)
    expected = {"rank": 2, "NaN": 1, "Inf": 0, "elements": 3, "finite ranks": 3}
    assert expected.items() <= found.evidence.items()
    assert "rank 2 alone" in found.remedy


def test_it_explains_what_rank_0_sees_of_it(tmp_path):
    record(tmp_path, poisoned)
    findings = diagnosed(tmp_path).findings
    assert [f.rule for f in findings if f.is_alarm] == ["non-finite-rank"]
    (seen,) = [f for f in findings if f.rule == "non-finite"]
    assert seen.explained_by == "non-finite-rank"


def test_what_nan_explained_is_explained_by_the_rank_that_brought_it():
    from gradwatch.diagnosis.finding import Symptom
    from gradwatch.diagnosis.group_findings import GroupFindings
    from gradwatch.diagnosis.rank_rule import RANK_RULES, RankSymptom
    from gradwatch.diagnosis.rule import RULES

    case = GroupFindings()
    case.history.add(reading(5, {(Kind.LOSS, "loss"): [np.nan]}))
    for name in ("non-finite", "zero-gradients"):
        case.update(RULES[name], [Symptom(name)])
    case.explain()
    case.add_rank_symptom(RANK_RULES["non-finite-rank"], RankSymptom("rank 1", since=5))
    case.add_rank_symptom(RANK_RULES["straggling-rank"], RankSymptom("rank 2", since=5))
    case.explain()
    why = {finding.rule: finding.explained_by for finding in case.findings}
    cause = "non-finite-rank"
    assert why == {
        "non-finite": cause, "zero-gradients": cause, cause: "", "straggling-rank": ""
    }  # fmt: skip


def test_the_loss_alone_may_show_it(tmp_path):
    def course(rank, step):
        loss = np.inf if rank == 3 and step == STEPS else 1.0
        return {(Kind.LOSS, "loss"): [loss]}

    record(tmp_path, course)
    found = the_one(tmp_path, "non-finite-rank")
    assert found.title == f"Inf in step {STEPS} on rank 3 alone, first in the loss."
    assert (found.layer, found.since) == ("", STEPS)


def test_the_data_of_one_rank_is_named_before_what_is_made_of_it(tmp_path):
    def course(rank, step):
        value = np.nan if (rank, step) == (1, 30) else 1.0
        return {(kind, "x"): [value] for kind in (Kind.LOSS, Kind.OUTPUT, Kind.INPUT)}

    record(tmp_path, course, range(3))
    found = the_one(tmp_path, "non-finite-rank")
    assert "first in input x" in found.title
    assert "The data of rank 1 contains NaN" in found.remedy
    # Training has gone on well.
    assert found.severity is Severity.WARNING


def test_some_of_many_ranks_are_named_together(tmp_path):
    def course(rank, step):
        return {(Kind.LOSS, "loss"): [np.nan if rank in (3, 6) and step >= 50 else 1.0]}

    record(tmp_path, course, range(8))
    found = the_one(tmp_path, "non-finite-rank")
    assert "on ranks 3 and 6 alone" in found.title
    assert found.evidence["finite ranks"] == 6


def test_nan_on_all_ranks_at_once_is_nobodys_alone(tmp_path):
    record(tmp_path, lambda rank, step: {(Kind.LOSS, "loss"): [np.nan if step > 50 else 1.0]})
    assert about_ranks(tmp_path) == []


def test_nan_on_all_ranks_for_a_while_does_not_hide_one_that_is_alone_later(tmp_path):
    def course(rank, step):
        marked = [np.nan, 1.0]
        lone = np.nan if (rank, step) == (1, 90) else 1.0
        return {(Kind.OUTPUT, "net/mask"): marked, (Kind.LOSS, "loss"): [lone]}

    record(tmp_path, course, range(3))
    assert the_one(tmp_path, "non-finite-rank").since == 90


def test_masks_and_steps_that_loss_scaling_skips_are_not_alarming(tmp_path):
    def course(rank, step):
        arrays = healthy(rank, step)
        arrays[Kind.OUTPUT, "net/mask"] = [-np.inf if rank == 1 else 0.0, 1.0]
        overflows = (rank, step) in [(1, 30), (2, 60)]
        arrays[Kind.OUTPUT_GRADIENT, "net/a"] = [np.inf if overflows else 1.0]
        return arrays

    record(tmp_path, course, range(4))
    assert about_ranks(tmp_path) == []


def test_a_replica_of_one_process_is_named_as_such(tmp_path):
    writer = StoreWriter(tmp_path, 1, 0)
    for step in range(1, 31):
        writer.write(reading(step, {(Kind.GRADIENT, "net/a/kernel"): [np.nan if step > 20 else 1]}))
        for replica in range(2):
            bad = replica == 1 and step > 20
            arrays = {(Kind.GRADIENT, f"replica_{replica}/net/a/kernel"): [np.nan if bad else 1.0]}
            writer.write(reading(step, arrays, group=f"replica_{replica}"))
    writer.close()
    found = the_one(tmp_path, "non-finite-rank")
    assert "NaN in step 21 on replica 1 alone, first in gradient net/a/kernel" in found.title
    assert "it has reached the gradients of all replicas" in found.title
    assert found.layer == "net/a"
    assert found.evidence["replica"] == 1


def test_replicas_of_several_processes_are_compared_with_each_other(tmp_path):
    for rank in range(2):
        writer = StoreWriter(tmp_path, 1, rank)
        for step in range(1, 31):
            value = np.nan if rank == 1 and step > 20 else 1.0
            arrays = {(Kind.LOSS, f"replica_{rank}/loss"): [value]}
            writer.write(reading(step, arrays, group=f"replica_{rank}"))
        writer.close()
    assert "on replica 1 alone, first in the loss" in the_one(tmp_path, "non-finite-rank").title


# Copies that are no longer alike.


def corrupted(change, bad=(2,), at=20, paths=("net/b",), hardware=lambda rank: 77.0):
    def course(rank, step):
        arrays = healthy(rank, step)
        for path in paths:
            key = Kind.WEIGHT, f"{path}/kernel"
            if rank in bad and step >= at and key in arrays:
                arrays[key] = change(arrays[key].copy())
        if (Kind.SCALAR, "replica_hardware") in arrays:
            arrays[Kind.SCALAR, "replica_hardware"] = [hardware(rank)]
        return arrays

    return course


def one_unit(x):
    x[17] = np.nextafter(x[17], np.float32(9))
    return x


def a_lot(x):
    x[17] += np.float32(0.5)
    return x


def test_a_change_by_one_unit_in_the_last_place_is_a_warning(tmp_path):
    record(tmp_path, corrupted(one_unit))
    found = the_one(tmp_path, "drifting-replicas")
    expected = (
        "The weights of rank 2 differ from those of the other 3 ranks, first in net/b/kernel."
    )
    assert found.title == expected
    assert (found.severity, found.layer, found.since) == (Severity.WARNING, "net/b", 20)
    truth = weights(20, "net/b").astype(float)
    change = float(one_unit(weights(20, "net/b"))[17]) - truth[17]
    np.testing.assert_allclose(found.evidence["sums differ by"], change, rtol=1e-6)
    size = np.linalg.norm(truth)
    np.testing.assert_allclose(found.evidence["relative difference"], change / size, rtol=1e-6)
    expected = {
        "rank": 2, "tensors that differ": 1, "tensors compared": 3, "ranks compared": 4,
        "last alike step": 10,
    }  # fmt: skip
    assert expected.items() <= found.evidence.items()


def test_a_large_change_is_an_error_and_the_first_tensor_in_network_order_is_named(tmp_path):
    record(tmp_path, corrupted(a_lot, paths=("net/c", "net/b")))
    found = the_one(tmp_path, "drifting-replicas")
    assert (found.severity, found.layer) == (Severity.ERROR, "net/b")
    assert [site.path for site in found.sites] == ["net/b/kernel", "net/c/kernel"]
    truth = weights(20, "net/b")
    size = max(np.linalg.norm(x.astype(float)) for x in (truth, a_lot(truth.copy())))
    np.testing.assert_allclose(found.evidence["relative difference"], 0.5 / size, rtol=1e-5)


def test_of_two_ranks_both_are_named(tmp_path):
    record(tmp_path, corrupted(a_lot, bad=[1]), range(2))
    found = the_one(tmp_path, "drifting-replicas")
    assert found.title.startswith("The weights of ranks 0 and 1 differ from each other")
    assert "rank" not in found.evidence


def test_where_all_are_different_none_is_blamed(tmp_path):
    def course(rank, step):
        arrays = healthy(rank, step)
        return {
            key: x + np.float32(0.01 * rank) if key[0] is Kind.WEIGHT else x
            for key, x in arrays.items()
        }

    record(tmp_path, course, range(4))
    found = the_one(tmp_path, "drifting-replicas")
    assert found.title.startswith("The weights of ranks 0, 1, 2 and 3 differ from each other")
    assert found.evidence["tensors that differ"] == 3


def test_two_of_eight_are_named_together(tmp_path):
    record(tmp_path, corrupted(a_lot, bad=(3, 5)), range(8))
    found = the_one(tmp_path, "drifting-replicas")
    assert "of ranks 3 and 5 differ from those of the other 6 ranks" in found.title


def test_copies_that_are_alike_again_close_the_finding(tmp_path):
    def course(rank, step):
        return (corrupted(a_lot) if step < 50 else healthy)(rank, step)

    record(tmp_path, course)
    found = the_one(tmp_path, "drifting-replicas")
    assert (found.since, found.until) == (20, 20)


def test_rounding_of_unlike_hardware_is_no_fault_and_more_than_that_is(tmp_path):
    def unlike(rank):
        return 77.0 if rank < 2 else 78.0

    rounded = corrupted(one_unit, bad=(2, 3), hardware=unlike)
    record(tmp_path / "rounded", rounded)
    assert about_ranks(tmp_path / "rounded") == []
    record(tmp_path / "broken", corrupted(a_lot, bad=[3], hardware=unlike))
    found = the_one(tmp_path / "broken", "drifting-replicas")
    assert "The weights of rank 3 differ from those of the other 3 ranks" in found.title


def test_copies_of_other_ranks_are_not_compared(tmp_path):
    def course(rank, step):
        arrays = corrupted(a_lot, bad=(2, 3), at=1)(rank, step)
        if (Kind.SCALAR, "replica_of") in arrays:
            arrays[Kind.SCALAR, "replica_of"] = [float(2 * (rank // 2))]
        return arrays

    record(tmp_path, course, range(4))
    assert about_ranks(tmp_path) == []


def test_weights_of_which_nobody_says_that_they_are_copies_may_differ(tmp_path):
    def course(rank, step):
        arrays = corrupted(a_lot, at=1)(rank, step)
        return {key: x for key, x in arrays.items() if not key[1].startswith("replica_")}

    record(tmp_path, course)
    assert about_ranks(tmp_path) == []


def test_a_part_of_the_training_is_compared_by_itself(tmp_path):
    def course(rank, step):
        arrays = corrupted(a_lot)(rank, step)
        return {(kind, f"critic/{path}"): x for (kind, path), x in arrays.items()}

    record(tmp_path, course, range(3), group="critic")
    found = the_one(tmp_path, "drifting-replicas")
    assert (found.group, found.layer) == ("critic", "critic/net/b")


# A rank that the others wait for.


def slow(bad=(3,), since=1, until=STEPS, factor=2.0):
    def course(rank, step):
        arrays = healthy(rank, step)
        if rank in bad and since <= step <= until:
            arrays[Kind.SCALAR, "own_seconds"][0] *= factor
        return arrays

    return course


def test_a_rank_that_takes_twice_as_long_by_itself_is_named(tmp_path):
    record(tmp_path, slow())
    found = the_one(tmp_path, "straggling-rank")
    assert found.title.startswith("Rank 3 holds up the others, by ")
    assert (found.severity, found.since, found.until) == (Severity.WARNING, 1, None)
    assert found.evidence["rank"] == 3
    np.testing.assert_allclose(found.evidence["own seconds"], 0.08, rtol=0.2)
    np.testing.assert_allclose(found.evidence["others' own seconds"], 0.04, rtol=0.1)
    np.testing.assert_allclose(found.evidence["step seconds"], 0.1, rtol=0.05)


def test_a_rank_that_begins_to_be_slow_is_named_from_there_on(tmp_path):
    record(tmp_path, slow(since=51))
    assert the_one(tmp_path, "straggling-rank").since == 51


def test_a_rank_that_was_slow_for_a_while_is_a_finding_that_has_ended(tmp_path):
    record(tmp_path, slow(until=50))
    found = the_one(tmp_path, "straggling-rank")
    assert (found.since, found.until) == (1, 50)


def test_several_slow_ranks_are_named_together(tmp_path):
    record(tmp_path, slow(bad=(3, 5)), range(8))
    found = the_one(tmp_path, "straggling-rank")
    assert found.title.startswith(("Ranks 3 and 5 hold up", "Ranks 5 and 3 hold up"))


def test_of_two_ranks_the_slower_one_is_named(tmp_path):
    record(tmp_path, slow(bad=[0]), range(2))
    assert the_one(tmp_path, "straggling-rank").title.startswith("Rank 0 holds up")


@pytest.mark.parametrize(("factor", "scale"), [(1.2, 1.0), (2.0, 0.1), (2.0, 0.01)])
def test_a_little_slower_or_slower_in_what_takes_no_time_is_of_no_account(tmp_path, factor, scale):
    def course(rank, step):
        arrays = slow(factor=factor)(rank, step)
        arrays[Kind.SCALAR, "own_seconds"][0] *= scale
        return arrays

    record(tmp_path, course)
    assert about_ranks(tmp_path) == []


def test_few_times_are_not_judged(tmp_path):
    record(tmp_path, slow(factor=5.0), steps=range(1, 19))
    assert about_ranks(tmp_path) == []


def test_ranks_that_measure_at_other_steps_are_compared_all_the_same(tmp_path):
    def course(rank, step):
        is_measured = step % (5 if rank == 0 else 10) == 0
        return {} if not is_measured else slow(until=400, factor=3.0)(rank, step)

    record(tmp_path, course, range(4), range(1, 401))
    assert the_one(tmp_path, "straggling-rank").evidence["rank"] == 3


# Wherever people ask.


def test_the_command_and_findings_of_a_run_have_them(tmp_path):
    record(tmp_path, corrupted(a_lot))
    with gradwatch.open(tmp_path) as run:
        assert "drifting-replicas" in [finding.rule for finding in findings_of(run)]
    told = invoke("diagnose", tmp_path, code=2)
    assert "The weights of rank 2 differ from those of the other 3 ranks" in told.stdout


def test_rules_about_ranks_can_be_chosen_silenced_and_given_other_thresholds(tmp_path):
    record(tmp_path, slow())
    assert about_ranks(tmp_path, rules=["dead-units"]) == []
    assert the_one(tmp_path, "straggling-rank", rules=["straggling-rank"])
    assert about_ranks(tmp_path, thresholds={"straggling-rank": {"factor": 3.0}}) == []
    quiet = silence("straggling-rank", because="rank 3 evaluates")
    assert about_ranks(tmp_path, silence=quiet) == []
    record(tmp_path / "drift", corrupted(a_lot, paths=("net/a", "net/b")))
    quiet = silence("drifting-replicas", "net/a*", because="averaged now and then")
    assert the_one(tmp_path / "drift", "drifting-replicas", silence=quiet).layer == "net/b"


def test_a_rule_about_ranks_that_fails_is_said_and_leaves_the_others(tmp_path, monkeypatch):
    from gradwatch.diagnosis.rank_rule import RANK_RULES

    record(tmp_path, corrupted(a_lot))

    def fail(*_):
        raise ZeroDivisionError("no ranks")

    broken = replace(RANK_RULES["straggling-rank"], check=fail)
    monkeypatch.setitem(RANK_RULES, "straggling-rank", broken)
    said = []
    with gradwatch.open(tmp_path) as run:
        found = diagnose(run, on_error=said.append).findings
    assert "drifting-replicas" in [finding.rule for finding in found]
    assert said == [
        "The rule 'straggling-rank' failed and is switched off for this run: "
        "ZeroDivisionError: no ranks"
    ]


def test_checks_are_the_same_steps_that_ranks_record_at():
    from gradwatch.capture.torch.torch_replicas import is_check

    assert [step for step in range(1, STEPS + 1) if is_check(step)] == list(CHECKS)
