"""The mutation engine generates mutants. A few mutants of every kind of file are reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from needs import needs_nvrtc

from benchmarks.emulator import mutations
from benchmarks.emulator.cases_of_mutants import cases_of, program, traits
from benchmarks.emulator.false_findings import drawn, verified
from benchmarks.emulator.mutants import Mutant, mutants_of
from benchmarks.emulator.mutation_cases import Case, all_cases
from benchmarks.emulator.mutations import (
    OF_CASE,
    WGMMA,
    Outcome,
    all_mutants,
    drawn_ptx_mutants,
    reasons,
    report,
    right_ptx,
    run,
    sample,
    sample_of_all,
    why_equivalent,
)
from benchmarks.emulator.ptx_mutants import asm_of, drawn_of_ptx, edits_of, mutants_of_asm, mutants_of_ptx
from search_spaces.hardware.devices import device
from search_spaces.launches.headers import include_dir

CODE = """
#include <a < b.cuh>
// a + b is left alone; so is this: x = 1;
template <int N>
__device__ int f(int a, float* p) {
  static_assert(N < 4, "a + 1 < b");
  const int row = a + 1;
  if (row >= N) return 0;
  ptx::barrier_sync();
  p[row] += 0.0f;
  return a < 3 ? row : a;
}
"""


def edits_in(text: str = CODE) -> set[tuple[int, str, str]]:
    return {(m.line, m.old, m.new) for m in mutants_of("x.cuh", text)}


def test_edits_of_statements_operators_numbers_conditions_and_terms() -> None:
    assert {
        (7, " + ", " - "),
        (7, " + 1", ""),
        (7, "1", "2"),
        (7, "1", "0"),
        (8, "if (row >= N) return 0;", ";"),
        (8, "row >= N", "true"),
        (8, " >= ", " > "),
        (9, "ptx::barrier_sync();", ";"),
        (10, "p[row] += 0.0f;", ";"),
        (10, " += ", " = "),
        (10, "0.0f", "1.0f"),
        (11, "? row : a", "? a : row"),
        (11, "3", "4"),
    } <= edits_in()


def test_comments_headers_assertions_and_template_heads_are_not_mutated() -> None:
    assert {line for line, _, _ in edits_in()} == {7, 8, 9, 10, 11}


def test_an_edit_applies_only_to_its_source() -> None:
    mutant = next(m for m in mutants_of("x.cuh", CODE) if m.old == "3")
    assert mutant.applied(CODE) == CODE.replace("a < 3", f"a < {mutant.new}")
    with pytest.raises(AssertionError):
        mutant.applied("something else")


def test_every_file_has_mutants_and_a_larger_sample_extends_a_smaller() -> None:
    mutants = all_mutants()
    assert len(mutants) > 3000 and len({(m.header, m.start, m.old, m.new) for m in mutants}) > 3000
    assert {m.header.split("/")[0] for m in mutants} == {"kernels", "common", "intrinsics", "ptx"}
    assert sample(mutants, 5, 1) == sample(mutants, 50, 1)[:5]


ACTIVATION = "common/activation.cuh"
RELU = "x < 0.0f ? 0.0f : x"


def outcome_of(header: str, part: str, old: str, new: str, result: str) -> Outcome:
    """Return the outcome of a mutant that replaces the first ``old`` after the first ``part`` of a header."""
    text = (Path(include_dir()) / "autosched" / header).read_text()
    start = text.index(old, text.index(part))
    return Outcome(header, text.count("\n", 0, start) + 1, "operator", start, old, new, result, "", "", 0.1)


def test_the_report_counts_and_lists_survivors() -> None:
    outcomes = [
        outcome_of(ACTIVATION, RELU, " < ", " <= ", "survived"),
        outcome_of(ACTIVATION, RELU, " < ", " > ", "survived"),
        outcome_of(ACTIVATION, RELU, "0.0f", "1.0f", "reported"),
        outcome_of(ACTIVATION, "silu", "1.0f", "0.0f", "refused"),
    ]
    text = report(outcomes)
    assert "Of the remaining 2, 1 are reported (50.0%)" in text
    assert "sign of a zero" in text.split("The same program")[1]
    assert f"`common/activation.cuh:{outcomes[0].line}` | `<` -> `>` |" in text.split("## Survivors")[1]


def test_a_reason_covers_its_text_and_not_the_whole_line() -> None:
    header = "kernels/row_reduction.cuh"
    text = (Path(include_dir()) / "autosched" / header).read_text()
    line = "for (int w = 0; w < State<0>::words; ++w) {"
    known = [{"header": header, "text": "State<0>", "old": "0", "reason": "the same"}]
    begins = outcome_of(header, line, "0", "1", "survived")
    assert why_equivalent(begins, text, known) is None
    assert why_equivalent(replace(begins, start=text.index("<0>", begins.start) + 1), text, known) == "the same"
    outcome = outcome_of(header, "state.set(w, ", "state.set(w, ", "", "survived")
    assert why_equivalent(outcome, text, [{"header": header, "text": "set", "reason": "holds it"}]) == "holds it"


def test_a_reason_may_cover_all_cases_or_a_part_of_the_new_text() -> None:
    old = "fma.rm.f32 %f1, %f2, %f3, %f4;"
    edits = (old.replace("fma.rm", "fma.rp"), "")
    up, left_out = (Outcome(f"{OF_CASE}x", 1, "", 0, old, new, "survived", "x", "", 0.1) for new in edits)
    assert why_equivalent(up, None, reasons()) and why_equivalent(left_out, None, reasons()) is None


def test_reasons_refer_to_existing_lines() -> None:
    for entry in reasons():
        if entry["header"].startswith(OF_CASE):  # compiled code: its lines depend on the compiler
            assert entry["text"] and entry["reason"], entry
            continue
        text = (Path(include_dir()) / "autosched" / entry["header"]).read_text()
        assert entry["text"] in text and entry["reason"], entry


# One mutant of each kind of file.
CHOSEN = (
    ("common/last_block.cuh", "ptx::fence_gpu();", ";"),
    ("common/raster.cuh", " % ", " / "),
    ("common/reduce.cuh", " += ", " = "),
    ("kernels/copy.cuh", " < ", " <= "),
    ("kernels/row_reduction.cuh", "ptx::barrier_sync();", ";"),
    ("kernels/wgmma_matmul/producers.cuh", "ptx::fence_async_proxy();", ";"),
)


def edited(instruction: str) -> set[str]:
    return {edit.new for edit in edits_of(instruction)}


def test_edits_of_an_instruction() -> None:
    assert edited("@%p1 setp.lt.s32 %p2, %r1, 5;") == {
        "",
        "@!%p1 setp.lt.s32 %p2, %r1, 5;",
        "setp.lt.s32 %p2, %r1, 5;",
        "@%p1 setp.le.s32 %p2, %r1, 5;",
        "@%p1 setp.ge.s32 %p2, %r1, 5;",
        "@%p1 setp.lt.s32 %p2, %r1, 6;",
        "@%p1 setp.lt.s32 %p2, %r1, 4;",
    }
    assert edited("sub.s32 %r1, %r2, %r3;") == {"", "add.s32 %r1, %r2, %r3;", "sub.s32 %r1, %r3, %r2;"}
    assert edited("st.shared.v2.b32 [%r1+8], {%r2, %r3};") == {
        "",
        "st.shared.v2.b32 [%r1+12], {%r2, %r3};",
        "st.shared.v2.b32 [%r1+8], {%r3, %r2};",
    }
    assert edited("fence.acq_rel.gpu;") == {"", "fence.acq_rel.cta;"}
    assert edited("bar.sync 0;") == {""}


def test_instructions_are_found_in_a_program_and_in_asm() -> None:
    text = "\tadd.s32 \t%r1, %r2, 1;\n$L_1:\n\t@%p1 bra \t$L_1;\n\t.section\t.debug_str\n\tadd.s32 %r1, %r1, %r1;\n"
    mutants = list(mutants_of_ptx("x", text))
    assert {(m.line, m.kind) for m in mutants} == {
        (1, "instruction left out"),
        (1, "opcode"),
        (1, "number"),
        (3, "predicate"),
    }
    assert all(m.applied(text) != text for m in mutants)
    header = 'asm volatile("st.b32 [%0], "\n      "%1;" ::"l"(p), "r"(x));\n'
    assert {m.applied(header).split(" ::")[0] for m in mutants_of_asm("ptx/x.cuh", header)} == {
        'asm volatile(""',
        'asm volatile("st.b32 [%0+4], %1;"',
    }


def test_parts_and_operands_of_an_asm_that_a_macro_puts_together() -> None:
    header = (
        '#define LOAD(HINT) \\\n  asm("ld" HINT ".v2.b32 {%0, %1}, [%2];" : "=r"(x), "+r"(f(y)) : "l"(p), "l"(q))\n'
        'LOAD(".row %4, %5")\n'
    )
    mutants = {(m.kind, m.old, m.new) for m in mutants_of_asm("ptx/x.cuh", header)}
    assert mutants == {
        ("instruction left out", '"ld" HINT ".v2.b32 {%0, %1}, [%2];"', '""'),
        ("operand", '".v2.b32 {%0, %1}, [%2];"', '".v2.b32 {%1, %0}, [%2];"'),
        ("constraint", '"+r"(f(y))', '"=r"(f(y))'),
        ("operand", '"l"(p), "l"(q)', '"l"(q), "l"(p)'),
        ("qualifier", '".row %4, %5"', '".col %4, %5"'),
        ("operand", '".row %4, %5"', '".row %5, %4"'),
    }
    assert {asm.opcode for asm in asm_of('asm("{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %1, 0;\\n\\t}")')} == {
        "setp.ne.b32"
    }


# Mutants in the inline PTX of headers, and in the PTX of the smallest kernel.
CHOSEN_PTX = (
    ("ptx/global_memory.cuh", '"st.global.b16 [%0], %1;"', '""'),
    ("ptx/barrier.cuh", '"bar.sync 0;"', '""'),
    (f"{OF_CASE}matvec_f16_odd", "bar.sync", ""),
)


@needs_nvrtc
@pytest.mark.parametrize(("header", "old", "new"), CHOSEN_PTX, ids=lambda x: x.strip())
def test_a_mutant_of_ptx_is_reported(header: str, old: str, new: str) -> None:
    cases = [case for case in all_cases() if case.name == "matvec_f16_odd"]
    if header.startswith(OF_CASE):
        text = right_ptx(cases[0]).text or ""
        mutants = [m for m in mutants_of_ptx(header, text) if m.old.startswith(old) and m.new == new]
    else:
        mutants = [m for m in all_mutants(header) if (m.old, m.new) == (old, new)]
    assert mutants and {run(m, cases).result for m in mutants[:1]} == {"reported"}


@needs_nvrtc
def test_an_edit_that_the_compiler_undoes_is_not_reached() -> None:
    case = next(case for case in all_cases() if case.name == "copy_u8_tail")
    hint = next(m for m in all_mutants("common/cache_hints.cuh") if m.old == " == ")
    assert run(hint, [case]).result in ("unreached", "survived")
    unused = next(m for m in all_mutants("ptx/global_memory.cuh") if m.old == '"fence.acq_rel.gpu;"')
    assert run(unused, [case]).result == "unreached"


@needs_nvrtc
def test_mutants_of_ptx_alternate_between_cases() -> None:
    cases = [case for case in all_cases() if case.name in ("copy_u8_tail", "transpose_u64_odd")]
    few = list(islice(drawn_ptx_mutants(cases, 0), 8))
    assert few == list(islice(drawn_ptx_mutants(cases, 0), 8)) != list(islice(drawn_ptx_mutants(cases, 1), 8))
    assert Counter(m.header for m in few) == {OF_CASE + case.name: 4 for case in cases}


@needs_nvrtc
def test_mutants_of_every_instruction_are_drawn_once() -> None:
    text = "\tadd.s32 \t%r1, %r2, 1;\n\tsub.s32 \t%r3, %r1, %r2;\n\tret;\n"
    drawn = list(drawn_of_ptx("x", text, np.random.default_rng(0)))
    assert len(drawn) == len(set(drawn)) and set(drawn) == set(mutants_of_ptx("x", text))
    assert {m.line for m in drawn[:2]} == {1, 2}


@needs_nvrtc
def test_only_cases_that_are_drawn_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(mutations, "right_ptx", lambda case: compiled.append(case.name) or right_ptx(case))
    few = list(islice(drawn_ptx_mutants(all_cases(), 0), 2))
    assert [OF_CASE + name for name in compiled] == [m.header for m in few]


def first_of(header: str, old: str, new: str) -> Mutant:
    return next(m for m in all_mutants(header) if (m.old, m.new) == (old, new))


@needs_nvrtc
@pytest.mark.parametrize(
    ("header", "old", "new"),
    [mutant if i in (0, 3, 5) else pytest.param(*mutant, marks=pytest.mark.nightly) for i, mutant in enumerate(CHOSEN)],
    ids=lambda x: x.strip(),
)
def test_a_mutant_is_reported(header: str, old: str, new: str) -> None:
    outcome = run(first_of(header, old, new), all_cases())
    assert outcome.result == "reported", outcome


@needs_nvrtc
def test_a_sample_alternates_between_kinds_of_mutants() -> None:
    cases = [case for case in all_cases() if case.name in ("copy_u8_tail", "transpose_u64_odd")]
    few, more = sample_of_all(cases, 8, 0), sample_of_all(cases, 16, 0)
    assert more[:8] == few
    for i, mutant in enumerate(more):
        kinds = (mutant.header.startswith(WGMMA), mutant.header.startswith("ptx/"), mutant.header.startswith(OF_CASE))
        assert kinds == ((True, False, False), (False, True, False), (False,) * 3, (False, False, True))[i % 4]


@needs_nvrtc
def test_a_line_for_one_n_is_verified_with_a_tile_of_n_columns() -> None:
    mutant = next(m for m in all_mutants("ptx/wgmma/registers") if m.old == '"%23, %24"')
    outcome = run(mutant, [])
    assert (outcome.result, outcome.case) == ("reported", "wgmma_columns_40"), outcome


def chosen_cases(mutant: Mutant, cases: Sequence[Case], count: int) -> list[Case]:
    """Return the first ``count`` cases with which the mutant is verified, assuming that all cases execute its line."""
    tried: list[Case] = []
    for case in cases_of(mutant, cases, tried, lambda case: ""):
        if len(tried) == count:
            break
        tried.append(case)
    return tried


def test_different_cases_precede_similar_ones() -> None:
    cases, mutant = all_cases(), first_of("kernels/wgmma_matmul/stores.cuh", "1.0f", "0.0f")
    every, few = chosen_cases(mutant, cases, len(cases)), chosen_cases(mutant, cases, 24)
    assert len(every) > 48 and few == every[:24] and len({case.name for case in every}) == len(every)
    assert few[0].cost == min(case.cost for case in every)
    smallest = sorted(every, key=lambda case: (case.cost, case.name))[:24]
    assert len(frozenset().union(*map(traits, few))) > len(frozenset().union(*map(traits, smallest)))
    for name, values in (("scale", {"none", "block", "tensor", "row_column"}), ("acc", {"f16", "f32"})):
        assert {case.problem.to_json().get(name, "none") for case in few} >= values


def test_programs_are_compared_independently_of_register_names() -> None:
    text = "\t.reg .b32 %r<9>;\n\tadd.s32 %r1, %r2, %r2;\n\tst.u32 [%rd1+4], %r1;\n"
    renamed = "\t.reg .b32 %r<8>;\n\tadd.s32 %r7, %r3, %r3;\n\tst.u32 [%rd5+4], %r7;\n"
    assert program(text) == program(renamed)
    for other in ("%r3, %r2", "%r7, %r7"):
        assert program(text) != program(renamed.replace("%r3, %r3", other))
    assert program(text) != program(renamed.replace("+4], %r7", "+4], %r3"))


@needs_nvrtc
def test_faults_that_only_affect_row_scales_are_reported() -> None:
    """The mutated loop skips the row scales, so only a kernel with row scales shows the fault."""
    mutant = first_of("kernels/wgmma_matmul/stores.cuh", " < ", " > ")
    cases = [case for case in all_cases() if case.name in ("wgmma_scaled_rows_alone", "wgmma_one_column")]
    outcome = run(mutant, cases)
    assert (outcome.result, outcome.case) == ("reported", "wgmma_scaled_rows_alone"), outcome


@needs_nvrtc
@pytest.mark.parametrize(
    ("header", "old", "way"),
    [
        ("ptx/wgmma/in_f16.cuh", '"%11, %12"', "32_f16_sums"),
        ("ptx/wgmma/of_registers.cuh", '"{%8, %9, %10, %11}, %12, p"', "16_fragments"),
    ],
)
@pytest.mark.nightly
def test_a_line_for_one_n_is_verified_with_its_operand_source(header: str, old: str, way: str) -> None:
    outcome = run(next(m for m in all_mutants(header) if m.old == old), [])
    assert (outcome.result, outcome.case) == ("reported", f"wgmma_columns_{way}"), outcome


@needs_nvrtc
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_nearly_all_of_a_sample_are_reported() -> None:
    cases = all_cases()
    counts = Counter(run(mutant, cases).result for mutant in sample_of_all(cases, 60, 7))
    assert counts["reported"] >= 9 * counts["survived"], counts


@needs_nvrtc
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_sampled_schedules_of_all_templates_are_verified() -> None:
    h200 = device("h200")
    for problem, schedule in islice(drawn(7, h200), 120):
        outcome = verified(problem, schedule, h200)
        assert outcome["status"] == "ok", outcome
