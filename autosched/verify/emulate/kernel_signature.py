"""Names and types of a kernel's parameters, read from the source or from the mangled name.

PTX lacks names and types: it only has the sizes of parameters, and whether numbers are floats or integers. Signatures
are used in messages and to check arguments. Arguments of unknown types are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from measurements.files.demangle import demangled
from search_spaces.arrays import Array

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_GLOBAL = re.compile(r"\b__global__\b")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_TYPEDEF = re.compile(r"\btypedef\s+([\w ]+?)\s+(\w+)\s*;")
_USING = re.compile(r"\busing\s+(\w+)\s*=\s*([\w ]+);")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([A-Za-z_][\w ]*)$", re.MULTILINE)
_BEFORE_NAME = ("__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__", "alignas", "__block_size__")
_QUALIFIERS = re.compile(
    r"\b(const|volatile|__restrict__|__restrict|restrict|struct|__grid_constant__|typename)\b|[*&]"
)
# Size in bytes and numpy kind of the elements that a pointer of this type points to; "" accepts every kind.
_POINTED = {
    "float": (4, "f"), "double": (8, "f"), "int": (4, "iu"), "unsigned int": (4, "iu"), "unsigned": (4, "iu"),
    "long long": (8, "iu"), "unsigned long long": (8, "iu"), "long": (8, "iu"), "unsigned long": (8, "iu"),
    "size_t": (8, "iu"), "short": (2, ""), "unsigned short": (2, ""), "__half": (2, ""), "half": (2, ""),
    "__nv_bfloat16": (2, ""), "nv_bfloat16": (2, ""), "int32_t": (4, "iu"), "uint32_t": (4, "iu"),
    "int64_t": (8, "iu"), "uint64_t": (8, "iu"),
}  # fmt: skip


@dataclass(frozen=True)
class SignatureParameter:
    """A parameter; ``name`` and ``type`` are empty if unknown."""

    name: str = ""
    type: str = ""

    @property
    def is_bfloat16(self) -> bool:
        """True for CUDA's bfloat16."""
        return self.type.removeprefix("const ").strip() in ("__nv_bfloat16", "nv_bfloat16")

    def refuses(self, array: Array) -> str:
        """Return the reason why an array does not fit a pointer of this type; "" if it may fit."""
        if "*" not in self.type:
            return ""
        plain = " ".join(_QUALIFIERS.sub(" ", self.type).split())
        if plain not in _POINTED or self.type.count("*") != 1:
            return ""
        size, kinds = _POINTED[plain]
        dtype = np.dtype(array.dtype)
        if dtype.itemsize == size and (not kinds or dtype.kind in kinds + "V" or dtype.name not in _NUMPY):
            return ""
        expected = {"f": f"float{8 * size}", "iu": f"int{8 * size}", "": f"elements of {size} bytes"}[kinds]
        return f"is an array of {dtype.name}, but its parameter is {self.type}: pass {expected}, or a view of it"


_NUMPY = {np.dtype(t).name for t in "?bBhHiIlLqQefdFD"}


def find_kernel(name: str, kernels: Sequence[str]) -> str:
    """Return the kernel with this mangled name or signature. Template arguments may be omitted.

    Raises ValueError for an unknown or ambiguous name; the message lists the existing names.
    """
    if name in kernels:
        return name
    requested = "".join(name.split())
    matches = [k for k in kernels if requested in _names_of(demangled(k))]
    if len(matches) == 1:
        return matches[0]
    known = ", ".join(map(demangled, kernels)) or "none"
    if matches:
        several = ", ".join(map(demangled, matches))
        raise ValueError(f"the program has several kernels {name!r}: use one of {several}")
    raise ValueError(f"the program has no kernel {name!r}; it has {known}")


def _names_of(signature: str) -> set[str]:
    """Return the accepted spellings of a kernel's name, without spaces.

    These are the complete signature, and shorter forms of it: without parameters, and then also without template
    arguments, without namespaces, or without both.
    """
    name = "".join(_before_parameters(signature).removeprefix("void ").split())
    plain = name.partition("<")[0]
    return {
        "".join(signature.split()),
        name,
        plain,
        plain.rpartition("::")[2],
        name[len(plain.rpartition("::")[0]) :].lstrip(":"),
    }


def _before_parameters(signature: str) -> str:
    depth = 0
    for at in range(len(signature) - 1, -1, -1):
        depth += (signature[at] == ")") - (signature[at] == "(")
        if depth == 0 and signature[at] == "(":
            return signature[:at]
    return signature


def parameters_of(source: str, entry: str, count: int) -> tuple[SignatureParameter, ...]:
    """Return the ``count`` parameters of the kernel ``entry``, read from ``source`` or from a mangled ``entry``."""
    signature = demangled(entry)
    name = _before_parameters(signature).removeprefix("void ").partition("<")[0].rpartition("::")[2].strip()
    mangled = signature[len(_before_parameters(signature)) :]
    types = _split(mangled[1:-1]) if mangled.startswith("(") else []
    declared = _declared(source, name, count)
    if declared is not None:
        # Unlike the source, the mangled name of a template instance has the actual types of its parameters.
        known = types if len(types) == count else [p.type for p in declared]
        return tuple(SignatureParameter(p.name, t) for p, t in zip(declared, known, strict=True))
    if len(types) == count:
        return tuple(SignatureParameter("", t) for t in types)
    return (SignatureParameter(),) * count


def _declared(source: str, name: str, count: int) -> tuple[SignatureParameter, ...] | None:
    text = _COMMENT.sub(" ", source)
    for match in _GLOBAL.finditer(text):
        at = match.end()
        while (opening := text.find("(", at)) >= 0:
            words = _IDENTIFIER.findall(text[at:opening])
            closing = _closing(text, opening)
            if not words or closing < 0 or ";" in text[at:opening] or "{" in text[at:opening]:
                break
            if words[-1] in _BEFORE_NAME or text[opening + 1 : opening + 2] == "(":
                at = closing + 1
                continue
            parts = _split(text[opening + 1 : closing])
            if words[-1] == name and len(parts) == count:
                aliases = _aliases(text)
                return tuple(_parameter(part, aliases) for part in parts)
            break
    return None


def _aliases(text: str) -> dict[str, str]:
    """Return type aliases defined as ``typedef float real;``, ``using real = float;`` or ``#define real float``."""
    aliases = {name: kind.strip() for kind, name in _TYPEDEF.findall(text)}
    return aliases | {name: kind.strip() for name, kind in (*_USING.findall(text), *_DEFINE.findall(text))}


def _parameter(text: str, aliases: Mapping[str, str]) -> SignatureParameter:
    declared = " ".join(re.sub(r"=.*", "", text).split())
    declared = re.sub(r"\[[^\]]*\]$", "*", declared.strip()).strip()
    words = list(_IDENTIFIER.finditer(declared))
    if len(words) < 2 or not declared.endswith(words[-1][0]):
        return SignatureParameter("", declared)
    kind = _IDENTIFIER.sub(lambda word: aliases.get(word[0], word[0]), declared[: words[-1].start()])
    return SignatureParameter(words[-1][0], kind.strip())


def _closing(text: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return -1


def _split(text: str) -> list[str]:
    """Split a parameter list at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    last = text[start:]
    return [p.strip() for p in (*parts, last)] if text.strip() and text.strip() != "void" else []
