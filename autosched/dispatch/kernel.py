"""Calling a chosen kernel on arrays that are already on the GPU, on the caller's current stream."""

from __future__ import annotations

import importlib
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from autosched.dispatch.given_arrays import (
    ALIGNMENT,
    arguments,
    as_gpu_array,
    check_apart,
    check_array,
    look_at,
    split_outputs,
    torch_of,
    torch_type,
)
from autosched.dispatch.provenance import KernelProvenance
from measurements.runners.launch import LoadedLaunch
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

# Shapes and types of new outputs; and, once the arrays of a call were checked, torch if the first is its, and these.
_ToMake = tuple[tuple[tuple[int, ...], Any], ...]
_Accepted = tuple[Any, _ToMake]


class RuntimeUnavailable(RuntimeError):
    """Kernels cannot be called here. The message is one sentence that says what is missing."""


class LoadedKernel(ABC):
    """A kernel, ready on the GPU that was current when it was loaded. ``provenance`` says where it comes from.

    Call it with the problem's inputs in order, or by name: dense C-contiguous cupy arrays, torch tensors, or whatever
    has ``__cuda_array_interface__`` or ``__dlpack__``, shaped as in memory (a column-major operand is passed
    transposed). A first dimension of 1 may be left out; left out of the first input, it is left out of the result, too.
    The result is a new array of the first input's kind (of cupy's for what is neither a tensor nor cupy's), or ``out``,
    which is written in place; where the problem has several outputs, both are tuples of them. Arrays that a kernel
    reads and writes are inputs, and the result where there is no other. What numpy lacks is torch's or ml_dtypes', or
    the unsigned integers of its bits: bfloat16, float8_e4m3fn and float8_e5m2.

    Everything runs on the current stream of cupy, or of torch where the first input is a tensor. Nothing waits for it.
    The first call on a stream also makes the kernel's workspaces: call it once before a CUDA graph captures it. Any
    number of threads may call one kernel.
    """

    def __init__(self, cp: Any, operands: Sequence[Operand], provenance: KernelProvenance) -> None:
        self.provenance = provenance
        self.inputs = tuple(o for o in operands if o.role in ("input", "inout"))
        self.outputs = tuple(o for o in operands if o.role == "output")
        self._cupy = cp
        self._ndarray = cp.ndarray
        self._gpu = int(cp.cuda.Device().id)
        self._get_device, self._current_stream = cp.cuda.runtime.getDevice, cp.cuda.get_current_stream
        arrays = (*self.inputs, *self.outputs)
        self._names, self._bytes = tuple(o.name for o in arrays), tuple(o.bytes for o in arrays)
        self._written = tuple(i for i, o in enumerate(arrays) if o.role != "input")
        self._accepted: dict[tuple[Any, ...], _Accepted] = {}  # by the looks of a call's arrays

    @abstractmethod
    def _launch(self, starts: Sequence[int]) -> None:
        """Queue the work for arrays at these addresses, of the inputs and then the outputs, on the current stream of
        cupy, on the kernel's GPU."""

    @abstractmethod
    def _bound(self, starts: Sequence[int]) -> Callable[[], None]:
        """``_launch`` for these addresses, as far as it can be prepared."""

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Launch. Raises ValueError for an array on another GPU, or of the wrong type, shape, layout or alignment."""
        starts, outs, torch = self._checked(arrays, out, named)
        self.launch_at(starts, torch)
        return outs if len(outs) > 1 else outs[0]

    def launch_at(self, starts: Sequence[int], torch: Any) -> None:
        """Launch for arrays that begin at these addresses, of the inputs and then the outputs. Nothing is checked.

        It runs on the current stream of ``torch``, or of cupy where that is None.
        """
        # _is_current, without further calls: microseconds count
        if self._get_device() == self._gpu and (
            torch is None or torch_stream(torch, self._gpu) == self._current_stream().ptr
        ):
            self._launch(starts)
        else:
            with self._context(torch):
                self._launch(starts)

    def bind(self, *arrays: Any, out: Any = None, **named: Any) -> BoundKernel:
        """Return the kernel with its arrays: a function without arguments that launches it on them and gives the
        result.

        As a call, but everything is checked once, here. The outputs may follow the inputs in order; without any, they
        are made here, and written by every call. Raises ValueError and TypeError as a call does.
        """
        count = len(self.inputs)
        if out is None and len(arrays) == count + len(self.outputs) > count:
            arrays, out = arrays[:count], arrays[count] if len(self.outputs) == 1 else arrays[count:]
        starts, outs, torch = self._checked(arrays, out, named)
        bound = self._bound(starts)

        def elsewhere() -> None:
            with self._context(torch):
                bound()

        def is_current() -> bool:
            return self._is_current(torch)

        result = outs if len(outs) > 1 else outs[0]
        return BoundKernel(result, bound, elsewhere, is_current, (*arrays, *named.values()))

    def _checked(
        self, arrays: tuple[Any, ...], out: Any, named: Mapping[str, Any]
    ) -> tuple[Sequence[int], tuple[Any, ...], Any]:
        """Where inputs and then outputs begin, the outputs as given or made, and torch if the first input is its."""
        if named or len(arrays) != len(self.inputs):
            by_name = arguments(self.inputs, arrays, named)
            arrays = tuple(by_name[o.name] for o in self.inputs)
        outs: tuple[Any, ...] = ()
        if out is not None:
            if not self.outputs:
                names = ", ".join(self._names[i] for i in self._written)
                raise ValueError(f"the kernel writes {names} in place: leave out out")
            outs = split_outputs(self.outputs, out)
        given: Sequence[Any] = (*arrays, *outs)
        seen = look_at(self._ndarray, given)
        known = None if seen is None else self._accepted.get(seen[0])
        if seen is None or known is None:
            given = [as_gpu_array(self._cupy, name, a) for name, a in zip(self._names, given, strict=False)]
            seen = look_at(self._ndarray, given)
            assert seen is not None
            known = self._accepted[seen[0]] = self._accept(given)
        torch, to_make = known
        _, starts, bits = seen
        if bits % ALIGNMENT:
            self._check_each(given)
        if outs or not self.outputs:
            for i in self._written:
                check_apart(self._names, starts, self._bytes, i)
        else:
            outs = self._made(to_make, torch, given[0])
            starts += [array.data.ptr if torch is None else array.data_ptr() for array in outs]
        if not self.outputs:
            outs = tuple(arrays[i] for i in self._written)
        return starts, outs, torch

    def _accept(self, arrays: Sequence[Any]) -> _Accepted:
        """Check arrays that look as none before."""
        self._check_each(arrays)
        torch = torch_of(arrays[0])
        short = len(arrays[0].shape) < len(self.inputs[0].shape)  # only a first dimension of 1 can be missing
        to_make = []
        for o in self.outputs:
            # An output has the type of the first input whose operand has it: bf16 may be held in several.
            like = next((a for i, a in zip(self.inputs, arrays, strict=False) if i.dtype == o.dtype), None)
            kind: Any = o.dtype.storage
            if torch is not None:
                kind = getattr(torch, torch_type(o.dtype))
            elif isinstance(like, self._ndarray):
                kind = like.dtype
            to_make.append((o.shape[1:] if short else o.shape, kind))
        return torch, tuple(to_make)

    def _check_each(self, arrays: Sequence[Any]) -> None:
        """Raise ValueError for an array that the kernel would misread."""
        for operand, array in zip((*self.inputs, *self.outputs), arrays, strict=False):
            if torch_of(array) is not None:
                kind, gpu, start = str(array.dtype).removeprefix("torch."), array.device.index, array.data_ptr()
                dense = array.is_contiguous()
            else:
                kind, gpu, start = array.dtype.name, array.data.device_id, array.data.ptr
                dense = array.flags.c_contiguous
            if gpu != self._gpu:
                raise ValueError(f"{operand.name} is on GPU {gpu}, and the kernel on GPU {self._gpu}: move one")
            check_array(operand, tuple(array.shape), kind, dense, int(start))

    def _made(self, to_make: _ToMake, torch: Any, first: Any) -> tuple[Any, ...]:
        """Return new outputs on the kernel's GPU."""
        if torch is not None:
            return tuple([first.new_empty(shape, dtype=kind) for shape, kind in to_make])
        empty = self._cupy.empty
        if self._get_device() == self._gpu:
            return tuple([empty(shape, kind) for shape, kind in to_make])
        with self._cupy.cuda.Device(self._gpu):
            return tuple([empty(shape, kind) for shape, kind in to_make])

    # ---- where it runs ----

    def _is_current(self, torch: Any) -> bool:
        """Whether cupy's current GPU and stream are the ones to use."""
        if self._get_device() != self._gpu:
            return False
        if torch is None:
            return True
        return bool(torch_stream(torch, self._gpu) == self._current_stream().ptr)

    def _context(self, torch: Any) -> ExitStack:
        """Return the kernel's GPU and the current stream of cupy, or of torch where it is given."""
        with ExitStack() as entered:
            entered.enter_context(self._cupy.cuda.Device(self._gpu))
            if torch is not None:
                entered.enter_context(_as_current(self._cupy, torch_stream(torch, self._gpu)))
            return entered.pop_all()


