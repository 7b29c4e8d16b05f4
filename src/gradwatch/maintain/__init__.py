"""Looking after stored runs: verify, repair, upload."""

from gradwatch.maintain.repair_run import QUARANTINE, LiveRunError, repair
from gradwatch.maintain.upload_run import upload
from gradwatch.maintain.verify_run import VerifyReport, verify

__all__ = ["QUARANTINE", "LiveRunError", "VerifyReport", "repair", "upload", "verify"]
