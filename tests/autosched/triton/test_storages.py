"""Which bytes of a program's tensors hold values."""

import gc
import tracemalloc

import pytest

torch = pytest.importorskip("torch")

from autosched.triton.storages import Storages  # noqa: E402


def test_flags_of_freed_storages_are_freed():
    storages = Storages()
    alive = torch.empty(4)
    storages.add(alive, undefined=True)
    tracemalloc.start()
    try:
        for _ in range(20):  # alive together, so that they have different addresses
            for tensor in [torch.empty(1000) for _ in range(200)]:
                storages.add(tensor, undefined=True)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 2_000_000  # flags of all 4,000 tensors have 16 MB
    assert storages.defined(alive.untyped_storage()) is not None
    assert storages.holding(alive.data_ptr() + 4) is not None
