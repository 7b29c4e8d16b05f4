"""How many bytes of torch tensors are alive at a time: exact, and the same at every run.

Of the memory itself, an allocator tells no more than it has asked the system for, and on a CPU
not even that. So every tensor that an operation makes is noted, and when its storage is freed.
What operations use for themselves while they run is not seen.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """While it is on, counts the bytes of the tensors that were made since it was.

    Attributes:
        now: those that are alive.
        most: the most there were since `restart`.

    Example:

    >>> import torch
    >>> from benchmarks.live_bytes import LiveBytes
    >>> with LiveBytes() as bytes:
    ...     kept = torch.zeros(10)
    ...     _ = torch.zeros(20) + 1
    ...     del _
    >>> bytes.now, bytes.most
    (40, 200)
    """

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self._known = {}

    def restart(self):
        """Forget the most there were."""
        self.most = self.now

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # What was there before, such as a weight of which this makes a view, does not count.
        self._note((args, kwargs), was_there=True)
        made = func(*args, **(kwargs or {}))
        self._note(made, was_there=False)
        return made

    def _note(self, tensors, was_there):
        for x in tree_leaves(tensors):
            if isinstance(x, torch.Tensor):
                storage = x.untyped_storage()
                self._note_storage(storage, 0 if was_there else storage.nbytes())

    def _note_storage(self, storage, size):
        key = storage._cdata
        if key not in self._known:
            self._known[key] = weakref.ref(storage, lambda _: self._forget(key, size))
            self.now += size
            self.most = max(self.most, self.now)

    def _forget(self, key, size):
        self.now -= size
        self._known.pop(key, None)
