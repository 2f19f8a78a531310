"""Whole programs on the command line, and third-party tests under ``pytest --autosched-triton``."""

# mypy: ignore-errors
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

PROGRAM = """
import sys
import torch, triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def double(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, 2 * tl.load(x + i, mask=i < n), mask=i < n + EXTRA)

def twice(x):
    o = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 128),)](o, x, x.numel(), BLOCK=128)
    return o

def test_twice():
    x = torch.rand(200, device=DEVICE)
    torch.testing.assert_close(twice(x), 2 * x)

if __name__ == "__main__":
    test_twice()
    print("right", *sys.argv[1:])
"""


def program(folder: Path, extra: int) -> Path:
    path = folder / "test_twice.py"
    path.write_text(PROGRAM.replace("EXTRA", str(extra)))
    return path


def verify(*arguments: str) -> int:
    return main(["verify", *arguments])


def test_a_right_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, 0)
    assert verify(str(path), "--device", "h100", "--full", "--", "a", "b") == 0
    out = capsys.readouterr().out
    assert "right a b" in out and "nothing was found" in out
    assert "device: h100; 1 launches of 1 kernels" in out and "interleaved, thread seed 3" in out


def test_a_faulty_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, 3)
    assert verify(str(path), "--device", "a100", "--json") == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["device"] == "a100" and not document["ok"] and "right" in captured.err
    (launch,) = document["launches"]
    assert launch["kernel"] == "double" and launch["grid"] == [2, 1, 1]
    assert [(f["kind"], f["line"]) for f in launch["findings"]] == [("out_of_bounds_global", 11)]


@pytest.mark.parametrize(
    ("text", "expected", "status"),
    [
        ("raise ValueError('no   luck')", "the script raised ValueError: no luck", 1),
        ("raise SystemExit(3)", "the script ended with status 3", 1),
        ("raise SystemExit(0)", "the program launched no Triton kernel", 2),
        ("pass", "the program launched no Triton kernel", 2),
    ],
)
def test_a_script_that_verifies_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str, status: int
) -> None:
    path = tmp_path / "program.py"
    path.write_text(text)
    assert verify(str(path), "--device", "a100") == status
    assert expected in capsys.readouterr().out


COMPILED_FOR_EVER = """
import torch, triton
import triton.language as tl

@triton.jit
def unrolled(o):
    x = tl.load(o)
    for i in tl.static_range(1_000_000):
        x += i * x
    tl.store(o, x)

unrolled[(1,)](torch.zeros(1, device="cuda"))
"""


def test_a_program_that_the_compiler_takes_too_long_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(COMPILED_FOR_EVER)
    assert verify(str(path), "--device", "h100", "--time-limit", "2") == 1
    assert "after 2.0 s, while Triton compiled unrolled; nothing" in capsys.readouterr().out


def test_a_script_that_reads_results_of_skipped_blocks_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(tmp_path, 0)
    path.write_text(path.read_text().replace("rand(200", "rand(500"))
    assert verify(str(path), "--device", "h100", "--blocks", "2") == 1
    stdout = " ".join(capsys.readouterr().out.split())
    assert "the script raised AssertionError" in stdout and "blocks that did not run (--blocks)" in stdout


def test_invalid_input_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(str(tmp_path / "absent.py"), "--device", "h100") == 2
    assert "absent.py cannot be read" in capsys.readouterr().err
    assert verify(str(program(tmp_path, 0)), "--device", "h1000") == 2
    assert "h1000" in capsys.readouterr().err


