"""The memory of a program's tensors as the emulator sees it: a storage is an array, a tensor a pointer into it.

Memory of ``torch.empty`` holds no values until somebody writes it. ``UndefinedMemory`` follows that byte by byte.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from measurements.emulator.memory import Flags

_FACTORIES = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
_NO_VALUE = 0xFF  # every byte of it: NaN as a float, -1 as an integer

Bytes = npt.NDArray[np.uint8]


def storage_bytes(storage: torch.UntypedStorage) -> Bytes:
    """Return the bytes of a storage on the CPU, not a copy. The caller keeps the storage alive."""
    # Not by a tensor: whoever follows what torch does would see one that the program has not made.
    return np.ctypeslib.as_array((ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr()))


class Storages:
    """The storages that a program has, by address: which bytes hold no value, and which storage an address is in.

    Storages that no mode has seen hold values everywhere. May be used by several threads.
    """

    def __init__(self) -> None:
        self._flags: dict[int, tuple[StorageWeakRef, Flags]] = {}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._lock = threading.RLock()

    def add(self, tensor: torch.Tensor, undefined: bool) -> None:
        """Take note of a new tensor."""
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        if size == 0 or storage.device.type != "cpu":
            return
        reference = StorageWeakRef(storage)
        with self._lock:
            self._alive[storage.data_ptr()] = (reference, size)
            self._flags.pop(storage.data_ptr(), None)
            if undefined:
                storage_bytes(storage)[:] = _NO_VALUE
                self._flags[storage.data_ptr()] = (reference, np.zeros(size, dtype=np.bool_))

    def define(self, tensor: torch.Tensor) -> None:
        """All elements of ``tensor`` hold values from now on."""
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


class UndefinedMemory(TorchDispatchMode):  # type: ignore[misc]
    """Tells ``storages`` of every tensor that is made, and of every write of torch."""

    supports_higher_order_operators = True  # as the launches of ``torch.library.wrap_triton``

    def __init__(self, storages: Storages) -> None:
        super().__init__()
        self._storages = storages

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its compiler, which takes seconds, only to leave this mode alone."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """``torch.compile`` compiles within, and this mode sees what the compiled program does."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not hasattr(func, "_schema"):
            return result  # of a higher order; what it calls comes here, too
        empty = func.namespace == "aten" and func._schema.name.removeprefix("aten::") in _FACTORIES
        for tensor, alias in zip(_results(result), _aliases(func, result), strict=False):
            if alias is None:
                self._storages.add(tensor, undefined=empty)
        for tensor in _written(func, args, kwargs or {}):
            self._storages.define(tensor)
        return result


def _results(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _aliases(func: Any, result: Any) -> list[Any]:
    """Return what the schema says of each result: None where it is new memory. A list of tensors has one entry for
    all."""
    returns = func._schema.returns
    tensors = _results(result)
    if len(returns) == len(tensors):
        return [r.alias_info for r in returns]
    return [returns[0].alias_info if returns else None] * len(tensors)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    if not func._schema.is_mutable or torch.Tag.inplace_view in func.tags:
        return  # as `t_`, which changes how the memory is seen
    for k, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[k] if k < len(args) else kwargs.get(argument.name)
        yield from _results(value)
