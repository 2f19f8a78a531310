"""Emulation of a kernel that accesses many addresses outside of all arrays ends soon, with a finding at the access."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched

pytestmark = [needs_compiler, needs_nvrtc]

SOURCE = """
struct Node { Node* next; int value; };
extern "C" __global__ void walk(const Node* n, int count, int* out) {
  int sum = 0;
  for (int i = 0; i < count && n != nullptr; ++i) {
    sum += n->value;
    n = n->next == nullptr ? n : n->next;
  }
  *out = sum;
}
"""
COUNT = 1 << 30


def test_a_loop_over_host_addresses_ends_early() -> None:
    out = np.zeros(1, np.int32)
    emulation = autosched.emulate(SOURCE, [np.uint64(0x7F0012345670), COUNT, out], grid=1, block=1, time_limit=60)
    assert emulation.status == "findings"
    assert {"out_of_bounds_global", "trap"} <= {str(f.kind) for f in emulation.findings}


@pytest.mark.parametrize("count", [1, 1000])
def test_a_loop_over_device_memory_runs_to_its_end(count: int) -> None:
    nodes, out = np.zeros(2, np.int64), np.zeros(1, np.int32)
    nodes[1] = 3
    emulation = autosched.emulate(SOURCE, [nodes.view(np.uint8), count, out], grid=1, block=1, time_limit=60)
    assert emulation.ok and emulation.arrays[2][0] == 3 * count
