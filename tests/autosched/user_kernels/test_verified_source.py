"""A user's kernel is verified as compiled for the device: with several inputs, in several orders, in two launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

from autosched.user_kernels.problem import KernelProblem, problem_type
from autosched.user_kernels.reading.kernel_files import read_file
from autosched.user_kernels.template import template
from autosched.verify.run import Depth, Run
from autosched.verify.schedules import verify_kernel
from measurements.emulator import emulate
from measurements.emulator.architecture import ptx_arch
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel

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


def lowered(write: Write, source: str, on: str = "h200", height: int = 3) -> tuple[KernelProblem, GeneratedKernel]:
    file = read_file(write(source=source))
    kernel_template, problem = template(file), problem_type(file).of({"width": 100, "height": height})
    return problem, kernel_template.kernel(
        problem, kernel_template.space(problem, device(on)).sample(1, 0)[0], device(on)
    )


def scale(write: Write, source: str, on: str) -> tuple[GeneratedKernel, bool]:
    """Return the generated kernel for a device, and whether the kernel's emulated results are correct."""
    problem, kernel = lowered(write, source, on)
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


def test_an_architecture_independent_source_is_compiled_once(write: Write) -> None:
    for on in ("a100", "h200", "l4"):
        assert ptx_arch(lowered(write, SCALE.replace("VALUE", RIGHT), on)[1]) == "compute_80"


@needs_compiler
@needs_nvrtc
@needs_cuda_headers
def test_headers_of_cuda_are_found(write: Write) -> None:
    source = "#include <cuda_fp16.h>\n" + SCALE.replace("VALUE", "__half2float(__float2half(1.0f)) * " + RIGHT)
    assert scale(write, source, "h200")[1]


ONCE = """
__device__ unsigned ticket;
__global__ void scale(float* out, const float* in, int width, float factor) {
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicAdd(&ticket, 1u) == gridDim.x * gridDim.y - 1;
  __syncthreads();
  if (!last) return;
  for (unsigned x = threadIdx.x; x < width * gridDim.y; x += block_x) out[x] = factor * in[x];
  RESET
}
"""
IN_TURN = """
__device__ unsigned next;
__global__ void scale(float* out, const float* in, int width, float factor) {
  __shared__ unsigned row;
  if (blockIdx.x != 0) return;
  if (threadIdx.x == 0) row = atomicAdd(&next, 1u);
  __syncthreads();
  for (int x = threadIdx.x; x < width; x += block_x) out[blockIdx.y * width + x] = factor * in[row * width + x];
}
"""


def verification(write: Write, source: str, depth: Depth, height: int = 3) -> list[Run]:
    problem, kernel = lowered(write, source, height=height)
    return list(verify_kernel(problem, kernel, depth=depth))


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("depth", ["quick", "full"])
def test_verification_tries_values_beyond_the_first_inputs(write: Write, depth: Depth) -> None:
    problem, _ = lowered(write, SCALE)
    first, *later = (float(problem.random_inputs(seed)["input"].max()) for seed in range(4))
    assert max(later) > first
    x = "in[blockIdx.y * width + x]"
    *right, wrong = verification(write, SCALE.replace("VALUE", f"{x} > {first!r}f ? 0.0f : {RIGHT}"), depth)
    assert right and wrong.status == "wrong_result"
    assert {run.status for run in verification(write, SCALE.replace("VALUE", RIGHT), depth)} == {"ok"}


@needs_compiler
@needs_nvrtc
def test_a_full_verification_calls_a_kernel_again(write: Write) -> None:
    assert verification(write, ONCE.replace("RESET", ""), "quick")[-1].status == "ok"
    *_, again = verification(write, ONCE.replace("RESET", ""), "full")
    assert again.status == "wrong_result" and "never written" in again.reason and "launched 2 times" in again.reason
    reset = ONCE.replace("RESET", "__syncthreads();\n  if (threadIdx.x == 0) ticket = 0;")
    assert {run.status for run in verification(write, reset, "full")} == {"ok"}


@needs_compiler
@needs_nvrtc
def test_a_large_problem_is_also_run_in_another_order(write: Write) -> None:
    right, wrong = verification(write, IN_TURN, "quick", height=400)
    assert (right.order.blocks, right.status) == ("ascending", "ok")
    assert (wrong.order.blocks, wrong.status) == ("random", "wrong_result")
