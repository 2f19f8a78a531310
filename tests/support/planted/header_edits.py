"""Edit the headers of kernels, to plant faults.

A kernel is a header such as "autosched/kernels/matmul.cuh". Long headers are divided into files in a folder of the same
name. A fault names the kernel; the file that contains the fault's old text is edited.
"""

from __future__ import annotations

from search_spaces.launches.headers import Headers


def parts_of(headers: Headers, header: str) -> dict[str, str]:
    """Return the texts of ``header`` and of the files in its folder, by file name.

    Raises:
        ValueError: There is no such header.
    """
    folder = header.removesuffix(".cuh") + "/"
    parts = {name: text for name, text in headers.files if name == header or name.startswith(folder)}
    if header not in parts:
        raise ValueError(f"there is no header {header}")
    return parts


def edited(headers: Headers, header: str, old: str, new: str, *, everywhere: bool = False) -> Headers:
    """Return ``headers`` with ``old`` replaced by ``new`` in the files of ``header``.

    Raises:
        ValueError: ``old`` does not occur, or it occurs more than once and ``everywhere`` is false.
    """
    parts = parts_of(headers, header)
    count = sum(text.count(old) for text in parts.values())
    if count == 0 or (count > 1 and not everywhere):
        raise ValueError(f"{header} and its folder contain {old!r} {count} times")
    return headers | Headers.of({name: text.replace(old, new) for name, text in parts.items() if old in text})
