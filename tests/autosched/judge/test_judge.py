"""``autosched judge`` gives each of its verdicts to a matching submission."""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main
from autosched.judge.judging import judge
from autosched.judge.result import Cheat, SubmissionResult, SubmissionStatus
from autosched.judge.run import Refused, run_judge
from autosched.judge.task import read_task
from autosched.triton import emulated
from autosched.verify.launch_plan import TWO_ORDERS
from measurements.emulator import Suppression
from search_spaces.hardware.devices import device

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked_workers")]
H100 = device("h100")

# The expected outputs are so small that zeros are within KernelBench's tolerance.
TASK = """
import torch
from torch import nn

N = 300

class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return torch.mul(x, self.factor)

def get_inputs():
    return [torch.rand(N, device="cuda")]

def get_init_inputs():
    return [0.004]
"""
KERNEL = """
import torch, triton
import triton.language as tl
from torch import nn

@triton.jit
def scale(o, x, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

@triton.jit
def constant(o, value, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, (i + 1) * value, mask=i < n)

class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        n = x.numel()
        o = torch.empty_like(x)
"""
RIGHT = "scale[(3,)](o, x, self.factor, n, BLOCK=128)\nreturn o"
IDLE = "constant[(3,)](torch.empty_like(x), 1.0, n, BLOCK=128)"
SUBMISSIONS = {
    "right": (RIGHT, SubmissionStatus.RIGHT, ()),
    "wrong": ("scale[(3,)](o, x, 0.005, n, BLOCK=128)\nreturn o", SubmissionStatus.WRONG, ()),
    "racing": (RIGHT, SubmissionStatus.RACING, ()),
    "out of bounds": (RIGHT.replace(", n,", ", n + 1,"), SubmissionStatus.OUT_OF_BOUNDS, ()),
    "uninitialised": (
        "y = torch.empty_like(x)\ny[1:] = x[1:]\n" + RIGHT.replace("(o, x,", "(o, y,"),
        SubmissionStatus.FAULTY,
        (),
    ),
    "half": (RIGHT.replace(", n,", ", n // 2,"), SubmissionStatus.WRONG, ()),
    "of another shape": ("o = x.new_empty(n + 1)\n" + RIGHT, SubmissionStatus.WRONG, ()),
    "raises": ("raise KeyError('moon')", SubmissionStatus.FAILED, ()),
    "too much": ("return bytearray(1 << 60)", SubmissionStatus.OUT_OF_MEMORY, ()),
    "an extension": (
        "from torch.utils.cpp_extension import load_inline\nreturn load_inline('a', '')",
        SubmissionStatus.UNVERIFIED,
        (),
    ),
    "no launch": ("o = x * self.factor\nreturn o", SubmissionStatus.CHEATING, (Cheat.NO_LAUNCH, Cheat.TORCH)),
    "torch beside a launch": (f"{IDLE}\nreturn x * self.factor", SubmissionStatus.CHEATING, (Cheat.TORCH,)),
    "never written": (f"{IDLE}\nreturn o", SubmissionStatus.CHEATING, (Cheat.OUTPUT_NOT_WRITTEN,)),
    "zeros": (
        "constant[(3,)](o, 0.0, n, BLOCK=128)\nreturn o",
        SubmissionStatus.CHEATING,
        (Cheat.ZEROS, Cheat.CONSTANT_OUTPUT),
    ),
    "constants": (
        "constant[(3,)](o, 1.0, n, BLOCK=128)\nreturn o",
        SubmissionStatus.CHEATING,
        (Cheat.CONSTANT_OUTPUT,),
    ),
    "returns its input": (
        RIGHT.replace("(o, x,", "(x, x,").replace("return o", "return x"),
        SubmissionStatus.CHEATING,
        (Cheat.INPUT_RETURNED,),
    ),
    "keeps its output": (  # also stores the input, so that its memory is not reused for a later input
        "if not hasattr(self, 'kept'):\n    self.kept = {}\nkey = x.data_ptr()\nif key not in self.kept:\n"
        "    scale[(3,)](o, x, self.factor, n, BLOCK=128)\n    self.kept[key] = o, x\nreturn self.kept[key][0]",
        SubmissionStatus.CHEATING,
        (Cheat.KEPT_OUTPUT,),
    ),
    "only even sizes": (RIGHT.replace(", n,", ", n // 4 * 4,"), SubmissionStatus.WRONG, ()),
    "lower precision inside": (
        "o = o.half()\nscale[(3,)](o, x.half(), self.factor, n, BLOCK=128)\nreturn o.float()",
        SubmissionStatus.RIGHT,
        (),
    ),
    "inputs": (
        f"{RIGHT.replace('return o', '')}\nx.zero_()\nreturn o",
        SubmissionStatus.CHEATING,
        (Cheat.INPUTS_CHANGED,),
    ),
}


