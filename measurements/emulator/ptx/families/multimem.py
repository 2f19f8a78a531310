"""Convert multimem instructions to runtime instructions (``Form``; PTX ISA 9.7.9.14).

With one GPU, a multicast object has one replica. So each instruction is an access to global memory,
and a load with a reduction reduces a single value.
"""

from __future__ import annotations

from dataclasses import replace

from measurements.emulator.ptx.forms import Form, Unsupported, form_of, values_of
from measurements.emulator.ptx.syntax import TYPE_BYTES, Address, Instruction

# For each multimem operation: the equivalent instruction for global memory, and the supported memory semantics, the
# default first.
_ACCESSES = {
    "ld_reduce": ("ld", ("weak", "relaxed", "acquire")), "st": ("st", ("weak", "relaxed", "release")),
    "red": ("red", ("relaxed", "release")),
}  # fmt: skip
_SCOPES = ("cta", "cluster", "gpu", "sys")
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_BYTES = {"e4m3": 1, "e4m3x2": 2, "e4m3x4": 4, "e5m2": 1, "e5m2x2": 2, "e5m2x4": 4}
_FLOATS = (*_HALVES, *_BYTES, "f32")
_ACCUMULATORS = {"acc::f32": _HALVES, "acc::f16": tuple(_BYTES)}
_OPERATIONS = {
    **dict.fromkeys(("b32", "b64"), ("and", "or", "xor")), **dict.fromkeys(("f32", "f64"), ("add",)),
    **dict.fromkeys(("u32", "s32", "u64", *_HALVES, *_BYTES), ("add", "min", "max")), "s64": ("min", "max"),
}  # fmt: skip
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def multimem_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a multimem instruction; None for another instruction. Raises Unsupported."""
    if i.opcode != "multimem":
        return None
    action, *named, kind = i.qualifiers
    opcode, semantics = _ACCESSES[action]
    operations = () if action == "st" else _OPERATIONS[kind]
    groups = (semantics, _SCOPES, ("global",), operations, tuple(_ACCUMULATORS), tuple(_VECTORS))
    chosen = [next((q for q in named if q in group), "") for group in groups]
    semantic, scope, _, operation, accumulator, vector = chosen
    if sorted(named) != sorted(filter(None, chosen)) or bool(operations) != bool(operation):
        raise Unsupported
    if bool(scope) != (semantic not in ("", "weak")):
        raise Unsupported
    if accumulator and (action != "ld_reduce" or operation != "add" or kind not in _ACCUMULATORS[accumulator]):
        raise Unsupported
    each, count = _BYTES.get(kind) or TYPE_BYTES[kind], _VECTORS.get(vector, 1)
    address, values = reversed(i.operands) if action == "ld_reduce" else i.operands
    if not isinstance(address, Address) or len(values_of(values)) != count:
        raise Unsupported
    if each * count not in (4, 8, 16) or kind not in (_FLOATS if vector else _OPERATIONS):
        raise Unsupported
    moved = [operation, kind] if action == "red" else [f"b{8 * each}"]
    qualifiers = [semantic or semantics[0], scope, "global", *moved[:-1], vector, moved[-1]]
    return form_of(replace(i, opcode=opcode, qualifiers=tuple(filter(None, qualifiers))))
