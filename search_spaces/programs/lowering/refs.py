"""References to values in a kernel's source: the C++ array, constant or expression that represents a value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from search_spaces.hardware.dtypes import DType
from search_spaces.programs.language.functions import number_code
from search_spaces.programs.lowering.elements import Code

Kind = Literal["array", "packed", "constant", "coordinate", "inline", "staged"]


@dataclass(frozen=True)
class Ref:
    """A value in the source of a kernel.

    Attributes:
        name: Name of the C++ array (kinds "array" and "packed") or of the operand in shared memory ("staged"). For
            other kinds, a C++ expression: the constant ("constant"), the coordinate of register 0 ("coordinate"), or an
            expression with placeholders {0}, {1}, ... ("inline").
        table: For each register of the value, the index of its element in the array, or the offset of its coordinate
            from the coordinate of register 0. None if each entry equals the register's number.
        rough: True if the numbers have not been rounded to ``dtype`` yet.
        parts: References that replace the placeholders of an inline reference.
    """

    kind: Kind
    name: str
    dtype: DType
    table: tuple[int, ...] | None = None
    rough: bool = False
    parts: tuple[Ref, ...] = ()

    def text(self, code: Code, index: str) -> str:
        """Return CUDA C++ for the element in register ``index``, of C++ type float, int or bool."""
        if self.kind == "constant":
            return self.name
        if self.kind == "inline":
            return self.name.format(*(p.text(code, index) for p in self.parts))
        if self.kind == "coordinate":
            assert self.table is not None
            more = code.at(self.table, index)
            return self.name if more == "0" else f"({self.name} + {more})"
        at = index if self.table is None else code.at(self.table, index)
        if self.kind == "packed":
            return f"tile::unpacked<{self.dtype.c_name}>({self.name}, {at})"
        number = f"{self.name}[{at}]"
        return f"tile::rounded<{self.dtype.c_name}>({number})" if self.rough else number

    def raw(self) -> Ref:
        """Return a reference without the rounding, for code that rounds the numbers itself."""
        return dataclasses.replace(self, rough=False)

    @property
    def scattered(self) -> tuple[str, ...]:
        """Names of arrays that are read through a table, so not in the order of the value's registers."""
        if self.kind == "inline":
            return tuple(name for p in self.parts for name in p.scattered)
        return (self.name,) if self.table is not None and self.kind in ("array", "packed") else ()

    def through(self, table: tuple[int, ...]) -> Ref:
        """Return a reference whose register r is register ``table[r]`` of this reference."""
        if self.kind == "constant" or (table == tuple(range(len(table))) and self.kind != "coordinate"):
            return self
        if self.kind == "inline":
            return dataclasses.replace(self, parts=tuple(p.through(table) for p in self.parts))
        own = self.table
        return dataclasses.replace(self, table=table if own is None else tuple(own[i] for i in table))


def register_type(dtype: DType) -> str:
    """Return the C++ type of registers that hold elements of a type."""
    return "bool" if dtype.name == "bool" else "float" if dtype.is_float else "int"


def argument_name(name: str) -> str:
    """Return the name of a kernel parameter that is passed by value."""
    return f"{name}_argument"


def constant(number: float, dtype: DType) -> Ref:
    """Return a reference to a constant."""
    return Ref("constant", number_code(number, dtype), dtype)
