"""``check DIR --with-python`` with a Python environment whose ptxas is the same or allocates fewer registers."""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

import triton

from autosched.cli import main

PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
LARGE = {
    "BLOCK_SIZE_M": 64,
    "BLOCK_SIZE_N": 128,
    "BLOCK_SIZE_K": 64,
    "GROUP_SIZE_M": 2,
    "num_warps": 4,
    "num_stages": 3,
}

MakeOther = Callable[..., str]


@pytest.fixture
def other_python(tmp_path: Path) -> MakeOther:
    """Return a function that makes an environment whose ptxas allocates at most ``registers`` registers per thread."""

    def make(registers: int = 255) -> str:
        ptxas = tmp_path / "ptxas"
        fewer = f"sed -i 's/^\\.reqntid/.maxnreg {registers} &/' \"$file\""
        ptxas.write_text(
            f'#!/bin/sh\nfor file in "$@"; do case "$file" in *.ptx) {fewer};; esac; done\nexec "{PTXAS}" "$@"\n'
        )
        python = tmp_path / "python"
        settings = f'TRITON_PTXAS_PATH="{ptxas}" TRITON_CACHE_DIR="{tmp_path / "triton"}"'
        python.write_text(f'#!/bin/sh\n{settings} exec "{sys.executable}" "$@"\n')
        for file in (ptxas, python):
            file.chmod(0o755)
        return str(python)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Make a folder with one file of one configuration."""
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "E=8,N=256,device_name=NVIDIA_A100-SXM4-80GB.json").write_text(json.dumps({"64": LARGE}))
    return str(configs)


def checked(folder: str, python: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict]:
    status = main(["check", folder, "--format", "vllm", "--no-emulate", "--with-python", python, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_an_equal_compiler_gives_an_equal_report(
    folder: str, other_python: MakeOther, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = checked(folder, other_python(), capsys)
    entry = report["entries"][-1]
    assert status == 0 and entry["verdict"] == "sound"
    assert entry["numbers"]["registers_there"] == entry["numbers"]["registers"]
    assert report["tools"]["other triton"] == triton.__version__


def test_spills_are_named(folder: str, other_python: MakeOther, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = checked(folder, other_python(64), capsys)
    entry = report["entries"][-1]
    assert status == 1 and entry["verdict"] == "slower"
    assert any("local memory" in reason for reason in entry["reasons"])
    assert f"Triton {triton.__version__}" in entry["reasons"][-1]


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/true"])
def test_a_missing_environment_is_rejected(folder: str, python: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", folder, "--format", "vllm", "--with-python", python]) == 2
    assert python in capsys.readouterr().err
