"""Run Helion kernels on CPU tensors by compiling and emulating them for a GPU that need not exist."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import helion.runtime
from torch.utils._python_dispatch import _disable_current_modes

from autosched.triton import emulated
from search_spaces.hardware.devices import Device


@contextmanager
def emulating(device: Device) -> Iterator[Any]:
    """Within the context, bind and run Helion's kernels on CPU tensors, with emulated launches. Yields the session."""
    with emulated(device.name, fake_cuda=False, check=False) as session, on_cpu_tensors(device):
        yield session


@contextmanager
def on_cpu_tensors(device: Device) -> Iterator[None]:
    """Within the context, answer Helion's queries about the GPU with ``device``.

    Torch modes are disabled, because none may be active while Helion traces kernels.
    """

    def multiprocessors(_: Any, *, reserved_sms: int = 0) -> int:
        return max(device.sm_count - reserved_sms, 1)

    # Persistent kernels query the number of SMs, but Helion does not support this query for CPU tensors.
    with _disable_current_modes(), patch.object(helion.runtime, "get_num_sm", multiprocessors):
        yield
