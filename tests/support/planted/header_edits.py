"""Edits of the headers of kernels, for faults that are planted on purpose.

A kernel is one file ("autosched/kernels/matmul.cuh"), and where that became long, its parts lie in the folder of the
same name. A fault names the kernel, and its text says which part it is in.
"""

from __future__ import annotations

from search_spaces.launches.headers import Headers


def parts_of(headers: Headers, header: str) -> dict[str, str]:
    """Name and text of ``header`` and of the files in its folder. Raises ValueError where there is no such header."""
    folder = header.removesuffix(".cuh") + "/"
    parts = {name: text for name, text in headers.files if name == header or name.startswith(folder)}
    if header not in parts:
        raise ValueError(f"there is no header {header}")
    return parts


def edited(headers: Headers, header: str, old: str, new: str, *, everywhere: bool = False) -> Headers:
    """``headers`` with ``new`` for ``old`` in the parts of ``header``.

    Raises ValueError where they do not have ``old`` once, or with ``everywhere`` not at all.
    """
    parts = parts_of(headers, header)
    count = sum(text.count(old) for text in parts.values())
    if count == 0 or (count > 1 and not everywhere):
        raise ValueError(f"{header} and its folder have {count} times {old!r}")
    return headers | Headers.of({name: text.replace(old, new) for name, text in parts.items() if old in text})
