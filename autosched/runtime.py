"""Calling a tuned kernel on arrays that are already on the GPU, on the caller's current stream."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from measurements.compile_cache import Compiled
from measurements.launch import LoadedLaunch
from measurements.record import Record
from search_spaces.hardware.dtypes import DType
from search_spaces.operators.problem import Operand
from search_spaces.templates.kernel import Kernel

ALIGNMENT = 16  # bytes: the widest access of any kernel; what cupy and torch allocate starts at multiples of 256


class RuntimeUnavailable(RuntimeError):
    """Kernels cannot be called here. The message is one sentence that says what is missing."""


class LoadedKernel:
    """A compiled kernel, ready on the current GPU. ``record`` says where it comes from.

    Call it with the problem's inputs in order, or by name: dense C-contiguous cupy arrays, torch tensors, or whatever
    has ``__cuda_array_interface__``, shaped as in memory (a column-major operand is passed transposed). A first
    dimension of 1 may be left out; left out of the first input, it is left out of the result, too. The result is a new
    array of the first input's kind, or ``out``, which is written in place; where the problem has several outputs, both
    are tuples of them. bf16 is torch.bfloat16, or the uint16 of its bits.

    Everything runs on the current stream of cupy, or of torch where the first input is a tensor. Nothing waits for it.
    The first call on a stream also makes the kernel's workspaces: call it once before a CUDA graph captures it.
    """

    def __init__(self, kernel: Kernel, compiled: Compiled, record: Record) -> None:
        """Load ``compiled``, the program of ``kernel``, on the current GPU.

        Raises RuntimeUnavailable without cupy, LaunchRefused for a kernel that was compiled for a different launch.
        """
        self.kernel = kernel
        self.record = record
        self.inputs = tuple(o for o in kernel.operands if o.role == "input")
        self.outputs = tuple(o for o in kernel.operands if o.role == "output")
        self._cupy = _cupy()
        self._gpu = int(self._cupy.cuda.Device().id)
        self._launch = LoadedLaunch(self._cupy, dataclasses.replace(kernel, entry=compiled.entry), str(compiled.path))
        # By stream: launches on two streams must not share them. The per-thread default stream has one handle in every
        # thread, hence the thread.
        self._workspaces: dict[tuple[int, int], dict[str, Any]] = {}

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Launch. Raises ValueError for an array on another GPU, or of the wrong type, shape, layout or alignment."""
        given = bind(self.inputs, arrays, named)
        first = next(iter(given.values()))
        torch = _torch_of(first)
        views = {o.name: self._view(o, given[o.name], torch) for o in self.inputs}
        lead = views[self.inputs[0].name].shape != self.inputs[0].shape
        with self._cupy.cuda.Device(self._gpu), _stream(self._cupy, torch, first):
            if out is None:
                outs = tuple(
                    self._empty(o, o.shape[1:] if lead else o.shape, torch, first, views) for o in self.outputs
                )
            else:
                outs = split_outputs(self.outputs, out)
            for output, array in zip(self.outputs, outs, strict=True):
                views[output.name] = self._view(output, array, torch)
                _check_apart(views, output.name)
            views.update(self._workspace())
            self._launch(views)
        return outs if len(outs) > 1 else outs[0]

    def _view(self, operand: Operand, array: Any, torch: Any) -> Any:
        """``array`` as a checked cupy array over the same memory."""
        cp = self._cupy
        is_tensor = torch is not None and isinstance(array, torch.Tensor)
        if not (array.is_cuda if is_tensor else hasattr(array, "__cuda_array_interface__")):
            raise ValueError(f"{operand.name} must be an array on the GPU (cupy or torch), not {type(array).__name__}")
        is_bf16 = is_tensor and array.dtype is torch.bfloat16
        if is_tensor:  # torch offers no interface for bfloat16, but one for its bits
            array = array.detach().view(torch.int16) if is_bf16 else array.detach()
        view = array if isinstance(array, cp.ndarray) else self._foreign(array)
        if is_bf16:
            view = view.view(cp.uint16)
        if view.device.id != self._gpu:
            raise ValueError(f"{operand.name} is on GPU {view.device.id}, and the kernel on GPU {self._gpu}: move one")
        check_array(operand, view.shape, view.dtype, view.flags.c_contiguous, view.data.ptr)
        return view

    def _foreign(self, array: Any) -> Any:
        """Another library's array as a cupy array, on its own GPU: cupy would copy what is not on the current one."""
        cp = self._cupy
        gpu = cp.cuda.runtime.pointerGetAttributes(array.__cuda_array_interface__["data"][0]).device
        with cp.cuda.Device(max(gpu, 0)):  # negative where there is no memory: an array without elements
            return cp.asarray(array)

    def _empty(self, operand: Operand, shape: tuple[int, ...], torch: Any, first: Any, views: Mapping[str, Any]) -> Any:
        if torch is not None:
            return torch.empty(shape, dtype=getattr(torch, _torch_type(operand.dtype)), device=first.device)
        alike = (views[o.name].dtype for o in self.inputs if o.dtype == operand.dtype)
        return self._cupy.empty(shape, next(alike, np.dtype(operand.dtype.storage)))

    def _workspace(self) -> dict[str, Any]:
        cp = self._cupy
        stream = (int(cp.cuda.get_current_stream().ptr), threading.get_ident())
        if stream not in self._workspaces:
            wanted = [o for o in self.kernel.operands if o.role == "workspace"]
            self._workspaces[stream] = {
                o.name: (cp.zeros if o.zeroed else cp.empty)(o.shape, np.dtype(o.dtype.storage)) for o in wanted
            }
        return self._workspaces[stream]


