"""The tracker that the user means."""

from typing import Any

from gradwatch.integrations.forwarding.tracker import TRACKERS, FunctionTracker, Tracker


def package_of(run: Any) -> str:
    """The tracker that an object is a run of; empty if none."""
    package = type(run).__module__.partition(".")[0]
    return package if package in TRACKERS and type(run).__name__ != "module" else ""


def tracker_for(to: Any) -> Tracker:
    """The tracker by its name, with its active run; or of a given run, or a function.

    It is called on the thread that trains: MLflow and trackio know the active run of a thread.
    """
    name = to if isinstance(to, str) else package_of(to)
    run = None if isinstance(to, str) else to
    if name == "wandb":
        from gradwatch.integrations.forwarding.wandb_tracker import WandbTracker

        return WandbTracker(run)
    if name == "mlflow":
        from gradwatch.integrations.forwarding.mlflow_tracker import MlflowTracker

        return MlflowTracker(run)
    if name == "trackio":
        from gradwatch.integrations.forwarding.trackio_tracker import TrackioTracker

        return TrackioTracker(run)
    return FunctionTracker(to)
