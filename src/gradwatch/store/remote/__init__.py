"""Runs at a URL: sealed files are copied there, and read from there. See README.md."""

from gradwatch.store.remote.address import Remote, as_remote
from gradwatch.store.remote.claims import Claim, WaitingError, is_claim
from gradwatch.store.remote.folder import Folder
from gradwatch.store.remote.listing import segment_files
from gradwatch.store.remote.transfer import DESCRIPTION, FINDINGS, Transfer
from gradwatch.store.remote.uploader import Uploader, uploader_for

__all__ = [
    "DESCRIPTION",
    "FINDINGS",
    "Claim",
    "Folder",
    "Remote",
    "Transfer",
    "Uploader",
    "WaitingError",
    "as_remote",
    "is_claim",
    "segment_files",
    "uploader_for",
]
