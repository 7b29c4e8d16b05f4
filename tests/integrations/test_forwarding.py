"""What reaches a tracker, read back as the tracker itself reads it; nothing leaves this machine."""

import contextlib
import json
import socket
import threading
import time

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.integrations.forwarding import MAX_KEYS, forward
from gradwatch.integrations.forwarding.key_choice import KeyChoice
from gradwatch.sinks import RunInfo

STEPS = 12
BAD = 9
"""The step whose gradient has a NaN."""
L2 = "gradwatch/model/gradient_l2"
LAYER_L2 = "gradwatch/per_layer_gradient_l2/net/dense"
HISTOGRAM = "gradwatch/per_tensor_gradient/net/dense/kernel"


def kernel(step):
    values = np.random.default_rng(step).normal(size=(3, 4)) * 10.0**step
    values[0, 0] = np.nan if step == BAD else values[0, 0]
    return values


def train(sink, after_step=lambda step: None, directory="runs/a", watch=None):
    """A loop of some steps, one of which has a NaN."""
    watch = watch or [gradwatch.gradients(histogram=True), gradwatch.losses()]
    monitor = gradwatch.Monitor(directory, every=1, watch=watch, sinks=[gradwatch.Store(), sink])
    for step in range(1, STEPS + 1):
        gradients = {"net/dense/kernel": kernel(step), "net/last/bias": np.array([float(step)])}
        monitor.record(gradients=gradients, loss=1.0 / step)
        after_step(step)
    monitor.close()
    return monitor


def true_numbers(step):
    layer = float(np.linalg.norm(kernel(step)))
    return {
        "gradwatch/loss": 1.0 / step,
        LAYER_L2: layer,
        "gradwatch/per_layer_gradient_l2/net/last": float(step),
        L2: float(np.hypot(layer, step)),
    }


def assert_true(found):
    """Numbers by step and key."""
    assert set(found) == set(range(1, STEPS + 1))
    for step, numbers in found.items():
        for key, value in true_numbers(step).items():
            np.testing.assert_allclose(float(numbers[key]), value, rtol=1e-12, err_msg=key)


def assert_histogram(step, counts, edges):
    """The counts between the edges are those of the tensor."""
    finite = kernel(step)[np.isfinite(kernel(step))]
    assert sum(counts) == finite.size
    assert (edges[0], edges[-1]) == (finite.min(), finite.max())
    # An element on an edge may be on either side of it, and there are no two of the same.
    assert np.abs(np.cumsum(counts)[:-1] - [(finite < e).sum() for e in edges[1:-1]]).max() <= 1


