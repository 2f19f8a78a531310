"""Convert PTX instructions to instructions of the emulator's runtime (``Form``).

A form has a key, flags, destinations, sources and immediates. The tables in ``runtime/isa`` have a row for each
supported key. A form reorders sources where the runtime requires it, and drops qualifiers that only affect speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from measurements.emulator.ptx.syntax import (
    TYPE_BYTES,
    Address,
    Group,
    Instruction,
    Not,
    Number,
    Operand,
    Pair,
    Symbol,
    Vector,
)


class Unsupported(Exception):
    """The runtime does not support this variant of an instruction."""


# The bits of ``Flag`` in runtime/isa/ptx.hpp.
FLAGS = {
    "ftz": 1 << 0, "sat": 1 << 1, "approx": 1 << 2, "full": 1 << 3, "relu": 1 << 4, "NaN": 1 << 5, "xorsign": 1 << 6,
    "cc": 1 << 7, "satfinite": 1 << 8, "nc": 1 << 10, "strong": 1 << 11, "acquire": 1 << 12, "release": 1 << 13,
    "cta": 1 << 19, "volatile": 1 << 21,
}  # fmt: skip
_ROUNDING = {"rn": 1, "rz": 2, "rm": 3, "rp": 4, "rna": 5}
ROUNDING = {name: code << 16 for name, code in _ROUNDING.items()}
INTEGRAL = {f"{name}i": code << 16 | 1 << 20 for name, code in _ROUNDING.items()}
# The next four tuples have the order of the runtime's enumerations in compare.cpp, convert.cpp, memory.hpp and
# matrix.hpp.
COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
CONVERTED = (
    "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "tf32", "f16x2", "bf16x2",
    "e4m3x2", "e5m2x2",
)  # fmt: skip
SPACES = ("generic", "global", "shared", "local", "param")
MULTIPLIED = (
    "f16", "bf16", "tf32", "f64", "s8", "u8", "f32", "s32", "e4m3", "e5m2", "s4", "u4", "b1", "e2m1", "e2m3", "e3m2",
)  # fmt: skip
_SPACE_NAMES = {"global": 1, "const": 1, "shared": 2, "shared::cta": 2, "shared::cluster": 2, "local": 3, "param": 4}
_ONE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}


class SourceOperand(NamedTuple):
    """An operand that is read. ``width``: bytes of a constant, or 0 if the instruction's table row determines them."""

    operand: Operand
    width: int = 0


@dataclass(slots=True)
class Form:
    """An instruction for the runtime.

    The runtime looks up the table row of ``key``, then the row of ``reduced``. Immediates of type str are labels.
    """

    key: str
    flags: int = 0
    destinations: Sequence[Operand] = ()
    sources: Sequence[SourceOperand] = ()
    immediates: Sequence[int | str] = ()
    reduced: str = "-"


def form_of(i: Instruction) -> Form:
    """Return the ``Form`` for an instruction. Raises Unsupported."""
    special = _SPECIAL.get(i.opcode)
    return special(i) if special is not None else _general(i)


def address_of(operand: Operand) -> Address:
    """Return the operand if it is an address. Raises Unsupported for other operands."""
    if not isinstance(operand, Address):
        raise Unsupported
    return operand


def values_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the items of a vector operand; for any other operand, a list of this operand."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def number(operand: Operand) -> int:
    """Return the signed value of an integer constant. Raises Unsupported for any other operand."""
    if not isinstance(operand, Number) or operand.kind != "i":
        raise Unsupported
    return operand.bits - 2**64 if operand.bits >= 2**63 else operand.bits


def groups_pending(operand: Operand) -> int:
    """Return the number of groups that may stay pending after a wait. As in ptxas, -1 and large numbers become 63."""
    count = number(operand)
    return count if 0 <= count < 64 else 63


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _all(operands: Sequence[Operand], width: int = 0) -> list[SourceOperand]:
    return [SourceOperand(o, width) for o in operands]


