"""Unmodified autotuned kernels reuse a database's choices in later and in concurrent processes, even after a kill."""

# mypy: ignore-errors
from __future__ import annotations

import json
import os
import random
import signal
import time
import traceback
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import persisted_kernels as stock  # noqa: E402
from postgresql_server import server  # noqa: E402
from triton.runtime.errors import OutOfResources  # noqa: E402

from autosched.triton import persist  # noqa: E402
from autosched.triton.persistence import answers, identity  # noqa: E402
from measurements.store.errors import StoreError  # noqa: E402
from measurements.store.store import Store  # noqa: E402


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))


class Starts:
    """Successive starts of a program that share a database."""

    def __init__(self, folder: Path) -> None:
        self.database, self.log = folder / "best.db", folder / "log"
        self.url = self.database

    def timed(self):
        """Return the number of configurations timed since the last call."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count

    def start(self, n=64, device="h100", **options):
        with persist(self.database, device=device) as persistence:
            chosen = [stock.launch(kernel, n) for kernel in stock.kernels(self.log, **options)]
        return chosen, (persistence.answered, persistence.tuned)


@pytest.fixture
def starts(tmp_path):
    return Starts(tmp_path)


def test_a_second_start_measures_nothing_and_chooses_the_same(starts):
    first, counts = starts.start()
    assert counts == (0, stock.COUNT) and starts.timed() == stock.COUNT * len(stock.CONFIGS)
    assert len({tuple(choice.items()) for choice in first}) > 1, "random times should lead to different choices"
    second, counts = starts.start()
    assert counts == (stock.COUNT, 0) and starts.timed() == 0
    assert second == first


def test_the_fastest_is_chosen(starts, monkeypatch):
    times = iter([3.0, 1.0, 2.0, 5.0, 4.0, 6.0] * 2)
    monkeypatch.setattr(random, "uniform", lambda low, high: next(times))
    (choice,), _ = starts.start(count=1)
    assert choice == {"BLOCK": 64, "num_warps": 4}


def test_a_list_that_grows_or_shrinks_keeps_the_other_times(starts):
    starts.start(count=1, configs=stock.CONFIGS[:3])
    starts.timed()
    starts.start(count=1, configs=stock.CONFIGS[:5])
    assert starts.timed() == 2
    _, counts = starts.start(count=1, configs=stock.CONFIGS[1:4])
    assert starts.timed() == 0 and counts == (1, 0)
    starts.start(count=1, configs=stock.CONFIGS[2::-1])
    assert starts.timed() == 0, "the order of configurations does not affect the stored choice"


@pytest.mark.parametrize("change", ["key", "device", "source", "triton"])
def test_changed_dependencies_are_tuned_again(starts, monkeypatch, change):
    starts.start(count=2)
    starts.timed()
    other = {"key": {"n": 65}, "device": {"device": "h200"}, "source": {"term": "- C * {}"}}.get(change, {})
    if change == "triton":
        monkeypatch.setattr(triton, "__version__", "99.0")
    starts.start(count=2, **other)
    assert starts.timed() == 2 * len(stock.CONFIGS)


def test_unlaunchable_configurations_are_not_retried(starts):
    def prone(call, quantiles):
        tried.append(1)
        if len(tried) % 2:
            raise OutOfResources(300_000, 232_448, "shared memory")
        return [1.0 / len(tried)] * 3

    tried = []
    kernel = stock.autotuned(prone)
    with persist(starts.database, device="h100"):
        choice = stock.launch(kernel, 64)
    assert len(tried) == len(stock.CONFIGS)
    with persist(starts.database, device="h100"):
        assert stock.launch(stock.autotuned(prone), 64) == choice
    assert len(tried) == len(stock.CONFIGS)


def test_an_error_of_a_benchmark_releases_the_lock(starts):
    def failing(call, quantiles):
        raise RuntimeError("the GPU is lost")

    with persist(starts.database, device="h100", timeout=0.0) as persistence:
        kernel = stock.autotuned(failing)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="is lost"):
                stock.launch(kernel, 64)
        assert not persistence.tuning_locks._threads or all(
            not lock.locked() for lock in persistence.tuning_locks._threads.values()
        )


def test_the_lock_is_released_before_the_kernel_is_launched(starts):
    def launched(*_, **__):
        locked.append(any(lock.locked() for lock in persistence.tuning_locks._threads.values()))

    locked = []
    with persist(starts.database, device="h100") as persistence, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stock, "on_launch", launched)
        for kernel in stock.kernels(starts.log, count=2):
            stock.launch(kernel, 64)
    assert locked == [False, False]


def test_pruned_configurations_are_not_timed_and_not_chosen(starts):
    pruned = {"early_config_prune": lambda configs, arguments, **options: configs[:2]}
    first, _ = starts.start(count=1, prune_configs_by=pruned)
    assert starts.timed() == 2
    second, counts = starts.start(count=1, prune_configs_by=pruned)
    assert starts.timed() == 0 and counts == (1, 0) and second == first


@pytest.mark.parametrize("key", [object(), "a b"])
def test_a_key_without_a_text_is_tuned_as_usual(starts, key):
    with pytest.warns(RuntimeWarning, match="Triton tunes as usual"):
        starts.start(count=1, n=key)
    assert starts.timed() == len(stock.CONFIGS)
    assert Store.open(starts.database).problems() == []


def test_a_database_that_fails_ends_no_launch(starts, monkeypatch):
    def failing(self, *_):
        raise StoreError("the disk is full: free some room")

    monkeypatch.setattr(answers.Answers, "choice", failing)
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        starts.start(count=1)
    assert starts.timed() == len(stock.CONFIGS)


def test_a_database_without_persist_has_no_effect(starts, monkeypatch):
    monkeypatch.setenv("AUTOSCHED_DB", str(starts.database))
    stock.launch(*stock.kernels(starts.log, count=1), 64)
    assert not starts.database.exists()
    with persist(device="h100"):
        pass
    assert starts.database.exists()


def test_stopping_gives_triton_back(starts):
    plain = triton.runtime.Autotuner.run
    with persist(starts.database, device="h100"):
        assert triton.runtime.Autotuner.run is not plain
    assert triton.runtime.Autotuner.run is plain
    with pytest.raises(ValueError, match="timeout"):
        persist(starts.database, timeout=-1.0)


def test_omitted_key_arguments_do_not_shift_values(starts):
    tuner = stock.autotuned(lambda call, quantiles: [1.0] * 3)
    one = identity.identify(tuner, ["n"], (64, "float32"), "h100")
    other = identity.identify(tuner, ["C"], (64, "float32"), "h100")
    assert one.timed != other.timed


# Processes --------------------------------------------------------------------------------------------------------


def forked(work):
    """Run ``work`` in a forked process and return the process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def together(starts, count, kernels, *, kill=0, timeout=60.0, locks="shared"):
    """Let several processes tune the same kernels at once. Return the choices of processes that were not killed.

    Each process starts with a different kernel, so that processes wait for each other in every order.
    """
    reading, writing = os.pipe()

    def work(number):
        os.close(writing)
        os.read(reading, 1)  # all processes start when the writing end is closed
        random.seed(f"{number} {time.monotonic_ns()}")
        if locks == "each":  # separate lock files, as on separate machines
            os.environ["AUTOSCHED_CACHE_DIR"] += str(number)
        with persist(starts.url, device="h100", timeout=timeout):
            compiled = stock.kernels(starts.log, count=kernels, configs=stock.CONFIGS[:3], seconds=0.001)
            order = [(number + k) % kernels for k in range(kernels)]
            chosen = {k: stock.launch(compiled[k], 64) for k in order}
        starts.database.with_name(f"choice{number}").write_text(json.dumps([chosen[k] for k in range(kernels)]))

    pids = [forked(lambda number=number: work(number)) for number in range(count)]
    os.close(writing)
    os.close(reading)
    for pid in pids[:kill]:
        time.sleep(random.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
    ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert all(status == 0 for status in ended[kill:]), ended
    files = [starts.database.with_name(f"choice{number}") for number in range(kill, count)]
    return [json.loads(file.read_text()) for file in files]


def runs(*, nightly=1):
    return [pytest.param(run, marks=[pytest.mark.nightly] if run >= nightly else []) for run in range(100)]


@pytest.mark.parametrize("run", runs(nightly=2))
def test_processes_that_start_together_make_the_same_choices(starts, run):
    choices = together(starts, 8, 3)
    assert len(choices) == 8 and all(choice == choices[0] for choice in choices)
    lines = Counter(line.split()[1] for line in starts.log.read_text().splitlines())
    assert lines == dict.fromkeys(("0", "1", "2"), 3), "one process times each configuration, the others wait"


@pytest.mark.parametrize("run", runs(nightly=2))
def test_killed_processes_do_not_block_others(starts, run):
    choices = together(starts, 8, 3, kill=4)
    assert len(choices) == 4 and all(choice == choices[0] for choice in choices)
    before = starts.timed()
    again, counts = starts.start(count=3, configs=stock.CONFIGS[:3])
    assert again == choices[0] and counts == (3, 0) and starts.timed() == 0
    assert before <= 9 + 4, "a killed process loses at most the configuration that it was timing"


def test_waiting_ends_at_the_timeout_and_the_first_choice_counts(starts):
    starts.start(count=1, n=1)  # the first start creates the database
    starts.timed()
    ready, reached = os.pipe()

    def holder():
        def stopped(call, quantiles):
            os.write(reached, b"x")
            time.sleep(600)

        with persist(starts.database, device="h100"):
            stock.launch(stock.autotuned(stopped), 64)

    pid = forked(holder)
    try:
        os.read(ready, 1)
        with (
            pytest.warns(RuntimeWarning, match="another process"),
            persist(starts.database, device="h100", timeout=0.1) as persistence,
        ):
            stock.launch(stock.autotuned(lambda call, quantiles: [1.0] * 3), 64)
        assert persistence.tuned == 1
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore:.*another process:RuntimeWarning")
def test_processes_that_cannot_wait_still_make_the_same_choices(starts):
    choices = together(starts, 6, 2, timeout=0.0)
    assert all(choice == choices[0] for choice in choices)


def test_processes_of_several_machines_share_a_server(starts):
    """Locks work only within one machine. Without a common lock, all processes use the server's first stored choice."""
    with server() as url:
        starts.url = url.format("postgres")
        choices = together(starts, 4, 2, locks="each")
    assert len(choices) == 4 and all(choice == choices[0] for choice in choices)
