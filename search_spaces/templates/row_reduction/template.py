"""The rows that make reductions and normalizations of rows families of autosched; they share a space and a kernel."""

from __future__ import annotations

from search_spaces.catalogue import Family, Option
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.row_reduction import AXES, KINDS, LayerNorm, Reduce, RmsNorm, RowProblem, Softmax
from search_spaces.templates.row_reduction.counts import counts
from search_spaces.templates.row_reduction.lowering import config
from search_spaces.templates.row_reduction.proxy import proxy
from search_spaces.templates.row_reduction.space import space

_TYPES = tuple(FLOAT_DTYPES)

_SIZES = (
    Option("rows", ("--rows",), int, "rows of x"),
    Option("columns", ("--columns",), int, "columns of x"),
    Option("dtype", ("--dtype",), str, "type of x", "f16", _TYPES),
)
_OUT = Option("out", ("--out",), str, "type of out; by default that of x", "", ("", *_TYPES))
_EPS = Option("eps", ("--eps",), str, "what is added to the mean square before the square root", "1e-5")
_REDUCE = (
    Option("out", ("--out",), str, "type of out; by default that of x, u32 for argmax", "", ("", *_TYPES, "u32")),
    Option("kind", ("--kind",), str, "what a row or column is reduced to", "sum", KINDS),
    Option("axis", ("--axis",), str, "what becomes one value: a row or a column", "row", AXES),
    Option("reduction_size", ("--reduction-size",), int, "elements that become one value; 0: the whole axis", 0),
)


def _family(problem: type[RowProblem], summary: str, options: tuple[Option, ...]) -> Family[RowProblem]:
    return Family(
        name=problem.family,
        summary=summary,
        header="autosched/kernels/row_reduction.cuh",
        entry="autosched::row_reduction",
        options=options,
        problem_from_options=problem.from_options,
        problem_from_json=problem.from_json,
        space=space,
        config=config,
        counts=counts,
        proxy=proxy,
    )


FAMILIES = (
    _family(Reduce, "sum, max, mean, sum of squares or argmax of rows or columns", (*_SIZES, *_REDUCE)),
    _family(Softmax, "softmax of every row", (*_SIZES, _OUT)),
    _family(RmsNorm, "rows over their root mean square, times a weight", (*_SIZES, _OUT, _EPS)),
    _family(
        LayerNorm, "rows less their mean, over their deviation, times a weight, plus a bias", (*_SIZES, _OUT, _EPS)
    ),
)
