"""The expression language agrees with Python, for one configuration and for columns, and never raises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autosched.user_kernels.arithmetic import BOUND, Type
from autosched.user_kernels.expressions import Expression, ExpressionError, parse, value_list
from search_spaces.spaces.columns import TextColumn

NAMES: dict[str, Type] = {"a": "int", "b": "int", "c": "int"}
PYTHON = {
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "float": float,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "gcd": math.gcd,
    "ceil_div": lambda a, b: -(-a // b),
    "round_up": lambda a, b: -(-a // b) * b,
    "is_power_of_two": lambda a: a > 0 and a & (a - 1) == 0,
}


def python(text: str, values: dict[str, int]) -> Any:
    """Return Python's value of an expression; None if Python raises, or the value is not real."""
    try:
        found = eval(text, {"__builtins__": {}}, {**PYTHON, **values})  # Python's own answer
    except (ArithmeticError, ValueError, TypeError):
        return None
    return None if isinstance(found, complex) or not math.isfinite(found) or abs(found) >= BOUND else found


def expressions() -> st.SearchStrategy[str]:
    leaves = st.one_of(
        st.sampled_from(list(NAMES)), st.integers(0, 9).map(str), st.sampled_from(("0.5", "2.25", "True"))
    )

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = st.tuples(inner, inner)
        return st.one_of(
            st.tuples(inner, st.sampled_from(("+", "-", "*", "/", "//", "%")), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            ),
            st.tuples(inner, st.sampled_from(("0", "1", "2", "3"))).map(lambda t: f"({t[0]} ** {t[1]})"),
            st.tuples(inner, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            ),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} <= {t[1]} < {t[2]})"),
            st.tuples(inner, st.sampled_from(("and", "or")), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
            st.tuples(inner, st.sampled_from(("in", "not in")), inner).map(lambda t: f"({t[0]} {t[1]} (1, {t[2]}, 4))"),
            inner.map(lambda t: f"(not {t})"),
            inner.map(lambda t: f"(-{t})"),
            st.tuples(st.sampled_from(("min", "max", "ceil_div", "round_up")), two).map(
                lambda t: f"{t[0]}({t[1][0]}, {t[1][1]})"
            ),
            st.tuples(st.sampled_from(("abs", "int", "float", "round", "floor", "ceil", "sqrt", "log2")), inner).map(
                lambda t: f"{t[0]}({t[1]})"
            ),
        )

    return st.recursive(leaves, extend, max_leaves=8)


small = st.lists(st.tuples(*[st.integers(-4, 40)] * 3), min_size=1, max_size=6)


@settings(max_examples=400)
@given(expressions(), small)
@example("a ** 0 in (1, ceil_div(a, a), 4)", [(0, 0, 0), (2, 0, 0)])  # all elements of a tuple are computed
@example("a not in (a, b // c)", [(1, 2, 0), (1, 2, 1)])
def test_expressions_of_columns_and_values_equal_python(text: str, rows: list[tuple[int, ...]]) -> None:
    expression = parse(text, NAMES)
    columns = {name: np.array([row[i] for row in rows]) for i, name in enumerate(NAMES)}
    values, defined = expression.columns(columns, {})
    holds = expression.holds(columns, {})
    for i, row in enumerate(rows):
        given_values = dict(zip(NAMES, row, strict=True))
        wanted = python(text, given_values)
        if not defined[i]:
            # Only an intermediate result beyond 62 bits or the floats may be refused where Python has an answer.
            assert wanted is None or "**" in text or "*" in text
            assert not values[i] and not holds[i]
            with pytest.raises(ExpressionError, match="has no value"):
                expression.value(given_values)
            continue
        assert wanted is not None
        assert values[i] == wanted, (text, row)
        assert expression.value(given_values) == wanted
        assert holds[i] == bool(wanted)


@pytest.mark.parametrize(
    "text", ["a // b", "a % b", "a / b", "1.5 // b", "ceil_div(a, b)", "a ** (b - 1)", "log2(b)", "sqrt(b - 1)"]
)
def test_expressions_that_raise_in_python_are_undefined(text: str) -> None:
    expression = parse(text, NAMES)
    assert expression.partial
    values, defined = expression.columns({"a": np.array([7, 7]), "b": np.array([0, 2]), "c": np.array([0, 0])}, {})
    assert defined.tolist() == [False, True]
    assert values[0] == 0


@pytest.mark.parametrize(
    "text", ["b != 0 and a % b == 0", "b == 0 or a // b < 4", "a // b if b else 0", "0 < b < a // b"]
)
def test_an_unevaluated_operand_may_be_undefined(text: str) -> None:
    expression = parse(text, NAMES)
    _, defined = expression.columns({"a": np.array([7, 8]), "b": np.array([0, 2]), "c": np.array([0, 0])}, {})
    assert defined.all()


