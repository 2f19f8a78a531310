"""``tune`` called from Python, with all real components on the estimate backend, and with invalid input."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_python
import pytest

import autosched
from autosched.tuning.result import Observer, Progress, Start
from autosched.tuning.tune import starting, tune
from autosched.user_kernels.problem import KernelProblem
from measurements.emulator import HostCompilerMissing
from measurements.runners.base import RunnerStopped
from measurements.store.store import Store, StoreError
from measurements.trials.measurement import Provenance
from search_spaces.catalogue import operators, template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet

H200 = device("h200")


class TestStarting:
    class Gpu:
        def __init__(self, provenance: Provenance) -> None:
            self.provenance, self.num_requests = provenance, 0

        def fingerprint(self) -> dict[str, str]:
            self.num_requests += 1
            raise RunnerStopped("no GPU")  # ``starting`` ignores this error, since the search reports it

    @pytest.mark.parametrize(("provenance", "num_requests"), [(Provenance.MEASURED, 1), (Provenance.ESTIMATED, 0)])
    def test_a_gpu_starts_while_the_search_is_set_up(self, provenance: Provenance, num_requests: int) -> None:
        gpu: Any = self.Gpu(provenance)
        with starting(gpu):
            pass
        assert gpu.num_requests == num_requests


PROBLEM = Matmul(m=64, n=48, k=32)


def test_the_problem_of_every_operator_can_be_had_from_the_package() -> None:
    for operator in operators():
        problem: Any = operator.make
        # Other tests of this process may have registered users' kernels and programs.
        if issubclass(problem, KernelProblem) or not problem.__module__.startswith("search_spaces.operators."):
            continue
        assert problem.operator == operator.name
        assert getattr(autosched, problem.__name__) is problem
        assert problem.__name__ in autosched.__all__


class Steps(Observer):
    def __init__(self) -> None:
        self.seen: list[Progress] = []

    def started(self, start: Start) -> None:
        assert not self.seen

    def trial(self, progress: Progress) -> None:
        self.seen.append(progress)


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"trials": 0}, "trials must be a whole number of at least 1, not 0"),
            ({"trials": -3}, "at least 1"),
            ({"trials": True}, "at least 1"),
            ({"sampler": "genetic"}, "unknown sampler 'genetic'"),
            ({"seed": -1}, "the seed must be"),
            ({"device": "h300"}, "unknown device 'h300'"),
            ({"backend": "opencl"}, "unknown backend 'opencl'"),
            ({"backend": "replay"}, "this problem was not recorded on h200"),
            ({"workers": 0}, "workers must be a whole number of at least 1"),
            ({"workers": "2"}, "workers must be a whole number of at least 1, not '2'"),
            ({"workers": 1.5}, "workers must be a whole number of at least 1, not 1.5"),
            ({"trials": 2.0}, "trials must be a whole number"),
            ({"device": 5}, "a device name must be a string, not 5"),
            ({"problem": None}, "expected a problem, such as .*, not None"),
            ({"progress": 5}, "progress 5"),
            ({"progress": Observer}, "progress .*Observer"),
            ({"database": 5, "backend": "estimate"}, "invalid database 5: give a path or an SQLAlchemy URL"),
            ({"database": "sqlite://", "backend": "estimate"}, "in-memory database, which is lost at exit"),
            ({"database": ":memory:", "backend": "estimate"}, "in-memory database, which is lost at exit"),
        ],
    )
    def test_one_line_and_no_database(self, tmp_path: Path, arguments: dict[str, object], message: str) -> None:
        options = {"problem": PROBLEM, "trials": 4, "database": tmp_path / "a.db", "device": "h200", **arguments}
        with pytest.raises(ValueError, match=message) as caught:
            tune(**options)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_foreign_database_is_rejected_and_not_modified(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").write_text("precious")
        with pytest.raises(StoreError, match="not an SQLite database"):
            tune(PROBLEM, trials=1, database=tmp_path / "a.db", device="h200", backend="estimate")
        assert (tmp_path / "a.db").read_text() == "precious"


INTERRUPTED = """
import os, sys
sys.path[:0] = PATHS
from autosched.tuning.tune import tune
from search_spaces.operators.matmul import Matmul
class Shown:
    def started(self, start): pass
    def trial(self, progress): print(progress.done, flush=True)
