"""After an edit of a kernel's reference, commands skip earlier trials of the kernel and write nothing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cases import spread
from needs import needs_compiler, needs_nvrtc
from snippets.kernel_file import FILE, SOURCE

from autosched.cli import main
from autosched.user_kernels.user_kernel import KernelSpec

pytestmark = [needs_nvrtc, needs_compiler]

KERNEL = ("--kernel", "k.toml")
LEFT_OUT = "1 trial that was verified with an earlier reference is skipped"


def write(reference: str) -> None:
    Path("r.py").write_text(f"def f(x):\n    return {reference}\n")
    Path("k.cu").write_text(SOURCE)
    Path("k.toml").write_text(FILE + '[reference]\npython = "r.py:f"\n')


def tuned() -> int:
    return main(["tune", *KERNEL, "--device", "a100", "--trials", "1", "--sampler", "random", "--db", "b.db"])


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return a database of a kernel. The kernel's reference was edited after its trials were stored."""
    monkeypatch.chdir(tmp_path)
    write("x")
    assert tuned() == 0
    write("1.0 * x")
    capsys.readouterr()
    return tmp_path / "b.db"


@pytest.mark.parametrize(
    ("command", "status"),
    spread([
        (("best", *KERNEL), 1),
        (("check", "--static", "--no-emulate", *KERNEL), 2),
        (("report", "--out", "r.html", *KERNEL), 1),
        (("db", "check", *KERNEL), 0),
        (("export", "--out", "configs"), 0),
        (("verify", *KERNEL, "--device", "a100"), 2),
    ], 4),
)  # fmt: skip
def test_trials_of_an_earlier_reference_are_excluded_in_one_line(
    command: tuple[str, ...], status: int, edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = edited.read_bytes()
    KernelSpec.from_file("k.toml").register()  # like the option --kernel
    assert main([*command, "--db", "b.db"]) == status
    out, err = capsys.readouterr()
    assert "damaged" not in out + err
    assert command[0] == "export" or (out if command[0] == "check" else err).count(LEFT_OUT) == 1, err
    assert edited.read_bytes() == before


def test_current_trials_are_used_next_to_excluded_ones(edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tuned() == 0
    capsys.readouterr()
    assert main(["best", *KERNEL, "--db", "b.db"]) == 0
    out, err = capsys.readouterr()
    assert LEFT_OUT in err and "estimated by a model" in out
    assert main(["check", "--db", "b.db", "--static", *KERNEL]) == 0
    assert f"1 same; {LEFT_OUT}" in capsys.readouterr().out


def test_an_entry_that_was_not_tuned_again_leaves_a_check_without_an_answer(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    softmax = ("softmax", "--rows", "9", "--columns", "300", "--device", "a100")
    assert main(["tune", *softmax, "--trials", "1", "--sampler", "random", "--db", "b.db"]) == 0
    capsys.readouterr()
    outputs = ("--json", "--junit", "j.xml", "--markdown", "m.md")
    assert main(["check", "--db", "b.db", "--static", "--no-emulate", *KERNEL, *outputs]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "uncertain" and document["judged"] == 1
    assert document["counts"] == {"same": 1, "stale": 1}
    suite = ET.parse("j.xml").getroot()[0]
    assert (suite.get("skipped"), suite.get("errors")) == ("1", "1") and "stale" in Path("m.md").read_text()
    assert tuned() == 0, "today's reference"
    assert main(["check", "--db", "b.db", "--static", "--no-emulate", *KERNEL]) == 0
