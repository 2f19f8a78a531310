"""Read listings of reductions in IREE: linalg.generic with a lowering config, before or after tiling.

The body and the tensor types of a listing determine the computation: a matvec, or sums of rows. The lowering config
determines the tiling. So a listing before tiling and the same listing after tiling give the same program. With a config
that expands dimensions, each thread reduces its vector in each iteration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from search_spaces.hardware.dtypes import dtype
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.programs.builder import ARRAY_DTYPES, Argument, Builder, Program
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.language.values import State, Tile

_CONFIG = re.compile(r"lowering_config\s*<\s*\{(.*?)\}", re.DOTALL)
_TENSOR = re.compile(r"(?:tensor|memref)<((?:\d+x)+)(f16|bf16|f32|8?f16)\b")
_BODY = re.compile(r"\^bb0(.*?)linalg\.yield", re.DOTALL)
_OPERATION = re.compile(r"=\s*((?:arith|math|linalg)\.\w+)")
_FACTORS = re.compile(r"arith\.mulf %(\w+), %(\w+)")
_COUNT = re.compile(r"arith\.cmpi ult, %\w+, %c(\d+)")
_OF_SUMS = {"arith.addf", "arith.extf", "arith.select", "arith.cmpi", "linalg.index"}


@dataclass(frozen=True)
class LinalgReduction:
    """``out[m, n] = sum over k of x[m, k] * w[n, k]``, or ``out[m] = sum over k of x[m, k]`` if ``n`` is 0.

    Sums are computed in f32. ``config`` determines the tiling.
    """

    m: int
    n: int
    k: int
    element: str
    config: LoweringConfig
    notes: tuple[str, ...]

    @property
    def reduced(self) -> int:
        """Index of k among the config's dimensions."""
        return 2 if self.n else 1

    @property
    def thread(self) -> int:
        """Number of consecutive elements along k per thread."""
        inner = self.config.expand_dims
        return inner[-1] if any(inner) else self.config.thread[self.reduced]

    @property
    def step(self) -> int:
        """Step of the loop along k; for a config that expands k, the outer step times the inner extent."""
        outer = self.config.partial_reduction[self.reduced]
        return outer * self.thread if any(self.config.expand_dims) else outer

    def layout(self) -> NestedLayout:
        """Return the distribution of the values, of shape (rows, step), that a block adds in an iteration.

        If the config expands k, the elements of a thread along the added dimension are consecutive along k.
        """
        config, count = self.config, self.reduced + 1
        if any(config.expand_dims):

            def truncated(basis: Basis) -> Basis:
                return Basis(basis.counts[:count], basis.mapping[:count])

            config = LoweringConfig(
                workgroup=config.workgroup[:count],
                thread=(*config.thread[: self.reduced], self.thread),
                lane_basis=truncated(config.lane_basis),
                subgroup_basis=truncated(config.subgroup_basis),
                partial_reduction=(*config.partial_reduction[: self.reduced], self.step),
            )
        return config.to_nested((0, self.reduced))

    def program(self, name: str, content: str) -> Program:
        """Return the program. Extents are named sizes; step, rows, columns and vector of the config are constants."""
        element, f32 = dtype(self.element, ARRAY_DTYPES), dtype("f32", ARRAY_DTYPES)
        x = ("x", Argument(("m", "k"), element, "input"))
        w = ("w", Argument(("n", "k"), element, "input"))
        if self.n:
            arguments = (x, w, ("out", Argument(("m", "n"), f32, "output")))
            sizes = (("m", self.m), ("n", self.n), ("k", self.k))
            return Program(
                name, self._products(), arguments, content, "x @ w^T, from a linalg listing", sizes, self.notes
            )
        summary, sizes_of_sums = "the sums of rows, from a linalg listing", (("m", self.m), ("k", self.k))
        sums = ("out", Argument(("m",), f32, "output"))
        return Program(name, self._sums(), (x, sums), content, summary, sizes_of_sums, self.notes)

    def _products(self) -> Callable[..., None]:
        rows, columns, step = self.config.workgroup[0], max(1, self.config.workgroup[1]), self.step

        def function(p: Builder, x: Array, w: Array, out: Array) -> None:
            i, j = p.blocks(out.shape, (rows, columns))
            window = p.window(x, (i, 0), (rows, step))
            lines = [p.window(w, (j + column, 0), (1, step)) for column in range(columns)]
            sums = [self._state(p) for _ in lines]
            for _ in p.steps(x.shape[1], step):
                held = p.load(window).cast("f32")
                for acc, line in zip(sums, lines, strict=True):
                    self._add(p, acc, held * p.load(line).cast("f32"))
                for moved in (window, *lines):
                    moved.move(0, step)
            for column, acc in enumerate(sums):
                p.store(p.reduction("add", acc, dim=1), p.window(out, (i, j + column), (rows, 1)))

        return function

    def _sums(self) -> Callable[..., None]:
        rows, step = self.config.workgroup[0], self.step

        def function(p: Builder, x: Array, out: Array) -> None:
            (i,) = p.blocks(out.shape, (rows,))
            window, acc = p.window(x, (i, 0), (rows, step)), self._state(p)
            for _ in p.steps(x.shape[1], step):
                self._add(p, acc, p.load(window).cast("f32"))
                window.move(0, step)
            p.store(p.reduction("add", acc, dim=1), p.window(out, (i, 0), (rows, 1), column=True))

        return function

    def _state(self, p: Builder) -> State:
        carried = self.step // self.thread if any(self.config.expand_dims) else self.step
        return p.state(p.zeros((self.config.workgroup[0], carried)))

    def _add(self, p: Builder, acc: State, values: Tile) -> None:
        """Add the values of one iteration to the loop's state."""
        held = p.convert_layout(values, self.layout())
        expanded = any(self.config.expand_dims)
        acc.set(acc + (p.reduction("add", held, dim=1, size=self.thread) if expanded else held))


