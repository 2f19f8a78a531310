"""Record of which bytes of a program's tensors have been written."""

import gc
import tracemalloc

import pytest

torch = pytest.importorskip("torch")

from autosched.triton.storages import Storages  # noqa: E402
from autosched.triton.undefined import UndefinedValues  # noqa: E402


def test_flags_of_freed_storages_are_freed():
    storages = Storages()
    alive = torch.empty(4)
    storages.add(alive, undefined=True)
    tracemalloc.start()
    try:
        for _ in range(20):  # the 200 tensors are alive together, so that their addresses differ
            for tensor in [torch.empty(1000) for _ in range(200)]:
                storages.add(tensor, undefined=True)
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert allocated < 2_000_000  # flags of all 4,000 tensors would take 16 MB
    assert storages.defined(alive.untyped_storage()) is not None
    assert storages.holding(alive.data_ptr() + 4) is not None


def test_an_operator_that_overwrites_its_tensor_runs_once():
    """Running the operator again on a copy would need several times the tensor's memory."""
    storages = Storages()
    values = UndefinedValues(storages, lambda *_: None)
    undefined, defined = torch.empty(4), torch.zeros(4)
    storages.add(undefined, undefined=True)
    for name, arguments in (("zero_", (undefined,)), ("fill_", (undefined, 2)), ("copy_", (undefined, defined))):
        assert not values.concern(name, arguments, {})
    assert values.concern("copy_", (defined, undefined), {})
    assert values.concern("add_", (undefined, 2), {})
