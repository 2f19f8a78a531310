"""The version of a kernel template covers every file that defines its tile program."""

from __future__ import annotations

from pathlib import Path

from search_spaces.tile_operators import attention, quantized_matmul, softmax_rows, tile_problem, weight_formats
from search_spaces.tile_operators.tile_problem import program_text


def text(module: object) -> str:
    return Path(str(vars(module)["__file__"])).read_text("utf-8")


def test_a_program_includes_the_modules_that_it_imports() -> None:
    printed = program_text(quantized_matmul.QuantizedMatmul.compute)
    assert printed.startswith(text(quantized_matmul)) and text(weight_formats) in printed
    assert text(tile_problem) not in printed
    assert text(softmax_rows) in program_text(attention.Attention.compute)