@pytest.mark.parametrize("text", ["a * a", "a * a * a", "2 ** a", "a ** a", "a + a", "-a - a", "a * -a"])
@pytest.mark.parametrize("value", [62, 63, 2**31, 2**31 - 1, 2**61, 2**62 - 1, -(2**61)])
def test_integers_beyond_62_bits_are_undefined_and_all_others_exact(text: str, value: int) -> None:
    expression = parse(text, {"a": "int"})
    values, defined = expression.columns({"a": np.array([value])}, {})
    small_power = "**" not in text or 0 <= value < 64
    wanted = eval(text, {"a": value}) if small_power else None
    assert bool(defined[0]) == (wanted is not None and abs(wanted) < BOUND)
    assert int(values[0]) == (wanted if defined[0] else 0)


def test_texts_are_compared_and_floats_may_be_spelled_by_texts() -> None:
    columns = {
        "layout": TextColumn(np.array([0, 1, 0]), ("row", "col")),
        "alpha": TextColumn(np.array([1, 0, 1]), ("0.5", "2.0")),
    }
    names: dict[str, Type] = {"layout": "text", "alpha": "float"}
    assert parse("layout == 'row'", names).holds(columns, {}).tolist() == [True, False, True]
    assert parse("layout in ('col', 'tile')", names).holds(columns, {}).tolist() == [False, True, False]
    assert parse("layout < 'd' and alpha > 0", names).holds(columns, {}).tolist() == [False, True, False]
    assert parse("alpha * 2", names).columns(columns, {})[0].tolist() == [4.0, 1.0, 4.0]
    assert parse("layout if alpha > 1 else 'none'", names).columns(columns, {})[0].tolist() == ["row", "none", "row"]
    assert parse("layout == 'row'", names).value({"layout": "row"}) is True


def test_constants_need_no_column() -> None:
    expression = parse("ceil_div(n, a)", {"n": "int", "a": "int"})
    assert expression.names == ("n", "a")
    assert expression.columns({"a": np.array([3, 4])}, {"n": 8})[0].tolist() == [3, 2]
    assert parse("n > 3", {"n": "int"}).holds({"a": np.array([3, 4])}, {"n": 8}).tolist() == [True, True]


REFUSED = [
    ("", "is not an expression"),
    ("a +", "is not an expression: invalid syntax"),
    ("a && b", "write and, or, not"),
    ("!a", "write and, or, not"),
    ("a = 3", "is not an expression"),
    ("blok * 2", "unknown name 'blok', use one of a, b, c (column 1"),
    ("a * width_x", "unknown name 'width_x'"),
    ("a.real", "a dot is not part of the expression language (column 1"),
    ("a[0]", "an index [..] is not part"),
    ("(lambda: 1)()", "this call is not part"),
    ("__import__(3)", "unknown function __import__"),
    ("mim(a, b)", "unknown function mim, did you mean min?"),
    ("min(a)", "min takes 2 to 64 arguments, not 1"),
    (f"max({','.join('a' * 100)})", "max takes 2 to 64 arguments, not 100"),
    ("1 + " * 30 + "blok", 'column 121 of "...'),
    ("log2(a, b)", "log2 takes 1 argument, not 2"),
    ("gcd(a, 2.5)", "gcd takes integers"),
    ("[x for x in (1, 2)]", "a comprehension is not part"),
    ("a in 3", "in needs a list or a tuple"),
    ("a in ()", "in needs a list or a tuple"),
    ("a is b", "is (write ==) is not part"),
    ("a << 2.5", "bit operators take integers"),
    ("a @ b", "is not part of the expression language"),
    ("f'{a}'", "is not part of the expression language"),
    ("b'x'", "is not part of the expression language"),
    ("None", "is not part of the expression language"),
    ("1j", "is not part of the expression language"),
    ("...", "is not part of the expression language"),
    ("a == 'x'", "this mixes a text with a number"),
    ("'x' + 'y'", "a text can only be compared (column 1"),
    ("a in (1, 'x')", "this mixes a text with a number"),
    ("4611686018427387904", "integers must stay under 2**62"),
    ("1e999", "this float is infinite"),
    ("-" * 500 + "1", "nested more than 60 deep"),
    ("(" * 500 + "1" + ")" * 500, "is not an expression"),
    ("a" + "+a" * 1000, "at most 2000 characters"),
    ("a\0", "is not an expression"),
    ("(a := 3)", ":= is not part"),
    ("min(a, b, key=abs)", "this call is not part"),
    ("min(*(a, b))", "is not part"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_unsupported_syntax_is_rejected_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text, NAMES)
    assert message in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


@settings(max_examples=300)
@given(st.text(alphabet="ab01.+-*/%()<>=,[]'\" andortifels", max_size=40))
def test_any_text_is_an_expression_or_rejected_in_one_line(text: str) -> None:
    try:
        expression: Expression | None = parse(text, NAMES)
    except ExpressionError as error:
        assert "\n" not in str(error)
        expression = None
    if expression is not None:
        values, defined = expression.columns({"a": np.array([0, 3]), "b": np.array([0, 5]), "c": np.array([1, 1])}, {})
        assert len(values) == len(defined) == 2


def test_large_powers_are_undefined_without_being_computed() -> None:
    assert not parse("9 ** 9 ** 9 ** 9", {}).columns({"a": np.array([1])}, {})[1].any()
    assert not parse("9.5 ** 9 ** 9 ** 9", {}).columns({"a": np.array([1])}, {})[1].any()


def test_an_expression_may_span_several_lines() -> None:
    assert parse("a *\n  b", NAMES).value({"a": 3, "b": 4}) == 12


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1, 2, 4]", [1, 2, 4]),
        ("range(3, 35, 2)", list(range(3, 35, 2))),
        ("[i for i in range(3,35,2)]", list(range(3, 35, 2))),
        ("[1, 2, 4, 8, 16] + list(range(32, 1024+1, 32))", [1, 2, 4, 8, 16, *range(32, 1025, 32)]),
        ("[2**i for i in range(0, 6)]", [1, 2, 4, 8, 16, 32]),
        ("[i for i in range(1, 20) if 12 % i == 0]", [1, 2, 3, 4, 6, 12]),
        ("['float', 'double']", ["float", "double"]),
        ("(0.5, 1.0)", [0.5, 1.0]),
        ("[True, False]", [True, False]),
    ],
)
def test_lists_of_values(text: str, values: list[Any]) -> None:
    assert value_list(text) == values
    assert np.all(np.array(value_list(text)) == np.array(eval(text)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("range(10**12)", "at most 65536 values"),
        ("range(0, 5, 0)", "a step that is not 0"),
        ("range(1.5)", "range takes integers"),
        ("3", "is not a list of values"),
        ("open('x')", "is not a list of values"),
        ("[x for x in y]", "is not a list of values"),
        ("[1 / 0]", "this has no value"),
        ("[i for i in range(9) for j in range(9)]", "is not a list of values"),
        ("range(a)", "unknown name 'a'"),
    ],
)
def test_invalid_lists_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        value_list(text)
    assert message in str(error.value)


