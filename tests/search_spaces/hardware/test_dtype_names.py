"""Problems, tile programs, kernels' arrays and the command line accept every spelling of a type."""

from __future__ import annotations

import numpy as np
import pytest
import typer

from autosched.cli.options.arrays import read_argument
from autosched.cli.options.problem import one_of
from autosched.user_kernels.from_arrays import arguments_of
from search_spaces.hardware.dtype_names import ALIASES, canonical, in_source, spellings
from search_spaces.hardware.dtypes import SCALAR_DTYPES, dtype, dtype_of
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import Softmax
from search_spaces.programs.builder import Input

HALVES = ("f16", "fp16", "float16", "half", "FP16", "torch.float16")


@pytest.mark.parametrize("name", HALVES)
def test_half_is_f16_everywhere(name: str) -> None:
    assert Matmul(m=8, n=8, k=8, dtype=name).key() == Matmul(m=8, n=8, k=8, a="f16").key()
    assert Matmul(m=8, n=8, k=8, a="bf16", out=name).out == "f16"
    assert Matvec(m=1, n=8, k=8, dtype=name).x == "f16"
    assert Softmax(rows=8, columns=8, dtype=name, out="fp32").key() == Softmax(rows=8, columns=8, out="f32").key()
    assert Input("m k", name).dtype.name == "f16"
    assert one_of(("f16", "bf16"))(name) == "f16"
    assert dtype_of(name).name == "f16"


def test_arrays_of_the_command_line_have_any_spelling() -> None:
    for name in ("f16", "fp16", "float16", "half"):
        value, _ = read_argument(f"zeros {name}[4]", np.random.default_rng(0), "-a")
        assert value.dtype == np.float16


def test_types_of_other_libraries_are_known() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

    assert [canonical(t) for t in (np.float16, np.dtype("int8"), torch.bfloat16)] == ["f16", "i8", "bf16"]
    assert canonical(torch.float8_e4m3fn) == canonical("float8_e4m3fn") == canonical("fp8e4nv") == "e4m3"
    assert canonical(float) == str(float)  # ambiguous: float has 64 bits in Python and 32 in C


def test_no_alias_is_a_name_of_another_type_and_each_leads_to_a_type() -> None:
    block_scaled = {"mxf8", "mxf4", "nvf4"}
    assert not ALIASES.keys() & SCALAR_DTYPES.keys()
    assert set(ALIASES.values()) - block_scaled <= SCALAR_DTYPES.keys()
    assert all(canonical(canonical(name)) == canonical(name) for name in ALIASES)
    assert {in_source(name) for name in ("uchar", "u8", "uint8", "uint8_t")} == {"unsigned char"}
    assert "half" in spellings(("f16",)) and "bfloat16" not in spellings(("f16",))


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'flaot16' \(did you mean float16\?\): use one of f16, bf16, f32"):
        dtype("flaot16")
    with pytest.raises(ValueError, match="give only one of them"):
        Matmul(m=8, n=8, k=8, a="bf16", dtype="f32")
    with pytest.raises(typer.BadParameter):
        one_of(("f16", "bf16"))("float32")


def test_arrays_name_their_types_by_the_same_table() -> None:
    source = "__global__ void k(float* y, unsigned char* x) {}"
    tables = arguments_of("k", source, [np.zeros(4, np.float32), np.zeros(4, np.uint8)], None, None, {})
    assert [t["dtype"] for t in tables] == ["f32", "u8"]
