"""Calls of a loaded kernel on GPU arrays, on the caller's current stream."""

from __future__ import annotations

import importlib
import math
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
    signature_of,
    split_outputs,
    torch_of,
    torch_type,
)
from autosched.dispatch.provenance import KernelProvenance
from measurements.runners.cuda.core_gpu import CoreGpu
from measurements.runners.driver_steps import DriverStep, driver_steps
from measurements.runners.launch import LoadedLaunch
from search_spaces.arrays import Array
from search_spaces.launches.launch import Launch, ScalarArgument
from search_spaces.launches.operand import Operand, stride_of

# ``_NewOutputs`` has the shape and type of each new output. ``_Accepted`` is a pair: the torch module if the checked
# arrays are tensors (else None), and the new outputs.
_NewOutputs = tuple[tuple[tuple[int, ...], Any], ...]
_Accepted = tuple[Any, _NewOutputs]


class RuntimeUnavailable(RuntimeError):
    """This machine cannot launch kernels. The message is one sentence that names the missing component."""


class LoadedKernel(ABC):
    """A kernel that is loaded on one GPU. ``provenance`` describes the trial or model that selected it.

    Call the kernel with the problem's inputs in order, or by name. Inputs are dense C-contiguous cupy arrays, torch
    tensors, or objects with ``__cuda_array_interface__`` or ``__dlpack__``. Inputs have the shapes of the arrays in
    memory, so a column-major operand is passed transposed. A first dimension of 1 may be omitted. If the first input
    omits this dimension, the result omits it too. The result is ``out``, written in place, or a new array of the first
    input's library (cupy by default). If the problem has several outputs, ``out`` and the result are tuples. Arrays
    that the kernel modifies in place are passed as inputs; they are the result if the kernel has no outputs. For types
    that numpy lacks (bfloat16, float8_e4m3fn and float8_e5m2), use types of torch or ml_dtypes, or unsigned integers
    with the same bits. Scalar arguments are passed by name (``kernel(x, eps=1e-6)``); an omitted scalar has the value
    that the kernel was tuned with.

    The kernel is queued on cupy's current stream, or on torch's if the first input is a tensor. No call waits for the
    kernel. The first call on a stream also allocates the kernel's workspaces: call it once before a CUDA graph captures
    it. Thread-safe.
    """

    def __init__(self, cp: Any, operands: Sequence[Operand], provenance: KernelProvenance) -> None:
        self.provenance = provenance
        self.inputs = tuple(o for o in operands if o.role in ("input", "inout"))
        self.outputs = tuple(o for o in operands if o.role == "output")
        # function that packs weights; None if the kernel does not read packed weights
        self.packing: Callable[[Any], Any] | None = None
        self.packed: LoadedKernel | None = None  # kernel for calls with packed weights; None: use this kernel
        self._cupy = cp
        self._ndarray = cp.ndarray
        self._gpu = int(cp.cuda.Device().id)
        self._get_device, self._current_stream = cp.cuda.runtime.getDevice, cp.cuda.get_current_stream
        arrays = (*self.inputs, *self.outputs)
        self._names, self._bytes = tuple(o.name for o in arrays), tuple(o.bytes for o in arrays)
        self._written = tuple(i for i, o in enumerate(arrays) if o.role != "input")
        self._changed = tuple(i for i, o in enumerate(arrays) if o.role == "inout")
        # results of checking arrays, by the signature of the arrays
        self._accepted: dict[tuple[Any, ...], _Accepted] = {}
        self.scalars: tuple[ScalarArgument, ...] = ()

    @abstractmethod
    def _launch(self, starts: Sequence[Any]) -> None:
        """Queue the kernel on cupy's current stream.

        Args:
            starts: Addresses of inputs, then of outputs, then optionally the values of all scalars. Default: the
                default values of the scalars.
        """

    @abstractmethod
    def _bound(self, starts: Sequence[Any]) -> Callable[[], None]:
        """Return a function that launches the kernel on these addresses, with the launch arguments already packed."""

    def _passed(self, named: dict[str, Any]) -> list[Array]:
        """Remove the scalars from a call's named arguments, and return the scalars' values as kernel parameters.

        Raises ValueError for a scalar of another type or out of range.
        """
        return [(s.passing(named.pop(s.name)) if s.name in named else s).stored for s in self.scalars]

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Launch the kernel.

        Raises ValueError for an array on another GPU, or with a wrong type, shape, layout or alignment, and for a
        scalar out of range.
        """
        if self.packed is not None and self._are_packed(self.packed, arrays, named):
            return self.packed(*arrays, out=out, **named)
        passed = self._passed(named) if self.scalars else ()
        starts, outs, torch = self._checked(arrays, out, named)
        if passed:
            starts = [*starts, *passed]
        self.launch_at(starts, torch)
        return outs if len(outs) > 1 else outs[0]

    def pack(self, w: Any) -> Any:
        """Return weights in the layout that this kernel reads. Pack once per layer, and pass the result to calls.

        Args:
            w: Weights in rows, as ``quantized_matmul`` accepts them, or ``b`` of a matmul whose kernel copies ``b`` to
                padded lines. A numpy or cupy array, or a tensor.

        Returns:
            The packed weights, of the same type and library as ``w``.

        Raises:
            ValueError: The kernel has no packed inputs, or ``w`` has another shape.
        """
        if self.packing is None:
            raise ValueError("this kernel reads unpacked arrays: call it without pack")
        return self.packing(w)

    def _are_packed(self, packed: LoadedKernel, arrays: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Return True if an array of a call is packed: its lines have the length that the packed kernel expects."""
        by_position = dict(zip((o.name for o in self.inputs), arrays, strict=False))
        for own, other in zip(self.inputs, packed.inputs, strict=True):
            shape = getattr(named.get(own.name, by_position.get(own.name)), "shape", None)
            if own.shape != other.shape and shape and shape[-1] == other.shape[-1]:
                return True
        return False

    def launch_at(self, starts: Sequence[Any], torch: Any) -> None:
        """Launch the kernel without any checks. ``starts`` has the addresses of inputs and outputs, as in ``_launch``.

        Runs on the current stream of ``torch``, or on cupy's if ``torch`` is None.
        """
        # ``_is_current`` is inlined to save time per call
        if self._get_device() == self._gpu and (
            torch is None or torch_stream(torch, self._gpu) == self._current_stream().ptr
        ):
            self._launch(starts)
        else:
            with self._context(torch):
                self._launch(starts)

    @property
    def by_stream(self) -> bool:
        """True if ``driver_steps`` depends on stream and thread, because each pair has separate workspaces."""
        return False

    def driver_steps(self, names: Sequence[str], starts: Sequence[int], torch: Any) -> tuple[DriverStep, ...] | None:
        """Return the driver launches of a call, for callers that queue the launches themselves.

        Args:
            names: Names of the inputs and outputs, in any order.
            starts: Addresses of these arrays.
            torch: The torch module if the launches use torch's current stream; None if they use cupy's.

        Returns:
            The launches; None if the call also needs other work.
        """
        return None

    def bind(self, *arrays: Any, out: Any = None, **named: Any) -> BoundKernel:
        """Return a function without arguments that launches the kernel on these arrays and returns the result.

        Arrays are checked only by ``bind``, not by the returned function, and the values of scalars are fixed. Outputs
        may be passed after the inputs. Otherwise outputs are allocated once, and every call overwrites them.

        Args:
            arrays: Inputs, optionally followed by the outputs.
            out: Outputs, as in a call.
            named: Inputs and scalars by name.

        Returns:
            The bound kernel.

        Raises:
            ValueError: As in a call.
            TypeError: As in a call.
        """
        if self.packed is not None and self._are_packed(self.packed, arrays, named):
            return self.packed.bind(*arrays, out=out, **named)
        count = len(self.inputs)
        if out is None and len(arrays) == count + len(self.outputs) > count:
            arrays, out = arrays[:count], arrays[count] if len(self.outputs) == 1 else arrays[count:]
        passed = self._passed(named) if self.scalars else ()
        starts, outs, torch = self._checked(arrays, out, named)
        bound = self._bound([*starts, *passed])

        def elsewhere() -> None:
            with self._context(torch):
                bound()

        def is_current() -> bool:
            return self._is_current(torch)

        result = outs if len(outs) > 1 else outs[0]
        return BoundKernel(result, bound, elsewhere, is_current, (*arrays, *named.values()))

    def _checked(
        self, arrays: tuple[Any, ...], out: Any, named: Mapping[str, Any]
    ) -> tuple[Sequence[Any], tuple[Any, ...], Any]:
        """Check the arrays. Return the addresses of inputs and outputs, the passed or new outputs, and torch or None.

        The torch module is returned if the first input is a tensor.
        """
        if named or len(arrays) != len(self.inputs):
            by_name = arguments(self.inputs, arrays, named)
            arrays = tuple(by_name[o.name] for o in self.inputs)
        outs: tuple[Any, ...] = ()
        if out is not None:
            if not self.outputs:
                names = ", ".join(self._names[i] for i in self._written)
                raise ValueError(f"the kernel modifies {names} in place: omit out=")
            outs = split_outputs(self.outputs, out)
        checked: Sequence[Any] = (*arrays, *outs)
        seen = signature_of(self._ndarray, checked)
        known = None if seen is None else self._accepted.get(seen[0])
        if seen is None or known is None:
            checked = [as_gpu_array(self._cupy, name, a) for name, a in zip(self._names, checked, strict=False)]
            seen = signature_of(self._ndarray, checked)
            assert seen is not None
            known = self._accepted[seen[0]] = self._accept(checked)
        torch, new_outputs = known
        _, starts, bits = seen
        if bits % ALIGNMENT:
            self._check_each(checked)
        for i in self._written if outs or not self.outputs else self._changed:
            check_apart(self._names, starts, self._bytes, i)
        if self.outputs and not outs:
            outs = self._new_outputs(new_outputs, torch, checked[0])
            starts += [array.data.ptr if torch is None else array.data_ptr() for array in outs]
        if not self.outputs:
            outs = tuple(arrays[i] for i in self._written)
        return starts, outs, torch

    def _accept(self, arrays: Sequence[Any]) -> _Accepted:
        """Check arrays whose signature was not checked before."""
        self._check_each(arrays)
        torch = torch_of(arrays[0])
        # only a first dimension of 1 can be omitted
        short = len(arrays[0].shape) < len(self.inputs[0].shape)
        new_outputs = []
        for o in self.outputs:
            # bf16 arrays may have several numpy types: give the outputs the type of the first bf16 input.
            like = next((a for i, a in zip(self.inputs, arrays, strict=False) if i.dtype == o.dtype), None)
            kind: Any = o.dtype.storage
            if torch is not None:
                kind = getattr(torch, torch_type(o.dtype))
            elif isinstance(like, self._ndarray):
                kind = like.dtype
            new_outputs.append((o.shape[1:] if short else o.shape, kind))
        return torch, tuple(new_outputs)

    def _check_each(self, arrays: Sequence[Any]) -> None:
        """Raise ValueError for an array of the wrong type, shape, layout, alignment or GPU."""
        for operand, array in zip((*self.inputs, *self.outputs), arrays, strict=False):
            if torch_of(array) is not None:
                kind, gpu, start = str(array.dtype).removeprefix("torch."), array.get_device(), array.data_ptr()
                dense, strides, unit = array.is_contiguous(), array.stride(), 1
            else:
                kind, gpu, start = array.dtype.name, array.data.device_id, array.data.ptr
                dense, strides, unit = array.flags.c_contiguous, array.strides, operand.dtype.bytes
            if operand.columns is not None and len(array.shape) == len(operand.shape):
                stride = stride_of(operand.name, array.shape, strides, unit)
                dense = stride == operand.shape[-1] or math.prod(array.shape[:-1]) == 1
            if gpu != self._gpu:
                raise ValueError(
                    f"{operand.name} is on GPU {gpu}, but the kernel is on GPU {self._gpu}: copy the array to that GPU"
                )
            check_array(operand, tuple(array.shape), kind, dense, int(start))

    def _new_outputs(self, new_outputs: _NewOutputs, torch: Any, first: Any) -> tuple[Any, ...]:
        """Return new outputs on the kernel's GPU."""
        if torch is not None:
            return tuple([first.new_empty(shape, dtype=kind) for shape, kind in new_outputs])
        empty = self._cupy.empty
        if self._get_device() == self._gpu:
            return tuple([empty(shape, kind) for shape, kind in new_outputs])
        with self._cupy.cuda.Device(self._gpu):
            return tuple([empty(shape, kind) for shape, kind in new_outputs])

    # ---- current GPU and stream ----

    def _is_current(self, torch: Any) -> bool:
        """Return True if cupy's current GPU and stream already are the kernel's GPU and the caller's stream."""
        if self._get_device() != self._gpu:
            return False
        if torch is None:
            return True
        return bool(torch_stream(torch, self._gpu) == self._current_stream().ptr)

    def _context(self, torch: Any) -> ExitStack:
        """Make the kernel's GPU current. With ``torch``, also set cupy's current stream to torch's current stream."""
        with ExitStack() as entered:
            entered.enter_context(self._cupy.cuda.Device(self._gpu))
            if torch is not None:
                entered.enter_context(_as_current(self._cupy, torch_stream(torch, self._gpu)))
            return entered.pop_all()


