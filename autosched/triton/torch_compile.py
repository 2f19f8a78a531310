"""Support ``torch.compile`` within ``emulated``: Inductor generates Triton kernels for the device instead of C++.

Only this file uses internals of torch's compiler. Tested with torch 2.13 and 2.14.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import triton

_ABSENT = object()
_SETTINGS = {
    "cpu_backend": "triton",
    "compile_threads": 1,  # compile in this process, because other processes have no emulated device
    "autotune_local_cache": False,  # off, because the cache's key does not contain the name of the emulated device
    "benchmark_epilogue_fusion": False,  # off, because the C++ wrapper for CPU tensors cannot launch Triton
}


def in_compiler() -> bool:
    """Return True if the caller is torch's compiler, to which tensors report their actual devices."""
    return torch._guards.TracingContext.try_get() is not None


@contextmanager
def torch_compiled(fake_cuda: bool) -> Iterator[None]:
    """Make ``torch.compile`` generate Triton kernels for CPU tensors within the context.

    Functions compiled outside the context are compiled again within, and vice versa.

    Args:
        fake_cuda: If True, tensors on ``cuda:0`` are also supported.
    """
    compiles = torch.compile
    with ExitStack() as stack:

        def first(*arguments: Any, **named: Any) -> Any:
            """Prepare torch's compiler only when a program first uses it, because importing it takes seconds."""
            torch.compile = compiles
            stack.enter_context(_prepared(fake_cuda))
            return compiles(*arguments, **named)

        if "torch._dynamo" in sys.modules:
            stack.enter_context(_prepared(fake_cuda))
        else:
            torch.compile = first
        try:
            yield
        finally:
            torch.compile = compiles


@contextmanager
def _prepared(fake_cuda: bool) -> Iterator[None]:
    config = importlib.import_module("torch._inductor.config")
    helpers = importlib.import_module("torch._inductor.runtime.triton_helpers")
    interface = importlib.import_module("torch._dynamo.device_interface").CpuInterface
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    names = importlib.import_module("torch._inductor.runtime.triton_compat")
    detection = importlib.import_module("torch.utils._triton")
    benchmarking = importlib.import_module("torch._inductor.runtime.benchmarking")
    replaced: list[tuple[Any, str, Any]] = [
        (
            detection,
            "has_triton",
            lambda: True,
        ),  # prevents the compiler from tracing the host code of the program's own kernels
        # For CPU tensors Inductor looks up Triton's backend, driver and target under "cpu".
        (interface, "raise_if_triton_unavailable", staticmethod(lambda *_: None)),
        (helpers, "set_driver_to_cpu", lambda: None),
        *(
            (owner, "GPUTarget", lambda *_: triton.runtime.driver.active.get_current_target())
            for owner in (heuristics, names)
        ),
        (benchmarking.benchmarker, "benchmark_cpu", lambda call, **_: triton.runtime.driver.active.do_bench(call)),
    ]
    if fake_cuda:
        tensor = importlib.import_module("torch._dynamo.variables.tensor").TensorVariable
        replaced.append(
            (torch.accelerator, "is_available", lambda: False)
        )  # prevents the compiler from querying CUDA's current stream
        replaced += [(tensor, name, _on_cuda(getattr(tensor, name))) for name in _ATTRIBUTES]
    before = [vars(owner).get(name, _ABSENT) for owner, name, _ in replaced]
    has_triton = detection.has_triton
    _forget()
    for owner, name, replacement in replaced:
        setattr(owner, name, replacement)
    try:
        with config.patch(_SETTINGS):
            yield
    finally:
        for (owner, name, _), original in zip(replaced, before, strict=True):
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        if hasattr(has_triton, "cache_clear"):  # clear the cached answer, which is that a GPU exists
            has_triton.cache_clear()
        _forget()


def _forget() -> None:
    """Drop compiled code, because Inductor's cache keys do not include the device that the code is for."""
    torch.compiler.reset()
    importlib.import_module("torch._inductor.codecache").PyCodeCache.cache_clear()
    importlib.import_module("torch._inductor.async_compile").CompiledTritonKernels.cache_clear()


_ATTRIBUTES = ("method_attr_device", "method_attr_is_cuda")  # attributes by which a traced program sees the device


def _on_cuda(answers: Callable[..., Any]) -> Callable[..., Any]:
    """Return attributes that make a CPU tensor appear to be on the GPU."""

    def answered(self: Any, tx: Any) -> Any:
        on_cpu = self.device is not None and self.device.type == "cpu"
        return answers(SimpleNamespace(device=torch.device("cuda", 0)) if on_cpu else self, tx)

    return answered