class BoundKernel:
    """A kernel and its arrays, which it keeps alive. ``result`` is what every call gives, and writes anew.

    It runs on the stream that is current when it is called.

    Args:
        result: The array that every call gives and writes anew.
        bound: Launches on the current stream of cupy.
        elsewhere: Makes the caller's stream cupy's current one for the launch: that of torch, where arrays are tensors.
        is_current: Whether it is already.
        arrays: What is kept alive.
    """

    __slots__ = ("_arrays", "_bound", "_elsewhere", "_is_current", "result")

    def __init__(
        self,
        result: Any,
        bound: Callable[[], None],
        elsewhere: Callable[[], None],
        is_current: Callable[[], bool],
        arrays: tuple[Any, ...],
    ) -> None:
        self.result = result
        self._bound = bound
        self._elsewhere = elsewhere
        self._is_current = is_current
        self._arrays = arrays

    def __call__(self) -> Any:
        if self._is_current():
            self._bound()
        else:
            self._elsewhere()
        return self.result


class CubinKernel(LoadedKernel):
    """A kernel of ours or of a user's, loaded from its cubin."""

    def __init__(self, cp: Any, launch: Launch, cubin: str, provenance: KernelProvenance) -> None:
        """Load a cubin on the current GPU.

        Args:
            cp: The cupy module.
            launch: Grid, block and operands; ``launch.entry`` is the function's name in the cubin.
            cubin: The path of a file, no longer needed afterwards.
            provenance: Where the kernel comes from.

        Raises:
            LaunchRefused: The cubin was compiled for a different launch; and cupy's errors where it does not load.
        """
        super().__init__(cp, launch.operands, provenance)
        self._loaded = LoadedLaunch(cp, launch, cubin, overlapping=True)
        self._wanted = tuple(o for o in launch.operands if o.role == "workspace")
        self._fills = bool(launch.symbols)
        self._parameters = self._loaded.encoder((*self._names, *(o.name for o in self._wanted)))
        self._run = self._loaded.launch_with
        # By stream: launches on two streams must not share them. The per-thread default stream has one handle in every
        # thread, hence the thread.
        self._workspaces: dict[tuple[int, int], list[Any]] = {}

    def _launch(self, starts: Sequence[int]) -> None:
        if self._fills:
            self._loaded.fill_symbols(dict(zip(self._names, starts, strict=True)))
        self._run(self._parameters([*starts, *self._workspace()] if self._wanted else starts))

    def _bound(self, starts: Sequence[int]) -> Callable[[], None]:
        if self._wanted or self._fills:
            return partial(self._launch, starts)
        return partial(self._run, self._parameters(starts))

    def _workspace(self) -> list[int]:
        cp = self._cupy
        stream = (int(cp.cuda.get_current_stream().ptr), threading.get_ident())
        if stream not in self._workspaces:
            self._workspaces[stream] = [
                (cp.zeros if o.zeroed else cp.empty)(o.shape, np.dtype(o.dtype.storage)) for o in self._wanted
            ]
        return [int(array.data.ptr) for array in self._workspaces[stream]]


