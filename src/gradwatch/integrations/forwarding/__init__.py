"""Forwards the main numbers of a run to an experiment tracker."""

from gradwatch.integrations.forwarding.forward import Forward
from gradwatch.integrations.forwarding.key_choice import MAX_KEYS
from gradwatch.integrations.forwarding.tracker import ForwardedRow, Tracker

__all__ = ["MAX_KEYS", "Forward", "ForwardedRow", "Tracker"]
