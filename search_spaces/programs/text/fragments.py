"""Turn program fragments into complete listings: undefined names become inputs, unused results become outputs."""

from __future__ import annotations

from search_spaces.programs.text.listing import Statement, Type
from search_spaces.programs.text.ranks import matrix_shape
from search_spaces.programs.text.survey import LOADS, MAKES_TILE, ArrayInfo, Survey

_OF_TILES = (*LOADS, "xetile.prefetch_tile", "xetile.update_tile_offset", "xetile.load_gather")
_STORES = ("xetile.store_tile", "xetile.atomic_rmw", "xetile.store_scatter")
_STORED_AS = {"index": "i32", "i1": "u8"}  # for each type that arrays cannot have, the type to use instead
_NO_RESULTS = (*MAKES_TILE, "memref.cast", "memref.alloc", "scf.for", "scf.forall", "assign",
               "xetile.update_tile_offset", "xetile.state", "xetile.atomic_rmw")  # fmt: skip


def close(survey: Survey) -> Survey:
    """Add input arrays for undefined names, and output arrays for results that are not stored."""
    defined = {p.name for p in survey.listing.parameters} | set(survey.arrays)
    alone = not any(s.body is not None for s in survey.listing.walk())
    for s in survey.listing.walk():
        if s.op not in _STORES and not alone:
            defined |= set(s.results)
    for s in survey.listing.walk():
        if s.op in _STORES:
            _close_store(survey, s, defined)
        elif s.op in _OF_TILES:
            name, *masks = map(str, s.operands)
            if name not in defined:
                _tile(survey, name, s, next((t for t in s.takes if t.kind == "tile"), None))
            if s.op == "xetile.load_gather":
                for mask in masks:
                    if mask not in defined:
                        own = next((t for t in s.takes if t.kind == "vector"), None)
                        _array(survey, survey.free_vectors, mask, s, own, "input")
        elif s.op in MAKES_TILE and s.gives and s.gives[-1].scattered:
            name, type_ = str(s.operands[-1]), next((t for t in s.takes if t.kind == "vector"), None)
            if name in survey.free_vectors and type_ != survey.free_types[name]:
                survey.note(
                    s, f"{name} has another type here than in earlier statements, so it is read as a different vector"
                )
                name = f"{name}_{s.line}"
            if name not in defined:
                _array(survey, survey.free_vectors, name, s, type_, "input")
        elif s.op not in MAKES_TILE and s.op.partition(".")[0] not in ("scf", "memref", "gpu"):
            for name in map(str, (o for o in s.operands if isinstance(o, str))):
                if name not in defined and name not in survey.free_vectors:
                    type_ = vector_type(s, name)
                    _array(survey, survey.free_vectors, name, s, type_, "input")
        if s.op not in _STORES:
            defined |= set(s.results)
    if not survey.grid and not survey.listing.parameters:
        _open_ends(survey)
    return survey


def _close_store(survey: Survey, s: Statement, defined: set[str]) -> None:
    types = (*s.takes, *s.gives)
    tiles = [t for t in types if t.kind == "tile"]
    names = [*(str(o) for o in s.operands), *s.results]
    known_tiles = [n for n in names if survey.tile(n) is not None]
    if s.op == "xetile.store_scatter" and len(s.operands) == 3:
        mask = names.pop(1)
        if mask not in defined:
            vectors = [t for t in types if t.kind == "vector"]
            _array(survey, survey.free_vectors, mask, s, vectors[1] if len(vectors) > 1 else None, "input")
    if known_tiles:
        vectors = [t for t in types if t.kind == "vector"]
        unknown = [n for n in names if n not in known_tiles and n not in defined]
        if vectors and len(unknown) == 1 and not survey.listing.parameters:
            _array(survey, survey.free_vectors, unknown[0], s, vectors[0], "input")
        return
    if len(names) < 2:
        return
    order = [t.kind for t in types]
    if s.results and len(s.operands) == 1:
        survey.note(s, f"a store cannot have a result: {s.results[0]} is read as the stored vector")
        vector, tile = s.results[0], names[0]
    elif order[:1] == ["vector"]:
        vector, tile = names[0], names[1]
        if "tile" in vector:
            survey.note(s, f"{vector} is read as the vector, due to the order of the types")
    else:
        tile, vector = names[0], names[1]
    if vector not in defined:
        own = next((t for t in types if t.kind == "vector"), None)
        _array(survey, survey.free_vectors, vector, s, own, "input")
    if tile not in defined:
        _tile(survey, tile, s, tiles[0] if tiles else None)
        survey.stored.add(tile)


