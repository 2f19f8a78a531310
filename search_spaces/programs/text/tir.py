"""Read TensorIR (TVM): nested ``tir.block``s that accumulate products, and descriptions of tensor intrinsics.

Nested blocks describe one matmul, however often it has been tiled. The extents of a block count the blocks inside it;
the extents of the innermost block count elements. Only the sizes of the problem and the extents of the innermost block
are read from the blocks: tiles are multiples of these extents. The schedule determines grid, bindings and layouts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from search_spaces.hardware.dtypes import dtype
from search_spaces.hardware.intrinsics import intrinsics_for
from search_spaces.hardware.requirements import Access, OperandSide
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.layouts.shared_layout import parse_layout, sampled_layouts
from search_spaces.programs.builder import ARRAY_DTYPES, Argument, Builder, Program
from search_spaces.programs.language.ir import Array, ProgramError

_BLOCK = re.compile(
    r"tir\.block\(\s*\[?(?P<axes>(?:tir\.reduce_axis\(\d+\)|[^()\[\]])*)\]?[^\n]*?as\s*\[(?P<names>[^\]]*)\]"
)
_GRID = re.compile(r"tir\.grid\(([^)]*)\)")
_AXIS = re.compile(r"(tir\.reduce_axis\((\d+)\))|(\d+)")
_PRODUCT = re.compile(r"(\w+)\[([^\]]*)\]\s*\+=\s*(\w+)\[([^\]]*)\]\s*\*\s*(\w+)\[([^\]]*)\]")
_MATCH = re.compile(r"(\w+)\s*=\s*tir\.match_buffer\(\s*\w+\s*,\s*\(([\d,\s]+)\)\s*,\s*\"(\w+)\"(.*?)\)", re.DOTALL)
_COPY = re.compile(r"\w+\[[^\]]*\]\s*=\s*\w+\[[^\]]*\]\s*$|tir\.(?:tvm_load_matrix_sync|ldmatrix)\(", re.MULTILINE)
_SCOPE = re.compile(r"scope\s*=\s*\"([\w.]+)\"")
_FUNCTION = re.compile(r"@tvm\.script\.tir\s+def\s+(\w+)")
_DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int8": "i8"}
_SIDES: dict[str, OperandSide] = {"matrix_a": "a", "matrix_b": "b"}
_MOST = 128  # largest candidate extent of a tile


@dataclass(frozen=True)
class Tir:
    """The result of parsing TensorIR: the program, and one note for each ambiguity that was resolved."""

    program: Program
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A ``tir.block``.

    Attributes:
        extents: Number of inner blocks (or elements) along each axis.
        reduced: For each axis, True if it is summed over.
    """

    names: tuple[str, ...]
    extents: tuple[int, ...]
    reduced: tuple[bool, ...]


@dataclass(frozen=True)
class Buffer:
    """A buffer argument of a tensor intrinsic. ``scope`` is "" for global memory."""

    name: str
    shape: tuple[int, ...]
    element: str
    scope: str


def is_tir(text: str) -> bool:
    """Return True if a text contains TensorIR blocks."""
    return "tir.block" in text or "tir.grid" in text


def read_tir(text: str, name: str, file: str) -> Tir:
    """Parse TensorIR. Raises ProgramError, in one line, if the computation is not supported."""
    notes: list[str] = []

    def note(at: int, reading: str) -> None:
        line = f"{file}:{_line(text, at)}: {reading}"
        if line not in notes:
            notes.append(line)

    buffers = tuple(_buffers(text, file))
    if _FUNCTION.search(text) is not None and buffers:
        return Tir(_read_intrinsic(text, name, file, buffers, note), tuple(notes))
    product = _PRODUCT.search(text)
    if product is None:
        raise ProgramError(
            f"{file}: tir.block: unsupported computation: use accumulated products, C[..] += A[..] * B[..]"
        )
    return Tir(_read_matmul(text, name, file, product, note), tuple(notes))