def _flags(qualifiers: Sequence[str]) -> tuple[int, list[str]]:
    """Split qualifiers into flags, which are combined into a mask, and other qualifiers."""
    flags, rest = _flags_of(tuple(qualifiers))
    return flags, list(rest)


@lru_cache(maxsize=4096)
def _flags_of(qualifiers: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    flags, rest = 0, []
    for q in qualifiers:
        bits = FLAGS.get(q, 0) | ROUNDING.get(q, 0) | INTEGRAL.get(q, 0)
        if bits == 0:
            rest.append(q)
        flags |= bits
    return flags, tuple(rest)


def _general(i: Instruction) -> Form:
    """Return the ``Form`` for an instruction that no special function handles: ``opcode.qualifiers d, a, b, c``."""
    flags, rest = _flags(i.qualifiers)
    if flags & FLAGS["xorsign"]:
        rest.remove("abs")
    opcode = i.opcode
    if flags & FLAGS["cc"] and opcode in ("add", "sub", "mad"):
        rest.insert(len(rest) - 1, "cc")
    if opcode in ("min", "max") and len(i.operands) == 4:
        opcode += "3"
    if not i.operands or isinstance(i.operands[0], Pair):
        raise Unsupported
    return Form(".".join((opcode, *rest)), flags, [i.operands[0]], _all(i.operands[1:]))


def _lop3(i: Instruction) -> Form:
    if i.qualifiers == ("b32",) and len(i.operands) == 5:
        return Form("lop3.b32", 0, [i.operands[0]], _all(i.operands[1:4]), [number(i.operands[4])])
    joined, *rest = i.qualifiers
    both = i.operands[0]
    if joined not in ("or", "and") or rest != ["b32"] or len(i.operands) != 6 or not isinstance(both, Pair):
        raise Unsupported
    negated, last = (1, i.operands[5].operand) if isinstance(i.operands[5], Not) else (0, i.operands[5])
    immediates = [number(i.operands[4]), int(joined == "and"), negated]
    return Form(
        "lop3.joined", 0, [both.first, both.second], [*_all(i.operands[1:4]), SourceOperand(last, 0)], immediates
    )


def _prmt(i: Instruction) -> Form:
    modes = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    mode = modes.index(i.qualifiers[1]) + 1 if len(i.qualifiers) > 1 else 0
    return Form("prmt.b32", 0, [i.operands[0]], _all(i.operands[1:4]), [mode])


def _szext(i: Instruction) -> Form:
    clamp, kind = i.qualifiers
    return Form("szext", 0, [i.operands[0]], _all(i.operands[1:]), [int(clamp == "clamp"), int(kind == "s32")])


def _bmsk(i: Instruction) -> Form:
    return Form("bmsk", 0, [i.operands[0]], _all(i.operands[1:]), [int(i.qualifiers[0] == "clamp")])


def _testp(i: Instruction) -> Form:
    properties = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    return Form(
        f"testp.{i.qualifiers[1]}", 0, [i.operands[0]], _all(i.operands[1:]), [properties.index(i.qualifiers[0])]
    )


def _joined(operands: Sequence[Operand], qualifiers: Sequence[str]) -> tuple[list[SourceOperand], list[int]]:
    """Return the operands of a comparison, and the immediates for combining its result with a predicate."""
    joins = ("and", "or", "xor")
    join = next((joins.index(q) + 1 for q in qualifiers if q in joins), 0)
    sources = _all(operands[:2])
    negated = 0
    if len(operands) > 2:
        last = operands[2]
        if isinstance(last, Not):
            negated, last = 1, last.operand
        sources.append(SourceOperand(last))
    return sources, [join, negated]


def _setp(i: Instruction) -> Form:
    first = i.operands[0]
    destinations = [first.first, first.second] if isinstance(first, Pair) else [first]
    sources, join = _joined(i.operands[1:], i.qualifiers)
    flags, _ = _flags(i.qualifiers)
    return Form(f"setp.{i.qualifiers[-1]}", flags, destinations, sources, [COMPARISONS.index(i.qualifiers[0]), *join])


def _set(i: Instruction) -> Form:
    sources, join = _joined(i.operands[1:], i.qualifiers)
    flags, _ = _flags(i.qualifiers)
    one = _ONE.get(i.qualifiers[-2], 0)
    immediates = [COMPARISONS.index(i.qualifiers[0]), *join, one]
    return Form(f"set.{i.qualifiers[-1]}", flags, [i.operands[0]], sources, immediates)


def _bits(kind: str) -> str:
    return f"b{8 * TYPE_BYTES[kind]}"


def _selp(i: Instruction) -> Form:
    return Form(f"selp.{_bits(i.qualifiers[0])}", 0, [i.operands[0]], _all(i.operands[1:]))


def _slct(i: Instruction) -> Form:
    flags, rest = _flags(i.qualifiers)
    return Form(f"slct.{_bits(rest[0])}.{rest[1]}", flags, [i.operands[0]], _all(i.operands[1:]))


def _cvt(i: Instruction) -> Form:
    flags, rest = _flags(i.qualifiers)
    if rest and rest[0] == "pack":
        kinds = rest[1:]
        above = {"b32": 0}.get(kinds[2], 0) if len(kinds) > 2 else 0
        bits = {"s4": 4, "u4": 4, "s2": 2, "u2": 2}.get(kinds[0], 0)
        code = (
            CONVERTED.index(kinds[0]) if kinds[0] in CONVERTED else CONVERTED.index({"s": "s8", "u": "u8"}[kinds[0][0]])
        )
        return Form("cvt.pack", flags, [i.operands[0]], _all(i.operands[1:], 4), [code, above, bits])
    if len(rest) != 2 or rest[0] not in CONVERTED or rest[1] not in CONVERTED:
        raise Unsupported
    to, from_ = rest
    # A dedicated table row applies only if the instruction has the rounding mode that the row's name contains, and no
    # other flags.
    plain = f"cvt.rn.{to}.{from_}" if flags == ROUNDING["rn"] else f"cvt.{to}.{from_}"
    width = 4 if from_ in ("e4m3x2", "e5m2x2") else TYPE_BYTES.get(from_, 4)
    sources = _all(i.operands[1:], max(width, 2))
    return Form(plain, flags, [i.operands[0]], sources, [CONVERTED.index(to), CONVERTED.index(from_)], "cvt")


def _mov(i: Instruction) -> Form:
    kind = i.qualifiers[-1]
    to, source = i.operands
    if kind == "pred":
        return Form("mov.pred", 0, [to], [SourceOperand(source, 0)])
    destinations, sources = _items(to), _items(source)
    if len(destinations) > 1 or len(sources) > 1:
        pieces = [TYPE_BYTES[kind] // len(destinations), TYPE_BYTES[kind] // len(sources)]
        return Form("mov", 0, destinations, _all(sources, pieces[1]), pieces)
    return Form(f"mov.{_bits(kind)}", 0, destinations, _all(sources, TYPE_BYTES[kind]), (), "mov")


def _space(qualifiers: Sequence[str]) -> int:
    return next((_SPACE_NAMES[q.removesuffix("::entry").removesuffix("::func")] for q in qualifiers
                 if q.removesuffix("::entry").removesuffix("::func") in _SPACE_NAMES), 0)  # fmt: skip


_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio", "cg", "cv")
_HARMLESS = (
    "weak", "ca", "cs", "lu", "wb", "wt", "cta", "gpu", "sys", "cluster", "v2", "v4", "v8", "uni", "noftz",
)  # fmt: skip


def _access(i: Instruction) -> tuple[int, int, str]:
    """Return the flags, the state space and the type of a memory access."""
    flags = 0
    kind = i.qualifiers[-1]
    for q in i.qualifiers[:-1]:
        if q in _STRONG:
            flags |= FLAGS["strong"] if i.opcode != "st" or q not in ("cg",) else 0
            flags |= FLAGS.get(q, 0) if q in ("acquire", "release", "volatile") else 0
        elif q == "nc":
            flags |= FLAGS["nc"]
        elif q not in _HARMLESS and not q.startswith(("L1::", "L2::")) and not _space([q]):
            raise Unsupported
    if "cta" in i.qualifiers:
        flags |= FLAGS["cta"]
    if kind not in TYPE_BYTES or kind == "pred":
        raise Unsupported
    return flags, _space(i.qualifiers), kind


def _ld(i: Instruction) -> Form:
    flags, space, kind = _access(i)
    address = i.operands[1]
    assert isinstance(address, Address)
    key = "ld.yielding" if flags & FLAGS["strong"] and space in (0, 1, 2) else "ld"
    immediates = [address.offset, TYPE_BYTES[kind], int(kind[0] == "s"), space]
    return Form(key, flags, _items(i.operands[0]), [SourceOperand(address.base, 8)], immediates)


def _st(i: Instruction) -> Form:
    flags, space, kind = _access(i)
    address = i.operands[0]
    assert isinstance(address, Address)
    values = _all(_items(i.operands[1]), TYPE_BYTES[kind])
    immediates = [address.offset, TYPE_BYTES[kind], 0, space]
    return Form("st", flags, (), [SourceOperand(address.base, 8), *values], immediates)


_ATOMIC_TYPES = (
    "b16", "b32", "b64", "b128", "u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64",
)  # fmt: skip


def _atom(i: Instruction) -> Form:
    operations = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    operation = next((q for q in i.qualifiers if q in operations), None)
    if operation is None:
        raise Unsupported
    is_vector = any(q in ("v2", "v4", "v8") for q in i.qualifiers)
    kind = next((q for q in reversed(i.qualifiers) if q in _ATOMIC_TYPES), None)
    if kind is None:
        raise Unsupported
    space = _space(i.qualifiers)
    flags = FLAGS["cta"] if "cta" in i.qualifiers else 0
    if "acquire" in i.qualifiers or "acq_rel" in i.qualifiers:
        flags |= FLAGS["acquire"]
    if "release" in i.qualifiers or "acq_rel" in i.qualifiers:
        flags |= FLAGS["release"]
    if i.opcode == "red":
        destinations, operands = [], i.operands
    else:
        destinations, operands = [i.operands[0]], i.operands[1:]
    address = operands[0]
    assert isinstance(address, Address)
    if is_vector:
        sources = [SourceOperand(address.base, 8), *_all(_items(operands[1]), TYPE_BYTES[kind])]
        old = _items(destinations[0]) if destinations else ()
        return Form(f"atom.vector.{operation}.{kind}", flags, old, sources, [address.offset, space])
    values = operands[1 : 3 if operation == "cas" else 2]
    key = f"atom.{operation}.{'ftz.' if operation == 'add' and kind == 'f32' and space == 1 else ''}{kind}"
    sink = [d for d in destinations if getattr(d, "name", "") != "_"]
    return Form(key, flags, sink, [SourceOperand(address.base, 8), *_all(values)], [address.offset, space])


def _cp(i: Instruction) -> Form:
    if i.qualifiers == ("async", "commit_group"):
        return Form("cp.async.commit_group")
    if i.qualifiers == ("async", "wait_all"):
        return Form("cp.async.wait_group", immediates=[-1])
    if i.qualifiers == ("async", "wait_group"):
        return Form("cp.async.wait_group", immediates=[groups_pending(i.operands[0])])
    if i.qualifiers[:2] not in (("async", "ca"), ("async", "cg")):
        raise Unsupported
    to, from_ = i.operands[:2]
    assert isinstance(to, Address) and isinstance(from_, Address)
    sources = [SourceOperand(to.base, 8), SourceOperand(from_.base, 8)]
    rest = i.operands[3:]
    has_policy = any("cache_hint" in q for q in i.qualifiers)
    if has_policy:
        rest = rest[:-1]
    predicate = 0
    if rest:
        # The last operand is src-size (a number or a 32-bit register) or ignore-src (a predicate). The register's width
        # distinguishes them.
        sources.append(SourceOperand(rest[0], 4))
        predicate = 2
    return Form("cp.async", 0, (), sources, [to.offset, from_.offset, number(i.operands[2]), predicate])


def _cvta(i: Instruction) -> Form:
    to = i.qualifiers[0] == "to"
    space = _space(i.qualifiers)
    if i.qualifiers[-1] != "u64":
        raise Unsupported
    return Form("cvta.to" if to else "cvta", 0, [i.operands[0]], [SourceOperand(i.operands[1], 8)], [space])


def _isspacep(i: Instruction) -> Form:
    return Form("isspacep", 0, [i.operands[0]], _all(i.operands[1:]), [_space(i.qualifiers)])


def _fence(i: Instruction) -> Form:
    if "proxy" in i.qualifiers or "mbarrier_init" in i.qualifiers or any(q.startswith("proxy") for q in i.qualifiers):
        return Form("nothing")
    block = "cta" in i.qualifiers
    return Form("fence", FLAGS["cta"] if block else 0)


def _bar(i: Instruction) -> Form:
    q = [x for x in i.qualifiers if x != "cta"]
    if q[:2] == ["warp", "sync"]:
        return Form("bar.warp.sync", 0, (), _all(i.operands[:1]), [0])
    if q[0] == "cluster":
        raise Unsupported
    aligned = int(i.opcode == "bar" or "aligned" in q)
    operands = list(i.operands)
    destinations: list[Operand] = []
    reduction, negated = 0, 0
    predicates: list[SourceOperand] = []
    if q[0] == "red":
        reduction = ("popc", "and", "or").index(q[1]) + 1
        destinations.append(operands.pop(0))
        last = operands.pop()
        if isinstance(last, Not):
            negated, last = 1, last.operand
        predicates.append(SourceOperand(last))
    sources = [*_all(operands, 4), *predicates]
    return Form(
        "bar", 0, destinations, sources, [int(q[0] != "arrive"), int(len(operands) > 1), reduction, negated, aligned]
    )


def _shfl(i: Instruction) -> Form:
    if i.qualifiers[0] != "sync":
        raise Unsupported
    first = i.operands[0]
    destinations = [first.first, first.second] if isinstance(first, Pair) else [first]
    a, b, c, mask = i.operands[1:]
    mode = ("up", "down", "bfly", "idx").index(i.qualifiers[1])
    return Form("shfl", 0, destinations, _all((mask, a, b, c)), [0, mode])


_VOTES = ("all", "any", "uni", "ballot")


def _vote(i: Instruction) -> Form:
    # CUB writes ``vote.ballot.sync`` instead of ``vote.sync.ballot``.
    modes = [q for q in i.qualifiers if q in _VOTES]
    if "sync" not in i.qualifiers[:2] or len(modes) != 1:
        raise Unsupported
    predicate, negated = i.operands[1], 0
    if isinstance(predicate, Not):
        predicate, negated = predicate.operand, 1
    mode = _VOTES.index(modes[0])
    return Form("vote", 0, [i.operands[0]], _all((i.operands[2], predicate)), [0, mode, negated])


def _match(i: Instruction) -> Form:
    first = i.operands[0]
    destinations = [first.first, first.second] if isinstance(first, Pair) else [first]
    mode = ("any", "all").index(i.qualifiers[0])
    width = TYPE_BYTES[i.qualifiers[-1]]
    return Form(
        "match", 0, destinations, [SourceOperand(i.operands[2]), SourceOperand(i.operands[1], width)], [0, mode]
    )


def _redux(i: Instruction) -> Form:
    operations = ("add", "min", "max", "and", "or", "xor")
    if i.qualifiers[0] == "sync" and i.qualifiers[1] in ("min", "max") and i.qualifiers[-1] == "f32":
        immediates = [0, ("min", "max").index(i.qualifiers[1]), int("abs" in i.qualifiers)]
        flags = FLAGS["NaN"] if "NaN" in i.qualifiers else 0
        return Form("redux.f32", flags, [i.operands[0]], _all((i.operands[2], i.operands[1])), immediates)
    if i.qualifiers[0] != "sync" or i.qualifiers[-1] not in ("u32", "s32", "b32"):
        raise Unsupported
    immediates = [0, operations.index(i.qualifiers[1]), int(i.qualifiers[-1] == "s32")]
    return Form("redux", 0, [i.operands[0]], _all((i.operands[2], i.operands[1])), immediates)


def _elect(i: Instruction) -> Form:
    first = i.operands[0]
    assert isinstance(first, Pair)
    value = [] if getattr(first.first, "name", "") == "_" else [first.first]
    return Form("elect", 0, [first.second, *value], _all(i.operands[1:]), [0])


def _shape(qualifiers: Sequence[str]) -> tuple[int, int, int]:
    for q in qualifiers:
        if q.startswith("m") and "n" in q and "k" in q:
            m, rest = q[1:].split("n")
            n, k = rest.split("k")
            return int(m), int(n), int(k)
    raise Unsupported


# Supported shapes (m, n, k) of mma by the type of a. All these shapes have the usual layout of fragments.
_MMA = {
    "f16": ((16, 8, 8), (16, 8, 16)), "bf16": ((16, 8, 8), (16, 8, 16)), "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    "e4m3": ((16, 8, 16), (16, 8, 32)), "e5m2": ((16, 8, 16), (16, 8, 32)),
    "s8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)), "u8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "s4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)), "u4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
    **dict.fromkeys(("e2m1", "e2m3", "e3m2"), ((16, 8, 32),)),
}  # fmt: skip
_IN_BYTES = ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")  # types of kind::f8f6f4


def _mma(i: Instruction) -> Form:
    shape = _shape(i.qualifiers)
    types = [q for q in i.qualifiers if q in MULTIPLIED]
    if len(types) != 4 or shape not in _MMA.get(types[1], ()):
        raise Unsupported
    # Only mma of single bits has the qualifier popc: it combines bits by XOR or AND, and counts the resulting ones.
    if (types[1] == "b1") != ("popc" in i.qualifiers):
        raise Unsupported
    if i.qualifiers[:2] != ("sync", "aligned") or any(
        q.startswith(("sp", "kind", "block_scale")) and q != "kind::f8f6f4" for q in i.qualifiers
    ):
        raise Unsupported
    known = _IN_BYTES if "kind::f8f6f4" in i.qualifiers else tuple(t for t in MULTIPLIED if t not in _IN_BYTES[2:])
    if not set(types[1:3]) <= set(known) or shape not in _MMA.get(types[2], ()):
        raise Unsupported
    if "row" not in i.qualifiers or "col" not in i.qualifiers:
        raise Unsupported
    d, a, b, c = (_items(o) for o in i.operands)
    width = TYPE_BYTES["f64"] if types[1] == "f64" else 4
    flags = FLAGS["satfinite"] if "satfinite" in i.qualifiers else 0
    differ = int("xor" in i.qualifiers)
    immediates = [1, *shape, *map(MULTIPLIED.index, types), len(d), len(a), len(b), len(c), differ]
    return Form("mma", flags, d, _all((*a, *b, *c), width), immediates)


# Supported pairs (type of d, type of a) of wmma (PTX ISA, warp-level matrix instructions).
_WMMA = {
    ("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"), ("f64", "f64"),
    *(("s32", t) for t in ("s8", "u8", "s4", "u4", "b1")),
}  # fmt: skip
_WMMA_LIKE = {"s8": ("s8", "u8"), "u8": ("s8", "u8"), "s4": ("s4", "u4"), "u4": ("s4", "u4")}


def _wmma(i: Instruction) -> Form:
    action, *q = i.qualifiers
    shape = _shape(q)
    if action == "mma":
        layouts = [x for x in q if x in ("row", "col")]
        # wmma.mma...dtype.ctype names only the types of d and c: a and b are f16
        types = [x for x in q if x in MULTIPLIED]
        d_type, a_type, b_type, c_type = types if len(types) == 4 else (types[0], "f16", "f16", types[1])
        if (d_type, a_type) not in _WMMA or a_type not in _WMMA_LIKE.get(b_type, (b_type,)):
            raise Unsupported
        d, a, b, c = (_items(o) for o in i.operands)
        codes = [MULTIPLIED.index(t) for t in (d_type, a_type, b_type, c_type)]
        differ = int("xor" in q)
        immediates = [1, *shape, *codes, *(int(x == "row") for x in layouts), len(a), len(b), len(c), differ]
        flags = FLAGS["satfinite"] if "satfinite" in q else 0
        return Form("wmma.mma", flags, d, _all((*a, *b, *c), TYPE_BYTES["f64"] if a_type == "f64" else 4), immediates)
    load = action == "load"
    operand = ("a", "b", "c", "d").index(q[0])
    row = "row" in q
    kind = i.qualifiers[-1]
    if kind not in MULTIPLIED:
        raise Unsupported
    address, registers = (i.operands[1], i.operands[0]) if load else (i.operands[0], i.operands[1])
    assert isinstance(address, Address)
    m, n, k = shape
    leading = {0: k if row else m, 1: n if row else k}.get(operand, n if row else m)
    stride: Operand = i.operands[2] if len(i.operands) > 2 else Number(leading)
    immediates = [1, min(operand, 2), *shape, MULTIPLIED.index(kind), int(row), address.offset, _space(i.qualifiers)]
    values = _items(registers)
    width = TYPE_BYTES["f64"] if kind == "f64" else 4
    sources = [SourceOperand(address.base, 8), SourceOperand(stride, 4), *(() if load else _all(values, width))]
    return Form("wmma.load" if load else "wmma.store", 0, values if load else (), sources, immediates)


def _bra(i: Instruction) -> Form:
    target = i.operands[0]
    assert isinstance(target, Symbol)
    return Form("bra", immediates=[target.name])


def _simple(key: str) -> Callable[[Instruction], Form]:
    return lambda i: Form(key)


def _nothing(i: Instruction) -> Form:
    return Form("nothing")


def _griddepcontrol(i: Instruction) -> Form:
    return Form(".".join(("griddepcontrol", *i.qualifiers)))


def _createpolicy(i: Instruction) -> Form:
    return Form("nothing", 0, [i.operands[0]])


def _activemask(i: Instruction) -> Form:
    return Form("activemask", 0, [i.operands[0]])


def _nanosleep(i: Instruction) -> Form:
    return Form("nanosleep", 0, (), _all(i.operands))


_SPECIAL: dict[str, Callable[[Instruction], Form]] = {
    "lop3": _lop3, "prmt": _prmt, "szext": _szext, "bmsk": _bmsk, "testp": _testp, "setp": _setp, "set": _set,
    "selp": _selp, "slct": _slct, "cvt": _cvt, "mov": _mov, "ld": _ld, "ldu": _ld, "st": _st, "atom": _atom,
    "red": _atom, "cp": _cp, "cvta": _cvta, "isspacep": _isspacep, "membar": _fence, "fence": _fence, "bar": _bar,
    "barrier": _bar, "shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, "elect": _elect,
    "mma": _mma, "wmma": _wmma, "bra": _bra,
    "ret": _simple("ret"), "exit": _simple("exit"), "trap": _simple("trap"), "brkpt": _nothing, "pmevent": _nothing,
    "prefetch": _nothing, "prefetchu": _nothing, "discard": _nothing, "applypriority": _nothing,
    "griddepcontrol": _griddepcontrol, "setmaxnreg": _nothing, "createpolicy": _createpolicy, "activemask": _activemask,
    "nanosleep": _nanosleep,
}  # fmt: skip


def call_parts(i: Instruction) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...]]:
    """Return the results, the callee and the arguments of a call instruction."""
    operands = list(i.operands)
    results = operands.pop(0).items if isinstance(operands[0], Group) else ()  # type: ignore[union-attr]
    target = operands.pop(0)
    arguments = operands[0].items if operands and isinstance(operands[0], Group) else ()
    return results, target, arguments
