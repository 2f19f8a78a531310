"""Complete fragments of listings: undefined names become inputs, and unused results become outputs."""

from __future__ import annotations

from search_spaces.programs.text.listing import Statement, Type
from search_spaces.programs.text.ranks import matrix_shape
from search_spaces.programs.text.survey import LOADS, MAKES_TILE, ArrayInfo, Survey

_OF_TILES = (*LOADS, "xetile.prefetch_tile", "xetile.update_tile_offset", "xetile.load_gather")
_STORES = ("xetile.store_tile", "xetile.atomic_rmw", "xetile.store_scatter")
_STORED_AS = {"index": "i32", "i1": "u8"}  # element types for arrays of types that arrays cannot have
_NO_RESULTS = (*MAKES_TILE, "memref.cast", "memref.alloc", "scf.for", "scf.forall", "assign",
               "xetile.update_tile_offset", "xetile.state", "xetile.atomic_rmw")  # fmt: skip


def close(found: Survey) -> Survey:
    """Add arrays for undefined names, and for results that a listing does not store."""
    defined = {p.name for p in found.listing.parameters} | set(found.arrays)
    alone = not any(s.body is not None for s in found.listing.walk())
    for s in found.listing.walk():
        if s.op not in _STORES and not alone:
            defined |= set(s.results)
    for s in found.listing.walk():
        if s.op in _STORES:
            _close_store(found, s, defined)
        elif s.op in _OF_TILES:
            name, *masks = map(str, s.operands)
            if name not in defined:
                _tile(found, name, s, next((t for t in s.takes if t.kind == "tile"), None))
            if s.op == "xetile.load_gather":
                for mask in masks:
                    if mask not in defined:
                        own = next((t for t in s.takes if t.kind == "vector"), None)
                        _array(found, found.free_vectors, mask, s, own, "input")
        elif s.op in MAKES_TILE and s.gives and s.gives[-1].scattered:
            name, type_ = str(s.operands[-1]), next((t for t in s.takes if t.kind == "vector"), None)
            if name in found.free_vectors and type_ != found.free_types[name]:
                found.note(s, f"{name} has a different type than before: it is read as a different vector")
                name = f"{name}_{s.line}"
            if name not in defined:
                _array(found, found.free_vectors, name, s, type_, "input")
        elif s.op not in MAKES_TILE and s.op.partition(".")[0] not in ("scf", "memref", "gpu"):
            for name in map(str, (o for o in s.operands if isinstance(o, str))):
                if name not in defined and name not in found.free_vectors:
                    type_ = vector_type(s, name)
                    _array(found, found.free_vectors, name, s, type_, "input")
        if s.op not in _STORES:
            defined |= set(s.results)
    if not found.grid and not found.listing.parameters:
        _open_ends(found)
    return found


def _close_store(found: Survey, s: Statement, defined: set[str]) -> None:
    types = (*s.takes, *s.gives)
    tiles = [t for t in types if t.kind == "tile"]
    names = [*(str(o) for o in s.operands), *s.results]
    known_tiles = [n for n in names if found.tile(n) is not None]
    if s.op == "xetile.store_scatter" and len(s.operands) == 3:
        mask = names.pop(1)
        if mask not in defined:
            vectors = [t for t in types if t.kind == "vector"]
            _array(found, found.free_vectors, mask, s, vectors[1] if len(vectors) > 1 else None, "input")
    if known_tiles:
        vectors = [t for t in types if t.kind == "vector"]
        others = [n for n in names if n not in known_tiles and n not in defined]
        if vectors and len(others) == 1 and not found.listing.parameters:
            _array(found, found.free_vectors, others[0], s, vectors[0], "input")
        return
    if len(names) < 2:
        return
    order = [t.kind for t in types]
    if s.results and len(s.operands) == 1:
        found.note(s, f"a store has no result: {s.results[0]} is read as the stored vector")
        vector, tile = s.results[0], names[0]
    elif order[:1] == ["vector"]:
        vector, tile = names[0], names[1]
        if "tile" in vector:
            found.note(s, f"the order of the types shows that {vector} is the vector")
    else:
        tile, vector = names[0], names[1]
    if vector not in defined:
        own = next((t for t in types if t.kind == "vector"), None)
        _array(found, found.free_vectors, vector, s, own, "input")
    if tile not in defined:
        _tile(found, tile, s, tiles[0] if tiles else None)
        found.stored.add(tile)