def is_linalg(text: str) -> bool:
    """Return True if a text contains linalg operations."""
    return "linalg.generic" in text


def read_reduction(text: str, file: str) -> LinalgReduction:
    """Parse a reduction.

    Raises:
        ProgramError: If the text is neither a matvec nor sums of rows, or has no lowering config.
    """
    notes: list[str] = []

    def note(at: int, reading: str) -> None:
        line = f"{file}:{text.count(chr(10), 0, at) + 1}: {reading}"
        if line not in notes:
            notes.append(line)

    match = _CONFIG.search(text)
    if match is None:
        raise ProgramError(f"{file}: linalg.generic has no lowering_config: add one, which determines the tiles")
    try:
        config = LoweringConfig.parse(f"#iree_gpu.lowering_config<{{{match.group(1)}}}>")
    except ValueError as error:
        raise ProgramError(f"{file}:{text.count(chr(10), 0, match.start()) + 1}: {error}") from error
    if not text[match.end() :].lstrip().startswith(">"):
        note(match.end(), "the closing bracket > of the lowering_config is missing")
    products = _is_of_products(text, file)
    dimensions = 3 if products else 2
    if config.rank != dimensions + sum(map(bool, config.expand_dims)):
        raise ProgramError(
            f"{file}: linalg.generic: lowering_config has {config.rank} dimensions: {dimensions} are needed"
        )
    if not config.workgroup[0] or not config.partial_reduction[dimensions - 1]:
        raise ProgramError(f"{file}: linalg.generic: lowering_config lacks the rows of a workgroup or the step along k")
    if products and config.lane_basis.tile[1] * config.subgroup_basis.tile[1] > 1:
        note(
            match.start(),
            "lanes and subgroups along the columns hold copies: they are read as if they held consecutive columns",
        )
    shapes: dict[tuple[int, ...], str] = {}
    for tensor in _TENSOR.finditer(text):
        dims = tuple(int(d) for d in tensor.group(1).split("x") if d)
        element = tensor.group(2)
        if element == "8f16":
            note(tensor.start(), "the x in front of f16 is missing")
            dims, element = (*dims, 8), "f16"
        if len(dims) == 3 and config.expand_dims and dims[2] == config.expand_dims[-1]:
            dims = (dims[0], dims[1] * dims[2])
        if len(dims) <= 2:
            shapes.setdefault(dims, element)
    m, n, k = (_sizes_of_products if products else _sizes_of_sums)(shapes, file)
    for count in _COUNT.finditer(text):
        expected = k // config.expand_dims[-1] if config.expand_dims else k
        if int(count.group(1)) != expected:
            note(
                count.start(),
                f"the mask compares with {count.group(1)}, but positions are below {expected}: {expected} is used",
            )
    if "scf.for" in text and "linalg.reduce" in text:
        note(0, "the text is already tiled: its tiling is assumed to agree with the config")
    return LinalgReduction(m, n, k, shapes[m, k], config, tuple(notes))


def _is_of_products(text: str, file: str) -> bool:
    """Return True for sums of products, False for plain sums. Raises ProgramError for other computations."""
    body = _BODY.search(text)
    operations = _OPERATION.findall(body.group(1)) if body is not None else []
    other_operations = set(operations) - _OF_SUMS
    factors = _FACTORS.search(body.group(1)) if body is not None else None
    if "arith.addf" in operations and not other_operations:
        return False
    once = (
        other_operations == {"arith.mulf"}
        and operations.count("arith.mulf") == 1
        and operations.count("arith.extf") == 2
    )
    if "arith.addf" in operations and once and factors is not None and factors.group(1) != factors.group(2):
        return True
    raise ProgramError(
        f"{file}: linalg.generic: unsupported computation: use sums, or sums of products of widened operands"
    )


def _sizes_of_products(shapes: dict[tuple[int, ...], str], file: str) -> tuple[int, int, int]:
    matrices = {s: e for s, e in shapes.items() if len(s) == 2}
    wide = sorted((s for s, e in matrices.items() if e != "f32"), key=lambda s: (s[1], s[0]))
    deepest = [s for s in wide if s[1] == wide[-1][1]] if wide else []
    outputs = [s for s, e in matrices.items() if e == "f32"]
    if len(deepest) < 2 or not outputs:
        raise ProgramError(f"{file}: linalg.generic: two operands and a result of two dimensions are needed")
    m, n = max(outputs, key=lambda s: s[0] * s[1])
    k = deepest[-1][1]
    if (m, k) not in shapes or (n, k) not in shapes:
        raise ProgramError(f"{file}: linalg.generic: operands of {m}x{k} and {n}x{k} are missing in the text")
    return m, n, k


def _sizes_of_sums(shapes: dict[tuple[int, ...], str], file: str) -> tuple[int, int, int]:
    matrices, outputs = [s for s in shapes if len(s) == 2], [s for s, e in shapes.items() if len(s) == 1 and e == "f32"]
    if not matrices or not outputs:
        raise ProgramError(
            f"{file}: linalg.generic: an operand of two dimensions and an f32 result of one dimension are needed"
        )
    m, k = max(matrices, key=lambda s: (s[0] * s[1], s[1]))
    if (m,) not in shapes:
        raise ProgramError(f"{file}: linalg.generic: a result of {m} sums is missing in the text")
    return m, 0, k
