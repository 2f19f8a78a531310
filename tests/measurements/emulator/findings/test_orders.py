"""Blocks and threads run in the given ``Order``. Correct kernels give equal results; some orders expose faults."""

from __future__ import annotations

import numpy as np
import pytest

from measurements.emulator import Order, emulate
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand

KINDS = ("ascending", "descending", "alternating", "interleaved", "random")
TICKETS = """
extern "C" __global__ void tickets(unsigned* counter, unsigned* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1u);
}
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_every_order_has_every_block_once(kind: str, count: int) -> None:
    assert sorted(Order(kind, seed=3).of(count).tolist()) == list(range(count))  # type: ignore[arg-type]


def test_orders_match_their_names() -> None:
    assert Order("descending").of(4).tolist() == [3, 2, 1, 0]
    assert Order("alternating").of(5).tolist() == [0, 4, 1, 3, 2]
    assert Order("random", 1).of(64).tolist() != Order("random", 2).of(64).tolist()


def tickets(order: Order) -> np.ndarray:
    """Return the order in which threads reach an atomic. Each of 4 blocks has 3 warps, the last one partial."""
    arguments = (Operand("counter", "workspace", U32, (1,), zeroed=True), Operand("out", "output", U32, (320,)))
    kernel = GeneratedKernel(entry="tickets", source=TICKETS, arguments=arguments, grid=(4, 1, 1), block=(80, 1, 1))
    return emulate(kernel, {}, order=order).outputs["out"].reshape(4, 80)


def test_blocks_and_atomics_follow_the_requested_order_and_a_seed_repeats_it() -> None:
    plain = tickets(Order())
    assert plain.reshape(-1).tolist() == list(range(320))
    assert (tickets(Order("descending"))[:, 0] == [240, 160, 80, 0]).all()
    first, again, other = (tickets(Order("random", seed)) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    assert sorted(first.reshape(-1).tolist()) == list(range(320))
    assert (np.sort(first[0]) != first[0]).any(), "lanes and warps are scheduled randomly"
