"""Mistakes in a tile program give a one-line message with the user's file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import main
from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import InOut, Input, Output, Program, program
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.template import template

Mistake = Callable[[Any, Any, Any, Any, Any], Any]
NUMBERS = {"m": 16, "n": 24, "e": 2}


def first_number(p: Any, numbers: Any) -> Any:
    return p.load(p.window(numbers, (0, 0), (1, 1)))


def first_index(p: Any, numbers: Any) -> Any:
    return p.load_scalar(numbers, 0, high=8)


MISTAKES: dict[str, tuple[str, Mistake]] = {
    "unknown operation": ("did you mean sigmoid", lambda p, t, x, numbers, stack: p.sigmoyd(t)),
    "unknown method": ("did you mean cast", lambda p, t, x, numbers, stack: t.casted("f16")),
    "one place": ("(row, column)", lambda p, t, x, numbers, stack: p.window(x, (0,), (8, 8))),
    "one size": ("(rows, columns)", lambda p, t, x, numbers, stack: p.window(x, (0, 0), (8,))),
    "a number for a shape": ("(rows, columns)", lambda p, t, x, numbers, stack: p.window(x, (0, 0), 8)),
    "a number for a place": ("(row, column)", lambda p, t, x, numbers, stack: p.window(x, 0, (8, 8))),
    "half a place": ("8.0", lambda p, t, x, numbers, stack: p.window(x, (0, 16 / 2), (8, 8))),
    "half a size": ("4.0", lambda p, t, x, numbers, stack: p.window(x, (0, 0), (8, 8 / 2))),
    "a tile for an array": ("array", lambda p, t, x, numbers, stack: p.window(t, (0, 0), (8, 8))),
    "an array for a tile": ("load a window", lambda p, t, x, numbers, stack: t + x),
    "an index for a size": ("run time", lambda p, t, x, numbers, stack: p.zeros((8, first_index(p, numbers)))),
    "a comparison": ("p.when", lambda p, t, x, numbers, stack: 1 if first_index(p, numbers) > 3 else 0),
    "one size to choose": ("(64, 128)", lambda p, t, x, numbers, stack: p.choose(bm=64)),
    "half a step": ("0.5", lambda p, t, x, numbers, stack: list(p.steps(24, 0.5))),
    "a loaded end": ("steps", lambda p, t, x, numbers, stack: list(p.steps(first_number(p, numbers), 8))),
    "a loaded index": ("stack", lambda p, t, x, numbers, stack: stack[first_number(p, numbers)]),
    "a tile of three dimensions": ("(rows, columns)", lambda p, t, x, numbers, stack: p.window(x, (0, 0), (1, 8, 8))),
    "a slice": ("equal parts", lambda p, t, x, numbers, stack: t[:, 0:3]),
    "a list of elements": ("for", lambda p, t, x, numbers, stack: list(t)),
    "a condition": ("p.where", lambda p, t, x, numbers, stack: 1 if t else 0),
    "a remainder of nothing": ("positive whole number", lambda p, t, x, numbers, stack: p.rows(0, 8) % 0),
    "a quotient of whole numbers": ("use //", lambda p, t, x, numbers, stack: p.rows(0, 8) / 3),
    "a product": ("p.mma", lambda p, t, x, numbers, stack: t @ t),
    "an unknown argument": ("mask", lambda p, t, x, numbers, stack: p.load(p.window(x, (0, 0), (8, 8)), mask=t)),
    "no arrays": ("blocks", lambda p, t, x, numbers, stack: p.blocks(8, 8)),
    "no number": ("full", lambda p, t, x, numbers, stack: p.full((8, 8), "one")),
    "another exception": ("ZeroDivisionError", lambda p, t, x, numbers, stack: 1 // 0),
}  # fmt: skip


def with_mistake(mistake: Mistake) -> Program:
    @program(
        x=Input("m n", "f32"), numbers=Input("m", "i32"), stack=Input("e m n", "f32"), out=Output("m n", "f32"),
        added=InOut("m n", "f32"),
    )  # fmt: skip
    def mistaken(p: Any, x: Any, numbers: Any, stack: Any, out: Any, added: Any) -> None:
        i, j = p.blocks(x.shape, (8, 8))
        t = p.load(p.window(x, (i, j), (8, 8)))
        mistake(p, t, x, numbers, stack)
        p.store(t, p.window(out, (i, j), (8, 8)))

    return mistaken


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_in_one_line_with_its_position(name: str) -> None:
    token, mistake = MISTAKES[name]
    with pytest.raises(ProgramError) as caught:
        problem(with_mistake(mistake), **NUMBERS)
    message = str(caught.value)
    assert token in message and "\n" not in message and len(message) < 400
    assert message.startswith(f"{Path(__file__).name}:{mistake.__code__.co_firstlineno}: ")


def test_parameters_that_the_function_does_not_have() -> None:
    @program(x=Input("m n", "f32"), out=Output("m n", "f32"))
    def without_output(p: Any, x: Any) -> None:
        p.blocks(x.shape, (8, 8))

    with pytest.raises(ProgramError, match=r"^test_mistakes\.py:\d+: without_output .* p, x, out"):
        problem(without_output, m=8, n=8)


def test_a_mistake_in_a_users_function_is_reported_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"test_mistakes\.py:\d+: TypeError"):
        problem(with_mistake(lambda p, t, x, numbers, stack: first_number(p)), **NUMBERS)  # type: ignore[call-arg]


@pytest.mark.parametrize("command", [["space"], ["verify", "--sample", "1"], ["tune", "--trials", "1"]])
@pytest.mark.parametrize(("line", "message"), [("p.softmax(t)", "softmax"), ("1 // 0", "ZeroDivisionError")])
def test_commands_end_with_exit_status_2(
    command: list[str], line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mistaken.py"
    path.write_text(
        "from search_spaces.programs.builder import Input, Output, program\n"
        '@program(x=Input("m n", "f32"), out=Output("m n", "f32"))\n'
        "def mistaken(p, x, out):\n"
        "    i, j = p.blocks(x.shape, (8, 8))\n"
        "    t = p.load(p.window(x, (i, j), (8, 8)))\n"
        f"    {line}\n"
    )
    arguments = [*command, "--program", str(path), "--size", "m=16", "--size", "n=16", "--device", "a100"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert f"mistaken.py:6: {message}" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        (["p.blocks(x.shape, (8, 8))"], NUMBERS),
        (["p.zeros((8, 8))"], NUMBERS),
        (["for _ in p.steps(16, 8):", "    break"], NUMBERS),
        (["b = p.choose(b=tuple(range(9000)))", "p.blocks(x.shape, (8, 8))"], NUMBERS),
    ],
)
def test_mistakes_of_a_whole_program_are_reported_at_its_first_line(body: list[str], sizes: dict[str, int]) -> None:
    lines = [
        "@program(x=Input('m n', 'f32'), out=Output('m e', 'f32'))",
        "def whole(p, x, out):",
        *("    " + line for line in body),
    ]
    namespace: dict[str, Any] = {"program": program, "Input": Input, "Output": Output}
    exec(compile("\n".join(lines), "whole.py", "exec"), namespace)
    with pytest.raises(ProgramError, match=r"^whole\.py:1: "):
        p = problem(namespace["whole"], **sizes)
        raise ProgramError(str(template(p.program).why_not(p, device("a100"))).removeprefix("whole: "))


def test_products_without_an_instruction_are_reported_at_their_line() -> None:
    @program(x=Input("m k", "bf16"), w=Input("k n", "bf16"), out=Output("m n", "f32"))
    def multiplied(p: Any, x: Any, w: Any, out: Any) -> None:
        i, j = p.blocks(out.shape, (32, 32))
        p.store(
            p.mma(p.load(p.window(x, (i, 0), (32, 32))), p.load(p.window(w, (0, j), (32, 32)))),
            p.window(out, (i, j), (32, 32)),
        )

    reason = template(multiplied).why_not(problem(multiplied, m=32, n=32, k=32), device("t4"))
    assert reason is not None and "test_mistakes.py:" in reason and "sm_75" in reason


def test_a_program_without_schedules_is_reported_with_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wide.py"
    path.write_text(
        "from search_spaces.programs.builder import Input, Output, program\n"
        '@program(x=Input("m n", "f32"), out=Output("m n", "f32"))\n'
        "def wide(p, x, out):\n"
        "    (i,) = p.blocks((x.shape[0],), (17,))\n"
        "    t = p.load(p.window(x, (i, 0), (17, 37)))\n"
        "    p.store(p.exp(t) + p.reduction('add', p.exp(t), dim=0), p.window(out, (i, 0), (17, 37)))\n"
    )
    arguments = ["verify", "--program", str(path), "--size", "m=17", "--size", "n=37", "--device", "a100"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "registers" in err and "wide.py:2" in err and "Traceback" not in err
    assert main(["space", *arguments[1:]]) == 0
    assert "registers" in capsys.readouterr().out
    assert main(["space", *arguments[1:], "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["templates"]
    assert shown["legal"] == 0 and "wide.py:2" in shown["why_empty"]
