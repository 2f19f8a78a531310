"""Convert asynchronous PTX to runtime instructions (``Form``): mbarriers, bulk copies, and fences between proxies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from measurements.emulator.ptx.forms import (
    FLAGS,
    Form,
    SourceOperand,
    Unsupported,
    address_of,
    groups_pending,
    number,
    values_of,
)
from measurements.emulator.ptx.syntax import TYPE_BYTES, Address, Instruction, Operand, Register

# kinds of arrival, in the order of Arrival in runtime/isa/async/mbarrier.cpp
_ARRIVALS = ("plain", "expect_tx", "noComplete")


def async_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for an asynchronous instruction; None for all other instructions. Raises Unsupported."""
    form = _ASYNC.get(i.opcode)
    return form(i) if form is not None else None


def _sink(operand: Operand) -> list[Operand]:
    """Return the destination operands: none if the instruction discards the result (``_``)."""
    return [] if isinstance(operand, Register) and operand.name == "_" else [operand]


def _relaxed(i: Instruction) -> int:
    return FLAGS["strong"] if "relaxed" in i.qualifiers else 0


def _mbarrier(i: Instruction) -> Form:
    action = i.qualifiers[0]
    flags = _relaxed(i)
    if action in ("init", "inval"):
        at = address_of(i.operands[0])
        count = [SourceOperand(i.operands[1], 4)] if action == "init" else []
        return Form(f"mbarrier.{action}", 0, (), [SourceOperand(at.base, 8), *count], [at.offset])
    if action in ("arrive", "arrive_drop"):
        to, *rest = i.operands
        if isinstance(to, Address):  # an arrival at .shared::cluster returns no state
            to, rest = Register("_"), [to, *rest]
        at = address_of(rest[0])
        kind = next((q for q in i.qualifiers if q in _ARRIVALS), "plain")
        counts = [SourceOperand(rest[1], 4)] if len(rest) > 1 else []
        immediates = [at.offset, _ARRIVALS.index(kind), len(counts), int(action == "arrive_drop")]
        return Form("mbarrier.arrive", flags, _sink(to), [SourceOperand(at.base, 8), *counts], immediates)
    if action in ("expect_tx", "complete_tx"):
        at = address_of(i.operands[0])
        immediates = [at.offset, int(action == "complete_tx")]
        return Form("mbarrier.tx", flags, (), [SourceOperand(at.base, 8), SourceOperand(i.operands[1], 4)], immediates)
    if action == "pending_count":
        return Form("mbarrier.pending_count", 0, [i.operands[0]], [SourceOperand(i.operands[1], 8)])
    if action in ("test_wait", "try_wait"):
        at = address_of(i.operands[1])
        parity = "parity" in i.qualifiers
        sources = [SourceOperand(at.base, 8), SourceOperand(i.operands[2], 4 if parity else 8)]
        return Form(
            "mbarrier.wait", flags, [i.operands[0]], sources, [at.offset, int(parity), int(action == "try_wait")]
        )
    raise Unsupported


def _fence(i: Instruction) -> Form | None:
    text = ".".join(i.qualifiers)
    if text.startswith("mbarrier_init"):
        return Form("fence.mbarrier_init")
    if text.startswith("proxy.async") and not text.endswith("global"):
        return Form("fence.proxy.async")
    if text.startswith("proxy.tensormap::generic."):
        return _tensor_map_fence(i)
    return None


def _tensor_map_fence(i: Instruction) -> Form:
    flags = FLAGS["cta"] if i.qualifiers[-1] == "cta" else 0
    if "release" in i.qualifiers:
        return Form("fence.tensormap.release", flags)
    at = address_of(i.operands[0])
    if number(i.operands[1]) != _MAP_BYTES:
        raise Unsupported  # ptxas rejects other sizes
    return Form("fence.tensormap.acquire", flags, (), [SourceOperand(at.base, 8)], [at.offset])


_MAP_BYTES = 128
# Fields of tensormap.replace, in the order of MapField in runtime/isa/async/tensor_map.hpp. If a field has one entry
# per dimension, its value here is the number of entries; otherwise 0. For fields that are set to an immediate,
# ``_LARGEST`` has the largest supported immediate.
_FIELDS = {
    "global_address": 0, "rank": 0, "box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5,
    "elemtype": 0, "interleave_layout": 0, "swizzle_mode": 0, "fill_mode": 0,
}  # fmt: skip
_LARGEST = {"elemtype": 12, "interleave_layout": 2, "swizzle_mode": 3, "fill_mode": 1}


