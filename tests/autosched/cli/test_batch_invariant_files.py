"""``autosched verify --batch-invariant FILE`` answers correctly, and names a line that depends on the batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main

pytestmark = [needs_nvrtc, needs_compiler]

CUDA = """\
extern "C" __global__ void whole_rows(const float* x, float* out, int rows) {
  int row = blockIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < 96; ++i) sum += x[row * 96 + i];
  out[row] = sum;
}

extern "C" __global__ void atomics(const float* x, float* out, int rows) {
  int row = blockIdx.x / 3, part = blockIdx.x % 3;
  float sum = 0.0f;
  for (int i = 0; i < 32; ++i) sum += x[row * 96 + part * 32 + i];
  atomicAdd(out + row, sum);  // line 13
}

extern "C" __global__ void branches(const float* x, float* out, int rows) {
  int row = blockIdx.x;
  if (row >= rows) return;
  int parts = rows < 8 ? 4 : 1;
  float total = 0.0f;
  for (int p = 0; p < parts; ++p) {  // line 21
    float sum = 0.0f;
    for (int i = 0; i < 96 / parts; ++i) sum += x[row * 96 + p * (96 / parts) + i];
    total += sum;
  }
  out[row] = total;
}

extern "C" __global__ void positions(const float* x, float* out) {
  int row = blockIdx.x;
  float sum = 0.0f;
  for (int i = 0; i < 96; ++i) sum += x[row * 96 + (row % 2 ? i : 95 - i)];
  out[row] = sum;
}
"""

TRITON = """\
import torch
import triton
import triton.language as tl


@triton.jit
def row_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out + row, tl.sum(acc, axis=0))


@triton.jit
def split_sum(x, out, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.atomic_add(out + row, tl.sum(values, axis=0))  # line 21


@triton.jit
def looping_sum(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    step = tl.where(rows > 8, BLOCK, BLOCK // 2)
    total = 0.0
    for start in range(0, columns, step):  # line 29
        at = start + tl.arange(0, BLOCK)
        inside = (at < start + step) & (at < columns)
        total += tl.sum(tl.load(x + row * columns + at, mask=inside, other=0.0), axis=0)
    tl.store(out + row, total)


def inputs(rows):
    return torch.randn(rows, 300, device="cuda"), torch.zeros(rows, device="cuda")


def invariant(rows):
    x, out = inputs(rows)
    row_sum[(rows,)](x, out, 300, BLOCK=128)
    return out


def chosen(rows):
    x, out = inputs(rows)
    row_sum[(rows,)](x, out, 300, BLOCK=64 if rows < 8 else 256)  # line 48
    return out


def atomic(rows):
    x, out = inputs(rows)
    split_sum[(rows, 5)](x, out, 300, BLOCK=64)
    return out


def looping(rows):
    x, out = inputs(rows)
    looping_sum[(rows,)](x, out, rows, 300, BLOCK=64)
    return out


def nothing(rows):
    return 3
"""


def verified(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    status = main(["verify", *words, "--batch-invariant", "--size", "rows=1..20", "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("kernel", "out", "grid", "run", "line"),
    [
        ("whole_rows", "out f32[rows]", "rows", "", 0),
        ("atomics", "zeros f32[rows]", "rows * 3", "blocks random", 13),
        ("branches", "out f32[rows]", "rows", "rows = 1", 21),
        ("positions", "out f32[rows]", "rows", "rows", 0),
    ],
)
def test_a_cuda_kernel(
    kernel: str, out: str, grid: str, run: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.cu"
    file.write_text(CUDA)
    launch = ["-a", "f32[rows,96]", "-a", out, "--grid", grid, "--block", "1"]
    launch += ["-a", "rows"] if kernel != "positions" else []
    status, document = verified(capsys, f"{file}:{kernel}", *launch)
    assert (status, document["batch_invariant"]) == ((1, False) if run else (0, True))
    runs = document["runs"]
    assert isinstance(runs, list) and runs[0]["name"] == "first launch"
    if run:
        assert runs[-1]["name"].startswith(run) and runs[-1]["status"] == "bits_differ"
    if line:
        assert line in [cause["line"] for cause in document["causes"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "line", "word"),
    [("invariant", 0, ""), ("chosen", 48, "BLOCK"), ("atomic", 21, "atomic"), ("looping", 29, "rows")],
)
def test_a_triton_script(
    function: str, line: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "rows.py"
    file.write_text(TRITON)
    status, document = verified(capsys, f"{file}:{function}", "--device", "h100")
    assert (status, document["batch_invariant"]) == ((1, False) if line else (0, True)), document
    if line:
        first = document["causes"][0]  # type: ignore[index]
        assert first["line"] == line and word in first["text"], document["causes"]


def test_unverifiable_batch_invariance_is_rejected_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.cu"
    file.write_text(CUDA)
    of_rows = ["-a", "f32[rows,96]", "-a", "out f32[rows]", "-a", "rows", "--grid", "rows", "--block", "1"]
    kernel = ["verify", f"{file}:whole_rows"]
    for words in (
        [*kernel, "--batch-invariant", *of_rows],  # without sizes
        [*kernel, "--batch-invariant", "--size", "rows=8", *of_rows],
        [*kernel, "--batch-invariant", "--size", "rows=9..3", *of_rows],
        [*kernel, "--batch-invariant", "--size", "rows=1..8", "-a", "f32[8,96]"],  # no shape uses `rows`
        [*kernel, "--batch-invariant", "--size", "rows=1..8", "-a", "f32[rows*2,96]"],
        [*kernel, "--batch-invariant", "--size", "rows=1..8", *of_rows[:-4], "--grid", "rows / 3"],
        [*kernel, "--size", "rows=1..8", *of_rows],  # without --batch-invariant
    ):
        assert main(words) == 2, words
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_function_must_return_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "rows.py"
    file.write_text(TRITON)
    status, document = verified(capsys, f"{file}:nothing")
    assert status == 1 and document["batch_invariant"] is False
    assert main(["verify", str(file), "--batch-invariant", "--size", "rows=1..8"]) == 2
