"""Undefined bits are tracked through instructions, and are a finding if they affect the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, run_ptx

import autosched
from measurements.emulator import Emulation

pytestmark = needs_compiler

PTX = Path(__file__).parent
ALL = 0xFFFFFFFF
RNG = np.random.default_rng(5)


@dataclass(frozen=True)
class Case:
    """An instruction with operands %d, %a and %b. ``a`` and ``b`` are masks of the known bits of %a and %b."""

    text: str
    reference: Callable[[int, int], int]
    a: int
    b: int = ALL


def prmt(a: int, b: int, selector: int) -> int:
    both = (a | b << 32).to_bytes(8, "little")
    chosen = [(both[s & 7], s & 8) for s in (selector >> 4 * k & 15 for k in range(4))]
    return sum(
        (0xFF if byte & 0x80 else 0) << 8 * k if sign else byte << 8 * k for k, (byte, sign) in enumerate(chosen)
    )


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


# For these instructions, a bit of the result is known if and only if it does not depend on unknown bits.
EXACT = (
    Case("mov.b32 %d, %a;", lambda a, b: a, 0x00FF00F0), Case("not.b32 %d, %a;", lambda a, b: ~a, 0xFF0000FF),
    Case("and.b32 %d, %a, 0x0ff0ff00;", lambda a, b: a & 0x0FF0FF00, 0xFFFF0000),
    Case("or.b32 %d, %a, 0x0ff0ff00;", lambda a, b: a | 0x0FF0FF00, 0xFFFF0000),
    Case("and.b32 %d, %a, %b;", lambda a, b: a & b, 0x00FFFF00, 0x0000FFFF),
    Case("or.b32 %d, %a, %b;", lambda a, b: a | b, 0x00FFFF00, 0x0000FFFF),
    Case("xor.b32 %d, %a, %b;", lambda a, b: a ^ b, 0x00FFFF00, 0x0000FFFF),
    Case("lop3.b32 %d, %a, %b, 0x0f0f00ff, 0xf8;", lambda a, b: a | b & 0x0F0F00FF, 0xFF00FF00, 0x00FFFF00),
    Case("lop3.b32 %d, %a, %b, 0x0f0f00ff, 0xca;",
         lambda a, b: a & b | ~a & 0x0F0F00FF, 0xFFFFFF00, 0x00FFFFFF),
    Case("shl.b32 %d, %a, 12;", lambda a, b: a << 12, 0x00FFFF0F), Case("shl.b32 %d, %a, 40;", lambda a, b: 0, 0),
    Case("shr.u32 %d, %a, 12;", lambda a, b: a >> 12, 0x00FFFF0F),
    Case("shr.s32 %d, %a, 12;", lambda a, b: signed(a) >> 12, 0x0FFFFF0F),
    Case("shr.s32 %d, %a, 12;", lambda a, b: signed(a) >> 12, 0xF0FFFF0F),
    Case("shr.s32 %d, %a, 40;", lambda a, b: signed(a) >> 31, 0x80000000),
    Case("shf.l.wrap.b32 %d, %a, %b, 8;", lambda a, b: (b << 32 | a) << 8 >> 32, 0x0FFFFFFF, 0xFFFFF0FF),
    Case("shf.r.clamp.b32 %d, %a, %b, 8;", lambda a, b: (b << 32 | a) >> 8, 0x0FFFFFFF, 0xFFFFF0FF),
    Case("prmt.b32 %d, %a, %b, 0x7531;", lambda a, b: prmt(a, b, 0x7531), 0x0000FF00, 0xFF00FFFF),
    Case("prmt.b32 %d, %a, %b, 0xb3c8;", lambda a, b: prmt(a, b, 0xB3C8), 0x80FFFF7F, 0xFFFFFF80),
    Case("bfe.u32 %d, %a, 8, 12;", lambda a, b: a >> 8 & 0xFFF, 0x000F0F00),
    Case("bfe.s32 %d, %a, 8, 12;", lambda a, b: signed(a >> 8, 12), 0x00F0FF00),
    Case("bfe.s32 %d, %a, 8, 12;", lambda a, b: signed(a >> 8, 12), 0x000FFF00),
    Case("bfi.b32 %d, %a, %b, 8, 12;", lambda a, b: (a & 0xFFF) << 8 | b & ~(0xFFF << 8), 0xFFFFF0F0, 0xF0F0FF0F),
    Case("cvt.u32.u8 %d, %a;", lambda a, b: a & 0xFF, 0x000000F0),
    Case("cvt.s32.s8 %d, %a;", lambda a, b: signed(a, 8), 0x000000F0),
    Case("cvt.s32.s16 %d, %a;", lambda a, b: signed(a, 16), 0x00007FFF),
    Case("{ .reg .b16 l, h; mov.b32 {l, h}, %a; mov.b32 %d, {h, l}; }",
         lambda a, b: a >> 16 | (a & 0xFFFF) << 16, 0x00FFFF0F),
    Case("{ .reg .b64 w; mov.b64 w, {%a, %b}; shr.u64 w, w, 20; cvt.u32.u64 %d, w; }",
         lambda a, b: (a | b << 32) >> 20, 0x0FFFFFFF, 0xFFFFFF0F),
    Case("{ .reg .pred p; setp.eq.u32 p, 1, 1; selp.b32 %d, %a, %b, p; }", lambda a, b: a, 0x0000FFFF),
)  # fmt: skip
# For these instructions, some bits count as unknown although they do not depend on unknown bits. In integer sums and
# products, only the bits below the lowest unknown bit count as known. In packed instructions, only elements without
# unknown bits count as known. In other instructions, no bit counts as known.
LOW, HIGH, BOTH = 0xFFFF, 0xFFFF0000, 0
PAIR_OF_WORDS = (
    "{{ .reg .b64 p; .reg .b32 x, y; mov.b64 p, {{%a, %b}}; add.rn.f32x2 p, p, p; mov.b64 {{{}}}, p; mov.b32 %d, x; }}"
)
BOUNDED = (
    ("add.u32 %d, %a, %b;", 0xFFFF, ALL, LOW), ("add.u32 %d, %a, %b;", ALL, 0xFFFFF0FF, 0xFF),
    ("sub.s32 %d, %a, %b;", 0x00FFFF, 0xFFF, 0xFFF), ("mul.lo.s32 %d, %a, %b;", 0xFF, ALL, 0xFF),
    ("mad.lo.u32 %d, %a, %b, %b;", 0xFFFFF, ALL, 0xFFFFF), ("neg.s32 %d, %a;", 0xFFFF, ALL, LOW),
    ("add.f16x2 %d, %a, %b;", LOW, ALL, LOW), ("min.f16x2 %d, %a, %b;", HIGH, ALL, HIGH),
    ("add.f16x2 %d, %a, %b;", LOW, HIGH, BOTH), ("add.f16x2 %d, %a, %b;", 0xFFFF00FF, ALL, HIGH),
    ("set.nan.f16x2.f16x2 %d, %a, %a;", LOW, ALL, LOW), ("set.nan.f16x2.f16x2 %d, %a, %a;", HIGH, ALL, HIGH),
    ("{ .reg .f32 x, y; mov.b32 x, %a; mov.b32 y, %b; cvt.rz.f16x2.f32 %d, x, y; }", 0xFFFF, ALL, LOW),
    ("{ .reg .f32 x, y; mov.b32 x, %a; mov.b32 y, %b; cvt.rz.f16x2.f32 %d, x, y; }", ALL, 0xFFFF, HIGH),
    (PAIR_OF_WORDS.format("x, y"), ALL, 0xFFFF, ALL), (PAIR_OF_WORDS.format("y, x"), ALL, 0xFFFF, BOTH),
    ("add.f32 %d, %a, %b;", 0xFFFF, ALL, BOTH), ("popc.b32 %d, %a;", 0xFFFF, ALL, BOTH),
    ("prmt.b32 %d, %b, %b, %a;", 0xFFF, ALL, BOTH), ("shl.b32 %d, %b, %a;", 0xFF, ALL, BOTH),
)  # fmt: skip


def expected(case: Case, a: int, b: int) -> int:
    """Return the bits of a case's result that do not depend on the unknown bits."""
    known = ALL
    first = case.reference(a & case.a, b & case.b)
    fillings = [int(x) for x in RNG.integers(0, 2**32, 64)] + [0, ALL]
    for x in fillings:
        for y in fillings[:8] + fillings[-2:]:
            other = case.reference(a & case.a | x & ~case.a, b & case.b | y & ~case.b)
            known &= ~(first ^ other)
    return known & ALL