def vector_type(s: Statement, name: str) -> Type | None:
    """Return the type of an operand. Some listings give the types of a product in the order c, a, b."""
    operands = [str(o) for o in s.operands if isinstance(o, str)]
    types = [t for t in s.takes if t.kind in ("vector", "tensor")]
    if s.op == "iree_vector_ext.to_simd":  # the operand's type is one thread's part, the result's the whole vector
        return s.gives[0]
    if not types:
        return None
    if len(types) == 3 and len(operands) == 3 and s.op.endswith(("mma", "contract")):
        a, b, c = product_types(types)
        types = [a, b, c]
    at = operands.index(name)
    return types[at] if at < len(types) else types[0]


def product_types(types: list[Type]) -> list[Type]:
    """Return the types of a, b and c of a product, whose types may be given as c, a, b."""
    a, b, c = types
    if a.dims[1] == b.dims[0] and c.dims == (a.dims[0], b.dims[1]):
        return [a, b, c]
    return [b, c, a]


def _tile(found: Survey, name: str, s: Statement, type_: Type | None) -> None:
    """Add the array of a tile; a scattered tile gets a vector and an array of positions."""
    if type_ is None or not type_.scattered:
        _array(found, found.free_tiles, name, s, type_, "")
        return
    _array(found, found.free_tiles, name, s, Type("tile", ("?",), type_.element), "")
    found.free_types[name] = type_
    _array(found, found.free_vectors, f"{name}_places", s, Type("vector", type_.dims, "index"), "input")


def _array(
    found: Survey, into: dict[str, ArrayInfo], name: str, s: Statement, type_: Type | None, role: str
) -> None:  # fmt: skip
    if found.listing.parameters:
        raise found.refuse(s, f"{name} is undefined in the function")
    if type_ is None:
        raise found.refuse(s, f"{name} is undefined, and its type is missing")
    if name in into:
        return
    dims = type_.dims if len(type_.dims) < 3 else matrix_shape(type_.dims) or type_.dims
    dims = dims[::-1] if type_.order == (0, 1) else dims
    element = _STORED_AS.get(type_.element, type_.element)
    if element != type_.element:
        found.note(s, f"{name} becomes an array of {element}, one for each {type_.element}")
    array = ArrayInfo(name, Type("memref", dims, element), role)
    array.sizes = tuple(f"{array.argument}_{d}" for d in range(len(dims)))
    into[name] = array
    found.arrays[name] = array
    found.free_types[name] = type_
    found.note(s, f"{name} is undefined: it becomes an argument")


def _open_ends(found: Survey) -> None:
    """Store unused results to outputs, and load unused tiles and store them to outputs."""
    for s in found.listing.walk():
        if s.op in _NO_RESULTS or s.op in _STORES:
            continue
        for name in s.results:
            if name not in found.used or name in found.free_vectors:
                types = s.takes if s.op == "iree_vector_ext.to_simt" else (*s.gives, *reversed(s.takes))
                type_ = next((t for t in types if t.kind in ("vector", "tensor")), None)
                _output(found, s, name, type_)
    if not found.outputs and not found.stored:
        for tile in found.tiles.values():
            _output(found, tile.statement, tile.name, (*tile.statement.gives, *tile.statement.takes)[0])


def _output(found: Survey, s: Statement, name: str, type_: Type | None) -> None:
    if type_ is None:
        return
    dims = type_.dims if len(type_.dims) < 3 else matrix_shape(type_.dims) or type_.dims
    array = ArrayInfo(f"%out_{name.lstrip('%')}", Type("memref", dims, type_.element), "output")
    array.sizes = tuple(f"{array.argument}_{d}" for d in range(len(dims)))
    found.outputs[name] = array
    found.arrays[array.name] = array
    found.note(s, f"{name} is unused: it becomes an output")
