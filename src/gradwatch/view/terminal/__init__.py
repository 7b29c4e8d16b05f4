"""`gradwatch top`: a run in the terminal, as it goes on."""

from gradwatch.view.terminal.head import Shown
from gradwatch.view.terminal.top_loop import painter, top
from gradwatch.view.terminal.wishes import NETWORK, ORDERS, Wishes

__all__ = ["NETWORK", "ORDERS", "Shown", "Wishes", "painter", "top"]
