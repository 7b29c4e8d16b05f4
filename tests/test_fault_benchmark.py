"""The fault benchmark: its programs, halves, labels and scores; no program is trained long."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faults import datasets, outcome, scoring, trace  # noqa: E402
from benchmarks.faults.alarms import Alarm  # noqa: E402
from benchmarks.faults.catalog import catalog  # noqa: E402
from benchmarks.faults.kinds import KINDS  # noqa: E402
from benchmarks.faults.program import Fault, Program, faulty  # noqa: E402
from benchmarks.faults.rivals import RIVALS  # noqa: E402
from gradwatch import Kind, Reading, Site, Summary  # noqa: E402


@pytest.fixture(scope="module")
def programs():
    return catalog()


def test_there_are_as_many_programs_as_promised(programs):
    broken = [p for p in programs.values() if p.fault]
    assert len(broken) >= 80
    assert len(programs) - len(broken) >= 80
    assert len({p.fault.kind for p in broken}) >= 14


def test_every_kind_of_fault_is_in_both_halves(programs):
    for half in ("tuning", "test"):
        assert {p.fault.kind for p in programs.values() if p.fault and p.half == half} == set(KINDS)


def test_the_half_of_a_program_goes_by_its_name_alone(programs):
    # SHA-256 of "10425 digits-mlp" and of "10425 digits-tanh", whose first bytes are even and odd.
    assert Program("digits-mlp").half == "tuning"
    assert Program("digits-tanh", batch=7).half == "test"


def test_each_faulty_program_has_a_healthy_twin(programs):
    for program in programs.values():
        if program.fault:
            assert programs[program.base].fault is None


def test_a_faulty_program_differs_from_its_twin_only_where_it_says():
    twin = Program("a", options={"widths": (3,), "last": "relu"}, rate=0.5)
    made = faulty(twin, "b", Fault("stalled"), options={"last": None})
    assert made.options == {"widths": (3,), "last": None}
    assert (made.rate, made.base, made.name) == (0.5, "a", "b")
    assert twin.options == {"widths": (3,), "last": "relu"}


def test_accepted_symptoms_are_rules_that_exist(programs):
    from gradwatch.diagnosis.engine import RULES

    accepted = {name for kind in KINDS.values() for name in kind.symptoms}
    for program in programs.values():
        accepted |= set(program.fault.symptoms or ()) if program.fault else set()
    assert accepted <= set(RULES)


@pytest.mark.parametrize("name", sorted(datasets.SETS))
def test_data_are_the_same_for_the_same_seed_and_only_then(name):
    def made(seed):
        return datasets.make(name, np.random.default_rng(seed), 40, {})

    first, again, other = made(3), made(3), made(4)
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.x, other.x)
    assert len(first.x) == 40
    assert len(first.val_x) == datasets.VALIDATION


def test_a_spoilt_label_leaves_the_answers_that_are_judged_by_right():
    data = datasets.make("moons", np.random.default_rng(0), 40, {"change_labels": (255.0, 0.0)})
    assert set(np.unique(data.y)) == {0.0, 255.0}
    assert set(np.unique(data.truth)) == {0.0, 1.0}


def test_score_is_1_for_right_answers_and_0_for_knowing_nothing():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 4000)
    assert outcome.score("classes", classes, np.eye(4)[classes]) == 1
    assert outcome.score("classes", classes, rng.random((4000, 4))) == pytest.approx(0, abs=0.05)
    values = rng.normal(size=(4000, 2))
    assert outcome.score("values", values, values) == 1
    nothing = np.zeros_like(values) + values.mean(0)
    assert outcome.score("values", values, nothing) == pytest.approx(0, abs=1e-9)
    assert outcome.score("values", values, np.full_like(values, np.nan)) == -1
    binary = (rng.random(4000) < 0.3) * 1.0
    assert outcome.score("binary", binary, binary * 5 - 3) == 1
    assert outcome.score("binary", binary, np.ones(4000)) == 0
    assert outcome.score("binary", binary, -binary) == -1


@pytest.mark.parametrize(
    ("confirm", "score", "non_finite", "last_loss", "expected"),
    [
        ("score", 0.7, None, 1.0, True),
        ("score", 0.8, None, 1.0, False),
        ("loss", 0.9, None, 0.5, True),
        ("loss", 0.9, None, 0.2, False),
        ("non-finite", -1.0, 5, 1.0, True),
        ("non-finite", -1.0, 6, 1.0, False),
        ("non-finite", 0.9, 5, 1.0, False),
    ],
)
def test_a_fault_is_confirmed_by_what_it_does(confirm, score, non_finite, last_loss, expected):
    program = Program("a", fault=Fault("stalled", confirm=confirm, step=5), base="b")
    twin = {"score": 0.9, "loss": 0.2}
    got, _ = outcome.verdict(program, score, [last_loss] * 10, [], non_finite, twin)
    assert got is expected


def test_overfitting_is_confirmed_by_the_validation_loss():
    program = Program("a", fault=Fault("overfitting", confirm="overfit"), base="b")
    twin = {"score": 0.9, "loss": 0.2}
    risen = [{"loss": 1.0, "val_loss": 1.0}, {"loss": 0.3, "val_loss": 0.8},
             {"loss": 0.1, "val_loss": 1.0}]  # fmt: skip
    assert outcome.verdict(program, 0.9, [], risen, None, twin)[0]
    assert not outcome.verdict(program, 0.9, [], risen[:2], None, twin)[0]
    # The same says that a healthy program is not.
    assert not outcome.verdict(Program("a"), 0.9, [], risen, None, None)[0]
    noise = [*risen[:2], {"loss": 0.01, "val_loss": 0.01}, {"loss": 0.01, "val_loss": 0.02}]
    assert outcome.verdict(Program("a"), 0.9, [], noise, None, None)[0]


def test_a_healthy_program_must_learn():
    assert outcome.verdict(Program("a", learns=0.5), 0.6, [], [], None, None)[0]
    assert not outcome.verdict(Program("a", learns=0.5), 0.4, [], [], None, None)[0]
    assert not outcome.verdict(Program("a", learns=0.5), 0.6, [], [], 3, None)[0]


LABEL = {
    "healthy": False, "program": "a", "kind": "dead units", "symptoms": ["dead-units"],
    "layer": ["net/b"], "step": None, "visible": True,
}  # fmt: skip


def test_the_first_right_alarm_counts():
    alarms = [
        Alarm("x", ("dead-units",), 9, "net/b"), Alarm("y", ("dead-units",), 4, "net/a"),
        Alarm("z", ("overfitting",), 2),
    ]  # fmt: skip
    judged = scoring.judge(LABEL, alarms)
    assert (judged.right.rule, judged.steps, judged.layer_is_right) == ("y", 4, False)
    # A value that is not finite at step 3 and named at step 3 took one step.
    assert scoring.judge(LABEL | {"step": 4}, alarms).steps == 1


def test_a_run_without_a_right_alarm_is_endless_and_its_layer_wrong():
    healthy = {"healthy": True, "program": "h"}
    wrong = Alarm("z", ("overfitting",), 2)
    judged = [
        scoring.judge(LABEL, [Alarm("x", ("dead-units",), 6, "net/b")]),
        scoring.judge(LABEL, [wrong]),
        scoring.judge(healthy, [wrong]),
        scoring.judge(healthy, []),
    ]
    result = scoring.summarise(judged)
    assert result["faulty"]["right"] == 0.5
    assert result["faulty"]["detected"] == 1
    assert result["faulty"]["layer_right"] == 0.5
    assert result["faulty"]["steps"] == {"median": None, "p95": None}
    assert result["healthy"]["share"] == 0.5


@pytest.mark.parametrize(("hits", "of"), [(0, 50), (3, 100), (25, 25)])
def test_wilson_interval_holds_the_shares_for_which_the_count_is_not_too_strange(hits, of):
    low, high = scoring.wilson(hits, of)
    for share in np.linspace(0.001, 0.999, 200):
        deviation = abs(hits / of - share) / np.sqrt(share * (1 - share) / of)
        assert (low <= share <= high) == (deviation <= 1.96)


def _trace(losses, gradients, label=None, epochs=()):
    """A trace of one layer with these losses, and the gradient that it had at each step."""
    sites = [Site(Kind.GRADIENT, "net/a/kernel"), Site(Kind.GRADIENT, "net/b/kernel")]
    sites += [Site(Kind.UPDATE, "net/a/kernel"), Site(Kind.WEIGHT, "net/a/kernel")]
    rows = [
        [Summary.of(x).pack() for x in (*pair, np.array([0.01]), np.array([1.0]))]
        for pair in gradients
    ]
    n = len(losses)
    return trace.Trace(
        label=label or {"score": 0.0}, facts={"layers": []}, sites=sites, rows=np.array(rows),
        steps=np.arange(1, n + 1), losses=np.array(losses), rates=np.ones(n),
        scales=np.full(n, np.nan), groups=[""] * 4, epochs=list(epochs),
    )  # fmt: skip


def test_rivals_follow_their_definitions():
    fine = (np.array([1.0]), np.array([1.0]))
    falling = [1.0 / (1 + i) for i in range(30)]
    calm = _trace(falling, [fine] * 30, epochs=[{"step": 30, "loss": 0.1, "val_loss": 0.1}])
    assert [name for name, tool in RIVALS.items() if tool(calm)] == []

    broken = _trace([*falling[:11], *[np.nan] * 19], [fine] * 30)
    [alarm] = RIVALS["Keras TerminateOnNaN"](broken)
    assert alarm.step == 12

    small = (np.array([9e-8]), np.array([1.0]))
    vanished = _trace(falling, [fine] * 6 + [small] * 24, epochs=[
        {"step": 30, "loss": 0.1, "val_loss": 0.1}])  # fmt: skip
    [alarm] = RIVALS["SageMaker Debugger rules"](vanished)
    assert (alarm.rule, alarm.step, alarm.layer) == ("VanishingGradient", 7, "net/a")
    [alarm] = RIVALS["AutoTrainer rules"](vanished)
    assert (alarm.rule, alarm.step) == ("vanish", 30)

    flat = _trace([*falling[:11], *[falling[10]] * 19], [fine] * 30)
    [alarm] = RIVALS["SageMaker Debugger rules"](flat)
    assert (alarm.rule, alarm.step) == ("LossNotDecreasing", 21)


def test_a_saved_trace_is_read_back_as_it_was(tmp_path):
    sites = [Site(Kind.OUTPUT, "net/a"), Site(Kind.GRADIENT, "net/a/kernel")]
    rows = np.stack([Summary.of(x).pack() for x in ([1.0, np.nan], [0.5, 0.25])])
    readings = [
        Reading(1, 1, 0.0, sites, Summary.unpack(rows)),
        Reading(2, 1, 0.0, sites[:1], Summary.unpack(rows[:1])),
    ]
    told = trace.Told([2.0, np.inf], [0.1, 0.1], [np.nan] * 2, [{"step": 2, "loss": 3.0}])
    trace.save(tmp_path, readings, told, {"layers": []})
    (tmp_path / "label.json").write_text(json.dumps({"confirmed": True}))
    first, second = trace.load(tmp_path).readings
    assert list(first.sites) == [*sites, Site(Kind.LOSS, "loss")]
    assert list(second.sites) == [sites[0], Site(Kind.LOSS, "loss")]
    np.testing.assert_array_equal(first.summary.pack()[:2], rows)
    assert second.losses() == {"loss": np.inf}


@pytest.mark.slow
def test_a_program_trains_to_the_same_numbers_twice_and_its_label_says_how(tmp_path):
    # In a process of its own: Keras has one backend a process, and these programs run on torch.
    script = (
        "import pathlib, sys\n"
        "from benchmarks.faults.generate import generate\n"
        "from tests.distributed.patience import be_patient\n"
        "be_patient()\n"
        "for run in ('first', 'second'):\n"
        "    generate(pathlib.Path(sys.argv[1], run), 'tuning', [5], ['linear-sgd'])\n"
    )
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "torch"}
    command = [sys.executable, "-c", script, str(tmp_path)]
    subprocess.run(command, env=environment, check=True, cwd=ROOT, capture_output=True)
    first, second = (
        trace.load(tmp_path / run / "tuning" / "linear-sgd-5") for run in ("first", "second")
    )
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_array_equal(first.losses, second.losses)
    assert first.label == second.label
    assert first.label["confirmed"]
    assert first.label["score"] > 0.9
    assert {site.kind for site in first.sites} >= {Kind.INPUT, Kind.TARGET, Kind.OUTPUT}
