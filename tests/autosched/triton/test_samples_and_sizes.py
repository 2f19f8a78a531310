"""Sampled blocks of large launches, additional sizes that provoke faults, and the report of what was run."""

# mypy: ignore-errors
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_program_kernels as kernels  # noqa: E402

from autosched.cli import main  # noqa: E402
from autosched.triton import QUICK, LaunchFailed, LaunchPlan, emulated, sample  # noqa: E402
from autosched.triton.fidelity import fidelity_of  # noqa: E402
from autosched.triton.sizes import stress_sizes  # noqa: E402
from measurements.emulator import Emulation, Finding, FindingKind  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

SOME = LaunchPlan(blocks=6)


def test_some_blocks_of_a_large_launch() -> None:
    x, elements = torch.rand(6400, device="cpu"), 64
    with emulated("h100", plan=SOME) as session:
        o, twice = torch.empty(6400, device="cuda"), torch.empty(6400, device="cuda")
        kernels.scale[(100,)](o, x, 2.0, 6400, BLOCK=elements, num_warps=2)
        # The sampled blocks of this launch also read parts of o that the first launch did not write.
        kernels.scale[(100,)](twice, o, 2.0, 6400, BLOCK=elements, num_warps=2)
    first, second = session.launches
    assert (first.blocks, first.left_out) == (second.blocks, second.left_out) == (100, 94)
    written = o.view(100, elements).ne(0).all(1)
    assert written.sum() == 6 and written[[0, 1, 99]].all()
    assert torch.equal(o.view(100, elements)[written], 2 * x.view(100, elements)[written])
    assert o.view(100, elements)[~written].eq(0).all(), "unwritten memory is zero, so that indices are in range"
    report = fidelity_of(session)
    assert report.not_run == ("scale: 6 of 100",)
    assert "blocks: scale: 6 of 100" in report.lines()
    assert report.lines()[-1].startswith("not covered: blocks that did not run, other sizes")


def test_a_fault_of_the_last_of_many_blocks() -> None:
    with emulated("h100", plan=SOME, check=False) as session:
        x = torch.ones(6390, device="cuda")
        kernels.add_without_mask[(100,)](x, x.clone(), torch.empty(6390, device="cuda"), 6390, BLOCK=64)
    assert [f.kind for f in session.findings] == [FindingKind.OUT_OF_BOUNDS_GLOBAL]


def test_blocks_that_wait_for_others_run_whole() -> None:
    with emulated("h100", plan=SOME) as session:
        o = torch.empty(60, dtype=torch.int32, device="cuda")
        kernels.wait_for_the_middle[(60,)](torch.zeros(1, dtype=torch.int32, device="cuda"), o, num_warps=1)
    assert session.launches[0].left_out == 0 and o.tolist() == list(range(60))
    assert fidelity_of(session).not_run == ()


@pytest.mark.parametrize("swap", [False, True])
def test_a_sample_grows_by_the_blocks_that_it_waits_for(monkeypatch: pytest.MonkeyPatch, swap: bool) -> None:
    """A block may poll with atomics that change nothing, in a loop with barriers. Awaited blocks join the sample."""
    monkeypatch.setattr(sample, "_CHEAP", 0.0)  # treat all blocks as expensive, so that the initial sample is small
    with emulated("h100", plan=SOME) as session:
        o = torch.empty(99, 64, dtype=torch.int32, device="cuda")
        kernels.wait_by_atomics[(99,)](torch.zeros(99, dtype=torch.int32, device="cuda"), o, 2, SWAP=swap, num_warps=2)
    (launch,) = session.launches
    assert session.ok and 0 < launch.left_out < 93
    assert torch.equal(o[0], torch.arange(64, dtype=torch.int32))
    assert fidelity_of(session).not_run == (f"wait_by_atomics: {99 - launch.left_out} of 99",)


def test_a_wait_that_outlasts_its_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_CHEAP", 0.0)
    monkeypatch.setattr(sample.Sample, "widened", lambda self, run: self.blocks)
    arguments = torch.zeros(103, dtype=torch.int32), torch.empty(100, 64, dtype=torch.int32)
    with emulated("h100", plan=SOME), pytest.raises(LaunchFailed) as caught:
        kernels.wait_by_atomics[(100,)](*arguments, 2, SWAP=True, num_warps=2)
    message = str(caught.value)
    assert ": unsupported: " in message and "triton_program_kernels.py:" in message
    assert "6 of 100 ran" in message and "byte 8 of locks" in message


def test_wider_samples_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(FindingKind.DEADLOCK, "thread (0, 0, 0) of block (3, 1, 0) waits here forever", "k.py", 7)
    run = Emulation("findings", {}, (finding,), (), (), executed=(("add.s32", 4 * 10**7),))
    wide = sample.Sample((10, 10, 1), (0, 13, 99))
    reason = wide.waits(run)
    assert reason is not None and reason.startswith("k.py:7: ")
    wide.blocks = wide.widened(run)
    assert wide.blocks == (0, 11, 12, 13, 14, 15, 99)
    wide.blocks = wide.widened(run)
    assert wide.blocks == (0, *range(9, 18), 99)
    assert wide.widened(run) == wide.blocks, "the sample does not grow after 12e7 instructions"
    few = replace(run, executed=(("add.s32", 10**4),))
    assert sample.Sample((10, 10, 1), (0, 13, 99)).widened(few) is None
    assert sample.Sample((2, 2, 1), (0, 3)).widened(replace(run, findings=())) is None
    assert sample.Sample((4, 2, 1), (0, 3, 7)).widened(run) == (0, 3, 5, 6, 7)


