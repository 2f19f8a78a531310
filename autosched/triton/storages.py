"""Memory of a program's tensors. In the emulator, a storage is an array, and a tensor is a pointer into its storage.

Memory of ``torch.empty`` is undefined until it is written. ``TrackedTensors`` tracks the undefined bytes.
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

_FIRST_SWEEP = 128  # number of new tensors before the first sweep, which drops the entries of freed tensors
_NO_VALUE = 0xFF  # content of each undefined byte; floats are then NaN, and integers -1

Host = Literal["plain", "pinned"]
Bytes = npt.NDArray[np.uint8]


def storage_bytes(storage: torch.UntypedStorage) -> Bytes:
    """Return the bytes of a storage on the CPU without copying them. The caller must keep the storage alive."""
    # A tensor would be simpler, but torch's modes would report it as a tensor of the program.
    return np.ctypeslib.as_array((ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr()))


class Storages:
    """Storages of a program, by address.

    Records undefined bytes, the storage at an address, and, if a GPU is simulated, which storages are host memory.
    Unregistered storages are treated as defined GPU memory. Thread-safe.
    """

    def __init__(self) -> None:
        self._flags: dict[int, tuple[StorageWeakRef, Flags]] = {}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._on_host: dict[int, tuple[StorageWeakRef, Host]] = {}
        # Undefined bytes of ``torch.empty`` on the host, where writes are not tracked. Tracking begins if the storage
        # becomes GPU memory.
        self._flags_on_host: dict[int, tuple[StorageWeakRef, Flags]] = {}
        self._lock = threading.RLock()
        self._adds_until_sweep = _FIRST_SWEEP

    def add(self, tensor: torch.Tensor, undefined: bool, on_host: bool = False) -> None:
        """Register a new tensor.

        Args:
            tensor: The tensor.
            undefined: True if its bytes are undefined.
            on_host: True if the program regards the tensor as a host tensor. Writes to host tensors are not tracked.
        """
        if tensor.layout is not torch.strided:
            return  # a sparse tensor has no storage; its indices and values are registered as separate tensors
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
            self._flags_on_host.pop(storage.data_ptr(), None)
            if undefined:
                storage_bytes(storage)[:] = _NO_VALUE
                flags = self._flags_on_host if on_host else self._flags
                flags[storage.data_ptr()] = (reference, np.zeros(size, dtype=np.bool_))

    def _forget_expired(self) -> None:
        """Drop the entries of freed storages, because their flags take as much memory as the tensors did.

        If n entries remain, the next sweep happens after n new tensors, so that the average time per tensor is
        constant.
        """
        for entries in (self._flags, self._flags_on_host, self._alive, self._on_host):
            for address in [a for a, (reference, _) in entries.items() if reference.expired()]:
                del entries[address]
        self._adds_until_sweep = max(_FIRST_SWEEP, len(self._alive))

    def define(self, tensor: torch.Tensor) -> None:
        """Mark all elements of ``tensor`` as defined."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        flags = self.defined(storage) if storage.device.type == "cpu" else None
        if flags is None or tensor.numel() == 0:
            return
        _of_elements(flags, tensor)[...] = True
        self._forget_if_whole(storage, flags)

    @property
    def has_undefined(self) -> bool:
        """True if some memory of the program has undefined bytes."""
        return bool(self._flags)

    def defined_bytes(self, tensor: torch.Tensor) -> Flags | None:
        """Return a flag per byte of a tensor's elements, in element order; None if all bytes are defined."""
        if tensor.layout is not torch.strided or tensor.untyped_storage().device.type != "cpu":
            return None
        flags = self.defined(tensor.untyped_storage())
        return None if flags is None else _of_elements(flags, tensor).reshape(-1)

    def set_defined_bytes(self, tensor: torch.Tensor, now: Flags) -> None:
        """Set which bytes of a tensor are defined. The flags have the format that ``defined_bytes`` returns."""
        storage = tensor.untyped_storage()
        flags = self.defined(storage)
        if flags is None:
            if now.all():
                return
            flags = np.ones(storage.nbytes(), np.bool_)
            with self._lock:
                self._flags[storage.data_ptr()] = (StorageWeakRef(storage), flags)
        _of_elements(flags, tensor)[...] = now.reshape((*tensor.shape, tensor.element_size()))
        self._forget_if_whole(storage, flags)

    def _forget_if_whole(self, storage: torch.UntypedStorage, flags: Flags) -> None:
        with self._lock:
            if flags.all():
                self._flags.pop(storage.data_ptr(), None)

    def set_host(self, tensor: torch.Tensor, host: Host | None) -> None:
        """Record the type of host memory of a tensor; None for GPU memory."""
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        with self._lock:
            if host is None:
                self._on_host.pop(storage.data_ptr(), None)
                if (flags := self._flags_on_host.pop(storage.data_ptr(), None)) is not None:
                    self._flags[storage.data_ptr()] = flags
            else:
                self._on_host[storage.data_ptr()] = (StorageWeakRef(storage), host)

    def host_of(self, tensor: torch.Tensor) -> Host | None:
        """Return the type of host memory of a tensor; None for GPU memory and unregistered tensors."""
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
        """Return a flag per byte of a storage that is true if the byte is defined; None if all bytes are defined."""
        with self._lock:
            flags = self._flags.get(storage.data_ptr())
            if flags is None:
                return None
            if flags[0].expired() or flags[1].size != storage.nbytes():
                self._flags.pop(storage.data_ptr(), None)
                return None
            return flags[1]

    def set_defined(self, storage: torch.UntypedStorage, now: Flags) -> None:
        """Set which bytes of a storage are defined, if the storage is tracked."""
        flags = self.defined(storage)
        if flags is not None:
            flags[:] = now
            self._forget_if_whole(storage, flags)

    def holding(self, address: int) -> torch.UntypedStorage | None:
        """Return the registered storage at the address; None if there is none, or if it has been freed."""
        with self._lock:
            for start, (reference, size) in list(self._alive.items()):
                if start <= address < start + size:
                    if reference.expired():
                        del self._alive[start]
                        continue
                    return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
        return None


def _of_elements(flags: Flags, tensor: torch.Tensor) -> Flags:
    """Return a view of a storage's flags with the shape of a tensor, and the bytes of an element as the last axis."""
    each = tensor.element_size()
    strides = [each * stride for stride in tensor.stride()]
    first = flags[each * tensor.storage_offset() :]
    return np.lib.stride_tricks.as_strided(first, (*tensor.shape, each), (*strides, 1))
