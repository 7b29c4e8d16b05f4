"""Uploading a run while it is recorded, in the background."""

import concurrent.futures.thread  # noqa: F401 - see _before_threads_end
import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store import sealing
from gradwatch.store.remote import upload_note
from gradwatch.store.remote.address import Remote
from gradwatch.store.remote.claims import Claim, WaitingError
from gradwatch.store.remote.folder import Folder
from gradwatch.store.remote.rank_share import RankShare, is_journal_of, share_of
from gradwatch.store.remote.transfer import Transfer
from gradwatch.util import Background, exits, say
from gradwatch.util.files import DamagedError

RETRY, RETRY_AT_MOST = 1.0, 300.0
PAUSE = 0.1
"""Seconds after which to look again, at the end, whether the first rank has begun to upload."""
GRACE = 0.2
"""Seconds, at the end of the process, that are kept for reporting what is left."""


class Uploader:
    """Copies the sealed files of a run to its URL, on a background thread.

    A failure is reported once, counted, and tried again, at growing intervals of up to five
    minutes. The run is complete in its local directory at all times.

    `tell` shows a message to the user. Without a `share`, this process uploads all of the run.
    `wait` is how many seconds longer the end of the process may take. `place` may be shown: it is
    the URL, or that with a number if another process uploads there.
    """

    def __init__(
        self,
        remote: Remote,
        directory: Path,
        tell: Callable[[str], None] = say,
        share: RankShare | None = None,
    ) -> None:
        self.failures = 0
        self.place = remote.shown
        self.tell, self.wait = tell, remote.wait
        self._remote, self._directory = remote, directory.absolute()
        self._folder = Folder(remote)
        self._share = share
        self._claim = Claim(self._folder, remote.every, share=share)
        self._is_looking = self._is_nudged = False
        self._transfer: Transfer | None = None
        self._background = _background(remote)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._retry = RETRY
        self._looked = 0.0
        self._is_open = self.is_done = False
        self._last_fault = ""

    @property
    def training(self) -> str | None:
        """What the uploads of processes that train together have in common; None for one alone."""
        return None if self._share is None else self._share.training

    def serves(self, remote: Remote) -> bool:
        """Whether it uploads there, and is not a parent process's."""
        return self._remote == remote and self._process == os.getpid()

    def open(self) -> None:
        """The run is being recorded, or again after `close`."""
        with self._lock:
            self._is_open, self.is_done = True, False
            listener = sealing.SealListener(self._remote.every, self.nudge)
            sealing.listeners[self._directory] = listener
        with contextlib.suppress(OSError):  # A full disk; it is written once there is space.
            self._note()
        sealing.seal_abandoned(self._directory, partial(is_journal_of, self._share))
        self.nudge()

    def close(self) -> None:
        """Recording has ended: upload what is sealed from now on, then stop. Does not wait."""
        self._is_open = False
        self.nudge()

    def nudge(self) -> None:
        """There may be something new."""
        if self._process == os.getpid() and not self.is_done:
            with self._lock:
                self._is_nudged = True
                self._background.later(self._directory, 0.0, self._pass)

    def finish(self, deadline: float) -> bool:
        """Upload the sealed files now; returns whether all were uploaded by the deadline."""
        if self._process != os.getpid():
            return True
        if self.is_over():
            return True
        self._is_open = self.is_done = False
        self.nudge()
        self._background.finish(deadline)
        while self._is_looking and time.monotonic() < deadline:
            # Processes that train together end together: the first may be about to begin.
            time.sleep(PAUSE)
            self.nudge()
            self._background.finish(deadline)
        return self.is_done

    def is_over(self) -> bool:
        """Whether it is done, and nothing has changed since: `run.json` may, a little later."""
        transfer = self._transfer
        return self.is_done and transfer is not None and not transfer.missing()

    def leftover(self) -> str:
        """A message: which files are not uploaded, and what to do."""
        faults = f" {self.failures} attempts failed. {self._last_fault}" if self.failures else ""
        secret = f" --to {self._remote.shown}" if self._remote.has_secrets else ""
        return (
            f"Not all of the run is at {self.place} yet; it is complete in {self._directory}. "
            f"Finish with: gradwatch upload {self._directory}{secret}{faults}"
        )

    def _pass(self) -> None:
        self._is_nudged = False
        try:
            self._upload()
        except WaitingError as waiting:
            self._is_looking = self._share is not None and not self._share.is_first
            self._pass_again(waiting.pause)
        except Exception as error:
            self._fail(error)
        else:
            self._retry = RETRY
            if not self.is_done:
                # To renew the claim, and for run.json.
                self._pass_again(self._remote.every)

    def _pass_again(self, pause: float) -> None:
        """After a pause, unless there is something new since this pass began: then at once."""
        with self._lock:
            delay = 0.0 if self._is_nudged else pause
            self._background.later(self._directory, delay, self._pass)

    def _upload(self) -> None:
        folder = self._claim.take()
        self._is_looking = False
        if self._transfer is None or self._transfer.folder is not folder:
            self._transfer = Transfer(self._directory, folder, self._share)
            if folder.shown != self.place:
                if self._share is None or self._share.is_first:
                    self.tell(
                        f"{self.place} is being written by another process. "
                        f"Uploading to {folder.shown}."
                    )
                self.place = folder.shown
            self._note()
            self._looked = time.monotonic()
        elif not self._is_open or time.monotonic() - self._looked >= self._remote.every:
            self._looked = time.monotonic()
            self._transfer.look()
        damaged = len(self._transfer.damaged)
        self._transfer.advance()
        if len(self._transfer.damaged) > damaged:
            self.tell(
                f"Segments of {self._directory} are damaged and not uploaded: "
                f"{', '.join(sorted(self._transfer.damaged))}."
            )
        if not self._is_open and not self._is_sealing() and not self._transfer.missing():
            self._note(complete=True)
            self._claim.release()
            with self._lock:
                self.is_done = not self._is_open  # Unless it was opened again meanwhile.
                if self.is_done:
                    sealing.listeners.pop(self._directory, None)

    def _note(self, complete: bool = False) -> None:
        upload_note.write(
            self._directory, self._remote, self.place, complete=complete, share=self._share
        )

    def _is_sealing(self) -> bool:
        return any(is_journal_of(self._share, name) for name in names.listed(self._directory))

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        self._last_fault = self._remote.redacted(str(error))
        if self.failures == 1:
            self.tell(
                f"Uploading to {self.place} failed and is tried again; training is not "
                f"affected, and the run is complete in {self._directory}. {self._last_fault}"
            )
        self._pass_again(self._retry)
        self._retry = min(2 * self._retry, RETRY_AT_MOST)