def test_a_sample_needs_a_block() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        replace(QUICK, blocks=0)


def test_stress_sizes_are_next_to_powers_of_two() -> None:
    assert [size["n"] for size in stress_sizes(n=(1, 70))] == [1, 2, 3, 5, 9, 17, 33, 65, 63, 64, 70]
    both = stress_sizes(m=(4, 9), n=(30, 40))
    assert both[0] == {"m": 4, "n": 30} and both[-1] == {"m": 9, "n": 40}
    assert all(4 <= size["m"] <= 9 and 30 <= size["n"] <= 40 for size in both)
    assert len({tuple(size.values()) for size in both}) == len(both)
    assert {size["m"] for size in both} >= {4, 5, 7, 8, 9} and {size["n"] for size in both} >= {30, 31, 32, 33, 40}
    with pytest.raises(ValueError, match="empty range of n"):
        stress_sizes(n=(3, 2))


def test_a_fault_at_a_size() -> None:
    def run(n: int) -> None:
        o, x = torch.empty(2, device="cuda"), torch.ones(2, n, device="cuda")
        kernels.row_sums_in_whole_tiles[(2,)](o, x, n, BLOCK=16, num_warps=1)

    with emulated("h100", check=False) as session:
        run(16)  # 16 is a multiple of BLOCK, so there is no fault
        assert session.ok
        session.at_sizes(run, n=(16, 18))
    assert [f.kind for f in session.findings] == [FindingKind.OUT_OF_BOUNDS_GLOBAL]
    (line,) = session.fault_lines()
    assert line.endswith(", at n=17)"), line
    assert fidelity_of(session).sizes == ("n=16", "n=17", "n=18")


# The following kernels resemble confirmed bugs in published kernels.
def test_a_broadcast_gradient_is_read_out_of_bounds() -> None:
    """The gradient of ``sum`` has strides of 0. A kernel that assumes other strides reads past the gradient."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            dx = torch.empty(dy.shape, device="cuda")
            kernels.double_rows[(4,)](dx, dy, dx.stride(0), dy.shape[1], BLOCK=32, num_warps=1)
            return dx

    with emulated("h100", check=False) as session:
        x = torch.ones(4, 32, requires_grad=True, device="cuda")
        Double.apply(x).backward(torch.ones(4, 32, device="cuda"))
        assert session.ok and x.grad.eq(2).all()
        Double.apply(x).sum().backward()
    assert [f.kind for f in session.findings] == [FindingKind.OUT_OF_BOUNDS_GLOBAL]
    assert "of dy, which has 4 bytes" in session.findings[0].message


def test_one_index_twice_in_a_scatter() -> None:
    """Two warps read, divide and write the same element, so one update is lost."""
    ids = torch.arange(40)
    with emulated("h100", check=False) as session:
        logits = torch.ones(64, device="cuda")
        kernels.penalize[(1,)](logits, ids, 40, 2.0, BLOCK=64, num_warps=2)
        assert session.ok and logits.sum() == 44
        ids[39] = 0
        kernels.penalize[(1,)](logits, ids, 40, 2.0, BLOCK=64, num_warps=2)
    assert {f.kind for f in session.findings if f.is_fault} == {FindingKind.GLOBAL_RACE}


PROGRAM = """
import torch, triton
from triton_program_kernels import row_sums_in_whole_tiles

def run(n):
    o, x = torch.empty(40, device="cuda"), torch.ones(40, n, device="cuda")
    row_sums_in_whole_tiles[(40,)](o, x, n, BLOCK=16, num_warps=1)

if __name__ == "__main__":
    run(16)
    while True:
        pass
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = ["--device", "h100", "--blocks", "3"]
    assert main(["verify", f"{path}:run", *command, "--size", "n=16..18", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [(launch["size"], launch["left_out"]) for launch in document["launches"]] == [
        ("n=16", 37), ("n=17", 37), ("n=18", 37),
    ]  # fmt: skip
    assert document["fidelity"]["sizes"] == ["n=16", "n=17", "n=18"]
    assert main(["verify", str(path), *command, "--time-limit", "4"]) == 1
    out = capsys.readouterr().out
    assert "after 4.0 s; nothing was found" in out and "1 launches of 1 kernels" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["FILE", "--size", "n=1..2"], "--size NAME=A..B and a function"),
        (["FILE:run"], "--size NAME=A..B and a function"),
        (["FILE:run", "--size", "n=9..2"], "n=9..2"),
        (["FILE:run", "--size", "n"], "NAME=A..B"),
    ],
)
def test_invalid_sizes_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [a.replace("FILE", str(path)) for a in arguments]
    assert main(["verify", *command, "--device", "h100"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
