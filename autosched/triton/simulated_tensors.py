"""Tensors on a simulated GPU: their attributes, copies between devices, and operators.

All tensors are on the CPU. ``Storages`` records which tensors the program expects on the host; all other tensors report
``cuda:0``. The attributes of ``torch.Tensor`` itself are replaced, so that the simulation also covers other threads and
code below the dispatcher.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autosched.triton.simulated_autograd import in_autograd
from autosched.triton.storages import Host, Storages
from autosched.triton.streams import StreamOrder
from autosched.triton.torch_compile import in_compiler
from autosched.triton.undefined import UndefinedValues

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
_TENSOR = torch._C.TensorBase  # operators that must see the tensor's actual device
_FACTORIES = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
_WAITING = (
    "_local_scalar_dense",
    "is_nonzero",
    "equal",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
)  # operators that make the host wait for the device
_BUILT_IN = ("aten", "prim", "prims", "inductor", "quantized", "mkldnn", "profiler", "rngprims", "higher_order")


def on_cpu(value: Any) -> Any:
    """Replace a device that is a GPU by the CPU; return other values unchanged."""
    return CPU if is_cuda(value) else value


def is_cuda(device: Any) -> bool:
    """Return True if a device, or its name, is a GPU."""
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    return isinstance(device, str) and (device == "cuda" or device.startswith("cuda:"))


def is_index(device: Any) -> bool:
    """Return True if a device is specified by its index, such as the result of ``torch.cuda.current_device()``."""
    return isinstance(device, int) and not isinstance(device, bool)


def tensor_attributes(storages: Storages, streams: StreamOrder, values: UndefinedValues | None) -> dict[str, Any]:
    """Return replacements for attributes of ``torch.Tensor`` that simulate one GPU.

    Args:
        storages: Registry of tensors.
        streams: Object to which copies, and reads by the host, are reported.
        values: Object to which reads by the host are reported; None to treat all memory as written.

    Returns:
        The attributes by name.
    """

    def device(tensor: torch.Tensor) -> torch.device:
        actual = _TENSOR.device.__get__(tensor)
        # in_compiler() comes before host_of(), because tensors of torch's compiler may have no storage
        is_device = actual.type == "cpu" and not in_compiler() and storages.host_of(tensor) is None
        return CUDA if is_device else actual

    def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        requested, changes, non_blocking = destination(args, kwargs)
        requested = CUDA if is_index(requested) else torch.device(requested) if requested is not None else None
        if requested is not None and requested.type not in ("cpu", "cuda"):
            return _TENSOR.to(tensor, *args, **kwargs)
        result = _TENSOR.to(tensor, **changes) if changes else tensor
        if requested is None or (requested.type == "cpu") == (storages.host_of(tensor) is not None):
            return result
        moved = result if storage_address(result) != storage_address(tensor) else result.clone()
        # torch also allocates the target of an asynchronous copy in pinned memory
        host: Host = "pinned" if non_blocking else "plain"
        storages.set_host(moved, host if requested.type == "cpu" else None)
        streams.copy(tensor, moved, non_blocking=non_blocking)
        return moved

    def pinned(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        if storages.host_of(tensor) != "plain":
            return tensor
        result = tensor.clone()
        storages.set_host(result, "pinned")
        return result

    def read_by_host(name: str, *, is_shown: bool = False) -> Callable[..., Any]:
        """Wrap a ``torch.Tensor`` method that gives the host access to memory, so that the access is reported."""
        read = getattr(torch.Tensor, name)

        def reads(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not in_compiler():
                streams.host_reads(tensor)
                if values is not None:
                    values.read_by_host(tensor, name, is_shown=is_shown)
            return read(tensor, *args, **kwargs)

        return reads

    return {
        "device": property(device),
        "is_cuda": property(lambda tensor: device(tensor).type == "cuda"),
        "is_cpu": property(lambda tensor: device(tensor).type == "cpu"),
        "get_device": lambda tensor: device(tensor).index if device(tensor).type == "cuda" else -1,
        "to": to,
        "cuda": lambda tensor, device=None, *args, **kwargs: to(tensor, CUDA, *args, **kwargs),
        "cpu": lambda tensor, *args, **kwargs: to(tensor, CPU, *args, **kwargs),
        "pin_memory": pinned,
        "is_pinned": lambda tensor, *_: storages.host_of(tensor) == "pinned",
        "record_stream": lambda tensor, stream: streams.record_stream(tensor, stream.number),
        "numpy": read_by_host("numpy"),
        "tolist": read_by_host("tolist"),
        "__repr__": read_by_host("__repr__", is_shown=True),
    }


def storage_address(tensor: torch.Tensor) -> int | None:
    """Return the address of a tensor's storage; None for tensors without a storage, such as sparse tensors."""
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else None


