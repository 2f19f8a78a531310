"""That what is proven of a user's kernel is the source that the device gets, with the headers that it has there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.kernel_files.problem import problem_type
from autosched.kernel_files.reading import read_file
from autosched.kernel_files.template import template
from measurements.emulator import emulate
from measurements.emulator.architecture import ptx_arch
from measurements.nvrtc import cuda_include_folders
from search_spaces.hardware.devices import device
from search_spaces.templates.kernel import Kernel

Write = Callable[..., Path]

SCALE = """
__global__ void scale(float* out, const float* in, int width, float factor) {
  for (int x = threadIdx.x; x < width; x += block_x)
    if (blockIdx.x == 0) out[blockIdx.y * width + x] = VALUE;
}
"""
RIGHT, WRONG = "factor * in[blockIdx.y * width + x]", "0.0f"
BY_ARCH = f"""
#if __CUDA_ARCH__ >= 900
#define VALUE NEW
#else
#define VALUE OLD
#endif
{SCALE}"""


def scale(write: Write, source: str, on: str) -> tuple[Kernel, bool]:
    """The kernel as it is for a device, and whether the emulator finds its numbers right."""
    file = read_file(write(source=source))
    problem = problem_type(file).of({"width": 100, "height": 3})
    made = template(file)
    kernel = made.kernel(problem, made.space(problem, device(on)).sample(1, 0)[0], device(on))
    inputs = problem.random_inputs(0)
    run = emulate(kernel, inputs)
    assert run.status in ("ok", "findings"), run.reason
    return kernel, run.ok and np.array_equal(run.outputs["out"], problem.reference(inputs)["out"].astype(np.float32))


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(("on", "arch"), [("a100", "compute_80"), ("rtx3090", "compute_86"), ("h200", "compute_90a")])
def test_the_branch_of_the_device_is_executed(write: Write, on: str, arch: str) -> None:
    new = scale(write, BY_ARCH.replace("NEW", RIGHT).replace("OLD", WRONG), on)
    old = scale(write, BY_ARCH.replace("NEW", WRONG).replace("OLD", RIGHT), on)
    assert ptx_arch(new[0]) == ptx_arch(old[0]) == arch
    assert (new[1], old[1]) == ((True, False) if on == "h200" else (False, True))


def test_a_source_that_does_not_ask_is_compiled_once_for_all(write: Write) -> None:
    for on in ("a100", "h200", "l4"):
        file = read_file(write(source=SCALE.replace("VALUE", RIGHT)))
        made = template(file)
        problem = problem_type(file).of({"width": 100, "height": 3})
        kernel = made.kernel(problem, made.space(problem, device(on)).sample(1, 0)[0], device(on))
        assert ptx_arch(kernel) == "compute_80"


@needs_compiler
@needs_nvrtc
@pytest.mark.skipif(not cuda_include_folders(), reason="CUDA's own headers are not here")
def test_headers_of_cuda_are_found(write: Write) -> None:
    source = "#include <cuda_fp16.h>\n" + SCALE.replace("VALUE", "__half2float(__float2half(1.0f)) * " + RIGHT)
    assert scale(write, source, "h200")[1]
