"""Names of element types in numpy, torch, Triton, PTX, CUDA C++ and this project, in one table."""

from __future__ import annotations

from collections.abc import Collection

# Other names of a type, by autosched's name. "long" has 64 bits on the platforms that autosched supports.
_SPELLINGS = {
    "bool": (),
    "f16": ("float16", "fp16", "half", "__half"),
    "bf16": ("bfloat16", "__nv_bfloat16", "nv_bfloat16"),
    "f32": ("float32", "fp32", "float"),
    "f64": ("float64", "fp64", "double"),
    "e4m3": ("float8_e4m3fn", "float8_e4m3", "fp8_e4m3", "fp8e4nv", "__nv_fp8_e4m3"),
    "e5m2": ("float8_e5m2", "fp8_e5m2", "fp8e5", "__nv_fp8_e5m2"),
    "mxf8": ("mxfp8",),
    "mxf4": ("mxfp4",),
    "nvf4": ("nvfp4",),
    "i8": ("char", "signed char"),
    "u8": ("uchar", "unsigned char"),
    "i16": ("short",),
    "u16": ("ushort", "unsigned short"),
    "i32": (),
    "u32": ("unsigned", "unsigned int"),
    "i64": ("long", "long long"),
    "u64": ("ulong", "unsigned long", "unsigned long long", "size_t"),
}
_INTEGERS = {
    f"{theirs}{bits}{suffix}": f"{ours}{bits}"
    for ours, theirs in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
    for suffix in ("", "_t")
}
_INTEGERS |= {f"s{bits}": f"i{bits}" for bits in (8, 16, 32, 64)} | {"int": "i32", "uint": "u32"}
ALIASES = {alias: name for name, aliases in _SPELLINGS.items() for alias in aliases} | _INTEGERS
DTYPE_NAMES = {name: name for name in _SPELLINGS} | ALIASES

# C++ names of types whose autosched name does not exist in C++, by autosched's name.
_IN_SOURCES = {"f16": "half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "bool": "bool"}
_IN_SOURCES |= {"i8": "signed char", "i16": "short", "i32": "int", "i64": "long long"}
_IN_SOURCES |= {"u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long"}


def canonical(name: object) -> str:
    """Return autosched's name of a type. ``name`` is a text, or a type object of numpy, torch or Triton.

    Unknown names are returned unchanged.
    """
    text = name if isinstance(name, str) else _name_of(name)
    text = " ".join(text.removeprefix("torch.").removeprefix("tl.").split())
    return DTYPE_NAMES.get(text) or DTYPE_NAMES.get(text.lower()) or text


def _name_of(type_: object) -> str:
    if (
        isinstance(type_, type) and type_.__module__ != "builtins"
    ):  # not Python's float: it has 64 bits, but "float" in C has 32
        return type_.__name__
    return str(getattr(type_, "name", type_))


def spellings(known: Collection[str]) -> tuple[str, ...]:
    """Return all names of the types in ``known``. Autosched's names are first."""
    return *known, *(alias for alias, own in ALIASES.items() if own in known)


def unknown_type(name: object, known: Collection[str]) -> str:
    """Return the error message for a name that no type in ``known`` has. The message suggests the most similar name."""
    import difflib  # a late import, because programs that only call kernels do not need this module

    is_other = canonical(name) in DTYPE_NAMES
    near = [] if is_other else difflib.get_close_matches(str(name)[:64], spellings(known), 1)
    perhaps = f" (did you mean {near[0]}?)" if near else ""
    return f"unknown type {str(name)[:64]!r}{perhaps}: use one of {', '.join(known)}"


def in_source(name: str) -> str:
    """Return the C++ name of the type; unknown names are unchanged."""
    return _IN_SOURCES.get(canonical(name), name)