def test_lists_are_evaluated_as_in_python() -> None:
    for text in (
        "[x * 2 if x > 2 else x + 1 for x in [1, 2, 3, 4]]",
        "[x for x in [1, 2.5, 3] if x > 1 if x != 3]",
        "[x == 'a' for x in ['a', 'b']]",
        "[7 for x in range(3)]",
        "[x + 1 for x in [y * y for y in range(5) if y % 2]]",
        "[x // 2 for x in [True, 3, 4.5]]",
        "[x for x in range(0)]",
    ):
        assert value_list(text) == eval(text), text  # texts of this test
    with pytest.raises(ExpressionError, match="no value"):
        value_list("[1 // x for x in [1, 0]]")
    with pytest.raises(ExpressionError, match="column"):
        value_list("[y for x in [1]]")


@pytest.mark.parametrize(
    "text",
    [
        "(x & (x - 1)) == 0",
        "x | 3",
        "x ^ 5",
        "x << 2",
        "x >> 1",
        "~x",
        "(x > 3) & (x < 9)",
        "math.log2(x) >= 2",
        "math.sqrt(x)",
        "math.ceil(x / 3)",
        "math.gcd(x, 6)",
        "math.lcm(x, 6)",
        "math.log(x, 3)",
        "math.log10(x)",
        "math.exp(x / 4)",
        "math.pow(x, 2)",
        "math.isqrt(x)",
        "math.trunc(x / 3)",
        "math.fabs(-x)",
    ],
)
def test_bit_operators_and_math_functions_are_evaluated_as_in_python(text: str) -> None:
    expression = parse(text, {"x": "int"})
    for x in range(1, 12):
        assert expression.value({"x": x}) == pytest.approx(eval(text, {"math": math, "x": x}))
    columns, defined = expression.columns({"x": np.arange(1, 12)}, {})
    assert defined.all()
    assert columns.tolist() == [expression.value({"x": x}) for x in range(1, 12)]


@pytest.mark.parametrize(
    "text", ["1 << x", "x >> (0 - x)", "math.log(0 - x)", "math.exp(x * 100)", "math.isqrt(0 - x)"]
)
def test_undefined_or_huge_shifts_have_no_value(text: str) -> None:
    with pytest.raises(ExpressionError, match="no value"):
        parse(text, {"x": "int"}).value({"x": 80})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x = 2", "write =="),
        ("y = x", "write =="),
        ("x & 1.5", "integers"),
        ("math.lgo2(x)", "log2"),
        ("math.sin(x)", "unknown function"),
        ("os.system(x)", "not part of"),
    ],
)
def test_mistakes_are_reported_with_the_correct_spelling(text: str, hint: str) -> None:
    with pytest.raises(ExpressionError, match=hint):
        parse(text, {"x": "int"})