def _check_apart(views: Mapping[str, Any], output: str) -> None:
    """Raises ValueError where the output shares memory with an input: kernels read inputs as if nothing wrote them."""
    ranges = {name: (view.data.ptr, view.data.ptr + view.nbytes) for name, view in views.items()}
    low, high = ranges.pop(output)
    for name, (start, end) in ranges.items():
        if start < high and low < end:
            raise ValueError(f"{output} overlaps {name} in memory: give it an array of its own")


def bind(inputs: Sequence[Operand], arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
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
    """The arrays of ``out``: itself for one output, its items for several. Raises ValueError for another number."""
    if len(outputs) == 1:
        return (out,)
    if not isinstance(out, (tuple, list)) or len(out) != len(outputs):
        raise ValueError(f"out must be a tuple of {len(outputs)} arrays: {', '.join(o.name for o in outputs)}")
    return tuple(out)


def check_array(operand: Operand, shape: tuple[int, ...], dtype: Any, c_contiguous: bool, address: int) -> None:
    """Raises ValueError for an array that the kernel would misread; ``address`` is that of its first element."""
    name, wanted = operand.name, operand.shape
    if dtype.name not in (operand.dtype.storage, _torch_type(operand.dtype)):
        raise ValueError(f"{name} must hold {operand.dtype.name}, not {dtype.name}: convert it")
    if shape != wanted and (1, *shape) != wanted:
        raise ValueError(f"{name} must have the shape {wanted} in memory, not {shape}: the kernel is made for one size")
    if not c_contiguous:
        raise ValueError(f"{name} must be dense and C-contiguous: copy it, or pass a column-major operand transposed")
    if address % ALIGNMENT:
        raise ValueError(f"{name} must start at a multiple of {ALIGNMENT} bytes, which a view may not do: copy it")


def _torch_type(dtype: DType) -> str:
    """What torch calls the type: as numpy does, except for bf16, which numpy lacks."""
    return "bfloat16" if dtype.name == "bf16" else dtype.storage


def _cupy() -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise RuntimeUnavailable(
            f"kernels are called through cupy ({error}): pip install 'autosched[cuda13]'"
        ) from error


def _torch_of(array: Any) -> Any:
    """The torch module if ``array`` is a tensor; torch is never imported here."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None


class _ForeignStream:
    """A stream of another library, in the CUDA stream protocol."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def _stream(cp: Any, torch: Any, first: Any) -> Any:
    """The current stream of the library that the first input belongs to, as a context of cupy."""
    if torch is None or not first.is_cuda:
        return cp.cuda.get_current_stream()
    address = int(torch.cuda.current_stream(first.device).cuda_stream)
    make: Callable[[Any], Any] | None = getattr(cp.cuda.Stream, "from_external", None)
    return make(_ForeignStream(address)) if make is not None else cp.cuda.ExternalStream(address)  # cupy before 14
