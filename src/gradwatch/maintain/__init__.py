"""Looking after stored runs: verify, repair, upload."""

from gradwatch.maintain.repair_run import LiveRunError, repair
from gradwatch.maintain.upload_run import upload
from gradwatch.maintain.verify_run import Report, verify

__all__ = ["LiveRunError", "Report", "repair", "upload", "verify"]
