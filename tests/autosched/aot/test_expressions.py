"""An expression over sizes has the same value in kernel files, in the manifest's language, and in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from needs import cpp_compiler

from autosched.aot.expressions import PythonOnlyExpression, over_sizes, to_cpp
from autosched.aot.runtime.autosched_loader import evaluate
from autosched.user_kernels.expressions import ExpressionError, from_function, parse

RUNTIME = Path(__file__).parents[3] / "autosched" / "aot" / "runtime"
KNOWN = {"block": 32, "kind": "wide", "share": 0.75}
TYPES = {"n": "int", "m": "int", "block": "int", "kind": "text", "share": "float", "blocks": "int", "limited": "int"}
TEXTS = (
    "n", "ceil_div(n, block)", "limited", "-n // 3", "n % 7 - m", "n // (m - 4)", "round_up(n, 16) * m",
    "2 ** (n % 5)", "n if m > 3 else m + 1", "min(n, m, 17)", "max(-n, abs(m - 100))", "gcd(n, m)",
    "is_power_of_two(n) and not m == 3", "n in (1, 2, 100) or m not in [5, 6]", "1 < n <= m * 3 < 1000",
    "n * share + 0.5 > m", "int(n * share)", "floor(n / 7)", "ceil(n / m)", "round(n * 0.3)", "sqrt(n) > log2(m)",
    "n / (m - 5) > 2", "(n if kind == 'wide' else m) + 1", "blocks % 2 == 0", "float(n) - 0.25 < m",
    "n * 2**40 * 2**20", "(n & (n - 1)) == 0", "n | m ^ 5", "n << m % 4", "n >> m % 3", "~n & 0xff",
    "math.log2(n) >= 6", "math.ceil(n / m)", "(n > 3) & (m < 5)",
)  # fmt: skip
SIZES = [(n, m) for n in (1, 2, 7, 100, 513) for m in (1, 3, 4, 5, 64)]


def test_all_evaluations_of_an_expression_agree(tmp_path: Path) -> None:
    derived = {
        "blocks": parse("ceil_div(n, block * m)", TYPES),
        "limited": parse("min(blocks, 5) if kind != 'narrow' else 1", TYPES),
    }
    lines, expected = [], []
    for text in TEXTS:
        expression = parse(text, TYPES)
        shown = over_sizes(expression, ("n", "m"), KNOWN, derived)
        cpp = to_cpp(shown, {"n": "n", "m": "m"})
        for n, m in SIZES:
            values: dict[str, int | float | str] = {**KNOWN, "n": n, "m": m}
            for name, attribute in derived.items():
                values[name] = attribute.value(values)
            try:
                value = expression.value(values)
            except ExpressionError:
                expected.append("undefined")
            else:
                expected.append(f"{float(value):.17g}")
                assert evaluate(shown, {"n": n, "m": m}) == value, (text, shown, n, m)
        lines.append(f"  for (const auto& [n, m] : sizes) {{ bool ok = true; const auto v = {cpp}; print(v, ok); }}")
    sizes = ", ".join(f"{{{n}, {m}}}" for n, m in SIZES)
    source = tmp_path / "expressions.cpp"
    source.write_text(
        '#include <cstdio>\n#include "autosched_launch.hpp"\nusing namespace autosched::expression;\n'
        'void print(double v, bool ok) { ok ? std::printf("%.17g\\n", v) : std::printf("undefined\\n"); }\n'
        f"int main() {{\n  const std::pair<Int, Int> sizes[] = {{{sizes}}};\n" + "\n".join(lines) + "\n}\n"
    )
    program = tmp_path / "expressions"
    command = [cpp_compiler(), "-std=c++17", f"-I{RUNTIME}", str(source), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
    wrong = [
        (TEXTS[i // len(SIZES)], SIZES[i % len(SIZES)], a, b)
        for i, (a, b) in enumerate(zip(printed, expected, strict=True))
        if a != b
    ]
    assert not wrong


def test_python_only_expressions_are_rejected() -> None:
    function = from_function(lambda values: values["n"] * 2, "twice", "int", {"n": "int"})
    with pytest.raises(PythonOnlyExpression, match="twice is a Python function"):
        over_sizes(function, ("n",), {}, {})
    with pytest.raises(PythonOnlyExpression, match="with a numeric result"):
        to_cpp("n or m", {"n": "n", "m": "m"})
    with pytest.raises(ValueError, match="invalid expression"):
        evaluate("__import__('os')", {})


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "n**n**n**n",
        "(-1)**0.5",
        "0.0**-1",
        "2**62",
        "n * 2**61 * 2",
        "1 << 70",
        "1 << 10**9",
        "1.5 & 2",
        "n // 0",
        "sqrt(-1)",
        "round_up(1, 0)",
        "[1] * 10**9",
        "(1, 2)",
        "n @ n",
        "n.real",
        "__import__('os')",
        "min()",
        "gcd(1.5, 2)",
        "int('7')",
        "1e400",
        "n +",
        "(" * 300 + "n" + ")" * 300,
        "-" * 5000 + "n",
        "+".join(["n"] * 9000),
        "n" * 30_000,
        "9" * 10_000,
        "n\0",
        "",
        None,
        ["n"],
    ],
    ids=lambda text: repr(text)[:20],
)
def test_expressions_without_a_value_raise_value_error_quickly(text: object) -> None:
    with pytest.raises(ValueError) as error:
        evaluate(text, {"n": 64})  # type: ignore[arg-type]
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_expressions_that_exceed_the_bound_are_errors() -> None:
    for text in ("n // 0", "2**62", "9**9**9**9"):
        with pytest.raises(ArithmeticError):
            evaluate(text, {"n": 64})
    assert evaluate("2**61 + 2**60", {}) == 2**61 + 2**60