def cupy_module() -> Any:
    """cupy, imported where it is needed. Raises RuntimeUnavailable."""
    known = sys.modules.get("cupy")
    if known is not None:
        return known
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise RuntimeUnavailable(
            f"kernels are called through cupy ({error}): pip install 'autosched[cuda13]'"
        ) from error


class _ForeignStream:
    """A stream of another library, in the CUDA stream protocol."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def torch_stream(torch: Any, gpu: int) -> int:
    """Return the address of the current stream of torch on ``gpu``.

    ``torch.cuda.current_stream`` makes an object in Python, which takes a third of a call: the address of a stream that
    was seen before is known by its number. torch numbers the streams of its pools, which it never destroys, and gives
    any other its address as its number.
    """
    number = torch.accelerator.current_stream(gpu).stream_id
    address = _STREAMS.get((gpu, number))
    if address is None:
        address = _STREAMS[gpu, number] = int(torch.cuda.current_stream(gpu).cuda_stream)
    return address


_STREAMS: dict[tuple[int, int], int] = {}


def _as_current(cp: Any, address: int) -> Any:
    """Return a stream as a context of cupy."""
    make: Callable[[Any], Any] | None = getattr(cp.cuda.Stream, "from_external", None)
    return make(_ForeignStream(address)) if make is not None else cp.cuda.ExternalStream(address)  # cupy before 14
