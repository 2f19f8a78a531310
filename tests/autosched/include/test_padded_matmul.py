"""Matmuls whose first launch copies misaligned operands are correct, and faults planted in the copies are found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases import spread
from header_edits import edited
from kernels import generate
from mutation_testing import reported_by_verification
from needs import needs_compiler, needs_nvrtc

from cost_models.estimates import estimate
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.padded_operands import HEADER, with_padded_b

WGMMA, TCGEN05, TMA = "wgmma_matmul_padded", "tcgen05_matmul_padded", "tma_matmul_padded"
CASES = [
    ("h100", WGMMA, Matmul(75, 41, 133, a="f16")),
    ("b200", TCGEN05, Matmul(75, 41, 133, a="bf16", epilogue="bias+relu")),
    ("rtx5090", TMA, Matmul(75, 41, 133, a="f16", order_a="col")),
    ("h100", WGMMA, Matmul(75, 41, 133, a="bf16", order_a="col", batch=2)),
    ("h100", WGMMA, Matmul(75, 41, 133, a="f16", order_b="col", epilogue="bias+gelu")),
    ("h100", WGMMA, Matmul(75, 48, 128, a="f16", order_a="col")),  # only a is copied
    ("h100", WGMMA, Matmul(75, 41, 150, a="e4m3", order_b="col", out="f32")),
    ("h100", WGMMA, Matmul(75, 41, 99, a="i8", order_b="col", batch=3)),
    ("h100", WGMMA, Matmul(75, 41, 99, a="f32", order_b="col")),
    ("b200", TCGEN05, Matmul(75, 41, 99, a="f32", order_b="col")),
    ("rtx5090", TMA, Matmul(75, 41, 99, a="i8", order_b="col", scale="row_column")),
]


def first_kernels(gpu: str, name: str, problem: Matmul, count: int, seed: int = 1) -> list[GeneratedKernel]:
    schedules = template(name).space(problem, device(gpu)).sample(count, seed=seed)
    return [generate(problem, schedule, device(gpu)) for schedule in schedules]


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(("gpu", "name", "problem"), spread(CASES, 4))
def test_products_are_right(gpu: str, name: str, problem: Matmul, nightly: bool) -> None:
    for kernel in first_kernels(gpu, name, problem, 18 if nightly else 1):
        inputs = problem.random_inputs(0)
        run = emulate(kernel, inputs)
        assert run.ok, run.reason
        assert check(problem, inputs, run.outputs).ok


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("problem", [Matmul(75, 41, 133, a="f16"), Matmul(41, 41, 128, a="f16", epilogue="bias")])
def test_a_padded_b_is_not_copied_and_its_padding_is_not_read(problem: Matmul) -> None:
    (kernel,) = first_kernels("h100", WGMMA, problem, 1)
    packed = with_padded_b(kernel)
    assert packed is not None and len(packed.steps) == len(kernel.steps) - (problem.k == 128)
    inputs = problem.random_inputs(0)
    lines = np.full((1, problem.k, 48), np.nan, np.float16)
    lines[..., : problem.n] = inputs["b"]
    run = emulate(packed, {**inputs, "b": lines})
    assert run.ok, run.reason
    assert check(problem, inputs, run.outputs).ok


def test_only_launches_that_copy_b_accept_a_padded_b() -> None:
    for name, problem in ((WGMMA, Matmul(75, 48, 128, a="f16", order_a="col")), ("matmul", Matmul(75, 41, 133))):
        (kernel,) = first_kernels("h100", name, problem, 1)
        assert with_padded_b(kernel) is None


@pytest.mark.parametrize(("gpu", "name", "problem"), CASES)
def test_maps_have_the_sizes_of_the_operands_and_aligned_lines(gpu: str, name: str, problem: Matmul) -> None:
    (kernel,) = first_kernels(gpu, name, problem, 1)
    (product,) = kernel.then
    copies = {operand.name for operand in kernel.arguments if getattr(operand, "role", "") == "workspace"}
    shapes = {operand.name: operand.shape for operand in problem.operands()}
    for tensor_map in (a for a in product.arguments if isinstance(a, TensorMap)):
        source = tensor_map.operand.name.removesuffix("_padded")
        assert tensor_map.sizes == shapes[source][::-1]
        assert (tensor_map.operand.name in copies) == (tensor_map.operand.name != source)


def test_only_problems_that_need_padded_copies_use_them() -> None:
    h100 = device("h100")
    assert template(WGMMA).why_not(Matmul(75, 48, 128, a="f16"), h100) is not None
    assert template(WGMMA).why_not(Matmul(75, 41, 133, a="f16"), device("a100")) is not None
    assert template(WGMMA).why_not(Matmul(75, 41, 133, a="f16"), h100) is None


def test_odd_sizes_are_estimated_near_even_ones() -> None:
    """The first choice for 4095x4097x4099 copies operands. Its estimate is under 300 us, less than without copies."""
    problem, h100 = Matmul(4095, 4097, 4099, a="bf16"), device("h100")

    def best_seconds(name: str) -> float:
        searched = templates_for(problem, h100, (name,))
        sampled = searched.space(problem, h100).sample(2000, seed=0)
        return float(np.exp(np.min(estimate(problem, searched, h100, sampled))))

    assert 150e-6 < best_seconds(WGMMA) < 300e-6
    assert best_seconds(WGMMA) < min(best_seconds("wgmma_matmul"), best_seconds("matmul"))


FAULTS = [
    ("words are not shifted", "8 * skipped", "0 * skipped"),
    ("lines are as far apart as in the source", "out + line * padded_bytes", "out + line * line_bytes / 16 * 16"),
    ("a word past the end", "total % 4 != 0 && at + 4 > total", "false"),
    ("the last word of a line is left out", "4 * j < bytes_left ?", "4 * j + 4 < bytes_left ?"),
    ("the last chunk is not copied", "i < lines * chunks;", "i < lines * chunks - 1;"),
    ("each word is its own neighbour", "words[j], words[j + 1]", "words[j], words[j]"),
    ("a byte is skipped", "skipped = int(begin - aligned)", "skipped = int(begin - aligned) ^ 1"),
    ("the cut word begins at its second byte", "unsigned(x[at + i])", "unsigned(x[at + (i ^ 1)])"),
    ("lines have one chunk less", "chunks = padded_bytes / pad_chunk", "chunks = padded_bytes / pad_chunk - 1"),
    ("the first line is copied again", "begin = line * line_bytes", "begin = line / 2 * line_bytes"),
]


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(("fault", "old", "new"), spread(FAULTS, 3))
def test_faults_of_the_copies_are_found(fault: str, old: str, new: str) -> None:
    problem = Matmul(33, 17, 35, a="f16")
    (kernel,) = first_kernels("h100", WGMMA, problem, 1)
    broken = dataclasses.replace(kernel, headers=edited(kernel.headers, HEADER, old, new))
    assert reported_by_verification(problem, broken), fault


@needs_nvrtc
@needs_compiler
def test_a_map_past_the_end_of_the_lines_is_found() -> None:
    problem = Matmul(33, 17, 35, a="f16")
    (kernel,) = first_kernels("h100", WGMMA, problem, 1)
    assert not reported_by_verification(problem, kernel)
    (product,) = kernel.then
    wide = [
        dataclasses.replace(a, sizes=a.operand.shape[::-1]) if isinstance(a, TensorMap) else a
        for a in product.arguments
    ]
    broken = dataclasses.replace(kernel, then=(dataclasses.replace(product, arguments=tuple(wide)),))
    assert reported_by_verification(problem, broken)