Note = Callable[[int, str], None]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _blocks(text: str, file: str) -> list[Block]:
    blocks = []
    for block in _BLOCK.finditer(text):
        axes = list(_AXIS.finditer(block["axes"]))
        names = tuple(n.strip() for n in block["names"].split(",") if n.strip())
        if len(axes) != len(names):
            line = _line(text, block.start())
            raise ProgramError(f"{file}:{line}: tir.block: {len(axes)} axes, but {len(names)} names")
        extents = tuple(int(axis.group(2) or axis.group(3)) for axis in axes)
        blocks.append(Block(names, extents, tuple(axis.group(1) is not None for axis in axes)))
    return blocks


def _read_matmul(text: str, name: str, file: str, product: re.Match[str], note: Note) -> Program:
    blocks = _blocks(text[: product.start()], file)
    if not blocks or any((len(b.extents), b.reduced) != (3, (False, False, True)) for b in blocks):
        raise ProgramError(f"{file}: tir.block: a product needs blocks with two axes and a tir.reduce_axis")
    for grid in _GRID.finditer(text, 0, product.start()):
        counts = re.findall(r"\d+", grid.group(1))
        if not counts:
            note(grid.start(), "a grid without numbers is ignored: the schedule tiles these loops")
        elif tuple(map(int, counts)) not in [b.extents for b in blocks]:
            line = _line(text, grid.start())
            raise ProgramError(
                f"{file}:{line}: tir.grid({', '.join(counts)}) does not have the extents of any block: use the extents "
                "of a block"
            )
    for binding in re.finditer(r"tir\.bind\(\.\.\.\)", text):
        note(binding.start(), "a binding is missing: axes are bound to the surrounding loops in order")
    m, n, k = (prod(b.extents[d] for b in blocks) for d in range(3))
    fragment = blocks[-1].extents if len(blocks) > 1 else (1, 1, 1)
    i, j, r = blocks[-1].names
    _, subscripts, left, left_subscripts, right, right_subscripts = product.groups()

    def axes(dtypes: str) -> tuple[str, ...]:
        return tuple(p.strip() for p in dtypes.split(","))

    if axes(subscripts) != (i, j) or set(axes(left_subscripts)) != {i, r} or set(axes(right_subscripts)) != {r, j}:
        line = _line(text, product.start())
        raise ProgramError(
            f"{file}:{line}: expected C[{i}, {j}] += A[{i}, {r}] * B[{r}, {j}]; A and B may be transposed"
        )
    turned = axes(left_subscripts) == (r, i), axes(right_subscripts) == (j, r)
    dtypes = {buffer.name: buffer.element for buffer in _buffers(text, file)}
    element = dtypes.get(left, dtypes.get(right, ""))
    if not element:
        note(product.start(), f"the types of {left} and {right} are missing: f16 is used, and f32 for sums")
    tiles = [tuple(t for t in (32, 64, _MOST) if t % f == 0) or (f,) for f in fragment]

    def function(p: Builder, a: Array, b: Array, c: Array) -> None:
        chosen = p.choose(bm=tiles[0], bn=tiles[1], bk=tiles[2][:2])
        assert isinstance(chosen, tuple)
        bm, bn, bk = chosen
        rows, columns = p.blocks(c.shape, (bm, bn))
        acc = p.state(p.zeros((bm, bn)))
        for at in p.steps(k_of(a, b), bk):
            one = p.window(a, (rows, at), (bm, bk), turned=turned[0])
            other = p.window(b, (at, columns), (bk, bn), turned=turned[1])
            acc.set(p.mma(p.load(one), p.load(other), acc))
        p.store(acc, p.window(c, (rows, columns), (bm, bn)))

    def k_of(a: Array, b: Array) -> int:
        return a.full[0] if turned[0] else a.full[1]

    kind, f32 = dtype(element or "f16", ARRAY_DTYPES), dtype("f32", ARRAY_DTYPES)
    arguments = (
        ("a", Argument(("k", "m") if turned[0] else ("m", "k"), kind, "input")),
        ("b", Argument(("n", "k") if turned[1] else ("k", "n"), kind, "input")),
        ("c", Argument(("m", "n"), f32, "output")),
    )
    sizes = (("m", m), ("n", n), ("k", k))
    return Program(name or "block_matmul", function, arguments, f"{file}\0{text}", "a matmul in TensorIR", sizes)


