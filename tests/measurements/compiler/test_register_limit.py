"""If a kernel needs more registers than the limit, ptxas allocates exactly ``register_limit`` registers."""

from __future__ import annotations

import pytest
from cases import spread
from needs import needs_nvrtc

from measurements.compiler.nvrtc import compile_source
from measurements.compiler.pool import parse_resources
from search_spaces.hardware.devices import device, register_limit
from search_spaces.launches.headers import Headers

VALUES = range(300)  # more values than a thread has registers


def _source(threads: int, blocks: int) -> str:
    loads = "".join(f"float v{i} = a[{i * 1024} + threadIdx.x];" for i in VALUES)
    steps = "".join(f"v{i} = v{i} * v{(7 * i + 1) % len(VALUES)} + a[step];" for i in VALUES)
    stores = "".join(f"b[{i * 1024} + threadIdx.x] = v{i};" for i in VALUES)
    return (
        f'extern "C" __global__ void __launch_bounds__({threads}, {blocks})'
        "greedy(const float* __restrict__ a, float* __restrict__ b, int steps) {"
        f"{loads} for (int step = 0; step < steps; step++) {{ {steps} }} {stores} }}"
    )


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "threads", "blocks"),
    spread([
        ("h200", 288, 1), ("h200", 416, 1), ("h200", 160, 2), ("h200", 288, 2), ("h200", 96, 3), ("h200", 256, 2),
        ("b200", 192, 2), ("b200", 800, 1), ("rtx5090", 544, 1), ("rtx5090", 224, 3), ("t4", 288, 1), ("t4", 160, 3),
    ], 6),
)  # fmt: skip
def test_ptxas_uses_the_computed_register_limit(name: str, threads: int, blocks: int) -> None:
    on = device(name)
    output = compile_source(_source(threads, blocks), "greedy", on.arch, Headers())
    resources = parse_resources(output.log, output.entry)
    assert resources is not None
    assert resources.registers == int(register_limit(on, threads, blocks))
