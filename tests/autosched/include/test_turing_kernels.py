"""Kernels of every template are emulated for sm_75, which lacks cp.async and other instructions of sm_80."""

from __future__ import annotations

import numpy as np
import pytest
from cases import representative
from compiling import compile_many, shared_pool
from kernels import generate, space_of
from needs import needs_compiler, needs_nvrtc

from measurements.compiler.pool import Compiled
from measurements.emulator import emulate
from measurements.emulator.architecture import ptx_arch
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import BF16, F32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.launches.operand import Operand
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose

T4 = device("t4")
PROBLEMS: dict[str, Problem] = {
    "f16": Matmul(70, 56, 144, epilogue="bias+relu"),
    "i8": Matmul(70, 40, 208, a="i8"),
    "f16 sums": Matmul(70, 56, 144, acc="f16"),
    "bf16": Matmul(40, 24, 48, a="bf16", b="bf16"),
    "matvec": Matvec(1, 70, 256),
    "softmax": Softmax(6, 300, dtype="bf16"),
    "transpose": Transpose(40, 72, dtype="u16"),
    "copy": Copy(7, 300),
}
ABSENT = ("cp.async", "max.NaN", "cvt.rn.bf16", "L2::256B", "m16n8k16", "m16n8k32")


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("name", representative(PROBLEMS, "f16", "i8", "softmax"))
def test_sampled_kernels_compile_and_match_the_reference(name: str, nightly: bool) -> None:
    problem = PROBLEMS[name]
    schedules = space_of(problem, T4).sample(14 if nightly else 1, seed=3)
    kernels = [generate(problem, schedule, T4) for schedule in schedules]
    results = [result for _, result in compile_many(shared_pool(), kernels, T4.arch)]
    inputs = problem.random_inputs(0)
    for kernel, result in zip(kernels, results, strict=True):
        assert isinstance(result, Compiled)
        assert ptx_arch(kernel) == "compute_75"
        run = emulate(kernel, inputs)
        assert run.ok, (run.reason, run.findings)
        assert check(problem, inputs, run.outputs).ok


def test_the_space_offers_only_instructions_of_turing() -> None:
    for problem in PROBLEMS.values():
        for schedule in space_of(problem, T4).sample(20, seed=1):
            assert not {"cp.async", "no_allocate_l2_256b"} & set(schedule.values.values())
    rows = {s["intrinsic"] for s in space_of(PROBLEMS["f16"], T4).sample(20, seed=1)}
    assert rows == {"mma_m16n8k8_f16"}
    rows = {s["intrinsic"] for s in space_of(PROBLEMS["i8"], T4).sample(20, seed=1)}
    assert rows == {"mma_m16n8k16_i8"}
    assert "mma_m16n8k8_f16" not in {
        value
        for p in space_of(PROBLEMS["f16"], device("a100")).members["matmul"].parameters
        if p.name == "intrinsic"
        for value in p.values
    }


def test_only_turing_kernels_have_replaced_headers() -> None:
    problem = PROBLEMS["copy"]
    (schedule,) = space_of(problem, T4).sample(1, seed=0)
    later, turing = (generate(problem, schedule, device(name)) for name in ("a100", "t4"))
    assert (later.source, later.arch, turing.arch) == (turing.source, "", "sm_75")
    changed = {name for name, text in turing.headers.files if dict(later.headers.files)[name] != text}
    assert changed == {"autosched/ptx/convert.cuh", "autosched/ptx/arithmetic.cuh"}


SOURCE = """
#include <{folder}convert.cuh>
#include <{folder}arithmetic.cuh>

extern "C" __global__ void kernel(const float* x, const float* y, unsigned short* rounded, float* larger) {{
  const int i = blockIdx.x * 128 + threadIdx.x;
  rounded[i] = autosched::ptx::cvt_rn_bf16_f32(x[i]);
  larger[i] = autosched::ptx::max_nan(x[i], y[i]);
}}
"""


@needs_nvrtc
@needs_compiler
def test_replacements_of_sm_80_instructions_are_bit_exact() -> None:
    """The inputs include rounding ties, the largest and smallest numbers, infinities, NaN and random bits."""
    edges = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F7F8000, 0x7F800000, 0xFF800000, 0x8000, 0x18000, 1]
    edges += [0x7F800001, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0, 0x80000000]
    rng = np.random.default_rng(0)
    bits = np.array([a for a in edges for _ in edges] + [b for _ in edges for b in edges], dtype=np.uint32)
    x = np.concatenate([bits[:256], rng.integers(0, 2**32, 3840, dtype=np.uint32)]).view(np.float32)
    y = np.concatenate([bits[256:], rng.integers(0, 2**32, 3840, dtype=np.uint32)]).view(np.float32)
    outputs = {}
    for arch, folder in (("sm_75", "autosched/ptx/turing/"), ("sm_80", "autosched/ptx/")):
        kernel = GeneratedKernel(
            entry="kernel",
            source=SOURCE.format(folder=folder),
            headers=Headers.from_folder(include_dir()),
            arguments=(
                *(Operand(name, "input", F32, x.shape) for name in "xy"),
                Operand("rounded", "output", BF16, x.shape),
                Operand("larger", "output", F32, x.shape),
            ),
            grid=(len(x) // 128, 1, 1),
            block=(128, 1, 1),
            arch=arch,
        )
        run = emulate(kernel, {"x": x, "y": y})
        assert run.ok, run.reason
        outputs[arch] = [run.outputs[name].view(f"u{run.outputs[name].itemsize}") for name in ("rounded", "larger")]
    for here, later in zip(*outputs.values(), strict=True):
        assert np.array_equal(here, later)
    assert np.array_equal(outputs["sm_75"][0][~np.isnan(x)], BF16.store(x)[~np.isnan(x)])