def checks() -> Iterator[tuple[str, int, int, int, int, int]]:
    """Yield each instruction's text, the masks and values of its sources, and the known bits of its result."""
    for case in EXACT:
        a, b = (int(x) for x in RNG.integers(0, 2**32, 2))
        yield case.text, case.a, case.b, a, b, expected(case, a, b)
    for text, a_mask, b_mask, known in BOUNDED:
        yield text, a_mask, b_mask, 0x3C013C01, 0x40034005, known


def test_instructions_propagate_undefined_bits_exactly() -> None:
    """Storing only the known bits of a result gives no finding. Storing an additional unknown bit gives a finding."""
    lines, expected = [], []
    for text, a_mask, b_mask, a, b, known in checks():
        unknown = [1 << bit for bit in range(32) if not known >> bit & 1]
        for mask in (known, *(known | bit for bit in {*unknown[:1], *unknown[-1:]})):
            n = len(expected)
            expected.append((mask != known, text, f"{mask:#010x}"))
            here = text.replace("%d", f"%d{n}").replace("%a", f"%a{n}").replace("%b", f"%b{n}")
            lines.append(
                f".reg .b32 %a{n}, %b{n}, %d{n}, %never{n}, %n{n}, %m{n};\n"
                # findings name this line, the only one that reads an unwritten register
                f"xor.b32 %n{n}, %never{n}, 0; // case {n}\n"
                f"and.b32 %a{n}, %n{n}, {~a_mask & ALL:#x}; or.b32 %a{n}, %a{n}, {a & a_mask:#x};\n"
                f"and.b32 %b{n}, %n{n}, {~b_mask & ALL:#x}; or.b32 %b{n}, %b{n}, {b & b_mask:#x};\n"
                f"{here}\nand.b32 %m{n}, %d{n}, {mask:#x}; st.global.u32 [%o+{8 * n}], %m{n};"
            )
    body = "\n".join(lines)
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %o; ld.param.u64 %o, [out];
{body}
ret; }}
"""
    run = run_ptx(text, len(expected), np.zeros(1, np.uint64), block=1)
    numbered = text.split("\n")
    reported = set()
    for finding in run.findings:
        if finding.kind == "unwritten_output":
            continue  # the upper halves of the words are unwritten
        assert finding.kind == "undefined_register", finding
        line = re.search(r"PTX line (\d+)", finding.instruction)
        assert line is not None
        case = re.search(r"// case (\d+)", numbered[int(line[1]) - 1])
        assert case is not None, finding
        reported.add(int(case[1]))
    wrong = [w for n, w in enumerate(expected) if w[0] != (n in reported)]
    assert not wrong, wrong
    assert len(reported) > len(expected) // 3


def kinds(run: Emulation) -> set[str]:
    return {f.kind for f in run.findings} - {"unwritten_output"}


def kernel_text(body: str, before: str = "") -> str:
    return f"""{HEAD}{before}.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %o, %i, %p, %w; .reg .b32 %t, %a, %b, %c, %never; .reg .b16 %h, %lost; .shared .align 16 .b8 tile[1024];
ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; mov.u32 %t, %tid.x; mov.u32 %a, 7;
mul.wide.u32 %w, %t, 8; add.u64 %p, %o, %w;
{body}
ret; }}
"""


def kernel(body: str, before: str = "") -> Emulation:
    return run_ptx(kernel_text(body, before), 32, np.zeros(4, np.uint64))


FUNCTION = """.func (.param .align 4 .b8 r[8]) swapped(.param .align 4 .b8 s[8]) {
.reg .b32 %x, %y;
ld.param.v2.b32 {%x, %y}, [s]; st.param.b32 [r], %y; st.param.b32 [r+4], %x;
ret; }
"""
CALLED = """{ .param .align 4 .b8 s[8]; .param .align 4 .b8 r[8];
st.param.v2.b32 [s], {%never, %a}; call (r), swapped, (s); ld.param.v2.b32 {%b, %c}, [r]; }
"""
MOVED = {  # copies an undefined word to %c and to the upper half of %x; %b is known
    "pack": "mov.b64 %x, {%a, %never}; mov.b64 {%b, %c}, %x;",
    "local": "st.local.v2.b32 [stack], {%a, %never}; ld.local.v2.b32 {%b, %c}, [stack];",
    "local_bytes": "mov.b64 %x, {%a, %never}; st.local.b64 [stack], %x; ld.local.b32 %b, [stack]; "
    "ld.local.u8 %c, [stack+5];",
    "never_stored": "st.local.b32 [stack], %a; ld.local.v2.b32 {%b, %c}, [stack];",
    "generic": "{ .reg .b64 g; mov.u64 g, stack; cvta.local.u64 g, g; st.v2.b32 [g], {%a, %never}; "
    "ld.v2.b32 {%b, %c}, [g]; }",
    "shared": "{ .reg .b32 s; mov.u32 s, tile; mad.lo.u32 s, %t, 8, s; st.shared.v2.b32 [s], {%a, %never}; "
    "ld.shared.v2.b32 {%b, %c}, [s]; }",
    "shuffle": "shfl.sync.idx.b32 %b, %a, 0, 31, -1; shfl.sync.idx.b32 %c, %never, 0, 31, -1;",
    "call": CALLED,
}


USED = (  # True if the use is a fault
    ("cvt.u64.u32 %x, %b; st.global.u64 [%p], %x;", False),
    ("cvt.u64.u32 %x, %c; st.global.u64 [%p], %x;", True),
    ("add.u32 %c, %c, %a; cvt.u64.u32 %x, %c; st.global.u64 [%p], %x;", True),
    ("and.b32 %c, %c, 0; cvt.u64.u32 %x, %c; st.global.u64 [%p], %x;", False),
    ("st.global.v2.b32 [%p], {%b, %c};", True),
    ("cvt.u64.u32 %x, %c; and.b64 %x, %x, 8; add.u64 %x, %x, %p; st.global.u64 [%x], 1;", True),
    ("cvt.u64.u32 %x, %c; and.b64 %x, %x, 8; add.u64 %x, %x, %i; ld.global.u64 %x, [%x];", True),
    ("setp.gt.u32 %q, %c, 3; @%q st.global.u64 [%p], 1;", True),
    ("setp.gt.u32 %q, %b, 3; @%q st.global.u64 [%p], 1;", False),
)


def test_copied_undefined_bits_are_reported_at_their_use() -> None:
    """Copying undefined bits is no fault. Storing them to global memory, addressing or branching with them is a fault.

    All pairs of a copy and a use are in one kernel. Each pair is a scope on a separate line, which findings name.
    """
    pairs = [(way, use, reported) for way in MOVED for use, reported in USED]
    scopes = [
        "{ .reg .b32 %b, %c, %never; .reg .b64 %x; .reg .pred %q; "
        f".local .align 16 .b8 stack{n}[16]; .shared .align 16 .b8 tile{n}[256]; "
        + re.sub(r"\b(stack|tile)\b", rf"\g<1>{n}", f"{MOVED[way]} {use} }}").replace("\n", " ")
        for n, (way, use, _) in enumerate(pairs)
    ]
    before = kernel_text("", FUNCTION).split("\n").index("") + 1
    run = run_ptx(kernel_text("\n".join(scopes), FUNCTION), 32, np.zeros(32, np.uint64), block=8)
    assert kinds(run) <= {"undefined_register", "lost_write"}, run.findings
    reported = {int(m[1]) - before for f in run.findings if (m := re.search(r"PTX line (\d+)", f.instruction))
             if f.kind == "undefined_register"}  # fmt: skip
    expected = {n for n, (_, _, fault) in enumerate(pairs) if fault}
    assert reported == expected, [pairs[n] for n in reported ^ expected]


def test_a_narrow_store_only_reads_the_stored_bytes() -> None:
    narrow = "mov.b32 %b, {%h, %lost}; st.global.u16 [%p], %b;"
    assert not kinds(kernel(f"mov.u16 %h, 5; {narrow.replace('u16', 'b16')}"))
    assert kinds(kernel(f"mov.u16 %h, 5; {narrow.replace('st.global.u16', 'st.global.u32')}")) == {"undefined_register"}


def test_undefined_bits_in_shared_memory_reach_matrices_and_atomics() -> None:
    at = "mov.u32 %b, tile; mad.lo.u32 %b, %t, 16, %b;"
    store = "st.shared.v4.b32 [%b], {%a, %a, %a, %never};"
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%c}, [%b];"
    assert not kinds(kernel(f"{at} {store} st.shared.b32 [%b+12], %a; bar.sync 0; {load}"))
    assert not kinds(kernel(f"{at} {store} bar.sync 0; {load}"))  # loaded ahead and not used
    assert kinds(kernel(f"{at} {store} bar.sync 0; {load} st.global.b32 [%p], %c;")) == {"undefined_register"}
    assert kinds(kernel(f"{at} {store} atom.shared.add.u32 %c, [%b+12], 1;")) == {"undefined_register"}
    assert not kinds(kernel(f"{at} {store} atom.shared.add.u32 %c, [%b+8], 1;"))


def test_transposing_a_matrix_moves_its_unknown_elements() -> None:
    # Lane 4 holds elements 0 and 1 of row 1. After the transpose they are the second elements of lanes 0 and 4.
    some = ".reg .pred %q; .reg .b16 %g; setp.ne.u32 %q, %t, 4; mov.u32 %c, %never; @%q mov.u32 %c, %a;"
    moved = f"{some} movmatrix.sync.aligned.m8n8.trans.b16 %b, %c;"
    store = "setp.eq.u32 %q, %t, {lane}; @%q st.global.b16 [%p], {half};"
    for lane, half, reported in (
        (0, "%h", False),
        (0, "%g", True),
        (4, "%g", True),
        (4, "%h", False),
        (1, "%g", False),
    ):
        text = kernel(f"{moved} mov.b32 {{%h, %g}}, %b; {store.format(lane=lane, half=half)}")
        assert kinds(text) == ({"undefined_register"} if reported else set()), (lane, half)


@pytest.mark.parametrize(("index", "expected"), [("%a", set()), ("%never", {"undefined_register"})])
def test_a_jump_by_a_table_takes_an_index_that_is_known(index: str, expected: set[str]) -> None:
    text = f"""and.b32 %b, {index}, 1; TABLE: .branchtargets FIRST, SECOND; brx.idx %b, TABLE;
