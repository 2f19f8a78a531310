"""Other packages offer tensor intrinsics by entry points. Kernels that use these are correct in the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from entry_points import offer
from program_outcome import outcome

from autosched.plugins import AlignedRows, Fragment, NestedLayout, TensorIntrinsic, register_intrinsic
from autosched.programs.loading import problem
from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import device
from search_spaces.installed import UnusableEntryPoint
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template
from search_spaces.templates.matmul.template import MATMUL

A100 = device("a100")
OFFERS = """
from dataclasses import replace
from search_spaces.hardware.intrinsics import INTRINSICS

ONE = replace(INTRINSICS["mma_m16n8k8_f16"], type_a="bf16", type_b="bf16", until="")
TEXT = "mma"
TAKEN = replace(INTRINSICS["mma_m16n8k16_f16"], results=2)
"""
HEADER = """#pragma once
#include <autosched/intrinsics/mma_sync.cuh>
namespace halves {
// mma.m16n8k16 of bf16 with zeros in the upper half of k.
struct Mma : autosched::MmaSync<autosched::bf16, float, 8> {
  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    const unsigned left[4] = {a.x[0], a.x[1], 0u, 0u}, right[2] = {b.x[0], 0u};
    autosched::ptx::mma_m16n8k16_bf16(c.x, left, right);
  }
};
}  // namespace halves
"""


@pytest.fixture
def known() -> Iterator[None]:
    """Reset the table of intrinsics before and after the test."""
    intrinsics._known.cache_clear()
    yield
    intrinsics._known.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "intrinsics_of_a_test.py").write_text(OFFERS)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_package_offers_rows_by_an_entry_point(known: None, package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, intrinsics.ENTRY_POINTS, "intrinsics_of_a_test:ONE")
    assert intrinsics.intrinsic("mma_m16n8k8_bf16").k == 8
    assert "mma_m16n8k8_bf16" in {row.name for row in intrinsics.intrinsics_for("bf16", False, device=A100)}


@pytest.mark.parametrize(("name", "why"), [("TEXT", "must be a TensorIntrinsic"), ("TAKEN", "mma_m16n8k16_f16")])
def test_a_broken_row_is_a_warning(
    known: None, package: None, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    offer(monkeypatch, intrinsics.ENTRY_POINTS, f"intrinsics_of_a_test:{name}")
    with pytest.warns(UnusableEntryPoint, match=why):
        assert intrinsics.intrinsic("mma_m16n8k16_f16").results == 4


def row() -> TensorIntrinsic:
    """Return an intrinsic for bf16 with half of the existing instruction's k, as a row of the table."""

    def layout(outer: tuple[int, int], thread: tuple[int, int], element: tuple[int, int], strides: tuple[int, int]):
        return NestedLayout((1, 1), (1, 1), outer, thread, element, (0, 0), strides)

    a = Fragment((16, 8), 2, layout((2, 1), (8, 4), (1, 2), (4, 1)))
    b = Fragment((8, 8), 1, layout((1, 1), (4, 8), (2, 1), (1, 4)))
    c = Fragment((16, 8), 4, layout((2, 1), (8, 4), (1, 2), (4, 1)))
    return TensorIntrinsic(
        "mma", "bf16", "bf16", a, b, c, AlignedRows(), "mma_k16", 1, 4, "halves::Mma", "halves/mma.cuh", HEADER
    )


def test_programs_and_matmul_multiply_by_a_row_of_another_package(known: None) -> None:
    register_intrinsic(row())

    @program(x=Input("m k", "bf16"), w=Input("k n", "bf16"), out=Output("m n", "f32"))
    def by_halves(p: Builder, x: Array, w: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (32, 32))
        acc = p.state(p.zeros((32, 32)))
        for s in p.steps(x.shape[1], 32):
            acc.set(p.mma(p.load(p.window(x, (i, s), (32, 32))), p.load(p.window(w, (s, j), (32, 32))), acc))
        p.store(acc, p.window(out, (i, j), (32, 32)))

    p, own = problem(by_halves, m=40, n=40, k=72), template(by_halves)
    schedules = [s for s in own.space(p, A100).sample(40, 1) if s.text("intrinsic") == "mma_m16n8k8_bf16"]
    kernel = own.kernel(p, schedules[0], A100)
    assert "halves/mma.cuh" in kernel.source and outcome(p, kernel) == "ok"
    assert "mma_m16n8k8_bf16" in str(MATMUL.space(Matmul(m=64, n=64, k=63, a="bf16", b="bf16"), A100).parameters)