def destination(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any], bool]:
    """Parse a call of any overload of ``Tensor.to``; return its device, its other conversions and ``non_blocking``."""
    first, *rest = args or (None,)
    if isinstance(first, torch.dtype | torch.Tensor):
        keywords = {"dtype" if isinstance(first, torch.dtype) else "other": first}
        names: tuple[str, ...] = ("non_blocking", "copy")
    else:
        keywords = {"device": first} if args else {}
        names = ("memory_format",) if rest and isinstance(rest[0], torch.memory_format) else ()
        names = names or ("dtype", "non_blocking", "copy")
    keywords |= dict(zip(names, rest, strict=False)) | kwargs
    other = keywords.pop("other", None)
    if other is not None:
        keywords |= {"device": other.device, "dtype": other.dtype}
    requested = keywords.pop("device", None)
    non_blocking = bool(keywords.pop("non_blocking", False))
    changes = {name: value for name, value in keywords.items() if value is not None and value is not False}
    return requested, changes, non_blocking


class DeviceArguments(TorchFunctionMode):  # type: ignore[misc]
    """Replaces devices in the arguments of torch's functions by the CPU, and records the device of each result."""

    def __init__(self, storages: Storages, streams: StreamOrder) -> None:
        super().__init__()
        self._storages = storages
        self._streams = streams

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device:
            index = args[0] if args else kwargs.get("device")
            return func("cuda", index) if is_index(index) else func(*args, **kwargs)
        if (not kwargs and not any(is_cuda(a) for a in args)) or func is torch._C._nn._parse_to:
            return func(*args, **kwargs)
        pinned = bool(kwargs.pop("pin_memory", False))
        device = kwargs.get("device")
        moves = is_cuda(device) or is_index(device) or any(is_cuda(a) for a in args)
        if "device" in kwargs:
            kwargs["device"] = CPU if is_index(device) else on_cpu(device)
        result = func(*[on_cpu(a) for a in args], **kwargs)
        # this branch is skipped while torch's compiler traces the function
        is_placed = (moves or pinned) and not torch.compiler.is_compiling()
        if is_placed and isinstance(result, torch.Tensor):
            self._storages.set_host(result, None if moves else "pinned")
            if moves:
                self._created(getattr(func, "__name__", ""), result)
        return result

    def _created(self, name: str, tensor: torch.Tensor) -> None:
        """Register a tensor that the program has created on the device."""
        self._streams.memory_allocated(tensor)
        if name in ("tensor", "as_tensor", "asarray"):
            # the host waits, because the data was copied from host memory
            self._streams.synchronize(self._streams.current)
        elif name not in _FACTORIES:
            self._streams.operator(name, (), (tensor,))


