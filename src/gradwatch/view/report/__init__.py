"""One file that tells what a run was like: a page, Markdown for a pull request, or JSON."""

from gradwatch.view.report.make import report
from gradwatch.view.report.page import frame_page

__all__ = ["frame_page", "report"]
