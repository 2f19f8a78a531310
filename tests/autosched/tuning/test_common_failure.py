"""A search ends early only if its first configurations all fail for the same reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from needs import needs_nvrtc
from toy_tuning import FakeRunner, Outcome, seconds, tuned

import autosched
from autosched.cli.app import run
from autosched.tuning.common_failure import ENOUGH
from autosched.user_kernels.user_kernel import KernelSpec
from measurements.store.store import Store
from measurements.trials.measurement import Provenance, Status
from search_spaces.spaces.schedule import Schedule

COUNTS = """
extern "C" __global__ void count(const unsigned* x, unsigned* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[x[i] % 8], 1u);
}
"""
DOCUMENT = """
[kernel]
source = "count.cu"
entry = "count"

[sizes]
n = 1000

[parameters]
threads = [128, 32, 64, 256, 512]

[launch]
block = "threads"
grid = "ceil_div(n, threads)"

[[argument]]
name = "x"
kind = "input"
dtype = "u32"
shape = "n"

[[argument]]
name = "bins"
kind = "output"
dtype = "u32"
shape = [8]

[[argument]]
name = "n"
kind = "scalar"
dtype = "i32"
value = "n"

[reference]
python = "count.py:reference"
"""


@pytest.mark.parametrize("status", [Status.COMPILE_ERROR, Status.LAUNCH_ERROR, Status.WRONG_RESULT, Status.UNRANKED])
def test_a_common_failure_ends_the_search(store: Store, status: Status) -> None:
    result = tuned(store, 40, FakeRunner(fail=lambda schedule: status))
    assert ENOUGH <= len(result.trials) < 20  # the search completes trials in flight
    assert status.value in result.common_failure and store.count() == len(result.trials)


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.COMPILE_TIMEOUT, Status.OUT_OF_RESOURCES])
def test_configuration_dependent_failures_do_not_end_the_search(store: Store, status: Status) -> None:
    assert len(tuned(store, 30, FakeRunner(fail=lambda schedule: status)).trials) == 30


def test_different_reasons_do_not_end_the_search(store: Store) -> None:
    def fails(schedule: Schedule) -> Status:
        return Status.COMPILE_ERROR if schedule.integer("x") <= 2 else Status.CRASHED

    assert len(tuned(store, 30, FakeRunner(fail=fails)).trials) == 30


def test_an_earlier_success_keeps_the_search_going(store: Store) -> None:
    assert tuned(store, 3).ok
    again = tuned(store, 20, FakeRunner(fail=lambda schedule: Status.WRONG_RESULT, fingerprint={"device": "other"}))
    assert len(again.trials) == 20 and not again.common_failure


@pytest.mark.parametrize(("reason", "ends"), [("bins[{x}] is {y}, should be 0", True), ("timeout after {x} s", False)])
def test_reasons_are_compared_without_numbers_and_timeouts_ignored(store: Store, reason: str, ends: bool) -> None:
    def verdict(schedule: Schedule) -> Outcome:
        status = "wrong_result" if ends else "timeout"
        return Outcome(False, status, reason.format(x=schedule["x"], y=seconds(schedule)))

    result = tuned(store, 30, FakeRunner(Provenance.ESTIMATED), verifier=verdict)
    assert bool(result.common_failure) is ends


@needs_nvrtc
def test_a_kernel_that_is_wrong_in_every_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "count.cu").write_text(COUNTS)
    (tmp_path / "count.toml").write_text(DOCUMENT)
    (tmp_path / "count.py").write_text(
        "import numpy as np\n\n\ndef reference(x):\n    return np.bincount(x % 8, minlength=8).astype(np.uint32)\n"
    )
    database, file = tmp_path / "a.db", tmp_path / "count.toml"
    with pytest.raises(autosched.CommonFailure, match="wrong_result") as raised:
        autosched.tune(
            KernelSpec.from_file(file).problem(), device="h200", backend="estimate", database=database, trials=5
        )
    assert raised.value.result.trials[0].schedule["threads"] == 128  # the default configuration is tried first
    assert run(["tune", "--kernel", str(file), "--device", "h200", "--db", str(tmp_path / "b.db")]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("autosched: ") and "bins" in message
    with Store.open(tmp_path / "b.db") as stored:
        assert stored.count() >= ENOUGH
