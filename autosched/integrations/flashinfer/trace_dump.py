"""Read definitions in FlashInfer's trace dump, and workloads of flashinfer-bench.

``FLASHINFER_TRACE_DUMP=1 FLASHINFER_TRACE_DUMP_DIR=traces`` writes a JSON file, called a *definition*, for each
function and shape that a program uses. A definition contains axes, and the shapes and types of arrays. Axes without a
value are *open*. Sizes of open axes come from workloads (lines of ``*.jsonl`` files), or from the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.dispatch.call_log import CallLogError, text_of
from autosched.suites.logged_calls import CallReader, ProblemCounts
from measurements.files.bounded import parse_json
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, RmsNorm, Softmax

_EPS = 1e-6  # default epsilon of FlashInfer's norms


class _TraceReader:
    def reads(self, path: Path, first_line: str) -> bool:
        return path.is_dir() or path.suffix in (".json", ".jsonl")

    def problems(self, path: Path, rows: Sequence[int]) -> ProblemCounts:
        try:
            return ProblemCounts(*problems(list(documents(path)), rows))
        except ValueError as error:
            raise CallLogError(str(error)) from None


READER: CallReader = _TraceReader()


@dataclass(frozen=True)
class Definition:
    """A function and shape. ``sizes`` has the sizes of axes with a fixed size; ``open`` lists all other axes."""

    name: str
    function: str
    sizes: Mapping[str, int]
    open: tuple[str, ...]
    arrays: Mapping[str, tuple[tuple[str, ...], str]]

    def problem(self, sizes: Mapping[str, int]) -> Problem:
        """Return the problem in which the open axes have these ``sizes``.

        Raises ValueError, with one line, if no kernel computes the problem.
        """
        make_problem = _FUNCTIONS.get(self.function)
        if make_problem is None:
            raise ValueError(f"{self.function} is not supported: only {', '.join(_FUNCTIONS)}")
        return make_problem(self, {**self.sizes, **sizes})

    def shape(self, array: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of an array, given the sizes of the axes."""
        return tuple(sizes[axis] for axis in self.arrays[array][0])

    def type_of(self, array: str) -> str:
        """Return the type of an array."""
        name = canonical(self.arrays[array][1])
        if name not in FLOAT_DTYPES:
            raise ValueError(
                f"{self.function} of {name} is not supported: the supported types are {', '.join(FLOAT_DTYPES)}"
            )
        return name


def definition(document: Any) -> Definition | None:
    """Return the definition in a JSON document; None if the document is not a definition."""
    if not isinstance(document, Mapping) or not {"name", "axes", "inputs", "outputs"} <= set(document):
        return None
    try:
        axes = {str(name): axis.get("value") for name, axis in document["axes"].items()}
        arrays = {
            str(name): (tuple(array["shape"]), str(array["dtype"]))
            for kind in ("inputs", "outputs")
            for name, array in document[kind].items()
            if array.get("shape")
        }
        tags = [str(tag) for tag in document.get("tags", ())]
    except (AttributeError, KeyError, TypeError):
        return None
    called = next((tag.rpartition(".")[2] for tag in tags if tag.startswith("fi_api:")), "")
    function = called or str(document.get("definition") or document.get("op_type") or "")
    sizes = {name: value for name, value in axes.items() if type(value) is int}
    used = {axis for shape, _ in arrays.values() for axis in shape}
    unknown = tuple(name for name in axes if name not in sizes and name in used)
    return Definition(str(document["name"]), function, sizes, unknown, arrays)


def documents(path: Path) -> Iterator[Any]:
    """Yield the JSON documents of a file, or of the ``*.json`` and ``*.jsonl`` files in a folder.

    Raises ValueError, which names the file, for invalid JSON.
    """
    files = sorted(p for p in path.rglob("*") if p.suffix in (".json", ".jsonl")) if path.is_dir() else [path]
    for file in files:
        text = text_of(file)
        try:
            yield from (
                map(parse_json, filter(str.strip, text.splitlines())) if file.suffix == ".jsonl" else [parse_json(text)]
            )
        except ValueError as error:
            raise ValueError(f"{file} is not JSON: {' '.join(str(error).split())}") from error


def problems(documents: Sequence[Any], rows: Sequence[int]) -> tuple[Counter[Problem], Counter[str]]:
    """Return the problems in documents with their numbers of calls, and counts of skipped problems by reason.

    Every workload of a definition counts as one call, and gives the sizes of the open axes. Without workloads, every
    size in ``rows`` counts as one call, in which all open axes have this size.

    Raises:
        ValueError: A definition has an open axis, but neither workloads nor ``rows`` contain a size for it.
    """
    workloads: dict[str, list[dict[str, int]]] = {}
    definitions: dict[str, Definition] = {}
    for document in documents:
        one = definition(document)
        if one is not None:
            definitions[one.name] = one
        elif isinstance(document, Mapping) and isinstance(document.get("workload"), Mapping):
            axes = document["workload"].get("axes")
            if isinstance(axes, Mapping) and all(type(size) is int for size in axes.values()):
                workloads.setdefault(str(document.get("definition")), []).append(dict(axes))
    counts: Counter[Problem] = Counter()
    skipped: Counter[str] = Counter()
    unsaid: list[Definition] = []
    for name, one in definitions.items():
        if one.function not in _FUNCTIONS:
            skipped[f"{one.function} is not supported: only {', '.join(_FUNCTIONS)}"] += 1
            continue
        cases = workloads.get(name) or [dict.fromkeys(one.open, size) for size in rows]
        if not cases:
            unsaid.append(one)
        for sizes in cases:
            try:
                counts[one.problem(sizes)] += 1
            except KeyError as error:
                skipped[f"a workload of {name} has no value for {error.args[0]}"] += 1
            except ValueError as error:
                skipped[" ".join(str(error).split())] += 1
    if unsaid:
        first = unsaid[0]
        raise ValueError(
            f"{first.name} does not contain its {' and '.join(first.open) or 'sizes'}: pass --rows 1,16,256, or a "
            f"folder that also contains flashinfer-bench's workloads"
        )
    return counts, skipped


def _matmul(one: Definition, sizes: Mapping[str, int]) -> Problem:
    (m, k), (_, n) = one.shape("A", sizes), one.shape("B", sizes)
    dtype = one.type_of("A")
    out = next(array for array in one.arrays if array not in ("A", "B"))
    # the layout of the weights in FlashInfer's definitions
    return Matmul(m=m, n=n, k=k, a=dtype, b=dtype, out=one.type_of(out), order_b="col")


def _row_wise(kind: Callable[..., Problem], **options: Any) -> Callable[[Definition, Mapping[str, int]], Problem]:
    def make(one: Definition, sizes: Mapping[str, int]) -> Problem:
        x, *further = (array for array in one.arrays)
        rows, columns = one.shape(x, sizes)
        dtype, out = one.type_of(x), one.type_of(further[-1])
        for name in ("weight", "bias"):
            if name in one.arrays and one.type_of(name) != dtype:
                raise ValueError(f"{one.function} of {dtype} with a {name} of {one.type_of(name)} is not supported")
        return kind(rows=rows, columns=columns, dtype=dtype, out=out, **options)

    return make


_FUNCTIONS: Mapping[str, Callable[[Definition, Mapping[str, int]], Problem]] = {
    "mm_bf16": _matmul,
    "rmsnorm": _row_wise(RmsNorm, eps=_EPS),
    "layernorm": _row_wise(LayerNorm, eps=_EPS),
    "softmax": _row_wise(Softmax),
}
