"""Make torch treat CPU tensors as GPU tensors, so that a launch's host code can be timed without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import torch


@contextmanager
def cpu_tensors_as_cuda() -> Iterator[None]:
    """Make tensors report a GPU whose current stream is the default stream."""
    default = SimpleNamespace(cuda_stream=0)
    with (
        mock.patch.object(torch.Tensor, "is_cuda", property(lambda _: True), create=True),
        mock.patch.object(torch.cuda, "current_stream", lambda index: default),
        # torch.accelerator.current_stream, which is not replaced, calls this function
        mock.patch.object(torch._C, "_accelerator_getStream", _default_stream),
    ):
        yield


def _default_stream(index: int) -> torch.Stream:
    return torch.Stream(stream_id=0, device_index=0, device_type=1)
