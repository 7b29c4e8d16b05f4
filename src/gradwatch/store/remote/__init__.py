"""Runs at a URL: sealed files are copied there, and read from there. See README.md."""

from gradwatch.store.remote.address import Remote, as_remote
from gradwatch.store.remote.claims import Claim, WaitingError, is_claim
from gradwatch.store.remote.folder import Folder
from gradwatch.store.remote.segment_files import segment_files
from gradwatch.store.remote.transfer import Transfer
from gradwatch.store.remote.uploader import Uploader, upload_leftover, uploader_for

__all__ = [
    "Claim",
    "Folder",
    "Remote",
    "Transfer",
    "Uploader",
    "WaitingError",
    "as_remote",
    "is_claim",
    "segment_files",
    "upload_leftover",
    "uploader_for",
]
