"""Golden verdicts of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main

pytestmark = [needs_nvrtc, needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

SOURCE = """
__global__ void twice(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
"""
SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def twice(o, x, n, END: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n + END)

x = torch.ones(200, device="cuda")
twice[(2,)](torch.empty_like(x), x, 200, END={end}, BLOCK=128)
"""
TOML = """
[kernel]
source = "{source}"
entry = "twice"
[sizes]
n = 1000
[parameters]
block_size_x = [64]
[launch]
block = "block_size_x"
grid = "ceil_div(n, block_size_x)"
[[argument]]
name = "out"
kind = "output"
dtype = "f32"
shape = "n"
[[argument]]
name = "x"
kind = "input"
dtype = "f32"
shape = "n"
[[argument]]
name = "n"
kind = "scalar"
value = "n"
[reference]
python = "reference.py:twice"
"""
FILES = {
    "twice.cu": SOURCE,
    "beyond.cu": SOURCE.replace("i < n", "i <= n"),
    "wrong.cu": SOURCE.replace("2 *", "3 *"),
    "twice.py": SCRIPT.replace("{end}", "0"),
    "beyond.py": SCRIPT.replace("{end}", "1"),
    "twice.toml": TOML.replace("{source}", "twice.cu"),
    "wrong.toml": TOML.replace("{source}", "wrong.cu"),
    "reference.py": "def twice(x):\n    return 2 * x\n",
}
LAUNCH = ("-a", "out f32[64]", "-a", "ones f32[64]", "-a", "64", "--block", "96")
INVOCATIONS = {
    "command: source, sound": ("verify", "twice.cu", *LAUNCH),
    "command: source, out of bounds": ("verify", "beyond.cu", *LAUNCH),
    "command: script, sound": ("verify", "twice.py", "--device", "h100"),
    "command: script, out of bounds": ("verify", "beyond.py", "--device", "h100"),
    "command: kernel file, sound": ("verify", "--kernel", "twice.toml", "--sample", "1"),
    "command: kernel file, wrong": ("verify", "--kernel", "wrong.toml", "--sample", "1"),
    "command: template, sound": ("verify", "softmax", "--rows", "9", "--columns", "300", "--sample", "1"),
}
WORDS = {0: "accepted", 1: "refused", 2: "uncertain"}


@pytest.mark.parametrize("name", INVOCATIONS)
def test_an_invocation(name: str, golden: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ".py" in " ".join(INVOCATIONS[name]):
        pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    golden(name, WORDS[main(list(INVOCATIONS[name]))])
