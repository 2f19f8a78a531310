"""One GPU that is not here: ``torch.cuda`` answers for it, and what a program puts there stays on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from autosched.triton.simulated_tensors import CUDA, modes, on_cpu, tensor_attributes, thread_run
from autosched.triton.storages import Storages
from autosched.triton.streams import StreamOrder, stream_classes
from autosched.triton.undefined import UndefinedValues
from search_spaces.hardware.devices import Device

_ABSENT = object()
_CUDA_VERSION = "13.0"  # of the wheels of torch 2.13


class SimulatedCuda:
    """Within it the program sees one GPU. Tensors are on the CPU and say that they are on ``cuda:0``.

    Args:
        device: The GPU that ``torch.cuda`` describes.
        clock: Returns the milliseconds of the simulated device, for events.
        storages: Where the program's tensors are noted.
        streams: Follows its streams.
        values: Follows values that depend on memory which nobody has written; None: such memory counts as written.
    """

    def __init__(
        self,
        device: Device,
        clock: Callable[[], float],
        storages: Storages,
        streams: StreamOrder,
        values: UndefinedValues | None,
    ) -> None:
        self._modes = partial(modes, storages, streams, values)
        self._replaced = [
            *((torch.cuda, name, answer) for name, answer in _answers(device, clock, streams).items()),
            *((torch.accelerator, name, answer) for name, answer in _accelerator_answers(streams).items()),
            *((torch.Tensor, name, answer) for name, answer in tensor_attributes(storages, streams, values).items()),
            (threading.Thread, "run", thread_run(self._modes)),
            (torch, "Generator", _CpuGenerator),
            (torch, "from_numpy", _noted_on_host(torch.from_numpy, storages)),
            (torch.version, "cuda", _CUDA_VERSION),
            # Of torch built with CUDA; code that its compiler has generated imports them from here.
            (torch._C, "_cuda_getCurrentRawStream", lambda _device: torch.cuda.current_stream().cuda_stream),
            (torch._C._dynamo.guards, "_empty_strided_cuda", _empty_strided),
        ]
        self._entered = ExitStack()

    def __enter__(self) -> SimulatedCuda:
        for owner, name, answer in self._replaced:
            self._entered.callback(_restored, owner, name, vars(owner).get(name, _ABSENT))
            setattr(owner, name, answer)
        self._entered.enter_context(self._modes())
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.close()


def _restored(owner: Any, name: str, before: Any) -> None:
    if before is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def _noted_on_host(make: Callable[..., torch.Tensor], storages: Storages) -> Callable[..., torch.Tensor]:
    def made(*args: Any) -> torch.Tensor:
        tensor = make(*args)
        storages.place(tensor, "plain")
        return tensor

    return made


class _DeviceGenerator:
    """The state of a GPU's generator, seed and offset, which kernels with random numbers of their own read and move."""

    def __init__(self) -> None:
        self._state = torch.tensor([0, 0], dtype=torch.int64).view(torch.uint8)

    def get_state(self) -> torch.Tensor:
        return self._state.clone()

    def set_state(self, state: torch.Tensor) -> None:
        self._state = state.clone()


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


class _CpuGenerator(torch.Generator):  # type: ignore[misc]
    """A generator of the CPU, whichever device is asked for."""

    def __new__(cls, device: Any = "cpu") -> _CpuGenerator:
        made: _CpuGenerator = super().__new__(cls, on_cpu(device))
        return made


class _DeviceContext:
    """``with torch.cuda.device(0)``."""

    def __init__(self, _device: Any) -> None:
        self.idx = 0

    def __enter__(self) -> _DeviceContext:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def _accelerator_answers(streams: StreamOrder) -> dict[str, Any]:
    """Of ``torch.accelerator``. It is not available to who asks that: torch would ask CUDA for the current stream."""
    return {
        "current_accelerator": lambda check_available=False: None if check_available else torch.device("cuda"),
        "device_count": lambda: 1,
        "current_device_index": lambda: 0,
        "set_device_index": lambda _device: None,
        "synchronize": lambda _device=None: streams.synchronize(),
    }


def _answers(device: Device, clock: Callable[[], float], streams: StreamOrder) -> dict[str, Any]:
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

    def answer(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    return {
        "is_available": answer(True),
        "is_initialized": answer(True),
        "init": answer(None),
        "_lazy_init": answer(None),  # which factories below the dispatcher call
        "device_count": answer(1),
        "current_device": answer(0),
        "set_device": answer(None),
        "get_device_name": answer(name),
        "get_device_capability": answer((major, minor)),
        "get_device_properties": answer(properties),
        "_get_device_properties": answer(properties),  # of torch built with CUDA; torch's compiler calls what calls it
        "get_arch_list": answer([f"sm_{device.sm}"]),
        "is_bf16_supported": answer(True),
        "empty_cache": answer(None),
        "ipc_collect": answer(None),
        **stream_classes(streams, clock, CUDA),
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
