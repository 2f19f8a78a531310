"""One GPU that is not here: ``torch.cuda`` answers for it, and what a program puts there stays on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from search_spaces.hardware.devices import Device

_CPU = torch.device("cpu")
_CUDA = torch.device("cuda", 0)
_MOVES = ("cuda", "to", "cpu")
_ABSENT = object()


class PretendedCuda(TorchFunctionMode):  # type: ignore[misc]
    """Within it the program sees one GPU. Tensors are on the CPU and say that they are on ``cuda:0``.

    ``clock`` returns the milliseconds of the pretended device, for events.
    """

    def __init__(self, device: Device, clock: Callable[[], float]) -> None:
        super().__init__()
        self._replaced = [
            *((torch.cuda, name, answer) for name, answer in _answers(device, clock).items()),
            *((torch.accelerator, name, answer) for name, answer in _accelerator_answers().items()),
            (torch, "Generator", _CpuGenerator),
            # Of torch built with CUDA; code that its compiler has generated imports them from here.
            (torch._C, "_cuda_getCurrentRawStream", lambda _device: PretendedStream.cuda_stream),
            (torch._C._dynamo.guards, "_empty_strided_cuda", _empty_strided),
        ]
        self._before: list[Any] = []

    def __enter__(self) -> PretendedCuda:
        self._before = [getattr(owner, name, _ABSENT) for owner, name, _ in self._replaced]
        for owner, name, answer in self._replaced:
            setattr(owner, name, answer)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for (owner, name, _), before in zip(self._replaced, self._before, strict=True):
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device:
            index = args[0] if args else kwargs.get("device")
            return func("cuda", index) if _is_index(index) else func(*args, **kwargs)
        attribute = getattr(func, "__self__", None)  # where the function is the getter of one
        if attribute is torch.Tensor.device:
            real = func(*args, **kwargs)
            return _CUDA if real.type == "cpu" else real
        if attribute is torch.Tensor.is_cuda:
            return True
        if attribute is torch.Tensor.is_cpu:
            return False
        if func is torch.Tensor.get_device:
            return 0
        name = getattr(func, "__name__", "")
        if name in ("pin_memory", "record_stream"):
            return args[0] if name == "pin_memory" else None
        if name in _MOVES and args and isinstance(args[0], torch.Tensor):
            return _moved(func, name, args, kwargs)
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False
        if "device" in kwargs:
            kwargs["device"] = _CPU if _is_index(kwargs["device"]) else on_cpu(kwargs["device"])
        return func(*[on_cpu(a) for a in args], **kwargs)


class _DeviceGenerator:
    """The state of a GPU's generator, seed and offset, which kernels with random numbers of their own read and move."""

    def __init__(self) -> None:
        self._state = torch.tensor([0, 0], dtype=torch.int64).view(torch.uint8)

    def get_state(self) -> torch.Tensor:
        return self._state.clone()

    def set_state(self, state: torch.Tensor) -> None:
        self._state = state.clone()


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)


class _CpuGenerator(torch.Generator):  # type: ignore[misc]
    """A generator of the CPU, whichever device is asked for."""

    def __new__(cls, device: Any = "cpu") -> _CpuGenerator:
        made: _CpuGenerator = super().__new__(cls, on_cpu(device))
        return made


def on_cpu(value: Any) -> Any:
    """Turn a device that is a GPU into the CPU; all else stays."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return _CPU
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return _CPU
    return value


def _is_index(value: Any) -> bool:
    """Whether it is a GPU by its number, as ``torch.cuda.current_device()`` gives it."""
    return isinstance(value, int) and not isinstance(value, bool)


def _moved(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
    """Leave a tensor that moves to the GPU; copy one that moves to the host, which later launches do not change."""
    tensor = args[0]
    if name == "cuda":
        return tensor
    if name == "cpu":
        return tensor.clone()
    wanted, changes = _destination(args[1:], kwargs)
    to_host = wanted is not None and not _is_index(wanted) and torch.device(wanted).type == "cpu"
    result = func(tensor, **changes) if changes else tensor
    return result.clone() if to_host and result is tensor else result


def _destination(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the device that ``Tensor.to`` is given in one of its three forms, and by name what else it changes."""
    first, *rest = args or (None,)
    if isinstance(first, torch.dtype | torch.Tensor):
        given = {"dtype" if isinstance(first, torch.dtype) else "other": first}
        names: tuple[str, ...] = ("non_blocking", "copy")
    else:
        given = {"device": first} if args else {}
        names = ("dtype", "non_blocking", "copy")
    given |= dict(zip(names, rest, strict=False)) | kwargs
    other = given.pop("other", None)
    if other is not None:
        given |= {"device": other.device, "dtype": other.dtype}
    wanted = given.pop("device", None)
    given.pop("non_blocking", None)
    if given.get("dtype") is None:
        given.pop("dtype", None)
    return wanted, given


