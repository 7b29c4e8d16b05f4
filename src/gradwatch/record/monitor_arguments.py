"""The meaning of the arguments of `Monitor`, and errors for those that have none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradwatch.core import select as selectors
from gradwatch.diagnosis import (
    Alerts,
    DiagnosisSpec,
    Finding,
    LiveDiagnosis,
    Settings,
    Severity,
    as_severity,
)
from gradwatch.sinks import Console, Sink, Store, TensorBoard
from gradwatch.store.remote import Remote
from gradwatch.util import Reporter, described, did_you_mean, plugins
from gradwatch.watches import Watch, gradients, weights

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_EVERY, _HISTOGRAM = "every=", "watch=[gradwatch.gradients(histogram=True)]"
_SINKS = ("Store", "TensorBoard", "Console", "CSV", "PNG", "Totals", "Forward")
_WATCHES = (
    "gradients", "weights", "updates", "applied_gradients", "outputs", "output_gradients",
    "pictures", "spectral_norms", "optimizer_state", "losses", "scalars",
)  # fmt: skip
MONITOR_SYNONYMS = {
    **dict.fromkeys(("logdir", "log_dir", "dir", "path", "folder", "run_dir"), "directory="),
    **dict.fromkeys(("output_dir", "save_dir", "name", "run_name", "run", "url"), "directory="),
    **dict.fromkeys(("freq", "frequency", "interval", "steps", "log_freq", "update_freq"), _EVERY),
    **dict.fromkeys(("log_every", "every_n", "every_n_steps", "schedule", "epoch"), _EVERY),
    **dict.fromkeys(("histogram", "histogram_freq", "hist", "bins"), _HISTOGRAM),
    **dict.fromkeys(("overhead", "cost", "max_overhead"), "budget="),
    **dict.fromkeys(("rule", "diagnosis", "diagnostics", "alert", "check"), "diagnose="),
    **dict.fromkeys(("callback", "on_alert", "on_findings"), "on_finding="),
    **dict.fromkeys(("stop", "terminate_on_nan", "stop_on_nan", "early_stop"), 'stop_on="error"'),
    **dict.fromkeys(("hyperparameters", "hparams", "params", "settings"), "config="),
    **dict.fromkeys(("sink_list", "writer", "logger", "exporter"), "sinks="),
    "verbose": "sinks=[gradwatch.Store()], without the Console",
    "tensorboard": "sinks=[gradwatch.TensorBoard()]",
    **{kind: f"watch=[gradwatch.{kind}()]" for kind in _WATCHES},
    "model": "fit(callbacks=[monitor]), or record(variables=model) in a loop",
}
"""What is meant by arguments that a monitor does not have."""


def as_place(directory: str | Path | Remote | None, remote: Remote | None) -> Path:
    """Where the run is kept on this machine."""
    if remote is None:
        assert not isinstance(directory, Remote)
        return Path(directory or Path("runs", time.strftime("%Y%m%d-%H%M%S")))
    from gradwatch.store.remote import Folder

    Folder(remote)  # A missing package is reported now rather than in training.
    return remote.staging_directory


def as_watches(
    layers: Sequence[selectors.Spec] | selectors.Spec | None, watch: Sequence[Watch] | Watch | None
) -> list[Watch]:
    """What to measure: by default gradients and weights of the layers."""
    if watch is not None and layers is not None:
        raise ValueError(
            "Give either layers= or watch=; a watch has its own selection: "
            'gradwatch.gradients("conv*", 0).'
        )
    if watch is None:
        if layers is None:
            selection: tuple[selectors.Spec, ...] = ()
        elif isinstance(layers, Sequence) and not isinstance(layers, str):
            selection = tuple(layers)
        else:
            selection = (layers,)
        return [gradients(*selection, histogram="epoch"), weights(*selection, histogram="epoch")]
    watches = [watch] if isinstance(watch, Watch) else list(watch)
    for each in watches:
        if not isinstance(each, Watch):
            raise TypeError(
                "watch takes a list of gradwatch.gradients(...), weights(...), outputs(...) and "
                f"the like. {_call_instead(each, _WATCHES)}Received: {each!r}"
            )
    if not watches:
        raise ValueError("watch=[] measures nothing. Leave it out to watch everything.")
    return watches


def as_alerts(
    diagnose: DiagnosisSpec,
    on_finding: Callable[[Finding], object] | None,
    stop_on: Severity | str | None,
    reporter: Reporter,
    on_young: Callable[[], object],
) -> Alerts | None:
    """The diagnosis, and how to tell the user about its findings; None without one.

    For `on_young` see `LiveDiagnosis`.
    """
    settings, worst = Settings.of(diagnose), as_severity("stop_on", stop_on)
    if settings is None:
        if on_finding is not None or worst is not None:
            raise ValueError("on_finding= and stop_on= need a diagnosis. Leave out diagnose=False.")
        return None
    return Alerts(LiveDiagnosis(settings, reporter, on_young), on_finding, worst, reporter)


def as_sinks(sinks: Sequence[Sink | str] | Sink | str | None) -> list[Sink]:
    """The sinks; those given by name are of other packages, and left out if they fail."""
    if sinks is None:
        return [Store(), TensorBoard(), Console()]
    chosen = []
    for each in [sinks] if isinstance(sinks, Sink | str) else sinks:
        entry = plugins.entry_of(plugins.SINKS, each) if isinstance(each, str) else None
        if entry is not None:
            made = _plugin_sink(entry)
            chosen += [] if made is None else [made]
        elif isinstance(each, Sink):
            chosen.append(each)
        else:
            raise TypeError(
                "sinks takes a list of gradwatch.Store(), TensorBoard(), Console() or other Sinks. "
                f"{_call_instead(each, _SINKS)}Received: {each!r}"
            )
    return chosen


def _plugin_sink(entry: EntryPoint) -> Sink | None:
    make = plugins.load(entry)
    if make is None:
        return None
    try:
        made = make() if callable(make) else make
    except Exception as error:
        plugins.leave_out(entry, f"failed and is left out. {described(error)}")
        return None
    if isinstance(made, Sink):
        return made
    plugins.leave_out(entry, f"is no gradwatch.Sink and is left out. Received: {made!r}")
    return None


def _call_instead(given: object, names: Sequence[str]) -> str:
    """What to write instead of a name, or of a class or function that was not called."""
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    meant = did_you_mean(name, names) if name else ""
    return meant.replace("'", "gradwatch.", 1).replace("'", "()", 1)
