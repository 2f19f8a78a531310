"""Untrusted files give one line and exit status 2, within bounded time and memory. No control sequences are printed."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import main
from autosched.cli.app import _EXTRAS
from measurements.files.bounded import read_bounded, read_json
from tests.support.snippets.kernel_file import FILE, SOURCE

NAME = "E=8,N=7168,device_name=NVIDIA_H200.json"
GOOD = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 1}
DEEP = "[" * 100_000
DIGITS = "9" * 5000
T1 = Path(__file__).parents[1] / "user_kernels" / "reading" / "stencil_T1.json"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return invoke


def refused(outcome: tuple[int, str, str]) -> str:
    status, out, err = outcome
    assert (status, out, err.count("\n")) == (2, "", 1), (out, err)
    assert err.rstrip("\n").isprintable() and len(err) < 1500 and "Traceback" not in err
    return err


def test_files_that_were_not_named_are_read_only_if_regular(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("zero", "pipe"):
        with pytest.raises(ValueError, match="not a regular file"):
            read_bounded(tmp_path / name, 100, regular=True)
        with pytest.raises(ValueError, match="not a regular file"):
            read_json(tmp_path / name, 100)
    (tmp_path / "deep").write_text(DEEP)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "deep", 1 << 20)
    (tmp_path / "long").write_text("1" * 101)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        read_json(tmp_path / "long", 100)


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
@pytest.mark.parametrize("main_function", ["", "int main() {}\n"], ids=["kernel", "host_code"])
def test_includes_are_read_only_if_regular(run: Run, name: str, main_function: str) -> None:
    os.mkfifo("pipe")
    Path("k.cu").write_text(f'#include "{name}"\nextern "C" __global__ void k(float* x) {{ *x = 1; }}\n{main_function}')
    message = refused(run("verify", "k.cu", "-a", "f32[1]", "--grid", "1", "--block", "1"))
    assert name in message and "not a regular file" in message


@pytest.mark.parametrize(
    "command",
    [("import", "deep.json", "--db", "a.db"), ("replay", "deep.json"), ("verify", "copy", "--schedule", "deep.json")],
    ids=lambda c: c[0],
)
def test_a_deep_document_has_one_line_without_the_parsers_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deep.json").write_text(DEEP)
    assert main(list(command)) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "recursion" not in error


@pytest.mark.parametrize("kind", ["zero", "pipe", "deep", "large"])
def test_configurations_of_a_folder(run: Run, kind: str) -> None:
    pytest.importorskip("triton")
    Path("configs").mkdir()
    file = Path("configs", NAME)
    if kind == "zero":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "deep":
        file.write_text(DEEP)
    else:
        file.write_text(json.dumps({"1": {**GOOD, "BLOCK_SIZE_M": 1 << 20}}))
    refused(run("import", "configs", "--format", "vllm", "--db", "b.db"))
    status, out, err = run("check", "--format", "vllm", "configs", "--no-emulate")
    assert status == 1 and "Traceback" not in out + err


@pytest.mark.parametrize("name", ["config.json", NAME.replace(".json", ".autosched.json")])
@pytest.mark.parametrize("text", [DEEP, "[]", "{", '{"autosched_sidecar": 1}', f'{{"hidden_size": {DIGITS}}}'])
def test_models_and_sidecars(run: Run, name: str, text: str) -> None:
    Path("configs").mkdir()
    Path("configs", NAME).write_text(json.dumps({"1": GOOD}))
    Path("configs", name).write_text(text)
    model = ("--model", "configs/config.json") if name == "config.json" else ()
    refused(run("import", f"configs/{NAME}", "--format", "vllm", "--db", "b.db", *model))
    assert not Path("b.db").exists()


def test_a_program_that_is_a_pipe(run: Run) -> None:
    os.mkfifo("program")
    refused(run("run", "./program"))


def test_files_that_are_too_large(run: Run) -> None:
    with open("huge", "wb") as file:
        file.write(b"\x7fELF\x02\x01")
        file.truncate(10 << 30)
    assert "cuobjdump" in refused(run("verify", "huge", "-a", "f32[4]", "--grid", "1", "--block", "32"))
    Path("blank.mlir").write_text(" " * (60 << 20))
    refused(run("space", "--program", "blank.mlir", "--device", "a100"))


def test_a_field_of_a_log_that_is_too_long(run: Run) -> None:
    Path("x.csv").write_text("count,problem\n1," + "x" * 131_073 + "\n")
    refused(run("tune", "--from", "x.csv", "--db", "b.db", "--device", "h200", "--trials", "1"))
    assert not Path("b.db").exists()


def _t1(change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(T1.read_text())
    change(document["KernelSpecification"])
    Path("k.json").write_text(json.dumps(document))
    Path("stencil.cu").write_text("__global__ void stencil(float* out) {}\n")


@pytest.mark.parametrize("size", [int("9" * 400), 2**63, "9" * 400, -(2**70)])
def test_sizes_of_a_t1_file(run: Run, size: int | str) -> None:
    _t1(lambda spec: spec.update(ProblemSize=[size, 1000]))
    refused(run("space", "--kernel", "k.json", "--device", "a100"))


@pytest.mark.parametrize("argument", [0, 2])
def test_fills_of_a_t1_file(run: Run, argument: int) -> None:
    _t1(lambda spec: spec["Arguments"][argument].update(FillValue=10**400))
    refused(run("space", "--kernel", "k.json", "--device", "a100"))


def test_numbers_of_a_kernel_file(run: Run) -> None:
    Path("k.cu").write_text(SOURCE)
    Path("k.toml").write_text(FILE + f"fill = {{ constant = {10**400} }}\n")
    refused(run("space", "--kernel", "k.toml", "--device", "a100"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("-a", f"f32[{DIGITS}]", "--grid", "1", "--block", "32"),
        ("-a", "f32[4]", "--grid", DIGITS, "--block", "32"),
        ("-a", "f32[4]", "--grid", "1", "--block", f"{DIGITS},1"),
        ("-a", "f32[4]", "--grid", "1", "--block", "32", "--expect", f"{DIGITS}=x.npy"),
        ("-a", "f32[4]", "--grid", "1", "--block", "32", "--shared", DIGITS),
    ],
)
def test_numbers_of_thousands_of_digits(run: Run, arguments: tuple[str, ...]) -> None:
    Path("k.cu").write_text("__global__ void k(float* x) {}\n")
    refused(run("verify", "k.cu", *arguments))


def test_names_of_files_do_not_act_on_the_terminal(run: Run) -> None:
    name = "\x1b[31mred\u202e"
    status, out, err = run("tune", "transpose", "--rows", "8", "--columns", "8", "--trials", "1", "--db", f"{name}.db")
    assert status == 0
    shown = out + err
    for command in (
        ("export", "--db", f"{name}.db", "--out", name),
        ("import", name, "--db", f"{name}2.db"),
        ("merge", f"{name}.db", "--into", f"{name}3.db"),
        ("report", "--db", f"{name}.db", "--out", f"{name}.html"),
        ("db", "stats", "--db", f"{name}.db"),
        ("replay", f"{name}.db", "--to-t4", f"{name}.json"),
    ):
        status, out, err = run(*command)
        assert status == 0, (command, err)
        shown += out + err
    assert all(line.isprintable() for line in shown.splitlines()), [
        x for x in shown.splitlines() if not x.isprintable()
    ]


def test_commands_only_print_with_the_terminal_functions() -> None:
    """``print`` would pass control characters in a name to the terminal."""
    folder = Path(__file__).parents[3] / "autosched" / "cli" / "commands"
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                assert "harmless" in ast.unparse(node), f"{file.name}:{node.lineno}"


@pytest.mark.parametrize("module", ["torch", "triton"])
def test_a_command_reports_its_missing_extra(run: Run, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    Path("configs").mkdir()
    Path("configs", NAME).write_text(json.dumps({"1": GOOD}))
    import autosched.triton

    # monkeypatch restores the imported module ``autosched.triton`` after this test, because later tests need its
    # submodules.
    monkeypatch.setattr(autosched, "triton", autosched.triton)
    for name in [n for n in sys.modules if n.partition(".")[0] == module or n.startswith("autosched.triton")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert f"autosched[{_EXTRAS[module]}]" in refused(run("check", "--format", "vllm", "configs"))