class TrackedTensors(TorchDispatchMode):  # type: ignore[misc]
    """Tracks every new tensor, and the reads and writes of torch's operators.

    Args:
        storages: Registry of tensors.
        values: Tracks values that depend on unwritten memory; None to treat memory of ``torch.empty`` as written.
        streams: Object to which memory accesses of operators are reported, if a GPU is simulated.
        arguments: ``DeviceArguments`` if a GPU is simulated. Then tensors that torch's C++ code creates on CUDA are
            tensors of this GPU, and kernels that the program registered for CUDA are called.
    """

    supports_higher_order_operators = True  # for example, launches through ``torch.library.wrap_triton``

    def __init__(
        self,
        storages: Storages,
        values: UndefinedValues | None,
        streams: StreamOrder | None = None,
        arguments: DeviceArguments | None = None,
    ) -> None:
        super().__init__()
        self._storages = storages
        self._values = values
        self._streams = streams
        self._arguments = arguments
        self._last_host: Host | None = None  # source line of each thread's last operator that returned tensors

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False.

        If the result were True, torch would import its compiler, so that the compiler skips this mode. The import takes
        seconds.
        """
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that ``torch.compile`` works in this mode, which intercepts the compiled operators."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not hasattr(func, "_schema"):
            # do not handle a higher-order operator: the operators that it calls are intercepted
            return func(*args, **kwargs)
        host: Host | None = None
        if self._arguments is not None:
            if func.namespace not in _BUILT_IN and (key := self._backend(func, args, kwargs)) is not None:
                with self._arguments, self:
                    return func.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)
            # torch.tensor calls this operator with data in host memory
            is_fresh = func is torch.ops.aten.lift_fresh.default
            host = "plain" if is_fresh else self._host_of_result(args, kwargs)
            if "device" in kwargs or "pin_memory" in kwargs:
                kwargs = {name: on_cpu(value) for name, value in kwargs.items() if name != "pin_memory"}
            if (
                func is torch.ops.aten.histc.default and not args[0].is_floating_point()
            ):  # convert to float first, because on CUDA this operator also accepts integers
                return func(args[0].double(), *args[1:], **kwargs).to(args[0].dtype)
        name, is_view = _described(func)
        values = self._values if self._values is not None and not is_view else None
        judged = values.run(func, args, kwargs) if values is not None and values.concern(name, args, kwargs) else None
        result = judged.result if judged is not None else func(*args, **kwargs)
        new = []
        for tensor, alias in zip(_results(result), _aliases(func, result), strict=False):
            if alias is None:
                undefined = self._values is not None and name in _FACTORIES
                self._storages.add(tensor, undefined=undefined, on_host=host is not None)
                new.append(tensor)
            if host is not None and (alias is None or name == "lift_fresh"):
                self._storages.set_host(tensor, host)
        if judged is not None and values is not None:
            values.settle(judged, new, list(_written(func, args, kwargs)))
            return self._used(func, name, args, kwargs, result, new)
        for tensor in _written(func, args, kwargs):
            self._storages.define(tensor)
        return result if is_view else self._used(func, name, args, kwargs, result, new)

    def _used(
        self, func: Any, name: str, args: Any, kwargs: dict[str, Any], result: Any, new: list[torch.Tensor]
    ) -> Any:
        """Report an operator's memory accesses to ``StreamOrder``, and return the operator's result."""
        streams = self._streams
        if name == "lift_fresh" or self._arguments is None or streams is None:
            return result
        for tensor in new if streams.is_active else ():
            if self._storages.host_of(tensor) is None:
                streams.memory_allocated(tensor)
        if name == "copy_" and isinstance(args[1], torch.Tensor) and self._on_both_sides(args[0], args[1]):
            streams.copy(args[1], args[0], non_blocking=bool(args[2] if len(args) > 2 else kwargs.get("non_blocking")))
            return result
        written = [*_written(func, args, kwargs), *(new if name not in _FACTORIES else ())]
        read = [t for t in _inputs(args, kwargs) if all(t is not w for w in written)] if streams.is_active else []
        if read or written:
            streams.operator(name or func._schema.name, read, written)
        if name in _WAITING:
            streams.synchronize(streams.current)
        return result

    def _on_both_sides(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        return (self._storages.host_of(a) is None) != (self._storages.host_of(b) is None)

    def _host_of_result(self, args: Any, kwargs: dict[str, Any]) -> Host | None:
        """Return the type of host memory of a new tensor, or None if the tensor is on the simulated GPU."""
        tensors = list(_inputs(args, kwargs))
        if tensors:
            self._last_host = self._common_host(tensors)
        if in_autograd():  # the compiler's factories use the actual device of a tensor, which is always the CPU
            return self._last_host
        if is_cuda(kwargs.get("device")):
            return None
        if kwargs.get("pin_memory"):
            return "pinned"
        if kwargs.get("device") is not None:
            return "plain"
        return self._common_host(tensors)

    def _common_host(self, tensors: Sequence[torch.Tensor]) -> Host | None:
        """Return "plain" (pageable memory) if all tensors are on the host, else None."""
        return "plain" if all(self._storages.host_of(t) is not None for t in tensors) else None

    def _backend(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the dispatch key of the kernel to call for an operator: the one registered for CUDA, or else for CPU.

        Returns None for kernels that only the dispatcher can select, such as kernels for sparse tensors.
        """
        tensors = list(_inputs(args, kwargs))
        if any(t.layout is not torch.strided or type(t).__torch_dispatch__ is not _DISABLED for t in tensors):
            return None
        is_on_device = not tensors or not all(self._storages.host_of(t) for t in tensors)
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        if is_on_device and has_kernel(func.name(), "CUDA"):
            return torch._C.DispatchKey.CUDA
        has_one = has_kernel(func.name(), "CPU") or has_kernel(func.name(), "CompositeExplicitAutograd")
        return torch._C.DispatchKey.CPU if has_one else None


