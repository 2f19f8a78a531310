"""Golden verdicts on Triton launches and configurations, configuration files, submissions and Helion kernels."""

# mypy: ignore-errors
from __future__ import annotations

import sys

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_verdict_kernels as kernels  # noqa: E402

from autosched.integrations.config_files.file_names import parse_file_name  # noqa: E402
from autosched.integrations.config_files.verify_config import verify_config  # noqa: E402
from autosched.judge.judging import judge as judge_submission  # noqa: E402
from autosched.judge.task import read_task  # noqa: E402
from autosched.triton import QUICK, THOROUGH, LaunchFailed, emulated, tune  # noqa: E402
from autosched.verify.verdict import outcome_of  # noqa: E402
from search_spaces.hardware.devices import device  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore")]
H100 = device("h100")
# Some entry points use other names for a finding. The values are the names in golden verdicts.
WORDS = {"wrong": "wrong_result", "device_limit": "too_large"}


def zeros(n, dtype=torch.float32):
    return torch.zeros(n, dtype=dtype)


def ones(n):
    return torch.ones(n)


LAUNCHES = {
    "triton: sound": (lambda: kernels.scale[(3,)](zeros(300), ones(300), 300, END=0, BLOCK=128), QUICK),
    "triton: sound, thorough": (lambda: kernels.scale[(3,)](zeros(300), ones(300), 300, END=0, BLOCK=128), THOROUGH),
    "triton: out of bounds": (lambda: kernels.scale[(3,)](zeros(300), ones(300), 300, END=1, BLOCK=128), QUICK),
    "triton: last writer": (lambda: kernels.last_writer[(2,)](zeros(64), torch.arange(128.0), 128, BLOCK=64), THOROUGH),
    "triton: tickets": (lambda: kernels.tickets[(4,)](zeros(4), zeros(1, torch.int32)), THOROUGH),
    "triton: accumulates": (lambda: kernels.accumulate[(3,)](zeros(300), ones(300), 300, BLOCK=128), THOROUGH),
    "triton: waits for nobody": (lambda: kernels.wait_for[(4,)](zeros(1, torch.int32), zeros(4), SETTER=9), QUICK),
    "triton: waits": (lambda: kernels.wait_for[(4,)](zeros(1, torch.int32), zeros(4), SETTER=2), THOROUGH),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch(name, golden) -> None:
    launch, settings = LAUNCHES[name]
    reasons = []
    with emulated("h100", plan=settings, fake_cuda=False, check=False) as session:
        try:
            launch()
        except LaunchFailed:
            reasons.append("launch_failed")
    reasons += [f"differs:{array}" for trial in session.launches for array in trial.differing]
    golden(
        name,
        "uncertain" if "launch_failed" in reasons else "accepted" if session.ok else "refused",
        session.findings,
        reasons,
    )


CONFIGURATIONS = {
    "tuning: sound": ("scale", {"BLOCK": 64, "END": 0}, {}),
    "tuning: out of bounds": ("scale", {"BLOCK": 64, "END": 1}, {"reference": kernels.doubled, "alone": True}),
    "tuning: sound, with a reference": ("scale", {"BLOCK": 64, "END": 0}, {"reference": kernels.doubled}),
    "tuning: unlike the default": ("wrong_from_128", {"BLOCK": 128}, {}),
    "tuning: unlike the reference": ("wrong_from_128", {"BLOCK": 128}, {"reference": kernels.doubled}),
    "tuning: half is not written": ("writes_half", {"BLOCK": 64, "HALF": True}, {}),
    "tuning: some blocks, sound": ("scale", {"BLOCK": 32, "END": 0}, {"reference": kernels.doubled, "sampled": True}),
    "tuning: some blocks, wrong": ("wrong_from_128", {"BLOCK": 128}, {"reference": kernels.doubled, "sampled": True}),
}
DEFAULTS = {
    "scale": {"BLOCK": 32, "END": 0},
    "wrong_from_128": {"BLOCK": 32},
    "writes_half": {"BLOCK": 32, "HALF": False},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration(name, golden, tmp_path, monkeypatch) -> None:
    kernel, config, more = CONFIGURATIONS[name]
    if more.get("sampled"):
        monkeypatch.setattr("autosched.triton.tuning.verifier.WHOLE_SECONDS", -1.0)
    defaults = config if more.get("alone") else DEFAULTS[kernel]
    space = {p: [first, *([config[p]] if config[p] != first else [])] for p, first in defaults.items()}
    tuned = tune(
        space, database=tmp_path / "best.db", reference=more.get("reference"), trials=4, workers=0
    )(getattr(kernels, kernel))  # fmt: skip
    arguments = kernels.arguments(2000 if more.get("sampled") else 300)
    grid = lambda meta: (triton.cdiv(arguments["n"], meta["BLOCK"]),)  # noqa: E731
    result = tuned.tune(grid=grid, device="h100", options={"verification_seconds": 10.0}, **arguments)
    expected = {p: str(value) if isinstance(value, bool) else value for p, value in config.items()}
    (trial,) = [t for t in result.trials if all(t.schedule[p] == value for p, value in expected.items())]
    golden(name, "accepted" if trial.ok else "refused", why=[] if trial.ok else [str(trial.status)])


SMALL = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 2, "num_warps": 2, "num_stages": 3}
LARGE = SMALL | {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "num_warps": 8, "num_stages": 4}
DEEP = SMALL | {"BLOCK_SIZE_K": 128}
FILES = {
    "configuration: sound": ("vllm", "E=8,N=64,device_name=X.json", SMALL, "h100"),
    "configuration: two scales": (
        "sglang", "E=8,N=64,device_name=X,dtype=fp8_w8a8,block_shape=[64,64].json", DEEP, "h100"
    ),
    "configuration: too large": ("sglang", "E=8,N=7168,device_name=X,dtype=fp8_w8a8.json", LARGE, "rtx5090"),
    "configuration: no kernel": ("vllm", "E=8,N=64,device_name=X,dtype=int4_w4a16.json", SMALL, "h100"),
    "configuration: does not compile": ("vllm", "E=8,N=64,device_name=X.json", SMALL | {"BLOCK_SIZE_N": 33}, "h100"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_of_a_file(name, golden) -> None:
    format, file, config, row = FILES[name]
    check = verify_config(format, parse_file_name(file), config, device(row), verify=True)
    verdict = outcome_of(check.status)
    golden(name, verdict, why=[] if verdict == "accepted" else [WORDS.get(check.status, check.status)])


TASK = """
import torch
from torch import nn

N = 300

class Model(nn.Module):
    def forward(self, x):
        return torch.mul(x, 0.004)

def get_inputs():
    return [torch.rand(N, device="cuda")]

def get_init_inputs():
    return []
"""
SUBMISSION = """
import torch, triton
import triton.language as tl
from torch import nn

@triton.jit
def scale(o, x, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i % WIDE, tl.load(x + i, mask=i < n) * 0.004, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        o = torch.empty_like(x)
"""
RIGHT = "scale[(3,)](o, x, n, BLOCK=128, WIDE=512); return o"
SUBMISSIONS = {
    "submission: right": (RIGHT, False),
    "submission: right, full": (RIGHT, True),
    "submission: half": (RIGHT.replace("x, n,", "x, n // 2,"), False),
    "submission: racing": (RIGHT.replace("512", "200"), False),
    "submission: out of bounds": (RIGHT.replace("x, n,", "x, n + 1,"), True),
    "submission: no launch": ("return x * 0.004", False),
    "submission: raises": ("raise KeyError('moon')", False),
    "submission: unwritten input": ("y = torch.empty_like(x); " + RIGHT.replace("(o, x,", "(o, y,"), False),
}


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_a_submission(name, golden, tmp_path, monkeypatch) -> None:
    for module in ("submission", "autosched_task"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    body, full = SUBMISSIONS[name]
    path, task, work = tmp_path / "submission.py", tmp_path / "task.py", tmp_path / "work"
    path.write_text(f"{SUBMISSION}        {body}\n")
    task.write_text(TASK)
    work.mkdir()
    with emulated(H100, check=False):
        read = read_task(task, {}, work)
    verdict = judge_submission(path, read, H100, plan=THOROUGH if full else QUICK)
    lines = {reason.partition("submission.py:")[2].partition(":")[0] for reason in verdict.reasons}
    reasons = [
        WORDS.get(str(verdict.status), str(verdict.status)),
        *map(str, verdict.cheats),
        *(f"line {n}" for n in lines if n.isdigit()),
    ]
    golden(name, verdict.verdict.outcome, why=reasons)


class TestHelion:
    def test_configurations(self, golden) -> None:
        helion = pytest.importorskip("helion", reason="Helion is not installed: pip install helion")
        import helion_verdict_kernels as helions

        from autosched.integrations.helion import verified

        def config(block):
            return helion.Config(block_sizes=[block], num_warps=1, num_stages=1)

        def compared(name, kernel, arguments, block):
            accepted = verified(kernel, arguments, device="h100")(config(block)) is not None
            golden(name, "accepted" if accepted else "refused")

        compared("helion: sound", helions.row_sums, (torch.randn(32, 40),), 8)
        compared("helion: the last writer wins", helions.last_writer, (torch.arange(1.0, 33.0),), 4)
        compared("helion: no power of two", helions.row_sums, (torch.randn(32, 40),), 3)