def test_the_plug_in(tmp_path: Path) -> None:
    path = program(tmp_path, 0)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--autosched-triton", "h100", str(path)]
    command += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the fork server has imported plugins
    completed = forked_python.run(command, torch=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "1 Triton launches emulated for h100" in completed.stdout
    assert "warning" not in completed.stdout


def test_only_the_warning_of_tritons_default_is_hidden(tmp_path: Path) -> None:
    path = program(tmp_path, 0)
    path.write_text(path.read_text() + '    import warnings; warnings.warn("of the program")\n')
    command = [sys.executable, "-m", "autosched", "verify", str(path), "--device", "h100"]
    completed = forked_python.run(command, torch=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "UserWarning: of the program" in completed.stderr
    assert "TRITON_DEFAULT_FP_FUSION" not in completed.stdout + completed.stderr
    assert "leaked" not in completed.stderr  # the message of Triton's extension about leaked objects at exit


AROUND = """
import pytest, torch
from twice import DEVICE, twice

@pytest.fixture
def doubled():
    return twice(torch.rand(200, device=DEVICE))

def test_with_a_fixture(doubled):
    pass

def test_that_fails_anyway():
    twice(torch.rand(200, device=DEVICE))
    assert 0, "another reason"

def test_within():
    twice(torch.rand(200, device=DEVICE))

def test_without_a_launch():
    pass

def test_with_a_fixture_that_raises(raising):
    pass
"""


RAISING = """
import pytest

@pytest.fixture
def raising():
    raise ValueError("in a fixture")
"""


def test_the_plugin_fails_tests_with_findings(tmp_path: Path) -> None:
    """Findings in a passing test, a failing test, a fixture and a module fail the run."""
    (tmp_path / "conftest.py").write_text(RAISING)
    program(tmp_path, 3).rename(tmp_path / "twice.py")
    (tmp_path / "test_around.py").write_text(AROUND)
    (tmp_path / "test_module.py").write_text("import torch, twice\ntwice.twice(torch.rand(200, device='cuda'))\n")
    plain = ["-p", "no:cacheprovider", "--autosched-triton", "h100", "--continue-on-collection-errors"]
    command = [sys.executable, "-m", "pytest", "-q", *plain, str(tmp_path)]
    completed = forked_python.run(command, torch=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert "2 failed, 1 passed" in completed.stdout and "3 errors" in completed.stdout
    assert "_ test_within _" in completed.stdout
    assert "ERROR at setup of test_with_a_fixture" in completed.stdout and "another reason" in completed.stdout
    assert "ERROR collecting test_module.py" in completed.stdout
    assert completed.stdout.count("twice.py:11: out_of_bounds_global") >= 4
    assert "ValueError: in a fixture" in completed.stdout
    assert "pytest_emulation.py" not in completed.stdout


CONFTEST = """
import torch
collect_ignore = [] if torch.cuda.is_available() else ["test_kernel.py"]
"""


def plugged(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--autosched-triton", "h100", *options, "."]
    return forked_python.run(command, torch=True, capture_output=True, text=True, cwd=folder, check=False)


def test_the_plug_in_starts_before_any_conftest(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_kernel.py").write_text("import torch\ndef test_there():\n    assert torch.cuda.is_available()\n")
    completed = plugged(tmp_path)
    assert completed.returncode == 0 and "1 passed" in completed.stdout, completed.stdout + completed.stderr
    (tmp_path / "conftest.py").write_text('collect_ignore = ["test_kernel.py"]\n')
    completed = plugged(tmp_path)
    assert (
        completed.returncode == 5
        and "1 (test_kernel.py)" in completed.stdout
        and "no test was collected" in completed.stdout
    )


LENIENT = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": b}, num_warps=1) for b in (64, 32)], key=["n"])
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def test_memory_that_was_never_written():
    x = torch.empty(64, device="cuda")
    double[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, torch.empty_like(x), 64)
    assert double.best_config.kwargs["BLOCK"] == 64
    assert len(double.fn.device_caches[torch.cuda.current_device()][0]) == 1
"""


def test_undefined_memory_and_autotuning_on_demand(tmp_path: Path) -> None:
    (tmp_path / "test_lenient.py").write_text(LENIENT)
    completed = plugged(tmp_path, "--autosched-first-config")
    assert completed.returncode == 1 and "uninitialized_global_read" in completed.stdout, completed.stdout
    completed = plugged(tmp_path, "--autosched-first-config", "--autosched-allow-undefined")
    assert completed.returncode == 0 and "1 Triton launches" in completed.stdout, completed.stdout
