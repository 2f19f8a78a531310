"""The reduction issue's listings: a matvec as linalg.generic with a lowering config, at any stage of its tiling.

What a listing computes is in its body, its indexing maps and its tensors; how it is tiled is what the config says, so a
listing whose tiling is written out is the same program. The expanded config adds up a thread's vector in the loop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from search_spaces.hardware.dtypes import dtype
from search_spaces.layouts.lowering_config import LoweringConfig
from search_spaces.programs.builder import ARRAY_DTYPES, Argument, Builder, Program
from search_spaces.programs.language.ir import Array, ProgramError

_CONFIG = re.compile(r"lowering_config\s*<\s*\{(.*?)\}", re.DOTALL)
_TENSOR = re.compile(r"(?:tensor|memref)<((?:\d+x)+)(f16|bf16|f32|8?f16)\b")
_BODY = re.compile(
    r"arith\.extf %(\w+) .*?arith\.extf %(\w+) .*?= arith\.mulf .*?(?:arith\.select .*?)?= arith\.addf", re.DOTALL
)
_COUNT = re.compile(r"arith\.cmpi ult, %\w+, %c(\d+)")


@dataclass(frozen=True)
class LinalgMatvec:
    """``out[m, n] = sum over k of x[m, k] * w[n, k]``, added up in f32, tiled as ``config`` says."""

    m: int
    n: int
    k: int
    element: str
    config: LoweringConfig
    notes: tuple[str, ...]

    def program(self, name: str, content: str) -> Program:
        """Its three extents are the sizes; the config's step, rows and vector stay."""
        config, expanded = self.config, any(self.config.expand_dims)
        plain = config
        if expanded:  # one step of the plain config: the outer step times the inner one
            inner = config.expand_dims[-1]
            step, thread = config.partial_reduction[2] * inner, inner
        else:
            step, thread = config.partial_reduction[2], config.thread[2]
        rows, columns = config.workgroup[:2]
        if columns != 1:
            raise ProgramError(f"{name}: a workgroup of {columns} columns is not read from a listing")
        if expanded:  # the appended dimension lies within a thread, as neighbours along k
            plain = LoweringConfig(
                workgroup=config.workgroup[:3],
                thread=(*config.thread[:2], thread),
                lane_basis=type(config.lane_basis)(config.lane_basis.counts[:3], config.lane_basis.mapping[:3]),
                subgroup_basis=type(config.subgroup_basis)(
                    config.subgroup_basis.counts[:3], config.subgroup_basis.mapping[:3]
                ),
                partial_reduction=(*config.partial_reduction[:2], step),
            )
        held = plain.to_nested((0, 2))

        def function(p: Builder, x: Array, w: Array, out: Array) -> None:
            i, j = p.blocks(out.shape, (rows, 1))
            window, line = p.window(x, (i, 0), (rows, step)), p.window(w, (j, 0), (1, step))
            acc = p.state(p.zeros((rows, step // thread if expanded else step)))
            for _ in p.steps(x.shape[1], step):
                product = p.load(window).cast("f32") * p.load(line).cast("f32")
                product = p.convert_layout(product, held)
                acc.set(acc + (p.reduction("add", product, dim=1, size=thread) if expanded else product))
                window.move(0, step)
                line.move(0, step)
            p.store(p.reduction("add", acc, dim=1), p.window(out, (i, j), (rows, 1)))

        element, f32 = dtype(self.element, ARRAY_DTYPES), dtype("f32", ARRAY_DTYPES)
        arguments = (
            ("x", Argument(("m", "k"), element, "input")),
            ("w", Argument(("n", "k"), element, "input")),
            ("out", Argument(("m", "n"), f32, "output")),
        )
        sizes = (("m", self.m), ("n", self.n), ("k", self.k))
        return Program(name, function, arguments, content, "x @ w^T, from a listing of linalg", sizes, self.notes)


def is_linalg(text: str) -> bool:
    return "linalg.generic" in text


def read_matvec(text: str, file: str) -> LinalgMatvec:
    """Raise ProgramError for another computation than a matvec, or one without a config."""
    notes: list[str] = []

    def note(at: int, reading: str) -> None:
        line = f"{file}:{text.count(chr(10), 0, at) + 1}: {reading}"
        if line not in notes:
            notes.append(line)

    found = _CONFIG.search(text)
    if found is None:
        raise ProgramError(f"{file}: linalg.generic has no lowering_config that says how it is tiled")
    try:
        config = LoweringConfig.parse(f"#iree_gpu.lowering_config<{{{found.group(1)}}}>")
    except ValueError as error:
        raise ProgramError(f"{file}:{text.count(chr(10), 0, found.start()) + 1}: {error}") from error
    if not text[found.end() :].lstrip().startswith(">"):
        note(found.end(), "the bracket > of the lowering_config is missing")
    if _BODY.search(text) is None:
        raise ProgramError(f"{file}: linalg.generic: only sums of products of widened operands are read")
    shapes: dict[tuple[int, ...], str] = {}
    for tensor in _TENSOR.finditer(text):
        dims = tuple(int(d) for d in tensor.group(1).split("x") if d)
        element = tensor.group(2)
        if element == "8f16":
            note(tensor.start(), "the x in front of f16 is missing")
            dims, element = (*dims, 8), "f16"
        if len(dims) == 3 and config.expand_dims and dims[2] == config.expand_dims[-1]:
            dims = (dims[0], dims[1] * dims[2])
        if len(dims) == 2:
            shapes.setdefault(dims, element)
    wide = sorted((s for s, e in shapes.items() if e != "f32"), key=lambda s: (s[1], s[0]))
    deepest = [s for s in wide if s[1] == wide[-1][1]] if wide else []
    outputs = [s for s, e in shapes.items() if e == "f32"]
    if len(deepest) < 2 or not outputs:
        raise ProgramError(f"{file}: linalg.generic: it needs two operands and a result of two dimensions")
    m, n = max(outputs, key=lambda s: s[0] * s[1])
    k = deepest[-1][1]
    if (m, k) not in shapes or (n, k) not in shapes:
        raise ProgramError(f"{file}: linalg.generic: operands {m}x{k} and {n}x{k} are not in the text")
    for count in _COUNT.finditer(text):
        expected = k // config.expand_dims[-1] if config.expand_dims else k
        if int(count.group(1)) != expected:
            note(
                count.start(), f"the mask compares a place below {expected} with {count.group(1)}: {expected} is meant"
            )
    if config.subgroup_basis and "scf.for" in text and "linalg.reduce" in text:
        note(0, "the tiling is written out: it is what the config says")
    return LinalgMatvec(m, n, k, shapes[m, k], config, tuple(notes))
