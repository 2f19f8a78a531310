"""Execute the statements of a listing that compute vectors."""

from __future__ import annotations

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.values import State, Tile, WindowHandle
from search_spaces.programs.text.fragments import vector_type
from search_spaces.programs.text.listing import Statement
from search_spaces.programs.text.name_values import shape_of
from search_spaces.programs.text.names import CASTS, KINDS, OF_TEXT
from search_spaces.programs.text.ranks import matrix_layout
from search_spaces.programs.text.windows import Windows

Held = Tile | State | WindowHandle | Index
OF_ANY_RANK = (
    "vector.shape_cast", "convert_layout", "iree_vector_ext.to_layout", "iree_vector_ext.to_simd",
    "iree_vector_ext.to_simt",
)  # fmt: skip


class Computations(Windows):
    """Executes statements whose result is a vector."""

    def _compute(self, s: Statement) -> Tile:
        op, p = s.op.removeprefix("xetile."), self.p
        types = [t for t in (*s.takes, *s.gives) if t.kind == "vector" and len(t.dims) > 2]
        if types and op not in OF_ANY_RANK and not op.startswith(("arith.", "math.")):
            self.refuse(s, f"{types[0]} has {len(types[0].dims)} dimensions, but a tile has two")
        match op:
            case "tile_mma" | "vector.contract":
                return self._product(s)
            case "transpose" | "vector.transpose":
                result, source = self._maps(s, lambda m: m.transpose_input())
                return self._mapped(p.transpose(self._value(s, s.operands[0], source), map=result), result)
            case "reduction":
                return self._reduction(s)
            case "broadcast":
                return self._broadcast(s)
            case "vector.shape_cast":
                return p.reshape(self._value(s, s.operands[0]), shape_of(s, (*s.takes, *s.gives)[-1]))
            case "convert_layout" | "iree_vector_ext.to_layout":
                return self._convert(s)
            case "iree_vector_ext.to_simd" | "iree_vector_ext.to_simt":
                self.survey.note(s, f"{op} is ignored: the compiler inserts conversions where needed")
                return self._value(s, s.operands[0])
            case "arith.constant":
                (number,) = s.operands
                assert isinstance(number, int | float)
                return p.full(shape_of(s, s.takes[0]), float(number), s.takes[0].element)
            case "linalg.index":
                first = self._index(s, s.index[0][0]) if s.index else 0
                extent = max(shape_of(s, s.takes[0]))
                return p.rows(first, extent) if s.operands[0] == 0 else p.columns(first, extent)
        return self._map(s)

    def _map(self, s: Statement) -> Tile:
        layout = next((m for m in s.layouts if isinstance(m, WgMap)), None)
        if s.op in CASTS:
            return self._value(s, s.operands[0], layout).cast((s.gives or s.takes)[-1].element)
        function = OF_TEXT.get(s.op)
        if function is None or function not in FUNCTIONS:
            self.refuse(s, "unknown operation")
        operands = [self._value(s, o, layout) if isinstance(o, str) else o for o in s.operands]
        result = self.p.map(function, *operands)
        if layout is not None:
            known = [self.maps.get(g.value.id) for g in operands if isinstance(g, Tile)]
            if layout not in known:
                result = self.p.convert_layout(result, layout)
                self.survey.note(s, "the map of the result differs from the operands' map: a conversion is inserted")
            self.maps[result.value.id] = layout
        else:
            own = next(
                (self.maps[g.value.id] for g in operands if isinstance(g, Tile) and g.value.id in self.maps), None
            )
            if own is not None:
                self.maps[result.value.id] = own
        return result

    def _mapped(self, value: Tile, layout: WgMap | None) -> Tile:
        if layout is not None:
            self.maps[value.value.id] = layout
        return value

    def _product(self, s: Statement) -> Tile:
        result = next((m for m in reversed(s.layouts) if isinstance(m, WgMap)), None)
        names = list(s.operands)
        maps: list[WgMap | None] = [None, None, result]
        if len(s.layouts) == 3:
            maps = [m if isinstance(m, WgMap) else None for m in s.layouts]
        elif result is not None:
            depth = next((t.dims[1] for t in (vector_type(s, str(names[0])),) if t is not None), None)
            if isinstance(depth, int):
                left, right = result.mma_operands(depth)
                maps = [left, right, result]
        a, b = (self._value(s, n, m) for n, m in zip(names[:2], maps[:2], strict=True))
        if (a.shape[1] != b.shape[0]) and b.shape[1] == a.shape[1]:
            self.survey.note(
                s,
                f"{names[1]} fits the product only if it is transposed: the latest vector with the transposed shape is "
                "used instead",
            )
            b = self.last[b.shape[1], b.shape[0]]
        state = self.value_of.get(s.results[0]) if s.results else None
        added: Tile | State | None = None
        if len(names) > 2:
            value = self.value_of.get(str(names[2]))
            added = value if isinstance(value, State) else self._value(s, names[2], maps[2])
        elif isinstance(state, State):
            added = state
        product = self.p.mma(a, b, added, map=result, tf32=bool(s.attribute("tf32")))
        return self._mapped(product, result)

    def _maps(self, s: Statement, derive: object, first_is_result: bool = False) -> tuple[WgMap | None, WgMap | None]:
        """Return the maps of a statement's result and operand.

        - If the statement has one map, it is the result's map. ``derive`` computes the operand's map from it.
        - If the statement has two maps and the operand already has one of them, the other is the result's map.
        - If the statement has two maps and the operand has none yet, the result's map is the first if
          ``first_is_result``, else the second.
        """
        maps = [m for m in s.layouts if isinstance(m, WgMap)]
        if not maps:
            return None, None
        if len(maps) == 1:
            assert callable(derive)
            return maps[0], derive(maps[0])
        value = self.value_of.get(str(s.operands[0]))
        known = self.maps.get(value.value.id) if isinstance(value, Tile) else None
        if known == maps[1] or (known is None and first_is_result):
            return maps[0], maps[1]
        if known is not None and known != maps[0]:
            self.refuse(s, f"neither map is the operand's map {known} (RFC, wg_map): use this map as one of the two")
        return maps[1], maps[0]

    def _reduction(self, s: Statement) -> Tile:
        (dimension,) = (d for d in s.index[0] if isinstance(d, int)) if s.index else (1,)
        size = s.attribute("reduction_size", 0)
        each = size[0] if isinstance(size, tuple) else size
        assert isinstance(each, int)
        type_ = vector_type(s, str(s.operands[0]))
        extent = shape_of(s, type_)[dimension] if type_ is not None else 0
        layout, source = self._maps(s, lambda m: m.reduction_input(dimension, each or extent))
        value = self._value(s, s.operands[0], source)
        if not s.kind:
            self.survey.note(s, "the kind of the reduction is missing: the reduction is read as add")
        kind = KINDS.get(s.kind, s.kind) or "add"
        result = self.p.reduction(kind, value, dimension, size=each or None, map=layout)
        return self._mapped(result, layout)

    def _broadcast(self, s: Statement) -> Tile:
        (dimension,) = (d for d in s.index[0] if isinstance(d, int)) if s.index else (0,)
        size = s.attribute("broadcast_size", 0)
        each = size[0] if isinstance(size, tuple) else size
        result, source = self._maps(s, lambda m: m.broadcast_input(dimension, each or None))
        value = self._value(s, s.operands[0], source)
        extent = shape_of(s, s.gives[-1])[dimension]
        return self._mapped(self.p.broadcast(value, dimension, extent, map=result), result)

    def _convert(self, s: Statement) -> Tile:
        forced = bool(s.attribute("shared_memory_conversion"))
        nested: NestedLayout | None = next((m for m in s.layouts if isinstance(m, NestedLayout)), None)
        if s.attribute("mma_kind"):
            self.survey.note(s, "mma_kind is ignored: the schedule chooses the instruction")
        if nested is not None:
            try:
                own = nested if nested.rank == 2 else matrix_layout(nested)
            except ValueError as error:
                self.refuse(s, str(error))
            if own is not nested:
                rows, columns = shape_of(s, (*s.takes, *s.gives)[0])
                self.survey.note(s, f"a vector of rank {nested.rank} is read as a tile of {rows}x{columns}")
            return self.p.convert_layout(self._value(s, s.operands[0]), own, shared=forced)
        result, source = self._maps(s, lambda m: None, first_is_result=True)
        value = self._value(s, s.operands[0], source)
        return self._mapped(self.p.convert_layout(value, result, shared=forced), result)
