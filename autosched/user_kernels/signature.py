"""Parameters of a kernel as its source declares them: names, and element types of pointers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUALIFIERS = re.compile(r"\b(?:const|volatile|struct|__restrict__|__restrict|restrict|__grid_constant__)\b")
_VECTOR = re.compile(r"(\w*?[a-z])([1-4])")


class DeclaredParameter(NamedTuple):
    """A parameter of a kernel, as its source declares it.

    ``element`` is the scalar type to which a pointer points, or the component type of vectors. It is None if the
    parameter is not a pointer or its type is unknown.
    """

    text: str
    name: str
    element: DType | None


def declared_parameters(entry: str, sources: Sequence[str]) -> tuple[DeclaredParameter, ...]:
    """Return the parameters of a function or template instance; empty if no declaration is recognised."""
    for source in sources:
        declaration = _declaration(entry, source)
        if declaration:
            return tuple(_parameter(text) for text in declaration[1].split(",") if text.strip())
    return ()


def declared_line(entry: str, source: str) -> int:
    """Return the line of ``source`` that declares the function, counted from 1; 0 if there is none."""
    declaration = _declaration(entry, source)
    return 0 if declaration is None else declaration.string.count("\n", 0, declaration.start()) + 1


def _declaration(entry: str, source: str) -> re.Match[str] | None:
    called = re.escape(entry.partition("<")[0].rpartition("::")[2].strip())
    plain = _COMMENT.sub(
        lambda comment: " " + "\n" * comment[0].count("\n"), source
    )  # remove comments but keep line breaks, so that line numbers stay the same
    return re.search(rf"\b{called}\s*\(([^()]*)\)\s*\{{", plain)


def _parameter(text: str) -> DeclaredParameter:
    plain = _QUALIFIERS.sub(" ", re.sub(r"\[[^\]]*\]", "*", text))
    words = re.findall(r"[A-Za-z_]\w*", plain)
    name = words[-1] if words else ""
    element = _known(" ".join(words[:-1])) if plain.count("*") == 1 else None
    return DeclaredParameter(" ".join(text.split()), name, element)


def _known(type_name: str) -> DType | None:
    vector = _VECTOR.fullmatch(type_name)
    for name in (type_name, vector[1] if vector else ""):
        if canonical(name) in SCALAR_DTYPES:
            return SCALAR_DTYPES[canonical(name)]
    return None


def contradicts(array: DType, parameter: DType) -> bool:
    """Return True if the element type ``array`` contradicts ``parameter``.

    The types contradict each other if they are different float types, or if 64-bit elements would be read as narrower
    elements. Other differences in width are accepted, because an integer may hold packed values.
    """
    both_floats = array.is_float and parameter.is_float and array.values == parameter.values == 1
    return (both_floats and array.name != parameter.name) or (array.bits == 64 and parameter.bits < 64)