def until(is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# A function


def test_a_function_gets_the_numbers_of_each_step(here):
    logged = {}
    train(gradwatch.Forward(lambda numbers, step: logged.setdefault(step, numbers)))
    assert_true(logged)


# wandb


@pytest.fixture
def wandb_run(here, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for place in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"WANDB_{place}_DIR", str(here / "of-wandb"))
    import wandb

    run = wandb.init(project="tests", dir=here, settings=wandb.Settings(x_disable_stats=True))
    yield run
    run.finish()


def wandb_history(run, directory):
    from tests.integrations import wandb_files

    run.finish()
    until(lambda: wandb_files.of_kind(directory, "exit"))
    return wandb_files.history(directory)


@pytest.mark.parametrize("log", ["nothing", "rows"])
def test_wandb_has_the_numbers_on_an_axis_of_their_own(wandb_run, here, log):
    from tests.integrations import wandb_files

    train(
        gradwatch.Forward("wandb"),
        lambda step: wandb_run.log({"own": step}) if log == "rows" else None,
    )
    rows = wandb_history(wandb_run, here)
    ours = {row["gradwatch/step"]: row for row in rows if "gradwatch/step" in row}
    assert_true(ours)
    for step, row in ours.items():
        assert_histogram(step, row[f"{HISTOGRAM}/values"], row[f"{HISTOGRAM}/bins"])
    assert [row["own"] for row in rows if "own" in row] == (
        list(range(1, STEPS + 1)) if log == "rows" else []
    )
    (metric,) = wandb_files.of_kind(here, "metric")
    assert (metric.glob_name, metric.step_metric) == ("gradwatch/*", "gradwatch/step")


def test_rows_that_the_user_gives_a_step_to_stay_as_they_were(wandb_run, here):
    sink = gradwatch.Forward("wandb")
    train(sink, lambda step: wandb_run.log({"own": step}, step=10 * step))
    rows = wandb_history(wandb_run, here)
    assert {row["_step"]: row["own"] for row in rows} == {10 * s: s for s in range(1, STEPS + 1)}
    ours = [row for row in rows if "gradwatch/step" in row]
    assert ours[-1]["gradwatch/step"] == STEPS
    for row in ours:
        for key, value in true_numbers(row["gradwatch/step"]).items():
            np.testing.assert_allclose(row[key], value, rtol=1e-12)


def test_wandb_gets_findings_as_alerts_and_the_report_as_an_artifact(wandb_run, here):
    from tests.integrations import wandb_files

    monitor = train(gradwatch.Forward("wandb"))
    wandb_history(wandb_run, here)
    alarms = [f for f in monitor.findings if f.is_alarm]
    alerts = {a.title: a for a in wandb_files.of_kind(here, "alert")}
    assert alarms
    for finding in alarms:
        alert = alerts[f"gradwatch: {finding.rule}"]
        assert finding.title in alert.text
        assert alert.level == {"error": "ERROR", "warning": "WARN"}[finding.severity]
    (artifact,) = wandb_files.of_kind(here, "artifact")
    assert (artifact.type, [c.path for c in artifact.manifest.contents]) == (
        "report",
        ["report.html"],
    )
    (path,) = here.rglob("artifacts/staging/*")
    assert b'<meta name="generator" content="gradwatch' in path.read_bytes()[:2000]


# MLflow


@pytest.fixture
def mlflow_run(here, monkeypatch, request):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    store = getattr(request, "param", "files")
    if store == "sqlite":
        reason = "MLflow's SQLite store needs sqlalchemy and alembic, which are not installed"
        pytest.importorskip("sqlalchemy", reason=reason)
        pytest.importorskip("alembic", reason=reason)
    before = mlflow.get_tracking_uri()
    places = {"files": (here / "mlruns").as_uri(), "sqlite": f"sqlite:///{here / 'mlflow.db'}"}
    mlflow.set_tracking_uri(places[store])
    with mlflow.start_run() as run:
        yield run
    mlflow.set_tracking_uri(before)


# What SQLAlchemy says of MLflow is no error.
_SQLITE = pytest.param(
    "sqlite", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")], id="sqlite"
)
in_both_stores = pytest.mark.parametrize("mlflow_run", ["files", _SQLITE], indirect=True)


@in_both_stores
def test_mlflow_has_the_numbers_the_findings_and_the_report(mlflow_run):
    import mlflow

    monitor = train(gradwatch.Forward("mlflow"))
    client = mlflow.MlflowClient()
    run = client.get_run(mlflow_run.info.run_id)
    found = {}
    for key in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, key):
            found.setdefault(metric.step, {})[key] = metric.value
    assert_true(found)
    tags = [text for tag, text in run.data.tags.items() if tag.startswith("gradwatch.finding.")]
    alarms = [finding.title for finding in monitor.findings if finding.is_alarm]
    assert alarms
    assert all(any(title in tag for tag in tags) for title in alarms)
    (artifact,) = client.list_artifacts(run.info.run_id, "gradwatch")
    assert artifact.path == "gradwatch/report.html"


def test_mlflow_gets_at_most_a_thousand_metrics_in_a_call(mlflow_run, monkeypatch):
    import mlflow
    from mlflow.tracking import MlflowClient

    calls, log_batch = [], MlflowClient.log_batch

    def noting(client, run_id, metrics=(), **options):
        calls.append(len(metrics))
        return log_batch(client, run_id, metrics=metrics, **options)

    monkeypatch.setattr(MlflowClient, "log_batch", noting)
    sites = tuple(Site(Kind.GRADIENT, f"net/layer_{i}/kernel") for i in range(1100))
    sink = gradwatch.Forward("mlflow", keys="*", report=False)
    sink.before_run(RunInfo(None))
    rows = Summary.unpack(np.array([Summary.of([float(i)]).pack() for i in range(1100)]))
    readings = [Reading(step, 1, 1e9 + step, sites, rows) for step in (1, 2)]
    sink.write_many(readings)
    few = tuple(sites[:2])
    sink.write_many([Reading(s, 1, 1e9, few, rows[:2]) for s in range(3, 53)])
    assert max(calls) <= 1000
    assert sum(calls) == 2 * 1101 + 50 * 3
    assert len(calls) == 4 + 1
    history = mlflow.MlflowClient().get_metric_history(
        mlflow_run.info.run_id, "gradwatch/per_layer_gradient_l2/net/layer_1000"
    )
    assert [(metric.step, metric.value) for metric in history] == [(1, 1000.0), (2, 1000.0)]