_uploaders: dict[Path, Uploader] = {}
_backgrounds: dict[str, Background] = {}


def _background(remote: Remote) -> Background:
    """A thread for each server or bucket: one that hangs holds up no other."""
    return _backgrounds.setdefault("/".join(remote.parts[:2]), Background("gradwatch-upload"))


def uploader_for(remote: Remote, directory: Path, training: str = "", rank: int = 0) -> Uploader:
    """The uploader of a run's directory, opened; call its `close` when the run ends.

    A run that is recorded by several calls of `fit` goes on with the one it had. `training` is a
    name that processes share which train together; it is empty for one alone.
    """
    key = directory.absolute()
    for other, each in list(_uploaders.items()):
        if other != key and each.is_over():
            del _uploaders[other]
    uploader = _uploaders.get(key)
    if uploader is None or not uploader.serves(remote):
        share = share_of(training, rank, remote.shown) if training else None
        uploader = _uploaders[key] = Uploader(remote, directory, share=share)
    uploader.open()
    return uploader


def upload_leftover(remote: Remote, directory: Path) -> None:
    """Upload what a process that has ended left in a run's directory, unless all is there."""
    try:
        is_complete = bool(upload_note.read(directory).get("complete"))
    except (FileNotFoundError, DamagedError):
        is_complete = False
    if not is_complete:
        uploader_for(remote, directory).close()


def _at_exit(deadline: float) -> None:
    uploaders = list(_uploaders.values())
    _uploaders.clear()
    for uploader in uploaders:
        uploader.nudge()
    for uploader in uploaders:
        if not uploader.finish(deadline - GRACE + uploader.wait):
            uploader.tell(uploader.leftover())


# After the sealing, which leaves something to upload.
exits.register(2, _at_exit)


def _before_threads_end() -> None:
    """Close while s3fs and its like can still open connections.

    They look up addresses on a pool of threads, which Python closes before it calls
    what is registered with `atexit`.
    """
    main = threading.main_thread()
    is_training = any(t is not main and not t.daemon for t in threading.enumerate())
    if _uploaders and not is_training:
        exits.close_all()


# The last one registered is called first, so before the pools of threads are closed. It is
# what they use themselves; in a Python without it, what is left is reported at the end.
getattr(threading, "_register_atexit", lambda call: None)(_before_threads_end)