class BoundKernel:
    """A kernel bound to fixed arrays. Keeps the arrays alive.

    The kernel runs on the stream that is current at the call.

    Args:
        result: Array that every call writes and returns.
        bound: Function that launches the kernel on cupy's current stream.
        elsewhere: Function that returns a context manager. Within this context, cupy's current stream is the caller's
            stream (for tensors, torch's current stream).
        is_current: Function that returns True if the caller's stream already is cupy's current stream.
        arrays: Arrays to keep alive.
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
        """Launch the kernel on the current stream, and return the result."""
        if self._is_current():
            self._bound()
        else:
            self._elsewhere()
        return self.result


class CubinKernel(LoadedKernel):
    """A generated kernel or a user's kernel, loaded from its cubin."""

    def __init__(
        self, cp: Any, launch: Launch, cubin: str, provenance: KernelProvenance, names: Sequence[str] = ()
    ) -> None:
        """Load a cubin on the current GPU.

        Args:
            cp: The cupy module.
            launch: Grid, block and operands; ``launch.entry`` is the function's name in the cubin.
            cubin: Path of the cubin, not needed after loading.
            provenance: Source of the kernel.
            names: Names of the problem's operands, in the order of a call's arguments. Default: the order of the
                launch.

        Raises:
            LaunchRefused: The cubin was compiled for a different launch. If the cubin cannot be loaded, cupy's errors
                are raised.
        """
        order = {name: i for i, name in enumerate(names)}
        super().__init__(cp, sorted(launch.operands, key=lambda o: order.get(o.name, len(order))), provenance)
        self._loaded = LoadedLaunch(cp, launch, cubin, overlapping=True)
        self._wanted = tuple(o for o in launch.operands if o.role == "workspace")
        self._fills = bool(launch.symbols)
        passed = [a for a in launch.arguments if isinstance(a, ScalarArgument) and a.limits is not None]
        self.scalars = tuple(passed)
        self._usual = [scalar.stored for scalar in passed]
        trailing = (*(scalar.name for scalar in passed), *(o.name for o in self._wanted))
        self._parameters = self._loaded.encoder((*self._names, *trailing))
        self._run = self._loaded.launch_with
        # Workspaces by stream and thread, because concurrent launches must not share workspaces. The stream alone is
        # not sufficient as a key, because the per-thread default stream has the same handle in every thread.
        self._workspaces: dict[tuple[int, int], list[Any]] = {}

    def _launch(self, starts: Sequence[Any]) -> None:
        if self._fills:
            self._loaded.fill_symbols(dict(zip(self._names, starts, strict=False)))
        starts = self._with_scalars(starts)
        self._run(self._parameters([*starts, *self._workspace()] if self._wanted else starts))

    def _bound(self, starts: Sequence[Any]) -> Callable[[], None]:
        if self._wanted or self._fills:
            return partial(self._launch, starts)
        return partial(self._run, self._parameters(self._with_scalars(starts)))

    def _with_scalars(self, starts: Sequence[Any]) -> Sequence[Any]:
        """Append the scalars' default values to ``starts`` (addresses of arrays), unless it already has scalars."""
        return [*starts, *self._usual] if self._usual and len(starts) == len(self._names) else starts

    @property
    def by_stream(self) -> bool:
        """True if the kernel has workspaces."""
        return bool(self._wanted)

    def driver_steps(self, names: Sequence[str], starts: Sequence[int], torch: Any) -> tuple[DriverStep, ...] | None:
        """Return the launches of a call; None if the call also needs other work, such as writes to constant memory."""
        if set(names) != set(self._names):  # the operands differ from the arrays of the call
            return None
        with self._context(torch):
            workspace = self._workspace() if self._wanted else []
        all_names = (*names, *(o.name for o in self._wanted))
        return driver_steps(self._loaded, all_names, [*starts, *workspace], fixed=len(workspace))

    def _workspace(self) -> list[int]:
        cp = self._cupy
        stream = (int(cp.cuda.get_current_stream().ptr), threading.get_ident())
        if stream not in self._workspaces:
            self._workspaces[stream] = [
                (cp.zeros if o.zeroed else cp.empty)(o.shape, np.dtype(o.dtype.storage)) for o in self._wanted
            ]
        return [int(array.data.ptr) for array in self._workspaces[stream]]


