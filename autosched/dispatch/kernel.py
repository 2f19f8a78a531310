"""Calling a chosen kernel on arrays that are already on the GPU, on the caller's current stream."""

from __future__ import annotations

import importlib
import math
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autosched.dispatch.provenance import KernelProvenance
from measurements.runners.launch import LoadedLaunch
from search_spaces.hardware.dtypes import NAMES, DType
from search_spaces.operators.problem import Operand
from search_spaces.templates.kernel import Launch

ALIGNMENT = 16  # bytes: the widest access of any kernel; what cupy and torch allocate starts at multiples of 256
_CUDA = 2  # kDLCUDA of DLPack


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
        self._get_device = cp.cuda.runtime.getDevice
        self._expected = tuple(_Expected.of(o) for o in self.inputs)
        self._expected_out = tuple(_Expected.of(o) for o in self.outputs)
        self._written = tuple(o.name for o in (*self.inputs, *self.outputs) if o.role != "input")
        # An output has the type of the first input whose operand has it: bf16 may be held in several.
        self._like = tuple(
            next((i for i, o in enumerate(self.inputs) if o.dtype == out.dtype), None) for out in self.outputs
        )

    @abstractmethod
    def _launch(self, at: Mapping[str, int]) -> None:
        """Queue the work for arrays at these addresses on the current stream of cupy, on the kernel's GPU."""

    @abstractmethod
    def _bound(self, at: Mapping[str, int]) -> Callable[[], None]:
        """``_launch`` for these addresses, as far as it can be prepared."""

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Launch. Raises ValueError for an array on another GPU, or of the wrong type, shape, layout or alignment."""
        at, outs, torch, first = self._checked(arrays, out, named)
        self._launch_for(at, torch, first)
        return outs if len(outs) > 1 else outs[0]

    def launch_at(self, at: Mapping[str, int], first: Any) -> None:
        """Launch for arrays that begin at these addresses, by the names of inputs and outputs. Nothing is checked.

        It runs on the current stream of the library that ``first``, a cupy array or a tensor, belongs to.
        """
        if first.__class__ is self._ndarray and self._get_device() == self._gpu:  # no further calls: microseconds count
            self._launch(at)
        else:
            self._launch_for(at, torch_of(first), first)

    def _launch_for(self, at: Mapping[str, int], torch: Any, first: Any) -> None:
        if self._is_current(torch, first):
            self._launch(at)
        else:
            with self._context(torch, first):
                self._launch(at)

    def bind(self, *arrays: Any, out: Any = None, **named: Any) -> BoundKernel:
        """Return the kernel with its arrays: a function without arguments that launches it on them and gives the
        result.

        As a call, but everything is checked once, here. The outputs may follow the inputs in order; without any, they
        are made here, and written by every call. Raises ValueError and TypeError as a call does.
        """
        count = len(self.inputs)
        if out is None and len(arrays) == count + len(self.outputs) > count:
            arrays, out = arrays[:count], arrays[count] if len(self.outputs) == 1 else arrays[count:]
        at, outs, torch, first = self._checked(arrays, out, named)
        bound = self._bound(at)

        def elsewhere() -> None:
            with self._context(torch, first):
                bound()

        def is_current() -> bool:
            return self._is_current(torch, first)

        result = outs if len(outs) > 1 else outs[0]
        return BoundKernel(result, bound, elsewhere, is_current, (*arrays, *named.values()))

    def _checked(
        self, arrays: Sequence[Any], out: Any, named: Mapping[str, Any]
    ) -> tuple[dict[str, int], tuple[Any, ...], Any, Any]:
        """Addresses of all arrays by name, the outputs as given or made, torch if the first input is its, and that."""
        if named or len(arrays) != len(self.inputs):
            given = arguments(self.inputs, arrays, named)
            arrays = [given[o.name] for o in self.inputs]
        first = arrays[0]
        torch = None if first.__class__ is self._ndarray else torch_of(first)
        at = {e.name: self._address(e, array) for e, array in zip(self._expected, arrays, strict=True)}
        if not self.outputs:
            if out is not None:
                raise ValueError(f"the kernel writes {', '.join(self._written)} in place: leave out out")
            outs = tuple(a for o, a in zip(self.inputs, arrays, strict=True) if o.role == "inout")
        elif out is None:
            outs = self._new(arrays, torch)
        else:
            outs = split_outputs(self.outputs, out)
        for e, array in zip(self._expected_out, outs, strict=False):
            at[e.name] = self._address(e, array)
        if out is not None or not self.outputs:
            self._check_apart(at)
        return at, outs, torch, first

    def _new(self, arrays: Sequence[Any], torch: Any) -> tuple[Any, ...]:
        """Return outputs to be written, on the kernel's GPU."""
        first = arrays[0]
        dimensions = first.shape if hasattr(first, "shape") else first.__cuda_array_interface__["shape"]
        short = len(dimensions) < len(self.inputs[0].shape)  # only a first dimension of 1 can be missing
        shapes = [o.shape[1:] if short else o.shape for o in self.outputs]
        if torch is not None:
            kinds = [getattr(torch, _torch_type(o.dtype)) for o in self.outputs]
            return tuple(
                torch.empty(shape, dtype=kind, device=first.device) for shape, kind in zip(shapes, kinds, strict=True)
            )
        types = [
            arrays[i].dtype if i is not None and arrays[i].__class__ is self._ndarray else o.dtype.storage
            for o, i in zip(self.outputs, self._like, strict=True)
        ]
        empty = self._cupy.empty
        if self._get_device() == self._gpu:
            return tuple(empty(shape, kind) for shape, kind in zip(shapes, types, strict=True))
        with self._cupy.cuda.Device(self._gpu):
            return tuple(empty(shape, kind) for shape, kind in zip(shapes, types, strict=True))

    def _address(self, expected: _Expected, array: Any) -> int:
        """Where a checked array begins. Raises ValueError for one that the kernel would misread."""
        torch = None
        if array.__class__ is not self._ndarray:
            torch = torch_of(array)
            array = as_gpu_array(self._cupy, expected.name, array)
        if torch is not None:
            kind, gpu, address = str(array.dtype).removeprefix("torch."), array.device.index, int(array.data_ptr())
            strides, (whole, short) = array.stride(), expected.elements
        else:
            pointer = array.data
            kind, gpu, address = array.dtype, pointer.device_id, pointer.ptr
            strides, (whole, short) = array.strides, expected.bytes
        shape = array.shape
        # What is right is seen at once; only what is not is looked at in detail. Strides are faster to compare than
        # flags are to get.
        if (
            ((shape == expected.shape and strides == whole) or (shape == expected.short and strides == short))
            and kind in expected.types
            and gpu == self._gpu
            and not address % ALIGNMENT
        ):
            return int(address)
        if gpu != self._gpu:
            raise ValueError(f"{expected.name} is on GPU {gpu}, and the kernel on GPU {self._gpu}: move one")
        name = kind if isinstance(kind, str) else kind.name
        dense = array.is_contiguous() if torch is not None else array.flags.c_contiguous
        check_array(expected.operand, tuple(shape), name, dense, int(address))
        return int(address)

    def _check_apart(self, at: Mapping[str, int]) -> None:
        sizes = {o.name: o.bytes for o in (*self.inputs, *self.outputs)}
        for name in self._written:
            check_apart({other: (start, sizes[other]) for other, start in at.items()}, name)

    # ---- where it runs ----

    def _is_current(self, torch: Any, first: Any) -> bool:
        """Whether cupy's current GPU and stream are the ones to use."""
        if self._get_device() != self._gpu:
            return False
        if torch is None:
            return True
        current = self._cupy.cuda.get_current_stream().ptr
        return bool(torch.cuda.current_stream(first.device).cuda_stream == current)

    def _context(self, torch: Any, first: Any) -> ExitStack:
        """Return the kernel's GPU, and the current stream of the library that the first input belongs to."""
        with ExitStack() as entered:
            entered.enter_context(self._cupy.cuda.Device(self._gpu))
            if torch is not None:
                entered.enter_context(_torch_stream(self._cupy, torch, first))
            return entered.pop_all()


