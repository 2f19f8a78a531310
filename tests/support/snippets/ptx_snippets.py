"""Run single PTX instructions on arrays of operands, many instructions per launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from measurements.emulator import Emulation, emulate_ptx
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

Words = npt.NDArray[np.uint64]
BYTES = {"b16": 2, "b32": 4, "b64": 8}
HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
# o[t] = a[t] + 1 for 32-bit words
ADD_ONE = """.version 7.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 a, .param .u64 o) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [o];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd5], %r2;
  ret;
}
"""


@dataclass(frozen=True)
class Snippet:
    """An instruction: ``text`` with %d, %a, %b, %c in place of its registers.

    ``to`` and ``sources`` are the types of the registers. ``reference`` maps the bits of the operands to those of the
    result, as Python ints.
    """

    text: str
    to: str
    sources: tuple[str, ...]
    reference: Callable[..., int]


def _lines(k: int, snippet: Snippet, count: int) -> str:
    text = snippet.text
    lines = []
    for name, kind in zip("abc", snippet.sources, strict=False):
        register = f"%x{k}{name}"
        lines.append(f".reg .b64 {register}w; ld.global.u64 {register}w, [%in+{'abc'.index(name) * 8 * count}];")
        if kind == "pred":
            lines.append(f".reg .pred {register}; setp.ne.u64 {register}, {register}w, 0;")
        elif kind == "b64":
            lines.append(f".reg .b64 {register}; mov.b64 {register}, {register}w;")
        else:
            lines.append(f".reg .{kind} {register}; cvt.u{kind[1:]}.u64 {register}, {register}w;")
        text = text.replace(f"%{name}", register)
    lines.append(f".reg .{snippet.to} %y{k}; .reg .b64 %y{k}w;")
    lines.append(text.replace("%d", f"%y{k}"))
    if snippet.to == "pred":
        lines.append(f"selp.u64 %y{k}w, 1, 0, %y{k};")
    elif snippet.to == "b64":
        lines.append(f"mov.b64 %y{k}w, %y{k};")
    else:
        lines.append(f"cvt.u64.u{snippet.to[1:]} %y{k}w, %y{k};")
    lines.append(f"st.global.u64 [%out+{k * 8 * count}], %y{k}w;")
    return "\n".join(lines)


def results(snippets: Sequence[Snippet], operands: Sequence[Sequence[int]], perturb: bool = False) -> Words:
    """Return the results of each snippet for each of the operands (a, b, c), as an array of (snippets, operands)."""
    count = len(operands)
    threads = -(-count // 32) * 32
    padded = [*operands, *([operands[0]] * (threads - count))]
    lanes = np.array(padded, dtype=np.uint64).T.copy()
    while lanes.shape[0] < 3:
        lanes = np.vstack([lanes, np.zeros((1, threads), np.uint64)])
    body = "\n".join(_lines(k, s, threads) for k, s in enumerate(snippets))
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %out, %in, %offset; .reg .b32 %t, %block;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %tid.x; mov.u32 %block, %ctaid.x;
mad.lo.u32 %t, %block, 32, %t;
mul.wide.u32 %offset, %t, 8;
add.u64 %out, %out, %offset; add.u64 %in, %in, %offset;
{body}
ret; }}
"""
    run = run_ptx(text, len(snippets) * threads, lanes, grid=threads // 32, block=32, perturb=perturb)
    assert run.ok, run.reason
    return run.outputs["out"].view(np.uint64).reshape(len(snippets), threads)[:, :count]


@dataclass(frozen=True)
class WarpSnippet:
    """A warp-wide instruction: ``text`` with %d, %a, %b ... in place of lists of 32-bit registers.

    ``results`` and ``sources`` are the lengths of the lists.
    """

    text: str
    results: int
    sources: tuple[int, ...]


def warp_program(snippets: Sequence[WarpSnippet]) -> str:
    """Return PTX that executes each instruction once.

    Each source register has 32 words of 8 bytes in ``in``, one per lane. Each result register has 32 words in ``out``.
    """
    lines, read, written = [], 0, 0
    for k, snippet in enumerate(snippets):
        results = [f"%d{k}_{i}" for i in range(snippet.results)]
        lines += [f".reg .b32 {name};" for name in results]
        text = snippet.text.replace("%d", ", ".join(results))
        for side, count in zip("abcdefgh".replace("d", ""), snippet.sources, strict=False):
            names = [f"%{side}{k}_{i}" for i in range(count)]
            text = text.replace(f"%{side}", ", ".join(names))
            for name in names:
                lines.append(f".reg .b32 {name}; ld.global.u32 {name}, [%in+{256 * read}];")
                read += 1
        lines.append(text)
        for name in results:
            lines.append(f"cvt.u64.u32 %wide, {name}; st.global.u64 [%out+{256 * written}], %wide;")
            written += 1
    body = "\n".join(lines)
    return f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %out, %in, %offset, %wide; .reg .b32 %t;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %tid.x; mul.wide.u32 %offset, %t, 8;
add.u64 %out, %out, %offset; add.u64 %in, %in, %offset;
{body}
ret; }}
"""


def run_ptx(
    text: str,
    words: int,
    values: npt.NDArray[Any],
    *,
    grid: int = 1,
    block: int = 32,
    shared: int = 0,
    perturb: bool = False,
) -> Emulation:
    """Run ``kernel(out, in)``, whose output consists of ``words`` 8-byte words."""
    u64 = SCALAR_DTYPES["u64"]
    plain = np.ascontiguousarray(values).view(np.uint64).reshape(-1)
    launch = Launch(
        entry="kernel",
        arguments=(Operand("out", "output", u64, (words,)), Operand("in", "input", u64, plain.shape)),
        grid=(grid, 1, 1),
        block=(block, 1, 1),
    )
    return emulate_ptx(text, launch, {"in": plain}, time_limit=60, perturb=perturb)


def disagreements(snippets: Sequence[Snippet], operands: Sequence[Sequence[int]]) -> list[str]:
    """Return a few differences between the emulator's results and the references for each snippet that has any."""
    differences: list[str] = []
    for snippet, row in zip(snippets, results(snippets, operands), strict=True):
        masks = [2 ** (8 * BYTES[s]) - 1 if s in BYTES else 1 for s in snippet.sources]
        wrong = []
        for values, actual in zip(operands, row, strict=True):
            masked = [x & m if m > 1 else int(x != 0) for x, m in zip(values, masks, strict=False)]
            expected = snippet.reference(*masked) & (2 ** (8 * BYTES.get(snippet.to, 8)) - 1)
            if int(actual) != expected:
                shown = ", ".join(f"{x:#x}" for x in masked)
                wrong.append(f"{snippet.text} of {shown}: {int(actual):#x}, not {expected:#x}")
        differences += wrong[:3]
    return differences
