"""The PTX of several files is linked, with declarations, shared symbols, duplicates and file-local symbols."""

from __future__ import annotations

from measurements.emulator.executables.link import link
from measurements.emulator.ptx.parser import parse

FIRST = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) twice (.param .b32 x);
.extern .global .align 4 .u32 counter;
.global .align 1 .b8 text[3] = {72, 105, 0};
.weak .global .align 4 .u32 shared_by_all = 1;
.weak .func helper() { ret; }
.visible .entry k(.param .u64 to) // text; { is no end
{
  .reg .b64 %rd<3>;
  .loc 1 5 3
  mov.u64 %rd1, text;
  .loc 1 7 3, function_name $L__info_string0, inlined_at 1 9 4
  mov.u64 %rd2, counter;
  ret;
}
.file 1 "first.cu"
.section .debug_str
{
$L__info_string0:
.b8 0
}
"""
SECOND = """.version 8.1
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.global .align 1 .b8 text[3] = {72, 111, 0};
.weak .global .align 4 .u32 shared_by_all = 1;
.weak .func helper() { ret; }
.visible .func (.param .b32 r) twice (.param .b32 x)
{
  .reg .b64 %rd<2>;
  .loc 1 3 1
  mov.u64 %rd1, text;
  ret;
}
.file 1 "second.cu"
"""


def test_linking_a_single_file_does_not_change_it() -> None:
    assert link([FIRST]) == FIRST


def test_names_of_other_files_are_resolved_and_duplicates_merged() -> None:
    module = parse(link([FIRST, SECOND]))
    assert module.version == "8.1"
    assert module.kernels == ("k",)
    names = [v.name for v in module.variables]
    assert sorted(names) == ["counter", "shared_by_all", "text", "text$file1"]
    assert all(v.initial for v in module.variables)
    assert set(module.functions) == {"helper", "k", "twice"}
    assert all(f.is_defined for f in module.functions.values())


def test_private_names_of_files_stay_separate() -> None:
    module = parse(link([FIRST, SECOND]))
    (first, _, _) = module.functions["k"].body
    (second, _) = module.functions["twice"].body
    assert str(first.operands[1]) != str(second.operands[1])
    assert "text$file1" in second.text and "text$file1" not in first.text


def test_lines_refer_to_their_own_files() -> None:
    module = parse(link([FIRST, SECOND]))
    first, inlined, _ = module.functions["k"].body
    assert [str(f) for f in first.frames] == ["first.cu:5"]
    assert [str(f) for f in inlined.frames] == ["first.cu:7", "first.cu:9"]
    assert [str(f) for f in module.functions["twice"].body[0].frames] == ["second.cu:3"]