class BoundKernel:
    """A kernel and its arrays, which it keeps alive. ``result`` is what every call gives, and writes anew.

    It runs on the stream that is current when it is called.
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


class CompiledKernel(LoadedKernel):
    """A kernel of ours or of a user's, loaded from its cubin."""

    def __init__(self, cp: Any, launch: Launch, cubin: str, provenance: KernelProvenance) -> None:
        """Load ``cubin`` (the path of a file, no longer needed afterwards) on the current GPU; ``launch.entry`` is the
        function's name in it.

        Raises LaunchRefused for a kernel that was compiled for a different launch, and cupy's errors where it does not
        load.
        """
        super().__init__(cp, launch.operands, provenance)
        self._loaded = LoadedLaunch(cp, launch, cubin)
        self._wanted = tuple(o for o in launch.operands if o.role == "workspace")
        self._fills = bool(launch.symbols)
        # By stream: launches on two streams must not share them. The per-thread default stream has one handle in every
        # thread, hence the thread.
        self._workspaces: dict[tuple[int, int], dict[str, Any]] = {}

    def _launch(self, at: Mapping[str, int]) -> None:
        if self._fills:
            self._loaded.fill_symbols(at)
        self._loaded.launch_with(self._loaded.parameters({**at, **self._workspace()} if self._wanted else at))

    def _bound(self, at: Mapping[str, int]) -> Callable[[], None]:
        if self._wanted or self._fills:
            return partial(self._launch, at)
        return partial(self._loaded.launch_with, self._loaded.parameters(at))

    def _workspace(self) -> dict[str, int]:
        cp = self._cupy
        stream = (int(cp.cuda.get_current_stream().ptr), threading.get_ident())
        if stream not in self._workspaces:
            self._workspaces[stream] = {
                o.name: (cp.zeros if o.zeroed else cp.empty)(o.shape, np.dtype(o.dtype.storage)) for o in self._wanted
            }
        return {name: int(array.data.ptr) for name, array in self._workspaces[stream].items()}


