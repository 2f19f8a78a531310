"""The memory of a program's tensors as the emulator sees it: a storage is an array, a tensor a pointer into it.

Memory of ``torch.empty`` holds no values until somebody writes it. ``TrackedTensors`` follows that byte by byte.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from measurements.emulator.memory import Flags

_FIRST_SWEEP = 128  # new tensors before entries of freed ones are looked for
_NO_VALUE = 0xFF  # every byte of it: NaN as a float, -1 as an integer

Host = Literal["plain", "pinned"]
Bytes = npt.NDArray[np.uint8]


def storage_bytes(storage: torch.UntypedStorage) -> Bytes:
    """Return the bytes of a storage on the CPU, not a copy. The caller keeps the storage alive."""
    # Not by a tensor: whoever follows what torch does would see one that the program has not made.
    return np.ctypeslib.as_array((ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr()))


class Storages:
    """The storages that a program has, by address: which bytes hold no value, which storage an address is in, and which
    are the host's memory to a program that sees a simulated GPU.

    Storages that no mode has seen hold values everywhere, and are the GPU's. May be used by several threads.
    """

    def __init__(self) -> None:
        self._flags: dict[int, tuple[StorageWeakRef, Flags]] = {}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._on_host: dict[int, tuple[StorageWeakRef, Host]] = {}
        self._lock = threading.RLock()
        self._adds_until_sweep = _FIRST_SWEEP

    def add(self, tensor: torch.Tensor, undefined: bool) -> None:
        """Take note of a new tensor."""
        if tensor.layout is not torch.strided:
            return  # a sparse tensor has no storage; its indices and values are tensors of their own
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        if size == 0 or storage.device.type != "cpu":
            return
        reference = StorageWeakRef(storage)
        with self._lock:
            self._adds_until_sweep -= 1
            if self._adds_until_sweep <= 0:
                self._forget_expired()
            self._alive[storage.data_ptr()] = (reference, size)
            self._flags.pop(storage.data_ptr(), None)
            self._on_host.pop(storage.data_ptr(), None)
            if undefined:
                storage_bytes(storage)[:] = _NO_VALUE
                self._flags[storage.data_ptr()] = (reference, np.zeros(size, dtype=np.bool_))

    def _forget_expired(self) -> None:
        """Drop the entries of freed storages, whose flags would keep as many bytes as their tensors had.

        The next sweep comes after as many new tensors as entries remain, so a tensor costs constant time on average.
        """
        for entries in (self._flags, self._alive, self._on_host):
            for address in [a for a, (reference, _) in entries.items() if reference.expired()]:
                del entries[address]
        self._adds_until_sweep = max(_FIRST_SWEEP, len(self._alive))

    def define(self, tensor: torch.Tensor) -> None:
        """All elements of ``tensor`` hold values from now on."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        flags = self.defined(storage) if storage.device.type == "cpu" else None
        if flags is None or tensor.numel() == 0:
            return
        each = tensor.element_size()
        strides = [each * stride for stride in tensor.stride()]
        first = flags[each * tensor.storage_offset() :]
        np.lib.stride_tricks.as_strided(first, (*tensor.shape, each), (*strides, 1))[...] = True
        with self._lock:
            if flags.all():
                self._flags.pop(storage.data_ptr(), None)

    def place(self, tensor: torch.Tensor, host: Host | None) -> None:
        """Note that a tensor is in the host's memory; None: in the GPU's."""
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        with self._lock:
            if host is None:
                self._on_host.pop(storage.data_ptr(), None)
            else:
                self._on_host[storage.data_ptr()] = (StorageWeakRef(storage), host)

    def host_of(self, tensor: torch.Tensor) -> Host | None:
        """Return in which memory of the host a tensor is; None where it is the GPU's, or no mode has seen it."""
        if not self._on_host or tensor.layout is not torch.strided:
            return None
        address = tensor.untyped_storage().data_ptr()
        with self._lock:
            reference, host = self._on_host.get(address, (None, None))
            if reference is not None and reference.expired():
                del self._on_host[address]
                return None
            return host

    def defined(self, storage: torch.UntypedStorage) -> Flags | None:
        """Return a flag for each byte, whether it holds a value; None where all do."""
        with self._lock:
            found = self._flags.get(storage.data_ptr())
            if found is None:
                return None
            if found[0].expired() or found[1].size != storage.nbytes():
                self._flags.pop(storage.data_ptr(), None)
                return None
            return found[1]

    def set_defined(self, storage: torch.UntypedStorage, now: Flags) -> None:
        flags = self.defined(storage)
        if flags is not None:
            flags[:] = now

    def holding(self, address: int) -> torch.UntypedStorage | None:
        """Return the living storage that the address is in; None where no mode has seen one."""
        with self._lock:
            for start, (reference, size) in list(self._alive.items()):
                if start <= address < start + size:
                    if reference.expired():
                        del self._alive[start]
                        continue
                    return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
        return None