def vector_type(s: Statement, name: str) -> Type | None:
    """Return the type of a statement's operand.

    Some listings give the types of a product in the order c, a, b.
    """
    operands = [str(o) for o in s.operands if isinstance(o, str)]
    types = [t for t in s.takes if t.kind in ("vector", "tensor")]
    # The operand's type describes only one thread's elements, the result's type the whole vector.
    if s.op == "iree_vector_ext.to_simd":
        return s.gives[0]
    if not types:
        return None
    if len(types) == 3 and len(operands) == 3 and s.op.endswith(("mma", "contract")):
        a, b, c = product_types(types)
        types = [a, b, c]
    at = operands.index(name)
    return types[at] if at < len(types) else types[0]


def product_types(types: list[Type]) -> list[Type]:
    """Return the types of a product's a, b and c, which the listing may give in the order c, a, b."""
    a, b, c = types
    if a.dims[1] == b.dims[0] and c.dims == (a.dims[0], b.dims[1]):
        return [a, b, c]
    return [b, c, a]


def _tile(survey: Survey, name: str, s: Statement, type_: Type | None) -> None:
    """Add the array of an undefined tile. A scattered tile also gets an array of positions."""
    if type_ is None or not type_.scattered:
        _array(survey, survey.free_tiles, name, s, type_, "")
        return
    _array(survey, survey.free_tiles, name, s, Type("tile", ("?",), type_.element), "")
    survey.free_types[name] = type_
    _array(survey, survey.free_vectors, f"{name}_places", s, Type("vector", type_.dims, "index"), "input")


def _array(
    survey: Survey, into: dict[str, ArrayInfo], name: str, s: Statement, type_: Type | None, role: str
) -> None:  # fmt: skip
    if survey.listing.parameters:
        raise survey.refuse(s, f"{name} is undefined in the function")
    if type_ is None:
        raise survey.refuse(s, f"{name} is undefined, and its type is missing")
    if name in into:
        return
    dims = type_.dims if len(type_.dims) < 3 else matrix_shape(type_.dims) or type_.dims
    dims = dims[::-1] if type_.order == (0, 1) else dims
    element = _STORED_AS.get(type_.element, type_.element)
    if element != type_.element:
        survey.note(s, f"{name} has elements of {type_.element}: it becomes an array of {element}")
    array = ArrayInfo(name, Type("memref", dims, element), role)
    array.sizes = tuple(f"{array.argument}_{d}" for d in range(len(dims)))
    into[name] = array
    survey.arrays[name] = array
    survey.free_types[name] = type_
    survey.note(s, f"{name} is undefined: it becomes an argument")


def _open_ends(survey: Survey) -> None:
    """Add outputs for unused results and, if nothing else is stored, for the contents of tiles."""
    for s in survey.listing.walk():
        if s.op in _NO_RESULTS or s.op in _STORES:
            continue
        for name in s.results:
            if name not in survey.used or name in survey.free_vectors:
                types = s.takes if s.op == "iree_vector_ext.to_simt" else (*s.gives, *reversed(s.takes))
                type_ = next((t for t in types if t.kind in ("vector", "tensor")), None)
                _output(survey, s, name, type_)
    if not survey.outputs and not survey.stored:
        for tile in survey.tiles.values():
            _output(survey, tile.statement, tile.name, (*tile.statement.gives, *tile.statement.takes)[0])


def _output(survey: Survey, s: Statement, name: str, type_: Type | None) -> None:
    if type_ is None:
        return
    dims = type_.dims if len(type_.dims) < 3 else matrix_shape(type_.dims) or type_.dims
    array = ArrayInfo(f"%out_{name.lstrip('%')}", Type("memref", dims, type_.element), "output")
    array.sizes = tuple(f"{array.argument}_{d}" for d in range(len(dims)))
    survey.outputs[name] = array
    survey.arrays[array.name] = array
    survey.note(s, f"{name} is not used, so the program stores it to an output")