class PretendedStream:
    """A stream on which everything is done at once."""

    cuda_stream = 0
    device = _CUDA
    device_index = 0
    priority = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> PretendedStream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, _stream: Any) -> None:
        pass

    def wait_event(self, _event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event

    def query(self) -> bool:
        return True


def _event_class(clock: Callable[[], float]) -> type:
    class PretendedEvent:
        """An event at a time of the pretended device."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._at = clock()

        def record(self, _stream: Any = None) -> None:
            self._at = clock()

        def elapsed_time(self, end: PretendedEvent) -> float:
            return max(end._at - self._at, 1e-6)

        def wait(self, _stream: Any = None) -> None:
            pass

        def synchronize(self) -> None:
            pass

        def query(self) -> bool:
            return True

    return PretendedEvent


class _DeviceContext:
    """``with torch.cuda.device(0)``."""

    def __init__(self, _device: Any) -> None:
        self.idx = 0

    def __enter__(self) -> _DeviceContext:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


@contextmanager
def _stream(_stream: Any) -> Any:
    yield


def _accelerator_answers() -> dict[str, Any]:
    """Of ``torch.accelerator``. It is not available to who asks that: torch would ask CUDA for the current stream."""
    return {
        "current_accelerator": lambda check_available=False: None if check_available else torch.device("cuda"),
        "device_count": lambda: 1,
        "current_device_index": lambda: 0,
        "set_device_index": lambda _device: None,
        "synchronize": lambda _device=None: None,
    }


def _answers(device: Device, clock: Callable[[], float]) -> dict[str, Any]:
    major, minor = divmod(device.sm, 10)
    name = device.driver_names[0] if device.driver_names else device.name
    properties = SimpleNamespace(
        name=name,
        major=major,
        minor=minor,
        total_memory=device.memory_bytes,
        multi_processor_count=device.sm_count,
        max_threads_per_multi_processor=device.max_threads_per_sm,
        regs_per_multiprocessor=device.registers_per_sm,
        shared_memory_per_block=min(49152, device.shared_per_block),
        shared_memory_per_block_optin=device.shared_per_block,
        shared_memory_per_multiprocessor=device.shared_per_sm,
        warp_size=device.warp_size,
        L2_cache_size=device.l2_bytes,
        gcnArchName=f"sm_{device.sm}",
        is_integrated=0,
        is_multi_gpu_board=0,
    )
    current = PretendedStream()

    def answer(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    return {
        "is_available": answer(True),
        "is_initialized": answer(True),
        "init": answer(None),
        "device_count": answer(1),
        "current_device": answer(0),
        "set_device": answer(None),
        "get_device_name": answer(name),
        "get_device_capability": answer((major, minor)),
        "get_device_properties": answer(properties),
        "_get_device_properties": answer(properties),  # of torch built with CUDA; torch's compiler calls what calls it
        "get_arch_list": answer([f"sm_{device.sm}"]),
        "is_bf16_supported": answer(True),
        "synchronize": answer(None),
        "empty_cache": answer(None),
        "ipc_collect": answer(None),
        "current_stream": answer(current),
        "default_stream": answer(current),
        "set_stream": answer(None),
        "stream": _stream,
        "Stream": PretendedStream,
        "ExternalStream": PretendedStream,
        "Event": _event_class(clock),
        "device": _DeviceContext,
        "device_of": _DeviceContext,
        "_DeviceGuard": _DeviceContext,  # of generated code
        "memory_allocated": answer(0),
        "max_memory_allocated": answer(0),
        "memory_reserved": answer(0),
        "max_memory_reserved": answer(0),
        "reset_peak_memory_stats": answer(None),
        "mem_get_info": answer((device.memory_bytes, device.memory_bytes)),
        "default_generators": (_DeviceGenerator(),),
        "get_rng_state": lambda *_: torch.default_generator.get_state(),
        "set_rng_state": lambda state, *_: torch.default_generator.set_state(state),
        # Not `torch.manual_seed`, which calls these.
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        "is_current_stream_capturing": answer(False),
    }