def test_names_that_mlflow_does_not_take_are_changed_and_stay_distinct(mlflow_run):
    import mlflow

    names = ["größe", "gröSe", "a\nb", "../up", "a//b", "x" * 400, "x" * 401, "a,b", "a;b", "."]
    monitor = gradwatch.Monitor(
        "runs/odd", every=1, sinks=[gradwatch.Forward("mlflow", report=False)], diagnose=False
    )
    monitor.record(metrics={name: float(i) for i, name in enumerate(names)}, loss=0.5)
    monitor.close()
    data = mlflow.MlflowClient().get_run(mlflow_run.info.run_id).data
    assert sorted(v for k, v in data.metrics.items() if "/metrics/" in k) == sorted(
        map(float, range(len(names)))
    )


# trackio


@pytest.fixture
def trackio_run(here):
    import trackio

    yield trackio.init(here.name, name="one", embed=False)
    trackio.finish()


def test_trackio_has_the_numbers_the_histograms_the_alerts_and_the_report(trackio_run):
    from trackio.sqlite_storage import SQLiteStorage

    project = trackio_run.project
    monitor = train(gradwatch.Forward("trackio"))
    trackio_run.finish()
    found = {row["step"]: row for row in SQLiteStorage.get_logs(project, "one")}
    assert_true(found)
    for step, row in found.items():
        assert_histogram(step, row[HISTOGRAM]["values"], row[HISTOGRAM]["bins"])
    alerts = {alert["title"]: alert for alert in SQLiteStorage.get_alerts(project)}
    alarms = [f for f in monitor.findings if f.is_alarm]
    assert alarms
    for finding in alarms:
        alert = alerts[f"gradwatch: {finding.rule}"]
        assert alert["step"] == finding.detected
        assert finding.title in alert["text"]
    manifest = SQLiteStorage.get_artifact_manifest(project, f"gradwatch-{trackio_run.id}", "latest")
    assert [entry["path"] for entry in manifest["manifest"]] == ["report.html"]


# How much


def many(layers, step=1):
    """A reading of many sites: gradients and weights of layers, and a loss."""
    kinds = (Kind.GRADIENT, Kind.WEIGHT)
    sites = [Site(kind, f"net/layer_{i:05}/kernel") for kind in kinds for i in range(layers)]
    sites.append(Site(Kind.LOSS, "loss"))
    rows = np.repeat(Summary.of([3.0, 4.0]).pack()[None], len(sites) - 1, axis=0)
    rows = np.concatenate([rows, Summary.of([0.5]).pack()[None]])
    return Reading(step, 1, 0.0, tuple(sites), Summary.unpack(rows))


def test_twelve_thousand_sites_are_at_most_300_keys_with_the_loss_and_the_totals():
    logged = []
    sink = gradwatch.Forward(lambda numbers, step: logged.append(numbers))
    sink.before_run(RunInfo(None))
    for step in (1, 2):
        sink.write(many(6172, step))
    epoch = Reading(
        2,
        1,
        0.0,
        (Site(Kind.EPOCH_METRIC, "loss"),),
        Summary.unpack(Summary.of([1.0]).pack()[None]),
    )
    sink.write(epoch)
    keys = set().union(*logged)
    assert len(many(6172)) == 12_345
    assert 200 <= len(keys) <= MAX_KEYS
    assert logged[0].keys() == logged[1].keys()
    named = {"gradwatch/loss", L2, "gradwatch/model/weight_l2", "gradwatch/metrics/epoch_loss"}
    assert named <= keys
    for kind in ("gradient", "weight"):
        layers = sorted(key for key in keys if f"per_layer_{kind}_l2" in key)
        assert layers[0].endswith("layer_00000")
        assert layers[-1].endswith("layer_06171")
    with pytest.warns(gradwatch.GradwatchWarning, match=r"more are in the run only.*keys="):
        sink.after_run(RunInfo(None))


