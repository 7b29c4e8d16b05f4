"""`gradwatch top`: a run in the terminal, kept up to date."""

from gradwatch.view.terminal.frame import TopFrame, frame_facts, frame_text
from gradwatch.view.terminal.top_loop import run_top
from gradwatch.view.terminal.view_options import NETWORK, ORDERS, ViewOptions

__all__ = ["NETWORK", "ORDERS", "TopFrame", "ViewOptions", "frame_facts", "frame_text", "run_top"]