FIRST: SECOND: st.global.u32 [%p], %a;"""
    assert kinds(kernel(text)) == expected


RECURSIVE = """.func (.param .b32 r) deep(.param .b32 n, .param .align 4 .b8 s[8]) {
.reg .b32 %n, %m, %x, %y, %z; .reg .b64 %w; .reg .pred %q;
ld.param.b32 %n, [n]; ld.param.v2.b32 {%x, %y}, [s]; mov.b64 %w, {%x, %y};
setp.eq.u32 %q, %n, 0; mov.u32 %z, 1;
@%q bra DONE;
sub.u32 %m, %n, 1;
{ .param .b32 p; .param .align 4 .b8 t[8]; .param .b32 v;
st.param.b32 [p], %m; st.param.v2.b32 [t], {%m, %n}; call (v), deep, (p, t); ld.param.b32 %z, [v]; }
mov.b64 {%x, %y}, %w; add.u32 %z, %z, USED;
DONE:
st.param.b32 [r], %z;
ret; }
"""


@pytest.mark.parametrize(("used", "reported"), [("%x", False), ("%y", True)])
def test_a_recursive_call_keeps_undefined_bits_of_its_caller(used: str, reported: bool) -> None:
    body = """{ .param .b32 p; .param .align 4 .b8 t[8]; .param .b32 v;
st.param.b32 [p], 2; st.param.v2.b32 [t], {%a, %never}; call (v), deep, (p, t); ld.param.b32 %b, [v]; }
st.global.u32 [%p], %b;"""
    assert kinds(kernel(body, RECURSIVE.replace("USED", used))) == ({"undefined_register"} if reported else set())


def test_registers_are_undefined_at_the_start_of_each_block() -> None:
    text = kernel_text(
        "mov.u32 %c, %ctaid.x; setp.eq.u32 %q, %c, 0; @%q mov.u32 %b, 5; "
        "mad.wide.u32 %p, %c, 256, %p; cvt.u64.u32 %w, %b; st.global.u64 [%p], %w;"
    ).replace("ld.param.u64 %o", ".reg .pred %q; ld.param.u64 %o")
    assert not kinds(run_ptx(text, 32, np.zeros(4, np.uint64)))
    assert kinds(run_ptx(text, 64, np.zeros(4, np.uint64), grid=2)) == {"undefined_register"}


def test_debug_code_may_copy_undefined_fields() -> None:
    """A finding names the line that first reads the undefined field, and the line at which the value has an effect."""
    text = (PTX / "stack_copies.ptx").read_text()
    a = np.arange(64, dtype=np.float32)

    def launch(name: str) -> autosched.verify.emulate.emulate.EmulatedLaunch:
        return autosched.emulate(text, kernel=name, arguments=(np.zeros_like(a), a), grid=1, block=64, outputs=(0,))

    right = launch("right")
    assert right.ok, right.reason
    np.testing.assert_array_equal(right.arrays[0], 2 * a)
    for name, source in (("wrong", "q.x * q.count"), ("decides", "if (q.tag)")):
        findings = [f for f in launch(name).findings if f.kind == "undefined_register"]
        line = next(k for k, x in enumerate((PTX / "stack_copies.cu").read_text().split("\n"), 1) if source in x)
        returns = next(
            k for k, x in enumerate((PTX / "stack_copies.cu").read_text().split("\n"), 1) if "are unwritten" in x
        )
        assert [f.line for f in findings] == [returns]
        assert f"stack_copies.cu:{line}" in findings[0].message


RESULT = """
.func (.param .b32 result) chosen(.param .b32 x) {
  .reg .pred %p;
  .reg .b32 %r;
  ld.param.b32 %r, [x];
  setp.gt.u32 %p, %r, 3;
  @%p bra DONE;
  st.param.b32 [result], %r;
DONE:
  ret;
}
.visible .entry kernel(.param .u64 out) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  { .param .b32 argument;
    .param .b32 returned;
    st.param.b32 [argument], %r1;
    call (returned), chosen, (argument);
    ld.param.b32 %r2, [returned]; }
  st.global.u32 [%rd3], %r2;
  ret;
}"""


def test_a_result_that_a_function_never_writes_is_undefined() -> None:
    text = ".version 8.0\n.target sm_80\n.address_size 64" + RESULT

    def run(program: str) -> autosched.verify.emulate.emulate.EmulatedLaunch:
        out = np.zeros(32, np.uint32)
        return autosched.emulate(program, kernel="kernel", arguments=(out,), grid=1, block=32, outputs=(0,))

    complete = run(text.replace("@%p bra DONE;", ""))
    assert complete.ok, complete.reason
    np.testing.assert_array_equal(complete.arrays[0], np.arange(32))
    (finding,) = run(text).findings
    assert str(finding.kind) == "undefined_register" and "28 times" in str(finding)
    # An unused result is no fault.
    assert run(text.replace("st.global.u32 [%rd3], %r2", "st.global.u32 [%rd3], %r1")).ok