try:
    tune(Matmul(m=640, n=480, k=320), trials=100000, database=sys.argv[1], device="h200", backend="estimate",
         sampler="random", verify=False, progress=Shown())
except KeyboardInterrupt as stopped:
    result = stopped.result
def parent(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
left = [pid for pid in os.listdir("/proc") if pid.isdecimal() and parent(pid) == os.getpid()]
print("interrupted", result.interrupted, len(result.trials), "left", left)
"""


class TestEndToEnd:
    """Real components on the estimate backend: space, code generation, NVRTC, analytic model and emulator."""

    def test_a_small_matmul(self, tmp_path: Path) -> None:
        steps = Steps()
        arguments = {"database": tmp_path / "best.db", "device": "h200", "backend": "estimate", "workers": 1}
        result = tune(PROBLEM, trials=4, progress=steps, verify=False, **arguments)
        assert len(result.trials) == len(steps.seen) == 4
        assert result.provenance is Provenance.ESTIMATED
        assert result.lines[0].startswith("times are ESTIMATED")
        assert "ESTIMATED" in result.lines[1] and "h200" in result.lines[1]
        assert result.best is not None, [r.measurement.reason for r in result.trials]
        assert result.best.measurement.resources is not None
        used = {r.schedule.template for r in result.trials}
        assert used <= {"matmul", "wgmma_matmul", "wgmma_matmul_transposed", "tma_matmul"}
        assert {r.template_version for r in result.trials} == {template(name).version for name in used}
        again = tune(PROBLEM, trials=1, **arguments)  # verifies the best schedule, unlike the first run
        assert again.earlier == 4
        assert again.best is not None, [r.measurement.reason for r in again.trials]
        assert os.listdir(tmp_path) == ["best.db"]

    def test_tune_reports_that_nothing_is_verified_without_a_host_compiler(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing() -> None:
            raise HostCompilerMissing("no C++ compiler: install one")

        monkeypatch.setattr("autosched.tuning.winner.winner_verification.check_ready", missing)
        result = tune(PROBLEM, trials=1, database=tmp_path / "a.db", device="h200", backend="estimate", workers=1)
        assert result.lines[2] == "new best schedules are not verified: no C++ compiler: install one"

    def test_an_empty_space_is_reported_with_its_rule(self, tmp_path: Path) -> None:
        nothing = Space("toy", [ordinal("x", (1, 2))], (), (Rule("never", lambda x: x < 0, "no"),))
        only = TemplateSet([dataclasses.replace(template("matmul"), space=lambda problem, device: nothing)])
        with pytest.raises(ValueError, match="never"):
            tune(PROBLEM, trials=1, database=tmp_path / "a.db", device="h200", backend="estimate", templates=only)
        assert os.listdir(tmp_path) == []

    def test_a_problem_larger_than_the_device_s_memory_is_rejected(self, tmp_path: Path) -> None:
        large = Matmul(2**18, 2**18, 2**18)
        assert large.min_bytes > H200.memory_bytes
        with pytest.raises(ValueError, match=f"{large.min_bytes:,} bytes.*{H200.memory_bytes:,}"):
            tune(large, trials=1, database=tmp_path / "a.db", device="h200", backend="estimate")
        assert os.listdir(tmp_path) == []

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
    def test_ctrl_c_leaves_trials_and_no_process(self, tmp_path: Path) -> None:
        code = INTERRUPTED.replace("PATHS", json.dumps([p for p in sys.path if p]))
        command = [sys.executable, "-c", code, str(tmp_path / "a.db")]
        tuning = forked_python.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert tuning.stdout is not None
        assert tuning.stdout.readline() == "1\n"
        tuning.send_signal(signal.SIGINT)
        lines = tuning.stdout.read().splitlines()
        assert tuning.wait(timeout=60) == 0
        tuning.stdout.close()
        words = lines[-1].split()
        assert words[:2] == ["interrupted", "True"]
        assert words[3:] == ["left", "[]"]
        assert Store.open(tmp_path / "a.db", create=False).count() >= int(words[2]) >= 1
        assert os.listdir(tmp_path) == ["a.db"]