def _tensormap(i: Instruction) -> Form:
    """Return the ``Form`` for ``tensormap.replace [map], value`` or ``tensormap.replace [map], dimension, value``.

    The operands of ``tensormap.cp_fenceproxy`` are ``[to], [from], 128``.
    """
    action, *q = i.qualifiers
    at = address_of(i.operands[0])
    if action == "cp_fenceproxy":
        from_ = address_of(i.operands[1])
        if number(i.operands[2]) != _MAP_BYTES:
            raise Unsupported  # ptxas rejects other sizes
        sources = [SourceOperand(at.base, 8), SourceOperand(from_.base, 8)]
        return Form(
            "tensormap.cp_fenceproxy", FLAGS["cta"] if "cta" in q else 0, (), sources, [1, at.offset, from_.offset]
        )
    field = q[1] if len(q) > 1 and q[0] == "tile" else ""
    if action != "replace" or field not in _FIELDS:
        raise Unsupported
    *dimension, value = i.operands[1:]
    dimensions = _FIELDS[field]
    if bool(dimension) != bool(dimensions) or (dimension and not 0 <= number(dimension[0]) < dimensions):
        raise Unsupported
    if field in _LARGEST and not 0 <= number(value) <= _LARGEST[field]:
        raise Unsupported
    space = 2 if "shared::cta" in q else int("global" in q)  # index in SPACES (forms.py)
    numbers = [at.offset, space, list(_FIELDS).index(field), number(dimension[0]) if dimension else 0]
    return Form(
        "tensormap.replace",
        0,
        (),
        [SourceOperand(at.base, 8), SourceOperand(value, 8 if q[-1] == "b64" else 4)],
        numbers,
    )


def _cp(i: Instruction) -> Form | None:
    q = i.qualifiers
    if q[:3] == ("async", "mbarrier", "arrive"):
        at = address_of(i.operands[0])
        return Form("cp.async.mbarrier.arrive", 0, (), [SourceOperand(at.base, 8)], [at.offset, int("noinc" in q)])
    if "bulk" not in q:
        return None
    if q[-1] == "commit_group" or q[2:3] == ("commit_group",):
        return Form("bulk.commit_group")
    if "wait_group" in q:
        return Form("bulk.wait_group", immediates=[groups_pending(i.operands[0])])
    if "prefetch" in q:
        return Form("nothing")
    if "tensor" in q:
        return _tensor_load(i) if "mbarrier::complete_tx::bytes" in q else _tensor_store(i)
    return _bulk_load(i) if "mbarrier::complete_tx::bytes" in q else _bulk_store(i)


def _bulk_load(i: Instruction) -> Form:
    """Return the ``Form`` for a bulk copy to shared memory: ``[to], [from], bytes, [mbarrier]``."""
    if any(q.startswith(("cp_mask", "ignore_oob")) for q in i.qualifiers):
        raise Unsupported
    to, from_, barrier = (address_of(i.operands[k]) for k in (0, 1, 3))
    sources = [
        SourceOperand(to.base, 8),
        SourceOperand(from_.base, 8),
        SourceOperand(i.operands[2], 4),
        SourceOperand(barrier.base, 8),
    ]
    multicast = "multicast::cluster" in i.qualifiers
    if multicast:
        sources.append(SourceOperand(i.operands[4], 2))
    from_shared = int("global" not in i.qualifiers)
    reduction = _reduction(i, _IN_SHARED) if i.qualifiers[0] == "reduce" else _STORED
    immediates = [to.offset, from_.offset, barrier.offset, from_shared, int(multicast), *reduction]
    return Form("bulk.reduce" if reduction != _STORED else "bulk.load", 0, (), sources, immediates)


