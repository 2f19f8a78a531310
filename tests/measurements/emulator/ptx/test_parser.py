"""The PTX parser is correct, as is its fast path for operands in the form that compilers usually emit."""

from __future__ import annotations

import pytest

from measurements.emulator.ptx.cursor import PtxError
from measurements.emulator.ptx.operands import OperandReader
from measurements.emulator.ptx.parser import parse
from measurements.emulator.ptx.syntax import Group, Register, Symbol

OPERANDS = (
    "%r1", " %r1, %r2", "%r1, -5", "%r1, 0", "%r1, 017", "%r1, 0x1F", "%f1, 0f3F800000", "%r1, 4294967295", "%r1, 7U",
    "[%rd1]", "[ %rd1 + 16 ]", "[%rd1+-16]", "[%rd1-16]", "[tile+4], %r3", "[%rd1+0x10]", "[4096]", "_", "%p1|%p2, %r1",
    "{%r1, %r2}, [%rd1]", "{ %r1 }, {%r2,%r3 , -1}", "{_, %r1}", "!%p1", "%r1, tile+4", "%r1, WARP_SZ", "%tid.x, a.b",
    "[%rd1, {%r1, %r2}], [%rd3]", "(%r1), foo, (%r2, %r3)", "mine, 3", "-0f3F800000, ~1", "%r1, 1.5",
)  # fmt: skip


@pytest.mark.parametrize("text", OPERANDS)
def test_the_fast_path_agrees_with_the_grammar(text: str) -> None:
    """The operands are read with and without parentheses, because only the grammar reads text in parentheses."""
    reader = OperandReader({"mine": 4}, lambda name: name)
    first = reader.read(text)
    (group,) = reader.read(f"({text})")
    assert isinstance(group, Group) and first == group.items
    assert reader.read(text) == first  # from OperandReader's cache


NOT_OPERANDS = (
    "[%rd1", "%r1 %r2", "{%r1", "%r1, ;", "[%rd1+]", "-{%r1}", ", %r1", "0b12", "!", "{}", "[%rd1], { }",
)  # fmt: skip


@pytest.mark.parametrize("text", NOT_OPERANDS)
def test_invalid_operands_are_rejected(text: str) -> None:
    with pytest.raises(PtxError):
        OperandReader({}, lambda name: name).read(text)


def test_a_scope_may_redeclare_a_name() -> None:
    module = parse(""".version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
.reg .pred p; .reg .b32 %r<3>;
mov.u32 %r1, p;
{ .reg .pred p; mov.u32 %r1, p; { .reg .pred p; mov.u32 %r1, p; } mov.u32 %r1, p; }
mov.u32 %r1, p; // a comment
{ .reg .pred p; /* and
another */ mov.u32 %r1, p; bra L; L: }
bra L;
L: ret;
}
""")
    body = module.functions["k"].body
    names = [i.operands[1].name for i in body if i.opcode == "mov" and isinstance(i.operands[1], Register)]
    assert names == ["p", "p#1", "p#2", "p#1", "p", "p#3"]
    inner, outer = (i.operands[0] for i in body if i.opcode == "bra")
    assert isinstance(inner, Symbol) and inner.name in module.functions["k"].labels and inner != outer


def test_a_line_has_the_frames_of_its_last_inlining() -> None:
    """NVRTC unrolls and inlines, so a source position may occur several times with different callers."""
    module = parse(""".version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
.loc 1 10 3
bar.sync 0;
.loc 2 5 1, function_name $L__info_string0, inlined_at 1 10 3
bar.sync 0;
.loc 1 20 3
bar.sync 0;
.loc 2 5 1, function_name $L__info_string0, inlined_at 1 20 3
bar.sync 0;
.loc 2 5 1, function_name $L__info_string0, inlined_at 1 10 3
bar.sync 0;
ret;
}
.file 1 "a.cu"
.file 2 "b\tc.cuh"
""")
    frames = [" ".join(map(str, i.frames)) for i in module.functions["k"].body[:5]]
    assert frames == ["a.cu:10", "b c.cuh:5 a.cu:10", "a.cu:20", "b c.cuh:5 a.cu:20", "b c.cuh:5 a.cu:10"]


@pytest.mark.parametrize(
    "text",
    [
        ".visible .entry k(",
        ".visible .entry k()",
        ".visible .entry k() {",
        ".visible .entry k() {\nadd.s32 %r1 %r2;\n}",
    ],
)
def test_text_that_ends_early_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(PtxError, match="PTX line"):
        parse(text)
