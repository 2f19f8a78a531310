"""The expression language of kernel files: a subset of Python with arithmetic and comparisons of names.

Python's parser converts a text to a syntax tree, in which only some nodes are allowed. All types are known before
evaluation. The same evaluator handles a single configuration or an array of configurations. Evaluation never raises. If
Python would raise (a division by zero, the logarithm of 0, a float that overflows), or an integer would need more than
62 bits, the result is *undefined*. A rule with an undefined result rejects the configuration. ``and``, ``or`` and the
conditional expression evaluate only the operands that Python would, so ``x != 0 and y % x == 0`` is defined everywhere.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.user_kernels.arithmetic import (
    BINARY,
    BITWISE,
    BOUND,
    COMPARISONS,
    FUNCTIONS,
    MATH,
    STORAGE,
    Array,
    Evaluate,
    ExpressionFunction,
    Pair,
    Type,
    applied,
    choice,
    compared,
    constant,
    either,
    is_among,
    named,
    truth,
    unary,
)
from search_spaces.arrays import BoolArray
from search_spaces.spaces.columns import Column, TextColumn

Result = int | float | str

MOST_CHARACTERS = 2000
MOST_DEPTH = 60
QUOTED = 120  # maximum number of characters of an expression that a message quotes
MOST_VALUES = 1 << 16  # maximum number of values in a list of parameter values


class ExpressionError(ValueError):
    """A text is not an expression of the language, or the expression's value is undefined. The message is one line."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression. ``names`` has the names that the expression uses.

    ``partial`` is True if the value may be undefined, because of a division by a non-constant, a power, a root or a
    logarithm. ``is_function`` is True if the expression calls a Python function.
    """

    text: str
    type: Type
    names: tuple[str, ...]
    partial: bool
    _evaluate: Evaluate = field(repr=False, compare=False)
    is_function: bool = field(default=False, repr=False, compare=False)

    def value(self, values: Mapping[str, Result]) -> Result:
        """Return the value of the expression for one value of each name. Raises ExpressionError if it is undefined."""
        evaluated, defined = self._evaluate(lambda name: _array(values[name]))
        if not bool(np.all(defined)):
            assignments = ", ".join(f"{name} = {values[name]}" for name in self.names)
            raise ExpressionError(f'"{self.text}" has no value{" for " if assignments else ""}{assignments}')
        result: Result = evaluated.item()
        return result

    def columns(self, columns: Mapping[str, Column], constants: Mapping[str, Result]) -> Pair:
        """Return values for all rows (0, False or "" if undefined), and a mask that is True where they are defined.

        Names are looked up in ``constants``, then in ``columns``, which must not be empty.
        """
        (rows,) = {len(column) for column in columns.values()}

        def look_up(name: str) -> Array:
            if name in constants:
                return _array(constants[name])
            column = columns[name]
            return np.array(column.tolist(), dtype=object) if isinstance(column, TextColumn) else column

        results, defined = self._evaluate(look_up)
        results = np.where(defined, results, "" if self.type == "text" else 0).astype(STORAGE[self.type])
        return np.broadcast_to(results, rows), np.broadcast_to(defined, rows)

    def holds(self, columns: Mapping[str, Column], constants: Mapping[str, Result]) -> BoolArray:
        """Return a bool for each row: True if the value is defined and is true or a number other than 0."""
        results, defined = self.columns(columns, constants)
        return truth(results) & defined


def parse(text: str, names: Mapping[str, Type]) -> Expression:
    """Parse ``text`` as an expression over ``names``. Values of float names may also be strings such as "0.5".

    Raises ExpressionError for text outside the language, an unknown name, and incompatible types.
    """
    parser = _ExpressionParser(text, names)
    term = parser.term(parser.tree(), 0)
    return Expression(parser.text, term.type, tuple(parser.seen), parser.partial, term.evaluate)


def from_function(
    function: Callable[[dict[str, Any]], Any], name: str, kind: Type, names: Mapping[str, Type]
) -> Expression:
    """Return a Python function as an expression.

    To count the schedules that satisfy a rule with this expression, the function is called for each combination of the
    parameters. If the function raises, or returns another type, the expression is undefined.

    Args:
        function: Called with a dict of all ``names``.
        name: Name of the expression.
        kind: Type of the result.
        names: Types of the names that the function receives.

    Returns:
        The expression.
    """
    names = dict(names)  # copy the mapping, because the reader adds names to it later

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        columns = [look_up(n) for n in names]
        shape = np.broadcast_shapes(*(c.shape for c in columns))
        rows = zip(*(np.broadcast_to(c, shape).reshape(-1).tolist() for c in columns), strict=True)
        values, defined = [], []
        for row in rows:
            arguments = {n: float(v) if names[n] == "float" else v for n, v in zip(names, row, strict=True)}
            try:
                values.append(STORAGE[kind](function(arguments)))
                defined.append(True)
            except Exception:  # the user's function may raise any exception
                values.append(STORAGE[kind](0))
                defined.append(False)
        return np.array(values, dtype=STORAGE[kind]).reshape(shape), np.array(defined, dtype=np.bool_).reshape(shape)

    return Expression(name, kind, tuple(names), True, evaluate, is_function=True)


def value_list(text: str) -> list[Result]:
    """Return the values of a list expression: ``range(16, 257, 16)``, ``[2**i for i in range(6)]``, ``[1, 2] + [4]``.

    Raises ExpressionError for the same reasons as ``parse``, and for more than MOST_VALUES values.
    """
    parser = _ExpressionParser(text, {})
    return parser.listed(parser.tree(), 0)


def type_of(value: Result) -> Type:
    """Return the type of a value."""
    names: dict[type, Type] = {bool: "bool", int: "int", float: "float", str: "text"}
    return names[type(value)]


def suggestion(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown name: the most similar known name, or else all known names."""
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"use one of {', '.join(known)}" if known else "there are no names to use here"


