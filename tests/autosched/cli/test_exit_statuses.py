"""``verify``, ``run``, ``judge`` and ``check`` share one table of exit statuses and one output format."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from junit_schema import junit_schema
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main
from autosched.cli.commands.verification.cases import status_of
from autosched.cli.commands.verification.script import _cases as script_cases
from autosched.cli.options.groups import grouped, options
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import TAKERS, Inputs
from autosched.reporting.exit_status import ANSWERS, VERDICTS, ExitStatus, combined, of_verdicts
from autosched.verify import executables
from measurements.emulator.executables import ExecutableResult, LaunchFinding

ROOT = Path(__file__).parents[3]
Invoke = Callable[[], tuple[str, ...]]

KERNEL = "__global__ void k(float* o, int n) { int i = threadIdx.x; if (i < n) o[i] = 1.0f; }\n"
LAUNCH = ("-a", "out f32[32]", "-a")
ENDLESS = "__global__ void k(volatile float* o, int n) { for (*o = 0.0f; *o >= 0.0f;) *o += n; }\n"
SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def ones(o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, 1.0, mask=i < n)

ones[(1,)](torch.empty(20, device="cuda"), END, BLOCK=32)
"""


def kernel(source: str, *more: str) -> tuple[str, ...]:
    Path("k.cu").write_text(source)
    return ("verify", "k.cu", *more)


def script(end: str) -> tuple[str, ...]:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
    Path("s.py").write_text(SCRIPT.replace("END", end) if end.isdecimal() else f"import triton\n{end}\n")
    return ("verify", "s.py", "--device", "h100")


INVOCATIONS: dict[str, tuple[ExitStatus, Invoke]] = {
    "a sound kernel": (ExitStatus.OK, partial(kernel, KERNEL, *LAUNCH, "32")),
    "a faulty kernel": (ExitStatus.NO, partial(kernel, KERNEL, *LAUNCH, "33", "--block", "64")),
    "an endless kernel": (
        ExitStatus.NO_ANSWER, partial(kernel, ENDLESS, *LAUNCH, "1", "--block", "1", "--time-limit", "0.2"),
    ),
    "a sound script": (ExitStatus.OK, partial(script, "20")),
    "a faulty script": (ExitStatus.NO, partial(script, "21")),
    "a script that fails": (ExitStatus.NO, partial(script, "raise ValueError")),
    "a script without a launch": (ExitStatus.NO_ANSWER, partial(script, "pass")),
    "a schedule": (ExitStatus.OK, lambda: ("verify", "copy", "--rows", "4", "--columns", "4", "--sample", "1")),
}  # fmt: skip


