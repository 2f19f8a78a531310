"""Structs passed by value, described by ``fields`` in a kernel file, or by a ``value`` from Python."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.document import DocumentTable
from autosched.user_kernels.expressions import suggestion
from autosched.user_kernels.kernel_file import StructField, StructValue
from autosched.user_kernels.struct_values import is_struct, struct_bytes
from search_spaces.hardware.dtype_names import canonical, spellings
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType

MOST_BYTES = 4096  # maximum bytes of all parameters of a kernel, for drivers older than CUDA 12.1
_ALIGNMENTS = (1, 2, 4, 8, 16, 32, 64, 128)


def read_struct(table: DocumentTable, types: Mapping[str, Type]) -> StructValue:
    """Return the struct of an ``[[argument]]``.

    Args:
        table: The argument. ``fields`` lists tables with ``dtype`` and ``value``. A field without an ``offset`` has the
            position that C++ gives it. ``align`` is the alignment of the struct; the default is the alignment of the
            widest field. In Python, instead of ``fields``, ``value`` may be a struct of numpy or ctypes.
        types: Types of the names that values may use.

    Returns:
        The struct.

    Raises:
        KernelFileError: A field is invalid, or overlaps another.
    """
    if "value" in table:
        raw = table.values["value"]
        if not is_struct(raw):
            table.fail("pass a numpy or ctypes struct, or (in a file) list fields instead", "value")
        content = table.attempt("value", struct_bytes, raw)
        _check_size(table, len(content), "value")
        return StructValue(content)
    end, alignment, fields = 0, 1, list[StructField]()
    for field in table.tables("fields"):
        dtype = _dtype(field)
        value = field.get("value", (str, int, float, list), "the value of the field, such as value = 0.5")
        start = int(field.get("offset", int, "a number of bytes", -(-end // dtype.bytes) * dtype.bytes))
        if start < end:
            field.fail(f"the field begins at byte {start}, but the previous field ends at byte {end}", "offset")
        for one in value if isinstance(value, list) else [value]:
            kinds: tuple[Type, ...] = ("float", "int", "bool") if dtype.is_float else ("int", "bool")
            fields.append(StructField(start, dtype, field.expression("value", one, types, kinds)))
            start += dtype.bytes
        end, alignment = start, max(alignment, dtype.bytes)
        _check_size(field, end, "value")
        field.text("name", "-")  # names of fields have no effect: they document the struct for readers of the file
        field.done()
    if not fields:
        table.fail('fields is missing: list them, such as fields = [{ dtype = "f32", value = 0.5 }]')
    alignment = int(table.get("align", int, "a number of bytes", alignment))
    if alignment not in _ALIGNMENTS:
        table.fail(f"invalid alignment {alignment}: use one of {', '.join(map(str, _ALIGNMENTS))}", "align")
    return StructValue(bytes(-(-end // alignment) * alignment), tuple(fields))


def _dtype(field: DocumentTable) -> DType:
    text = field.text("dtype")
    dtype = SCALAR_DTYPES.get(canonical(text))
    if dtype is None:
        field.fail(f"{text!r} is not known: {suggestion(text, spellings(SCALAR_DTYPES))}", "dtype")
    return dtype


def _check_size(table: DocumentTable, size: int, key: str) -> None:
    if not 0 < size <= MOST_BYTES:
        table.fail(f"the struct has {size} bytes, but a kernel accepts at most {MOST_BYTES}", key)