_REDUCTIONS = (
    "add",
    "min",
    "max",
    "inc",
    "dec",
    "and",
    "or",
    "xor",
)  # in the order of Reducing in runtime/isa/access/reduction.hpp
_STORED = (0, 0, 1)  # takes the place of the result of ``_reduction`` if values are stored unchanged
# For each type that a reduction supports: the ElementKind (runtime/isa/access/reduction.hpp), and the bytes of a value.
_REDUCED = {
    "u32": (0, 4), "b32": (0, 4), "s32": (1, 4), "u64": (0, 8), "b64": (0, 8), "s64": (1, 8), "f16": (2, 2),
    "bf16": (3, 2), "f32": (4, 4), "f64": (5, 8),
}  # fmt: skip
_ORDERED = ("u32", "s32", "u64", "s64", "f16", "bf16")
_COUNTED, _OF_BITS = ("u32",), ("b32", "b64")
_IN_GLOBAL = {  # reductions in global memory, and their types
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"), "min": _ORDERED, "max": _ORDERED, "inc": _COUNTED,
    "dec": _COUNTED, "and": _OF_BITS, "or": _OF_BITS, "xor": _OF_BITS,
}  # fmt: skip
_IN_SHARED = {  # reductions in shared memory, and their types
    "add": ("u32", "s32", "u64", "s64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": _COUNTED, "dec": _COUNTED,
    "and": ("b32",), "or": ("b32",), "xor": ("b32",),
}  # fmt: skip


def _reduction(i: Instruction, known: dict[str, tuple[str, ...]]) -> tuple[int, int, int]:
    """Return the index of a reduction (from 1), and the kind and size in bytes of its elements. Raises Unsupported."""
    operation = next((q for q in i.qualifiers if q in _REDUCTIONS), "")
    kind = i.qualifiers[-1]
    if kind not in known.get(operation, ()):
        raise Unsupported
    return (_REDUCTIONS.index(operation) + 1, *_REDUCED[kind])


def _bulk_store(i: Instruction) -> Form:
    """Return the ``Form`` for a bulk copy to global memory: ``[to], [from], bytes{, mask}``."""
    if "bulk_group" not in i.qualifiers:
        raise Unsupported
    to, from_ = (address_of(o) for o in i.operands[:2])
    reduction = _reduction(i, _IN_GLOBAL) if i.qualifiers[0] == "reduce" else _STORED
    sources = [SourceOperand(to.base, 8), SourceOperand(from_.base, 8), SourceOperand(i.operands[2], 4)]
    if "cp_mask" in i.qualifiers:
        sources.append(SourceOperand(i.operands[-1], 2))
    return Form("bulk.store", 0, (), sources, [to.offset, from_.offset, *reduction])


def _tensor_store(i: Instruction) -> Form:
    """Return the ``Form`` for a tensor store: ``[map, {coordinates}], [from]``."""
    reduction = 0
    if i.qualifiers[0] == "reduce":
        reduction = next(k + 1 for k, name in enumerate(_REDUCTIONS) if name in i.qualifiers)
    if "bulk_group" not in i.qualifiers:
        raise Unsupported
    map_, from_ = (address_of(o) for o in i.operands[:2])
    rank, scatters, pixels = _tile(i.qualifiers, map_, "tile::scatter4", "im2col_no_offs")
    sources = [
        SourceOperand(map_.base, 8),
        *(SourceOperand(c, 4) for c in map_.coordinates),
        SourceOperand(from_.base, 8),
    ]
    return Form("tensor.store", 0, (), sources, [rank, map_.offset, from_.offset, reduction, scatters, pixels])


_GATHERED = 4  # number of rows of tile::gather4 and tile::scatter4


def _rank(qualifiers: Sequence[str]) -> int:
    return next(int(q[0]) for q in qualifiers if q in ("1d", "2d", "3d", "4d", "5d"))


def _tile(qualifiers: Sequence[str], map_: Address, of_rows: str, of_pixels: str) -> tuple[int, int, int]:
    """Return the number of dimensions, whether four rows of a matrix are copied, and whether the mode is im2col.

    The qualifier ``of_rows`` selects four rows, and the qualifier ``of_pixels`` selects im2col.
    """
    if any(q.startswith(("im2col", "tile::")) and q not in (of_rows, of_pixels) for q in qualifiers):
        raise Unsupported
    rank, rows, pixels = _rank(qualifiers), int(of_rows in qualifiers), int(of_pixels in qualifiers)
    if len(map_.coordinates) != (1 + _GATHERED if rows else rank) or (rows and rank != 2):
        raise Unsupported
    return rank, rows, pixels


def _tensor_load(i: Instruction) -> Form:
    to, map_, barrier = (address_of(o) for o in i.operands[:3])
    rank, gathers, pixels = _tile(i.qualifiers, map_, "tile::gather4", "im2col")
    sources = [
        SourceOperand(to.base, 8),
        SourceOperand(map_.base, 8),
        *(SourceOperand(c, 4) for c in map_.coordinates),
        SourceOperand(barrier.base, 8),
    ]
    multicast = "multicast::cluster" in i.qualifiers
    rest = i.operands[3:]
    offsets = values_of(rest[0]) if pixels else ()
    if len(offsets) != (rank - 2 if pixels else 0):
        raise Unsupported
    if multicast:
        sources.append(SourceOperand(rest[pixels], 2))
    sources += [SourceOperand(offset, 2) for offset in offsets]
    blocks = 2 if "cta_group::2" in i.qualifiers else 1
    immediates = [rank, to.offset, map_.offset, barrier.offset, int(multicast), blocks, gathers, pixels]
    return Form("tensor.load", 0, (), sources, immediates)


def _st(i: Instruction) -> Form | None:
    """Return the ``Form`` for ``st.async [to], values, [mbarrier]`` or ``st.bulk [to], bytes, 0``."""
    if i.qualifiers[:1] == ("bulk",):
        return _zeros(i)
    if i.qualifiers[:1] != ("async",):
        return None
    if "mbarrier::complete_tx::bytes" not in i.qualifiers:
        raise Unsupported  # the runtime lacks other variants, such as st.async.mmio (sm_100)
    to, barrier = address_of(i.operands[0]), address_of(i.operands[2])
    each = TYPE_BYTES[i.qualifiers[-1]]
    values = [SourceOperand(v, each) for v in values_of(i.operands[1])]
    immediates = [to.offset, barrier.offset, each, *_STORED]
    return Form("st.async", 0, (), [SourceOperand(to.base, 8), SourceOperand(barrier.base, 8), *values], immediates)


def _zeros(i: Instruction) -> Form:
    to = address_of(i.operands[0])
    if set(i.qualifiers) - {"bulk", "weak", "shared::cta"} or number(i.operands[2]) != 0:
        raise Unsupported
    space = 2 if "shared::cta" in i.qualifiers else 0  # index in SPACES (forms.py)
    return Form("st.bulk", 0, (), [SourceOperand(to.base, 8), SourceOperand(i.operands[1], 8)], [to.offset, space])


def _red(i: Instruction) -> Form | None:
    """Return the ``Form`` for ``red.async [to], value, [mbarrier]``."""
    if i.qualifiers[:1] != ("async",):
        return None
    if "mbarrier::complete_tx::bytes" not in i.qualifiers:
        raise Unsupported  # the runtime lacks red.async.mmio (sm_100)
    to, barrier = address_of(i.operands[0]), address_of(i.operands[2])
    each = TYPE_BYTES[i.qualifiers[-1]]
    sources = [SourceOperand(to.base, 8), SourceOperand(barrier.base, 8), SourceOperand(i.operands[1], each)]
    return Form("red.async", 0, (), sources, [to.offset, barrier.offset, each, *_reduction(i, _IN_SHARED)])


def _prefetch(i: Instruction) -> Form | None:
    if "tensormap" not in i.qualifiers:
        return None
    at = address_of(i.operands[0])
    return Form("prefetch.tensormap", 0, (), [SourceOperand(at.base, 8)], [at.offset])


def _barrier(i: Instruction) -> Form | None:
    if i.qualifiers[0] != "cluster":
        return None
    return Form(f"barrier.cluster.{i.qualifiers[1]}", immediates=[1, int("relaxed" in i.qualifiers)])


def _mapa(i: Instruction) -> Form:
    generic = int("shared::cluster" not in i.qualifiers)
    return Form(
        "mapa", 0, [i.operands[0]], [SourceOperand(i.operands[1], 8), SourceOperand(i.operands[2], 4)], [generic]
    )


def _getctarank(i: Instruction) -> Form:
    return Form("getctarank", 0, [i.operands[0]], [SourceOperand(i.operands[1], 8)])


def _setmaxnreg(i: Instruction) -> Form:
    return Form("setmaxnreg", immediates=[1, number(i.operands[0]), int("inc" in i.qualifiers)])


def _launch_control(i: Instruction) -> Form:
    """Return the ``Form`` for ``try_cancel [response], [mbarrier]``, or for a query of the response."""
    action, *q = i.qualifiers
    if action == "try_cancel":
        to, barrier = (address_of(o) for o in i.operands)
        immediates = [to.offset, barrier.offset, int("multicast::cluster::all" in q)]
        return Form(
            "clusterlaunchcontrol.try_cancel",
            0,
            (),
            [SourceOperand(to.base, 8), SourceOperand(barrier.base, 8)],
            immediates,
        )
    answer = [SourceOperand(i.operands[1], 16)]
    if q[0] == "is_canceled":
        return Form("clusterlaunchcontrol.is_canceled", 0, [i.operands[0]], answer)
    first, _, axis = q[0].partition("::")
    if first != "get_first_ctaid":
        raise Unsupported
    axes = [("xyz".index(axis), i.operands[0])] if axis else list(enumerate(values_of(i.operands[0])))[:3]
    wanted = [(k, o) for k, o in axes if _sink(o)]
    return Form("clusterlaunchcontrol.first_block", 0, [o for _, o in wanted], answer, [k for k, _ in wanted])


_ASYNC: dict[str, Callable[[Instruction], Form | None]] = {
    "mbarrier": _mbarrier, "fence": _fence, "cp": _cp, "prefetch": _prefetch, "barrier": _barrier,
    "st": _st, "red": _red, "mapa": _mapa, "tensormap": _tensormap, "getctarank": _getctarank,
    "setmaxnreg": _setmaxnreg, "clusterlaunchcontrol": _launch_control,
}  # fmt: skip
