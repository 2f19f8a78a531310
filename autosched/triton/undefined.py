"""Follow values that depend on unwritten memory as they pass through torch's operators.

An operator that reads unwritten memory runs again with other bytes in that memory. If a result then differs, it depends
on unwritten bytes, and is undefined too. A finding is reported only if the program uses an undefined value as a number,
a condition or a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autosched.triton.storages import Storages, storage_bytes
from measurements.emulator.findings import Grade
from measurements.emulator.memory import Flags

# bytes that replace undefined bytes (0xFF) in repeated calls: zeros, and bytes of large numbers
_OTHER_BYTES = (0x00, 0x77)
# The result of a comparison always counts as dependent on undefined operands: even if it is the same for these bytes,
# it may differ for other bytes.
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# Operators that overwrite all of their first argument, whose earlier bytes therefore do not matter.
_OVERWRITING = frozenset({"zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "exponential_", "bernoulli_"})

OnRead = Callable[[str, Grade], None]


@dataclass(frozen=True, eq=False)
class RepeatedCall:
    """Result of an operator, and the results of repeated calls in which undefined memory has other bytes.

    ``other_runs`` has a pair for each repeated call: the copies of its arguments, and its result. The result is None
    if the operator rejected the bytes.
    """

    result: Any
    func: Any
    args: Any
    kwargs: dict[str, Any]
    other_runs: list[tuple[_Copies, Any]]


class UndefinedValues:
    """Runs operators whose arguments have undefined bytes.

    Args:
        storages: Registry of undefined bytes.
        on_read: Called with a message when the program reads a value that depends on undefined bytes.
    """

    def __init__(self, storages: Storages, on_read: OnRead) -> None:
        self._storages = storages
        self._on_read = on_read

    def concern(self, name: str, args: Any, kwargs: dict[str, Any]) -> bool:
        """Return True if the operator of this name reads an argument with undefined bytes."""
        if not self._storages.has_undefined:
            return False
        read = args[1:] if name in _OVERWRITING else args
        return any(self._is_undefined(t) for t in tensors_of((read, kwargs)))

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> RepeatedCall:
        """Run an operator whose arguments have undefined bytes."""
        state = torch.default_generator.get_state()
        other_runs: list[tuple[_Copies, Any]] = []
        for byte in _OTHER_BYTES:
            torch.default_generator.set_state(state)
            copies = _Copies(self._storages, byte)
            other_args, other_kwargs = copies.of(args), copies.of(kwargs)
            try:
                other_runs.append((copies, func(*other_args, **other_kwargs)))
            except Exception:  # the operator rejects these bytes, for example because an index is out of range
                other_runs.append((copies, None))
        torch.default_generator.set_state(state)
        return RepeatedCall(func(*args, **kwargs), func, args, kwargs, other_runs)

    def settle(self, call: RepeatedCall, new: list[torch.Tensor], written: list[torch.Tensor]) -> None:
        """Mark the bytes of an operator's new tensors and modified arguments that depend on undefined bytes."""
        name = call.func._schema.name.removeprefix("aten::")
        results = list(tensors_of(call.result))
        other_results = [list(tensors_of(other)) for _, other in call.other_runs]
        if name in ("equal", "allclose"):
            differs = self._may_be_equal(call)
        else:  # if the results are numbers, compare their texts, because NaN is not equal to NaN
            differs = not results and any(repr(other) != repr(call.result) for _, other in call.other_runs)
        if differs:
            self._on_read(f"{name} depends on unwritten memory", "fault")
        for k, tensor in enumerate(results):
            alike = [each[k] for each in other_results if len(each) > k and each[k].shape == tensor.shape]
            if len(alike) < len(other_results):
                self._on_read(f"the shape of {name}'s result depends on unwritten memory", "fault")
            elif any(tensor is each for each in new):
                self._compare(tensor, alike)
                if name in _COMPARISONS:
                    self._forget_compared(tensor, list(tensors_of(call.args)))
        for tensor in written:
            self._compare(tensor, [copy for each, _ in call.other_runs if (copy := each.known(tensor)) is not None])

    def _holds_value(self, tensor: torch.Tensor) -> Flags:
        """Return a flag for each element: True if all bytes of the element are defined."""
        flags = self._storages.defined_bytes(tensor)
        if flags is None:
            return np.ones(tuple(tensor.shape), np.bool_)
        return np.asarray(flags.reshape((*tensor.shape, tensor.element_size())).all(axis=-1))

    def _may_be_equal(self, call: RepeatedCall) -> bool:
        """Return True if the elements of two tensors are equal where both tensors are defined."""
        a, b, *rest = call.args
        if a.shape != b.shape:
            return False
        known = torch.from_numpy(self._holds_value(a) & self._holds_value(b))
        return bool(call.func(a[known], b[known], *rest, **call.kwargs))

    def _forget_compared(self, answers: torch.Tensor, compared: list[torch.Tensor]) -> None:
        known = [np.broadcast_to(self._holds_value(tensor), tuple(answers.shape)) for tensor in compared]
        flags = np.logical_and.reduce(known)
        self._storages.set_defined_bytes(answers, np.repeat(flags.reshape(-1), answers.element_size()))

    def _compare(self, tensor: torch.Tensor, copies: list[torch.Tensor]) -> None:
        if copies and tensor.numel() and tensor.layout is torch.strided:
            differ = [_bytes_of(tensor) != _bytes_of(other) for other in copies]
            self._storages.set_defined_bytes(tensor, ~np.logical_or.reduce(differ))

    def read_by_host(self, tensor: torch.Tensor, function_name: str, *, is_shown: bool = False) -> None:
        """Record that a tensor's memory is passed to the host, where its use is not tracked.

        Args:
            tensor: The tensor.
            function_name: Function of torch that passes the tensor to the host.
            is_shown: True if the whole tensor is printed or stored.
        """
        flags = self._storages.defined_bytes(tensor) if self._storages.has_undefined else None
        if flags is None or flags.all():
            return
        unwritten = int((~flags).sum())
        grade: Grade = "note" if flags.any() and not is_shown else "fault"
        self._on_read(f"{function_name} of a tensor in which {unwritten} of {flags.size} bytes are unwritten", grade)
        self._storages.define(tensor)

    def _is_undefined(self, tensor: torch.Tensor) -> bool:
        flags = self._storages.defined_bytes(tensor)
        return flags is not None and not flags.all()