_DISABLED = torch.Tensor.__torch_dispatch__


@lru_cache(maxsize=4096)
def _described(func: Any) -> tuple[str, bool]:
    """Return the name of an ATen operator ("" for other operators), and whether results are views of the arguments."""
    schema = func._schema
    is_view = bool(schema.returns) and all(r.alias_info is not None for r in schema.returns) and not schema.is_mutable
    return schema.name.removeprefix("aten::") if func.namespace == "aten" else "", is_view


def modes(storages: Storages, streams: StreamOrder, values: UndefinedValues | None) -> ExitStack:
    """Return a stack of the torch modes that each thread of a program needs for the simulated GPU."""

    class Modes(ExitStack):
        def __enter__(self) -> Modes:
            super().__enter__()
            arguments = DeviceArguments(storages, streams)
            self.enter_context(TrackedTensors(storages, values, streams, arguments))
            self.enter_context(arguments)
            return self

    return Modes()


def thread_run(entered: Callable[[], ExitStack]) -> Callable[[threading.Thread], None]:
    """Return a replacement of ``threading.Thread.run`` that enters the modes of the program in the new thread."""
    run = threading.Thread.run

    def run_with_modes(thread: threading.Thread) -> None:
        with entered():
            run(thread)

    return run_with_modes


def _inputs(args: Any, kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among an operator's arguments, including tensors in lists."""
    for value in (*args, *kwargs.values()):
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, torch.Tensor):
                yield each


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _results(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else _tensors(result)


def _aliases(func: Any, result: Any) -> list[Any]:
    """Return the alias that the schema states for each result, or None for new memory.

    A result that is a list of tensors has a single entry.
    """
    returns = func._schema.returns
    tensors = _results(result)
    if len(returns) == len(tensors):
        return [r.alias_info for r in returns]
    return [returns[0].alias_info if returns else None] * len(tensors)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    if not func._schema.is_mutable or torch.Tag.inplace_view in func.tags:
        return  # for example `t_`, which modifies the tensor's shape and strides but not its memory
    for k, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[k] if k < len(args) else kwargs.get(argument.name)
        yield from _results(value)
