"""Which bytes of a program's tensors hold values."""

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
        for k in range(2000):  # of growing sizes, so that an allocator does not give the same address again
            storages.add(torch.empty(1000 + k), undefined=True)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 4_000_000  # all flags together have 16 MB
    assert storages.defined(alive.untyped_storage()) is not None
    assert storages.holding(alive.data_ptr() + 4) is not None