# Tensor intrinsics ---------------------------------------------------------------------------------------------------


def _buffers(text: str, file: str) -> Iterator[Buffer]:
    for match in _MATCH.finditer(text):
        name, shape, element, rest = match.groups()
        if element not in _DTYPES:
            known = ", ".join(_DTYPES)
            raise ProgramError(f'{file}:{_line(text, match.start())}: unsupported type "{element}": use one of {known}')
        scope = _SCOPE.search(rest)
        extents = tuple(int(n) for n in shape.split(",") if n.strip())
        yield Buffer(name, extents, _DTYPES[element], scope.group(1) if scope is not None else "")


def accepted_layouts(row: TensorIntrinsic, side: OperandSide, shape: tuple[int, int], element_bytes: int) -> list[str]:
    """Return the names of the sampled layouts in which an intrinsic can read a tile."""
    layouts = []
    for layout in sampled_layouts(element_bytes):
        parsed = parse_layout(layout, *shape)
        if not isinstance(parsed, str) and isinstance(row.requirement(side, parsed, element_bytes), Access):
            layouts.append(layout)
    return layouts


def _read_intrinsic(text: str, name: str, file: str, buffers: tuple[Buffer, ...], note: Note) -> Program:
    """Return a program that loads an operand's fragment through shared memory, as a tensor intrinsic does.

    A note lists the layouts that the intrinsic accepts.
    """
    source = next((b for b in buffers if b.scope == "shared"), None)
    target = next((b for b in buffers if b.scope.partition(".")[2] in _SIDES), None)
    if source is None or target is None or len(target.shape) != 2:
        raise ProgramError(
            f"{file}: unsupported tensor intrinsic: use one that loads a buffer of scope shared to one of scope "
            '"UNIT.matrix_a" or "UNIT.matrix_b"'
        )
    if _COPY.search(text) is None:
        copied = f"{target.name}[..] = {source.name}[..]"
        raise ProgramError(f"{file}: the tensor intrinsic does not copy every element: use {copied}")
    unit, _, matrix = target.scope.partition(".")
    side, kind = _SIDES[matrix], dtype(target.element, ARRAY_DTYPES)
    rows, columns = target.shape
    if prod(source.shape) != rows * columns:
        raise ProgramError(
            f"{file}: {source.name} has {prod(source.shape)} elements, but {target.name} has {rows * columns}"
        )
    at = text.index("tir.match_buffer")
    if len(source.shape) == 1:
        note(at, f"{source.name} has one dimension: strides cannot express how its layout maps rows and columns")
    fitting = [
        r for r in intrinsics_for(target.element, True) if r.unit == unit and r.fragment(side).shape == target.shape
    ]
    if not fitting:
        raise ProgramError(
            f"{file}: {unit} has no instruction with {rows}x{columns} fragments of {matrix} in {target.element}"
        )
    for row in fitting:
        layouts = accepted_layouts(row, side, (rows, columns), kind.bytes)
        count = len(sampled_layouts(kind.bytes))
        note(at, f"{row.name} can read the tile in {len(layouts)} of {count} layouts: {', '.join(layouts[:6])}, ..")

    def function(p: Builder, a: Array, c: Array) -> None:
        i, j = p.blocks(c.shape, (rows, columns))
        shared = p.shared(rows, columns, target.element)
        p.store(p.load(p.window(a, (i, j), (rows, columns))), p.window(shared, (0, 0), (rows, columns)))
        p.store(p.load(p.window(shared, (0, 0), (rows, columns))), p.window(c, (i, j), (rows, columns)))

    arguments = (
        ("a", Argument(("rows", "columns"), kind, "input")),
        ("c", Argument(("rows", "columns"), kind, "output")),
    )
    own = _FUNCTION.search(text)
    named = name or (own.group(1) if own is not None else "load")
    sizes = (("rows", rows), ("columns", columns))
    return Program(named, function, arguments, f"{file}\0{text}", f"the fragment load that {named} describes", sizes)