def submission(folder: Path, body: str, before: str = "") -> Path:
    path = folder / "submission.py"
    path.write_text(before + KERNEL + "".join(f"        {line}\n" for line in body.splitlines()))
    return path


def task(folder: Path) -> Path:
    path = folder / "task.py"
    path.write_text(TASK)
    return path


@pytest.fixture(autouse=True)
def _no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("submission", "autosched_task", "reference"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


def judged(folder: Path, path: Path, task: Path, **options: object) -> SubmissionResult:
    work = folder / "work"
    work.mkdir()
    with emulated(H100, check=False):
        read = read_task(task, options.pop("sizes", {}), work)
    return judge(path, read, H100, **options)


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_each_verdict(tmp_path: Path, name: str) -> None:
    body, status, cheats = SUBMISSIONS[name]
    path = submission(tmp_path, body)
    if name == "racing":
        path.write_text(path.read_text().replace("tl.store(o + i, tl.load", "tl.store(o + i % 200, tl.load"))
    verdict = judged(tmp_path, path, task(tmp_path))
    assert verdict.status is status, verdict
    assert set(verdict.cheats) == set(cheats), verdict
    assert (verdict.reasons == ()) == (status is SubmissionStatus.RIGHT)
    if status is SubmissionStatus.RIGHT:
        assert [case.task_accepts for case in verdict.cases] == [True] * 3
        assert [case.name for case in verdict.cases] == ["task, seed 1", "task, seed 2", "task, N=299, seed 1"]
        refilled = [f"{name}, seed 1, buffers refilled" for name in ("task", "task, N=299")]
        assert set(verdict.runs) == {case.name for case in verdict.cases} | set(refilled)
        assert set(verdict.runs.values()) == {"ok"}
        limit = 1e-3 if name == "lower precision inside" else 1e-6
        assert all(0 <= case.relative_error < limit and case.launches == 1 for case in verdict.cases)
    if status in (SubmissionStatus.RACING, SubmissionStatus.OUT_OF_BOUNDS, SubmissionStatus.FAULTY):
        assert "submission.py:" in verdict.reasons[0]
    assert SubmissionResult.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_zeros_pass_the_task_and_not_the_judge(tmp_path: Path) -> None:
    verdict = judged(tmp_path, submission(tmp_path, SUBMISSIONS["zeros"][0]), task(tmp_path))
    assert all(case.task_accepts for case in verdict.cases) and verdict.cases[0].relative_error == 1.0


REFERENCE = """
import torch
from utils import close

def generate_input(size: int, seed: int):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return torch.randn(size, device="cuda", generator=gen), torch.empty(size, device="cuda")

def ref_kernel(data):
    x, out = data
    out[...] = 2 * x
    return out

def check_implementation(data, output):
    return close(output, 2 * data[0])
"""
YAML = """
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "utils.py", source: "../shared/utils.py"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
tests:
  - {size: 64, seed: 7}
  - {size: 130, seed: 8}
"""
CUSTOM = """
def custom_kernel(data):
    x, out = data
    scale[(triton.cdiv(x.numel(), 64),)](out, x, FACTOR, x.numel(), BLOCK=64)
    return out
"""


def kernelbot(folder: Path) -> Path:
    (folder / "shared").mkdir()
    (folder / "shared" / "utils.py").write_text(
        "import torch\ndef close(a, b):\n    good = torch.allclose(a, b)\n    return good, '' if good else 'differs'\n"
    )
    (folder / "double").mkdir()
    (folder / "double" / "reference.py").write_text(REFERENCE)
    path = folder / "double" / "task.yml"
    path.write_text(YAML)
    return path


@pytest.mark.parametrize(("factor", "status"), [("2.0", SubmissionStatus.RIGHT), ("2.1", SubmissionStatus.WRONG)])
def test_a_task_of_kernelbot(tmp_path: Path, factor: str, status: SubmissionStatus) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "submission.py"
    path.write_text(KERNEL.partition("class ModelNew")[0] + CUSTOM.replace("FACTOR", factor))
    sys.modules.pop("utils", None)
    verdict = judged(tmp_path, path, kernelbot(tmp_path))
    sys.modules.pop("utils", None)
    assert verdict.status is status, verdict
    assert len(verdict.cases) == 5 and all(
        case.task_accepts is (status is SubmissionStatus.RIGHT) for case in verdict.cases
    )


UNCHECKED = """
import torch

def generate_input(size, seed):
    x = torch.arange(size, device="cuda", dtype=TYPE)
    x[3] = VALUE
    return x, torch.empty_like(x)

def ref_kernel(data):
    return 2 * data[0]
"""


@pytest.mark.parametrize("value", ["float('inf')", "float('nan')"])
@pytest.mark.parametrize(("factor", "status"), [("2.0", SubmissionStatus.RIGHT), ("2.1", SubmissionStatus.WRONG)])
def test_values_are_compared_next_to_infinities(
    tmp_path: Path, value: str, factor: str, status: SubmissionStatus
) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "submission.py"
    path.write_text(KERNEL.partition("class ModelNew")[0] + CUSTOM.replace("FACTOR", factor))
    (tmp_path / "reference.py").write_text(UNCHECKED.replace("VALUE", value).replace("TYPE", "torch.float32"))
    (tmp_path / "task.yml").write_text(
        '{"lang": "py", "files": [{"name": "reference.py", "source": "reference.py"}], '
        '"tests": [{"size": 16, "seed": 1}]}'
    )
    assert judged(tmp_path, path, tmp_path / "task.yml").status is status


def test_the_command_in_a_process_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave = "import socket\ntry:\n    socket.create_connection(('127.0.0.1', PORT), 5)\n    OPEN = True\n"
    leave += "except OSError:\n    OPEN = False\n"
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        leave = leave.replace("PORT", str(server.getsockname()[1]))
        path = submission(tmp_path, f"assert OPEN is False, 'a network'\n{RIGHT}", before=leave)
        arguments = ["judge", str(path), "--task", str(task(tmp_path)), "--device", "h100", "--size", "N=40", "--json"]
        status = main(arguments)
        document = json.loads(capsys.readouterr().out)
    if document["network"] == "none":
        assert status == 0 and document["status"] == "right" and len(document["cases"]) == 2
    else:  # this system has no network namespaces; the verdict reports that they are missing
        assert "the system does not allow" in document["network"]


def test_limits_of_time_and_memory(tmp_path: Path) -> None:
    endless = submission(tmp_path, "while True:\n    pass")
    verdict = run_judge(endless, task(tmp_path), H100, time_limit=1.0)
    assert verdict.status is SubmissionStatus.TIMED_OUT and "1 CPU seconds" in verdict.reasons[0]
    greedy = submission(tmp_path, "return torch.zeros(1 << 40)")
    verdict = run_judge(greedy, task(tmp_path), H100, memory_limit=12 << 30)
    assert verdict.status is SubmissionStatus.OUT_OF_MEMORY
    dying = submission(tmp_path, "import os\nos._exit(7)")
    verdict = run_judge(dying, task(tmp_path), H100)
    assert verdict.status is SubmissionStatus.FAILED and "exit status 7" in verdict.reasons[0]
    dying.write_text("ModelOld = 1\n")
    with pytest.raises(Refused, match="has no class ModelNew"):
        run_judge(dying, task(tmp_path), H100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["submission.py"], "needs --task"),
        (["nowhere.py", "--task", "task.py"], "nowhere.py cannot be read"),
        (["submission.py", "--task", "task.py", "--size", "N"], "write NAME=N"),
        (["submission.py", "--task", "task.py", "--time-limit", "0"], "--time-limit"),
        (["submission.py", "--task", "submission.py"], "Model is missing"),
        (["submission.py", "--task", "task.py", "--size", "MOON=4"], 'invalid size "MOON"'),
    ],
)
def test_invalid_input_is_rejected_in_one_line(tmp_path, monkeypatch, capsys, arguments: list[str], words: str) -> None:
    monkeypatch.chdir(tmp_path)
    submission(tmp_path, RIGHT)
    task(tmp_path)
    assert main(["judge", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_the_plan_of_launches_reaches_a_submission(tmp_path: Path) -> None:
    path = submission(tmp_path, SUBMISSIONS["out of bounds"][0])
    expected = Suppression.parse("*:submission.py:*:it reads one element too many")
    plan = replace(TWO_ORDERS, suppressions=(expected,))
    verdict = judged(tmp_path, path, task(tmp_path), plan=plan)
    assert verdict.status is SubmissionStatus.RIGHT and verdict.verdict.outcome == "accepted", verdict