def gpu_library() -> Any:
    """Return the library that loads and launches kernels: cupy, or ``CoreGpu`` if cupy is not installed.

    Raises RuntimeUnavailable if neither is installed.
    """
    known = sys.modules.get("cupy") or _without_cupy.get("library")
    if known is not None:
        return known
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        why = str(error)
    try:
        return _without_cupy.setdefault("library", CoreGpu())
    except ImportError as error:
        raise RuntimeUnavailable(
            f"kernels cannot be called without cupy ({why}) or cuda.core ({error}): pip install 'autosched[cuda13]'"
        ) from error


_without_cupy: dict[str, CoreGpu] = {}


class _ForeignStream:
    """Stream of another library, as an object with the method ``__cuda_stream__``."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def torch_stream(torch: Any, gpu: int) -> int:
    """Return the address of torch's current stream on ``gpu``.

    ``torch.cuda.current_stream`` creates a Python object, which takes a third of a call's time. Addresses of streams
    are therefore cached by torch's stream number. Cached addresses stay valid: torch never destroys its pooled streams,
    which have small numbers, and the number of any other stream is its address.
    """
    number = torch.accelerator.current_stream(gpu).stream_id
    address = _STREAMS.get((gpu, number))
    if address is None:
        address = _STREAMS[gpu, number] = int(torch.cuda.current_stream(gpu).cuda_stream)
    return address


_STREAMS: dict[tuple[int, int], int] = {}


def _as_current(cp: Any, address: int) -> Any:
    """Return a context manager that makes the stream at ``address`` cupy's current stream."""
    from_external: Callable[[Any], Any] | None = getattr(cp.cuda.Stream, "from_external", None)
    return (
        from_external(_ForeignStream(address)) if from_external is not None else cp.cuda.ExternalStream(address)
    )  # ExternalStream: for cupy before 14