def test_all_that_the_user_chooses_is_forwarded():
    logged = []
    sink = gradwatch.Forward(
        lambda numbers, step: logged.append(numbers), keys=["loss", "per_layer_weight_l2/*"]
    )
    sink.before_run(RunInfo(None))
    sink.write(many(1000))
    assert len(logged[0]) == 1001
    assert logged[0]["gradwatch/per_layer_weight_l2/net/layer_00999"] == 5.0


def test_readings_of_later_kinds_have_room_of_their_own():
    choice = KeyChoice()
    first = {f"per_layer_gradient_l2/{i}": 0 for i in range(5000)}
    later = {f"per_layer_weight_l2/{i}": 0 for i in range(5000)}
    assert len(choice.kept(first)) + len(choice.kept(later)) <= MAX_KEYS
    assert len(choice.kept(later)) > 20


# What fails


@pytest.fixture
def black_hole():
    """The address of a server that takes connections and never answers."""
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    taken, is_over = [], threading.Event()

    def take():
        while not is_over.is_set():
            with contextlib.suppress(OSError):
                taken.append(server.accept()[0])

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    is_over.set()
    for each in taken:
        each.close()
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(10)


def to_mlflow(url, monkeypatch):
    import mlflow
    from mlflow.entities import Run, RunData, RunInfo, RunStatus

    monkeypatch.setattr(forward, "REPORT_TIME", 0.2)
    mlflow.set_tracking_uri(url)
    info = RunInfo("a" * 32, "0", "me", RunStatus.RUNNING, 0, None, "active")
    return gradwatch.Forward(mlflow.ActiveRun(Run(info, RunData())))


def to_function(url, monkeypatch):
    from urllib.request import urlopen

    def post(numbers, step):
        urlopen(url, json.dumps(numbers).encode(), timeout=600)

    return gradwatch.Forward(post)


@pytest.mark.parametrize("make", [to_mlflow, to_function])
def test_an_endpoint_that_never_answers_costs_readings_and_nothing_else(
    make, here, black_hole, monkeypatch, be_patient
):
    """Training waits for nothing, the record is whole, and the loss is counted."""
    sink = make(black_hole, monkeypatch)
    be_patient(1.0)
    with pytest.warns(gradwatch.GradwatchWarning) as said:
        monitor = train(sink)
    assert sum("Forward lost" in str(each.message) for each in said) == 1
    with gradwatch.open(monitor.directory) as run:
        assert run.steps().tolist() == list(range(1, STEPS + 1))


def test_a_tracker_that_fails_for_a_while_gets_what_comes_later(here):
    logged = []

    def log(numbers, step):
        if step < 6:
            raise ConnectionResetError("gone")
        logged.append(step)

    with pytest.warns(gradwatch.GradwatchWarning) as said:
        train(gradwatch.Forward(log))
    assert ["Forward lost 5 readings" in str(each.message) for each in said] == [False, True]
    assert logged == list(range(6, STEPS + 1))


def test_what_arrived_before_a_failure_is_not_sent_again():
    """`write_many` fails as a whole; then each reading is written by itself."""
    logged = []

    def log(numbers, step):
        if step == 3 and logged.count(2) == 1 and 3 not in failed:
            failed.append(3)
            raise ConnectionResetError("gone")
        logged.append(step)

    failed = []
    sink = gradwatch.Forward(log)
    sink.before_run(RunInfo(None))
    readings = [many(2, step) for step in (1, 2, 3, 4)]
    with pytest.raises(OSError, match="gone"):
        sink.write_many(readings)
    for reading in readings:
        sink.write(reading)
    assert logged == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_a_run_that_was_not_begun_is_named_and_training_goes_on(name, here):
    with pytest.warns(gradwatch.GradwatchWarning) as said:
        monitor = train(gradwatch.Forward(name))
    assert f"no active run of {name}. Call {name}." in str(said[0].message)
    with gradwatch.open(monitor.directory) as run:
        assert len(run.steps()) == STEPS


def test_what_is_no_tracker_is_refused():
    with pytest.raises(ValueError, match=r"'wandb', 'mlflow', 'trackio'.*Received: 'tensorboard'"):
        gradwatch.Forward("tensorboard")
    with pytest.raises(ValueError, match="Received: 7"):
        gradwatch.Forward(7)


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(forward, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gradwatch\[mlflow\]'"):
        gradwatch.Forward("mlflow")
