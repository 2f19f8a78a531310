"""For every known GPU, the model's first choice compiles, and the predicted rate is below the published peak."""

from __future__ import annotations

import pytest
from cases import representative
from kernels import generate
from needs import needs_nvrtc

from autosched.samplers.first_choices.model_choice import default_choice
from measurements.compiler.nvrtc import compile_source
from measurements.compiler.pool import parse_resources
from search_spaces.hardware.devices import all_devices, device
from search_spaces.operators.matmul import Matmul

MOST_SPILLED = 48  # bytes per thread; only 2 of 82 first choices spill (NVRTC 13.5, 2026-11-23)


@needs_nvrtc
@pytest.mark.parametrize("name", representative([row.name for row in all_devices()], "b200", "rtx5090", "agx_orin_64"))
def test_the_first_choice_of_a_matmul(name: str) -> None:
    on = device(name)
    problem = Matmul(4096, 4096, 4096, a="bf16", b="bf16") if on.has("bf16") else Matmul(4096, 4096, 4096)
    choice = default_choice(problem, on)
    assert choice is not None
    assert choice.seconds > problem.flops / on.tensor_peak("bf16" if on.has("bf16") else "f16")
    kernel = generate(problem, choice.schedule, on)
    output = compile_source(kernel.source, kernel.entry, on.arch, kernel.headers)
    assert output.cubin is not None, output.log
    resources = parse_resources(output.log, output.entry)
    assert resources is not None and resources.spill_store_bytes <= MOST_SPILLED