def agrees(status: ExitStatus, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """Check that a command's exit status, JSON, JUnit XML and Markdown agree."""
    capfd.readouterr()
    assert main([*arguments, "--json", "--junit", "j.xml", "--markdown", "m.md", "--github"]) == status
    out, err = capfd.readouterr()
    document = json.loads(out)
    assert document["verdict"] == VERDICTS[status] and document["command"] == arguments[0]
    junit_schema().validate("j.xml")
    root = ET.parse("j.xml").getroot()
    assert (root.attrib["failures"] != "0") == (status is ExitStatus.NO)
    assert (root.attrib["errors"] != "0") == (status is ExitStatus.NO_ANSWER)
    assert int(root.attrib["tests"]) >= 1
    assert Path("m.md").read_text().startswith(f"### autosched {arguments[0]} (")
    assert ("::error" in err) == (status is not ExitStatus.OK)


@needs_compiler
@needs_nvrtc
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", INVOCATIONS)
def test_all_outputs_of_verify_agree(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, invoke = INVOCATIONS[name]
    agrees(status, invoke(), capfd)


REFUSED = {
    "PTX": ("k.ptx", ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() { frobnicate; }\n"),
    "PTX that is cut off": ("k.ptx", ".version 9.0\n.target sm_90\n.visible .entry k() {"),
    "CUDA": ("k.cu", KERNEL.replace("1.0f", "one")),
}


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("name", REFUSED)
def test_rejected_code_is_reported_in_one_line_with_status_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file, text = REFUSED[name]
    Path(file).write_text(text)
    assert main(["verify", file, *(("-a", "out f32[32]", "-a", "1") if name == "CUDA" else ())]) == 2
    out, err = capsys.readouterr()
    assert (out + err).count("\n") == 1, (out, err)


PROGRAMS = {
    "sound": (ExecutableResult(0, 2), ExitStatus.OK),
    "faulty": (ExecutableResult(0, 1, [LaunchFinding("api_misuse", "freed twice", None)]), ExitStatus.NO),
    "faulty and failing": (ExecutableResult(-11, 1, [LaunchFinding("api_misuse", "freed", None)]), ExitStatus.NO),
    "failing": (ExecutableResult(3, 1), ExitStatus.NO),
    "killed": (ExecutableResult(-9, 1), ExitStatus.NO),
    "lacking": (ExecutableResult(3, 1, lacking=["cudaIpc is not emulated"]), ExitStatus.NO_ANSWER),
    "without a launch": (ExecutableResult(0, 0), ExitStatus.NO_ANSWER),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_outputs_of_run_agree(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result, status = PROGRAMS[name]
    monkeypatch.setattr(executables, "run_executable", lambda *_: result)
    output = ("--json", "--junit", "j.xml", "--markdown", "m.md", "--github")
    assert main(["run", "--device", "h100", *output, "./program", "1"]) == status
    document = json.loads(capfd.readouterr().out)
    assert document["verdict"] == VERDICTS[status] and document["status"] == result.status
    assert document["program"] == ["./program", "1"]
    junit_schema().validate("j.xml")


@needs_compiler
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("right", ExitStatus.OK), ("wrong", ExitStatus.NO), ("racing", ExitStatus.NO), ("cheating", ExitStatus.NO),
        ("failed", ExitStatus.NO), ("timed_out", ExitStatus.NO), ("unverified", ExitStatus.NO_ANSWER),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["judge", "verify"])
def test_all_outputs_of_judge_agree(
    status: str, expected: ExitStatus, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
    from autosched.judge.result import CaseResult, SubmissionResult, SubmissionStatus

    monkeypatch.chdir(tmp_path)
    for file in ("s.py", "task.py"):
        Path(file).write_text("pass\n")
    case = CaseResult("n=4", 1, 1e-7, 1e-3, None, (), ())
    verdict = SubmissionResult(
        SubmissionStatus(status), () if status == "right" else ("why",), (), (case,), network="none"
    )
    monkeypatch.setattr("autosched.judge.run.run_judge", lambda *_, **__: verdict)
    agrees(expected, (command, "s.py", "--task", "task.py", "--device", "h100"), capfd)


@pytest.mark.parametrize(
    ("launched", "failure", "expected"),
    [
        ("ok", "", ExitStatus.OK), ("ok", "it raised", ExitStatus.NO), ("crashed", "it raised", ExitStatus.NO),
        ("unsupported", "unsupported: frobnicate", ExitStatus.NO_ANSWER), ("timeout", "timeout", ExitStatus.NO_ANSWER),
        ("", "it raised", ExitStatus.NO), ("", "", ExitStatus.NO_ANSWER),
    ],
)  # fmt: skip
def test_a_launch_that_cannot_be_emulated_leaves_the_script_undecided(
    launched: str, failure: str, expected: ExitStatus
) -> None:
    done = SimpleNamespace(status=launched, reason="why")
    launch = SimpleNamespace(kernel="k", called_at="s.py:1", size="", verdict=done, findings=(), runs=())
    session = SimpleNamespace(launches=[launch] if launched else [], host_findings=[])
    report: Any = SimpleNamespace(failure=failure, session=session)
    assert status_of(script_cases(report, Path("s.py"), False)) is expected


def test_success_requires_a_passing_case() -> None:
    assert of_verdicts(1, 0, 0) is ExitStatus.OK
    assert of_verdicts(3, 1, 2) is ExitStatus.NO
    assert of_verdicts(3, 0, 1) is of_verdicts(0, 0, 0) is ExitStatus.NO_ANSWER


def test_a_failure_outweighs_an_undecided_result() -> None:
    assert combined([0, 0]) is combined([]) is ExitStatus.OK
    assert combined([0, 1, 2]) is ExitStatus.NO
    assert combined([2, 0]) is ExitStatus.NO_ANSWER
    assert combined([1, 130]) is ExitStatus.STOPPED


def test_the_table_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "exit-statuses.md").read_text("utf-8")
    assert all(f"| {status.value} |" in page for status in ExitStatus)
    assert all(text in page for command, answers in ANSWERS.items() for text in (command, *answers))


def test_a_group_declares_an_option_once() -> None:
    @grouped
    def command(first: str, *, effort: VerificationEffort, findings: Findings) -> int:
        return len(first) + effort.full + findings.turns

    usual = {p.name: p.default for group in (VerificationEffort, Findings) for p in options(group)}
    assert command("abc", **(usual | {"full": True})) == 4
    assert {p.name for p in options(Inputs)} == {"size", "tolerance"} <= set(TAKERS)
