"""The CUDA C++ behind a program's loop: element-wise arithmetic on accumulators, where they are, and stores.

A thread has pairs of neighbouring columns of rows 8 apart (the accumulators of mma.sync, m16n8). What is one row or one
column is read by each thread for itself, in the places of its accumulators.
"""

from __future__ import annotations

from search_spaces.programs import ir
from search_spaces.programs.analysis import Analysis
from search_spaces.programs.functions import FUNCTIONS
from search_spaces.programs.ir import ProgramError

Pair = tuple[str, str]  # expressions of the elements of a pair


def end_of(found: Analysis) -> list[str]:
    """The lines of the kernel behind its loop."""
    trace = found.trace
    lines = [
        "const int row0 = block.m * C::tile_m + warp_m * C::sg_data_m + lane / 4;",
        "const int column0 = block.n * C::tile_n + warp_n * C::sg_data_n + lane % 4 * 2;",
    ]
    windows = [o.window for o in found.end if isinstance(o, ir.Load | ir.Store)]
    for window in windows:
        type_ = f"{'const ' if window.array.role == 'input' else ''}{window.array.dtype.c_name}"
        place = " + ".join(f"{_start(window, d, ('row0', 'column0')[d])} * {_strides(window)[d]}ll" for d in (0, 1))
        lines.append(f"{type_}* const at_{window.id} = {window.array.name}_array + ({place});")
    lines += [
        "#pragma unroll",
        "for (int i = 0; i < 2 * C::fragments_m; ++i) {",
        "  const int row = row0 + 8 * i;",
        "#pragma unroll",
        "  for (int j = 0; j < C::fragments_n; ++j) {",
        "    const int column = column0 + 8 * j;",
    ]
    pairs: dict[int, Pair] = {}
    for operation in found.end:
        lines.append(f'#line {operation.source.line} "{operation.source.file}"')
        lines += [f"    {line}" for line in _line(operation, pairs, trace)]
    return [*lines, "  }", "}"]


def _start(window: ir.Window, dimension: int, own: str) -> str:
    return own if window.at[dimension].step else str(window.at[dimension].constant)


def _strides(window: ir.Window) -> tuple[int, int]:
    return (1, 0) if window.column else (window.array.shape[1], 1)


def _inside(window: ir.Window, trace: ir.Trace, second: bool) -> str:
    """Whether the pair's first or second element is inside of the array, as far as that is not known."""
    tests = []
    for dimension, own in enumerate(("row", "column")):
        if window.at[dimension].step and window.extent[dimension] % trace.tile[dimension]:
            place = f"{own} + 1" if second and dimension else own
            tests.append(f"{place} < {window.extent[dimension]}")
    return " && ".join(tests) or "true"


def _offset(window: ir.Window) -> str:
    steps = [
        f"{8 * stride} * {name}"
        for name, place, stride in zip("ij", window.at, _strides(window), strict=True)
        if place.step
    ]
    return " + ".join([f"at_{window.id}", *steps])


def _aligned(window: ir.Window) -> str:
    return str(window.array.shape[1] % 2 == 0).lower()


def _line(operation: ir.Operation, pairs: dict[int, Pair], trace: ir.Trace) -> list[str]:
    match operation:
        case ir.Load(result, window):
            name, type_ = f"v{result.id}", window.array.dtype.c_name
            inside, second = (_inside(window, trace, second) for second in (False, True))
            if window.at[1].step:  # along a row of the tile
                pairs[result.id] = (f"{name}[0]", f"{name}[1]")
                call = f"tile::load_pair<{type_}, {_aligned(window)}>({name}, {_offset(window)}, {inside}, {second});"
                return [f"float {name}[2];", call]
            pairs[result.id] = (name, name)
            return [f"const float {name} = tile::load({_offset(window)}, {inside});"]
        case ir.Read(result, state):
            register = f"state_{state}.x[i / 2][j].x[2 * (i % 2)"
            pairs[result.id] = (f"{register}]", f"{register} + 1]")
            return []
        case ir.Fill(result, number):
            pairs[result.id] = (_number(number), _number(number))
            return []
        case ir.Broadcast(result, value):
            pairs[result.id] = pairs[value.id]
            return []
        case ir.Map(result, function, arguments):
            return _map(result, function, arguments, pairs)
        case ir.Store(value, window):
            name = f"stored_{window.id}"
            inside, second = (_inside(window, trace, second) for second in (False, True))
            call = f"tile::store_pair<{window.array.dtype.c_name}, {_aligned(window)}>"
            return [
                f"const float {name}[2] = {{{', '.join(pairs[value.id])}}};",
                f"{call}({_offset(window)}, {name}, {inside}, {second});",
            ]
    raise ProgramError(f"{operation.source}: {type(operation).__name__.lower()} is not compiled here")


def _map(result: ir.Value, function: str, arguments: tuple[ir.Value | float, ...], pairs: dict[int, Pair]) -> list[str]:
    code = FUNCTIONS[function].code if function != "cast" else "{0}"
    if function == "cast" and result.dtype.name != "f32":
        code = f"tile::rounded<{result.dtype.c_name}>({{0}})"
    given = [pairs[a.id] if isinstance(a, ir.Value) else (_number(a), _number(a)) for a in arguments]
    name = f"v{result.id}"
    pairs[result.id] = (f"{name}[0]", f"{name}[1]")
    both = ", ".join(code.format(*(g[e] for g in given)) for e in (0, 1))
    return [f"const float {name}[2] = {{{both}}};"]


def _number(number: float) -> str:
    if number != number or number in (float("inf"), -float("inf")):
        raise ProgramError(f"{number} is no number that a program may compute with")
    return f"{number!r}f"