def _array(value: Result) -> Array:
    if isinstance(value, int) and not -BOUND < value < BOUND:
        raise ExpressionError(f"integers must stay under 2**62, not {value}")
    return np.asarray(value, dtype=STORAGE[type_of(value)])


@dataclass(frozen=True)
class _Term:
    type: Type
    evaluate: Evaluate
    constant: Result | None = None


class _ExpressionParser:
    def __init__(self, text: str, names: Mapping[str, Type]) -> None:
        self.text, self.known = " ".join(text.splitlines()).strip(), names
        self.seen: dict[str, None] = {}
        self.partial = False

    def tree(self) -> ast.expr:
        if len(self.text) > MOST_CHARACTERS:
            raise ExpressionError(f"an expression has at most {MOST_CHARACTERS} characters, not {len(self.text)}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # Python only warns about text such as "1if x"
                return ast.parse(self.text, mode="eval").body
        except (SyntaxError, Warning) as error:
            foreign = any(sign in self.text for sign in ("&&", "||", "!"))
            message = "write and, or, not" if foreign else getattr(error, "msg", str(error))
            if re.search(r"(?<![=!<>:])=(?!=)", self.text):
                message = "write == to compare"
        except (ValueError, RecursionError, MemoryError):
            message = "the text is nested too deeply, or has invalid characters"
        shown = self.excerpt(0).replace("\0", "\\0")
        raise ExpressionError(f'"{shown}" is not an expression: {message}')

    def excerpt(self, column: int) -> str:
        """Return an excerpt of the text around a column."""
        first = max(0, min(column - QUOTED // 2, len(self.text) - QUOTED))
        end = first + QUOTED
        return f"{'...' if first else ''}{self.text[first:end]}{'...' if end < len(self.text) else ''}"

    def error(self, node: ast.AST, message: str) -> ExpressionError:
        column = getattr(node, "col_offset", 0)
        return ExpressionError(f'{message} (column {column + 1} of "{self.excerpt(column)}")')

    def term(self, node: ast.expr, depth: int) -> _Term:
        if depth > MOST_DEPTH:
            raise self.error(node, f"this is nested more than {MOST_DEPTH} deep")
        depth += 1
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                if isinstance(value, int) and value >= BOUND:
                    raise self.error(node, "integers must stay under 2**62")
                if isinstance(value, float) and not math.isfinite(value):
                    raise self.error(node, "this float is infinite")
                return _Term(type_of(value), constant(value, type_of(value)), value)
            case ast.Name(id=name):
                if name not in self.known:
                    raise self.error(node, f"unknown name {name!r}, {suggestion(name, self.known)}")
                self.seen[name] = None
                return _Term(self.known[name], named(name, self.known[name]))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _Term("bool", unary(lambda a: ~truth(a), self.term(operand, depth).evaluate))
            case ast.UnaryOp(op=(ast.USub() | ast.UAdd()) as op, operand=operand):
                number, sign = self._number(operand, depth), -1 if isinstance(op, ast.USub) else 1
                return _Term(_widest(number), unary(lambda a: sign * (a + 0), number.evaluate), number.constant)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                a, b = self._number(left, depth), self._number(right, depth)
                if isinstance(op, ast.Pow) or (isinstance(op, (ast.Div, ast.FloorDiv, ast.Mod)) and not b.constant):
                    self.partial = True
                wide = "float" if isinstance(op, ast.Div) else _widest(a, b)
                return _Term(wide, applied(BINARY[type(op)], wide, wide, (a.evaluate, b.evaluate)))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BITWISE:
                a, b = self._integer(left, depth), self._integer(right, depth)
                shifts = isinstance(op, ast.LShift | ast.RShift)
                self.partial |= shifts
                kind: Type = "bool" if a.type == b.type == "bool" and not shifts else "int"
                return _Term(kind, applied(BITWISE[type(op)], kind, kind, (a.evaluate, b.evaluate)))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return _Term("int", unary(lambda a: ~a.astype(np.int64), self._integer(operand, depth).evaluate))
            case ast.BoolOp(op=op, values=values):
                terms = [self.term(value, depth) for value in values]
                joined = self._joined(node, terms)
                return _Term(joined, either([t.evaluate for t in terms], isinstance(op, ast.Or), joined))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition, then, otherwise = (self.term(part, depth) for part in (test, body, orelse))
                joined = self._joined(node, (then, otherwise))
                return _Term(joined, choice(condition.evaluate, then.evaluate, otherwise.evaluate, joined))
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[right]):
                return self._membership(node, self.term(left, depth), op, right, depth)
            case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in COMPARISONS for op in ops):
                terms = [self.term(part, depth) for part in (left, *rights)]
                links = []
                for comparison, a, b in zip(ops, terms, terms[1:], strict=False):
                    self._joined(node, (a, b))
                    links.append(compared(COMPARISONS[type(comparison)], a.evaluate, b.evaluate))
                return _Term("bool", either(links, False, "bool"))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(node, name, FUNCTIONS, arguments, depth)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=arguments, keywords=[]) if (
                "math" not in self.known
            ):
                return self._call(node, name, MATH, arguments, depth)
        raise self.error(node, f"{_described(node)} is not part of the expression language")

    def _number(self, node: ast.expr, depth: int) -> _Term:
        term = self.term(node, depth)
        if term.type == "text":
            raise self.error(node, "this is a text, but a number is needed")
        return term

    def _joined(self, node: ast.AST, terms: Sequence[_Term]) -> Type:
        types = {t.type for t in terms}
        if "text" in types and len(types) > 1:
            raise self.error(node, "this mixes a text with a number")
        return next(iter(types)) if len(types) == 1 else _widest(*terms)

    def _membership(self, node: ast.AST, a: _Term, op: ast.cmpop, right: ast.expr, depth: int) -> _Term:
        if not isinstance(right, (ast.Tuple, ast.List)) or not right.elts:
            raise self.error(node, "the operator 'in' needs a non-empty list or tuple after it, such as x in (1, 2)")
        among = [self.term(element, depth) for element in right.elts]
        self._joined(node, (a, *among))
        member = is_among(a.evaluate, [b.evaluate for b in among])
        return _Term("bool", unary(np.logical_not, member) if isinstance(op, ast.NotIn) else member)

    def _integer(self, node: ast.expr, depth: int) -> _Term:
        term = self._number(node, depth)
        if term.type == "float":
            raise self.error(node, "bit operators take integers")
        return term

    def _call(
        self,
        node: ast.AST,
        name: str,
        known: Mapping[str, ExpressionFunction],
        operands: Sequence[ast.expr],
        depth: int,
    ) -> _Term:
        if name not in known:
            raise self.error(node, f"unknown function {name}, {suggestion(name, known)}")
        function, arguments = known[name], [self._number(a, depth) for a in operands]
        least, most = function.arguments
        if not least <= len(arguments) <= most:
            number = f"{least}" if least == most else f"{least} to {most}"
            raise self.error(node, f"{name} takes {number} argument{'s' * (most > 1)}, not {len(arguments)}")
        wide = _widest(*arguments)
        if function.integers and wide == "float":
            raise self.error(node, f"{name} takes integers")
        self.partial |= function.partial
        kind = function.type or wide
        return _Term(kind, applied(function.operation, wide, kind, [a.evaluate for a in arguments]))

    def listed(self, node: ast.expr, depth: int) -> list[Result]:
        """Return the values of a list expression."""
        if depth > MOST_DEPTH:
            raise self.error(node, f"this is nested more than {MOST_DEPTH} deep")
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                values = [self._scalar(element, {}) for element in elements]
            case ast.Call(func=ast.Name(id="range"), args=[_, *_] as bounds, keywords=[]) if len(bounds) <= 3:
                limits = [self._scalar(bound, {}) for bound in bounds]
                if not all(type(v) is int for v in limits) or (len(limits) == 3 and limits[2] == 0):
                    raise self.error(node, "range() needs integers, and a step other than 0")
                values = list(range(*(int(v) for v in limits))[: MOST_VALUES + 1])
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[]):
                values = self.listed(inner, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                values = self.listed(left, depth + 1) + self.listed(right, depth + 1)
            case ast.ListComp(elt=element, generators=[ast.comprehension(target=ast.Name(id=name)) as each]):
                inner_values = self.listed(each.iter, depth + 1)
                for test in each.ifs:
                    holds = self._mapped(test, name, inner_values)
                    inner_values = [value for value, condition in zip(inner_values, holds, strict=True) if condition]
                values = self._mapped(element, name, inner_values)
            case _:
                raise self.error(node, f"{_described(node)} is not a list of values: write [1, 2, 4] or range(1, 9)")
        if len(values) > MOST_VALUES:
            raise self.error(node, f"a list has at most {MOST_VALUES} values")
        return values

    def _mapped(self, node: ast.expr, name: str, values: Sequence[Result]) -> list[Result]:
        """Return the expression's value for each value of ``name``. The expression is parsed once per type of value."""
        values_by_position: dict[int, Result] = {}
        for kind in dict.fromkeys(map(type_of, values)):
            positions = [position for position, value in enumerate(values) if type_of(value) == kind]
            storage = object if kind == "text" else STORAGE[kind]
            column = np.array([values[position] for position in positions], dtype=storage)
            inner = _ExpressionParser(self.text, {name: kind})
            results, defined = inner.term(node, 0).evaluate(lambda _, column=column: column)  # type: ignore[misc]
            if not bool(np.all(defined)):
                raise self.error(node, "this has no value")
            values_by_position |= zip(positions, np.broadcast_to(results, len(positions)).tolist(), strict=True)
        return [values_by_position[position] for position in range(len(values))]

    def _scalar(self, node: ast.expr, values: Mapping[str, Result]) -> Result:
        inner = _ExpressionParser(self.text, {name: type_of(value) for name, value in values.items()})
        evaluated, defined = inner.term(node, 0).evaluate(lambda name: _array(values[name]))
        if not bool(defined):
            raise self.error(node, "this has no value")
        result: Result = evaluated.item()
        return result


def _widest(*terms: _Term) -> Type:
    return "float" if any(t.type == "float" for t in terms) else "int"


_SPELLED: dict[type[ast.AST], str] = {
    ast.Attribute: "a dot",
    ast.Subscript: "an index [..]",
    ast.Call: "this call",
    ast.ListComp: "a comprehension",
    ast.List: "a list",
    ast.Tuple: "a tuple",
    ast.NamedExpr: ":=",
    ast.Is: "is (write ==)",
    ast.In: "in between other comparisons",
}


def _described(node: ast.AST) -> str:
    op = getattr(node, "op", None) or (node.ops[-1] if isinstance(node, ast.Compare) else node)
    return _SPELLED.get(type(op), f"this ({type(node).__name__})")
