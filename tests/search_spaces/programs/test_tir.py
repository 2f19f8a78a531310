"""Texts in the TensorIR syntax of TVM's document can be parsed, such as matmul blocks and loads with intrinsics."""

from __future__ import annotations

from pathlib import Path

import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.layouts.shared_layout import sampled_layouts
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.template import template
from search_spaces.programs.text.program import parse
from search_spaces.programs.text.tir import accepted_layouts

EXAMPLES = Path(__file__).parents[3] / "examples" / "seeds"
A100 = device("a100")
ONE = "with tir.block([96, 64, tir.reduce_axis(80)]) as [i, j, k]\n"
LOAD = (EXAMPLES / "load_fragment.txt").read_text("utf-8")


@pytest.mark.parametrize("product", ["A[i, k] * B[k, j]", "A[k, i]*B[k, j]", "A[i, k]*B[j, k]"])
def test_a_block_is_a_matmul(product: str) -> None:
    reading = parse(f"{ONE}C[i, j]+={product}")
    assert reading.sizes == {"m": 96, "n": 64, "k": 80}
    p = problem(reading.program, m=40, n=33, k=40)
    own = template(p.program)
    assert outcome(p, own.kernel(p, own.space(p, A100).sample(1, 1)[0], A100)) == "ok"


def test_blocks_in_blocks_count_blocks() -> None:
    reading = parse((EXAMPLES / "block_matmul.txt").read_text("utf-8"))
    assert reading.sizes == {"m": 24 * 16, "n": 20 * 16, "k": 18 * 16} and len(reading.notes) == 2
    open_grid = f"for i0, .. in tir.grid(...):\n{ONE}tir.bind(...)\nC[i, j] += A[i, k] * B[k, j]"
    assert [note.split(":")[1] for note in parse(open_grid).notes] == ["1", "3", "4"]


def test_a_tensor_intrinsic_reports_its_layouts() -> None:
    reading = parse(LOAD)
    assert reading.program.name == "load_fragment" and "wmma_m16n16k16_f16" in reading.notes[-1]
    p = problem(reading.program, rows=16, columns=16)
    own = template(p.program)
    assert outcome(p, own.kernel(p, own.space(p, A100).sample(1, 1)[0], A100)) == "ok"
    flat = LOAD.replace("(16, 16)", "(256)", 1).replace("wmma.", "mma.")
    assert "mma_m16n8k16_f16" in parse(flat).notes[-1]


def test_one_description_serves_all_layouts() -> None:
    """``pad(8,2)`` suits ldmatrix, which takes the address of each row, but not wmma, which takes one stride."""
    names = "mma_m16n8k16_f16", "wmma_m16n16k16_f16"
    mma, wmma = (accepted_layouts(intrinsic(name), "a", (16, 16), 2) for name in names)
    assert {"pad(8,2)", "pad(8,1)"} <= set(mma) <= set(sampled_layouts(2))
    assert "pad(8,1)" in wmma and "pad(8,2)" not in wmma


@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        (f"{ONE}C[i, j] = A[i, j] + B[i, j]", "text: tir.block: unsupported computation"),
        (f"{ONE}C[j, i] += A[i, k] * B[k, j]", "text:2: expected C[i, j]"),
        ("with tir.block([96, 64]) as [i, j, k]\nC[i, j] += A[i, k] * B[k, j]", "text:1: tir.block: 2 axes"),
        ("with tir.block([96, 64]) as [i, j]\nC[i, j] += A[i, j] * B[j, i]", "text: tir.block: a product needs"),
        (f"for i, j, k in tir.grid(1, 2, 3):\n{ONE}C[i, j] += A[i, k] * B[k, j]", "text:1: tir.grid(1, 2, 3)"),
        ("for i0 in tir.grid(...):\nA->A_shared", "text: tir.block: unsupported computation"),
        (LOAD.replace("float16", "float64"), 'text:4: unsupported type "float64"'),
        (LOAD.replace("(16, 16)", "(16, 8)", 1), "text: A has 128 elements"),
        (LOAD.replace("(16, 16)", "(12, 12)"), "text: wmma has no instruction with 12x12"),
        (LOAD.replace("= A[vii, vjj]", "= A[vii, vjj] * 2"), "text: the tensor intrinsic does not copy"),
        (LOAD.replace('scope="shared"', 'scope="global"'), "text: unsupported tensor intrinsic"),
    ],
)
def test_invalid_listings_are_rejected(listing: str, reason: str) -> None:
    with pytest.raises(ProgramError) as refused:
        parse(listing)
    assert str(refused.value).startswith(reason) and "\n" not in str(refused.value)