@dataclass(frozen=True)
class _Expected:
    """An operand as its arrays look. ``short`` is the shape without a first dimension of 1, ``types`` what numpy and
    torch call its type; the strides of dense arrays of both shapes in ``bytes``, as cupy has them, and in
    ``elements``, as torch has."""

    operand: Operand
    name: str
    shape: tuple[int, ...]
    short: tuple[int, ...]
    types: tuple[Any, ...]
    bytes: tuple[tuple[int, ...], tuple[int, ...]]
    elements: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, operand: Operand) -> _Expected:
        shape = operand.shape
        short = shape[1:] if shape[:1] == (1,) else shape
        types = (np.dtype(operand.dtype.storage), _torch_type(operand.dtype))
        whole = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        elements = whole, whole[len(shape) - len(short) :]
        in_bytes = [tuple(stride * operand.dtype.bytes for stride in strides) for strides in elements]
        return cls(operand, operand.name, shape, short, types, (in_bytes[0], in_bytes[1]), elements)


def as_gpu_array(cp: Any, name: str, array: Any) -> Any:
    """``array`` itself if it is cupy's or a tensor on a GPU, else a cupy array over its memory, on its own GPU.

    Raises ValueError for what is on no GPU. cupy alone would copy what is not on the current one.
    """
    torch = torch_of(array)
    if isinstance(array, cp.ndarray) or (torch is not None and array.is_cuda):
        return array
    if torch is None and hasattr(array, "__cuda_array_interface__"):
        gpu = cp.cuda.runtime.pointerGetAttributes(array.__cuda_array_interface__["data"][0]).device
        with cp.cuda.Device(max(gpu, 0)):  # negative where there is no memory: an array without elements
            return cp.asarray(array)
    if torch is None and hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] == _CUDA:
        return cp.from_dlpack(array)
    raise ValueError(f"{name} must be an array on the GPU (cupy or torch), not {type(array).__name__}")


def check_apart(places: Mapping[str, tuple[int, int]], output: str) -> None:
    """Raise ValueError where the output shares memory with another array: kernels read inputs as if nothing wrote them.
    ``places`` are addresses and bytes."""
    low, size = places[output]
    for name, (start, length) in places.items():
        if name != output and start < low + size and low < start + length:
            raise ValueError(f"{output} overlaps {name} in memory: give it an array of its own")


def arguments(inputs: Sequence[Operand], arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call by the names of the inputs. Raises TypeError as Python does for a function's arguments."""
    names = [o.name for o in inputs]
    if len(arrays) > len(names):
        raise TypeError(f"the kernel takes {', '.join(names)}, and {len(arrays)} arrays were given")
    given = dict(zip(names, arrays, strict=False))
    for name, array in named.items():
        if name not in names or name in given:
            raise TypeError(f"the kernel takes {', '.join(names)}, each once: {name} is one too many")
        given[name] = array
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"the kernel takes {', '.join(names)}: {', '.join(missing)} is missing")
    return given


def split_outputs(outputs: Sequence[Operand], out: Any) -> tuple[Any, ...]:
    """Return the arrays of ``out``: itself for one output, its items for several. Raises ValueError for another
    number."""
    if len(outputs) == 1:
        return (out,)
    if not isinstance(out, (tuple, list)) or len(out) != len(outputs):
        raise ValueError(f"out must be a tuple of {len(outputs)} arrays: {', '.join(o.name for o in outputs)}")
    return tuple(out)


def check_array(operand: Operand, shape: tuple[int, ...], dtype: str, c_contiguous: bool, address: int) -> None:
    """Raise ValueError for an array that the kernel would misread; ``address`` is that of its first element."""
    name, wanted = operand.name, operand.shape
    if dtype not in (operand.dtype.storage, _torch_type(operand.dtype)):
        raise ValueError(f"{name} must hold {operand.dtype.name}, not {dtype}: convert it")
    if shape != wanted and (1, *shape) != wanted:
        raise ValueError(f"{name} must have the shape {wanted} in memory, not {shape}: the kernel is made for one size")
    if not c_contiguous:
        raise ValueError(f"{name} must be dense and C-contiguous: copy it, or pass a column-major operand transposed")
    if address % ALIGNMENT:
        raise ValueError(f"{name} must start at a multiple of {ALIGNMENT} bytes, which a view may not do: copy it")


def _torch_type(dtype: DType) -> str:
    """Return what torch and ml_dtypes call the type: as numpy does, except for those that numpy lacks."""
    return NAMES.get(dtype.name, dtype.storage)


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


def torch_of(array: Any) -> Any:
    """Return the torch module if ``array`` is a tensor; torch is never imported here."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None


class _ForeignStream:
    """A stream of another library, in the CUDA stream protocol."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def _torch_stream(cp: Any, torch: Any, first: Any) -> Any:
    """Return the current stream of torch on the GPU of ``first``, as a context of cupy."""
    address = int(torch.cuda.current_stream(first.device).cuda_stream)
    make: Callable[[Any], Any] | None = getattr(cp.cuda.Stream, "from_external", None)
    return make(_ForeignStream(address)) if make is not None else cp.cuda.ExternalStream(address)  # cupy before 14
