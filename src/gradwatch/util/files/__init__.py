"""Files that stay whole whatever happens while they are written."""

from gradwatch.util.files.append_file import AppendFile
from gradwatch.util.files.checked_json import DamagedError, Known

__all__ = ["AppendFile", "DamagedError", "Known"]