class _Copies:
    """Copies of tensors with other values in undefined bytes. Views of one storage become views of one copy."""

    def __init__(self, storages: Storages, byte: int) -> None:
        self._storages, self._byte = storages, byte
        self._copied: dict[int, torch.UntypedStorage] = {}

    def of(self, value: Any) -> Any:
        """Return the arguments, with tensors replaced by copies."""
        if isinstance(value, torch.Tensor):
            return self._copy(value)
        if isinstance(value, dict):
            return {key: self.of(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.of(each) for each in value)
        return value

    def known(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the copy of ``tensor`` if it was an argument, otherwise None."""
        if tensor.layout is not torch.strided or tensor.untyped_storage().data_ptr() not in self._copied:
            return None
        return self._copy(tensor)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            return tensor
        storage = tensor.untyped_storage()
        copied = self._copied.get(storage.data_ptr())
        if copied is None:
            copied = self._copied[storage.data_ptr()] = storage.clone()
            if (flags := self._storages.defined(storage)) is not None:
                storage_bytes(copied)[~flags] = self._byte
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(copied, tensor.storage_offset(), tensor.size(), tensor.stride())


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments or results, including tensors in lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_of(each)


def _bytes_of(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a tensor's elements, one row per element."""
    each = tensor.element_size()
    flat = storage_bytes(tensor.untyped_storage())[each * tensor.storage_offset() :]
    strides = [each * stride for stride in tensor.stride()]
    rows = np.lib.stride_tricks.as_strided(flat, (*tensor.shape, each), (*strides, 1), writeable=False)
    return np.ascontiguousarray(rows).reshape(-1)
