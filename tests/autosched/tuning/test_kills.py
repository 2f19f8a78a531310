"""The tuner, its GPU worker and its compilers are killed with SIGKILL at random moments."""

import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import forked_python
import killed_tuner
import pytest
from faults import MODULE

from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.store.store import Store
from measurements.trials.measurement import Status

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

VICTIMS = ["tuner"] * 2 + [MODULE] * 2 + ["instant_compiler"] * 2
PATIENCE = 60.0


class Tuning:
    """The tuner in a separate process. ``stored`` counts the trials that the tuner reported as stored."""

    def __init__(self, database: Path, cache: Path) -> None:
        paths = [str(Path(killed_tuner.__file__).parent), *(p for p in sys.path if p)]
        self.process = forked_python.Popen(
            [sys.executable, killed_tuner.__file__, str(database), str(cache)],
            stdout=subprocess.PIPE,
            bufsize=0,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "AUTOSCHED_TEST_COMPILE": "0.003",
                "TMPDIR": str(cache.parent),  # killed processes leave files behind
            },
        )
        self.stored = 0
        self.await_trials(1)

    def await_trials(self, count: int) -> None:
        """Wait until ``count`` more trials are reported as stored."""
        self.read(0.0)
        target = self.stored + count
        while self.stored < target:
            assert self.read(PATIENCE), "the tuner stored no more trials"

    def read(self, seconds: float) -> bool:
        """Read the output of the tuner. Return False if no output arrives in ``seconds`` or the tuner has ended."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return False
        output = os.read(self.process.stdout.fileno(), 1 << 16)
        self.stored += output.count(b"\n")
        return bool(output)

    def children(self, text: str = "") -> list[int]:
        return [pid for pid in processes() if parent(pid) == self.process.pid and text in command(pid)]

    def await_children(self, text: str) -> list[int]:
        """Return the tuner's child processes whose command line contains ``text``. Wait until there is at least one."""
        deadline = time.monotonic() + PATIENCE
        while not (children := self.children(text)):
            assert time.monotonic() < deadline, f"no {text} was started again"
            time.sleep(0.002)
        return children

    def kill(self) -> None:
        left = self.children()
        self.process.kill()
        assert self.process.stdout is not None
        self.stored += self.process.stdout.read().count(b"\n")
        self.process.wait()
        self.process.stdout.close()
        deadline = time.monotonic() + PATIENCE
        while [pid for pid in left if command(pid)]:
            assert time.monotonic() < deadline, "processes remained"
            time.sleep(0.01)


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def command(pid: int) -> str:
    """Return a process's command line, or "" for a zombie or a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_kills_neither_lose_nor_duplicate_trials_and_the_run_resumes(tmp_path: Path, nightly: bool) -> None:
    rng = random.Random(7)
    victims = VICTIMS * (8 if nightly else 1)
    rng.shuffle(victims)
    database, acknowledged, kills = tmp_path / "a.db", 0, 0
    tuning = Tuning(database, tmp_path / "cache")
    try:
        for count, victim in enumerate(victims):
            time.sleep(rng.random() * 0.03)
            if victim != "tuner":
                os.kill(rng.choice(tuning.await_children(victim)), signal.SIGKILL)
                tuning.await_trials(36)  # more than two batches, since a candidate fails if its worker is killed twice
                continue
            tuning.kill()
            acknowledged, kills = acknowledged + tuning.stored, kills + 1
            with Store.open(database, create=False) as store:
                trials = store.trials()
            keys = [r.schedule.key() for r in trials]
            assert len(set(keys)) == len(keys), f"a schedule was tried twice, after {count + 1} kills"
            assert acknowledged <= len(trials) <= acknowledged + kills, (
                "every stored trial except those in flight was reported"
            )
            tuning = Tuning(database, tmp_path / "cache")
        tuning.await_trials(5)
    finally:
        tuning.kill()
    with closing(sqlite3.connect(database)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Store.open(database, create=False) as store:
        trials = store.trials()
        best = store.best(killed_tuner.PROBLEM, "h200")
    keys = [r.schedule.key() for r in trials]
    assert len(set(keys)) == len(keys)
    assert {r.status for r in trials} == {Status.OK}, "no candidate fails because its process was killed"
    for trial in trials:
        x, y = trial.schedule.integer("x"), trial.schedule.integer("y")
        assert trial.seconds == pytest.approx(1e-9 * (1000 * x + y))
    assert best is not None and best.seconds == min(r.seconds for r in trials if r.seconds is not None)
