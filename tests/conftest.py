"""Configuration of all tests: options, markers, the shared cache, and fixtures for every test."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from threading import Timer
from typing import TYPE_CHECKING

import forked_python
import pytest
from hypothesis import HealthCheck, settings
from skipped_tests import LastSkipped
from slow_tests import UpdateSlow, function_of, slow_functions
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from measurements.store.store import Store

# Tests have no time limit per example. Property-based tests try more examples in the nightly run.
settings.register_profile("short", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("short"), max_examples=300)
settings.load_profile("short")


# Collecting tests creates objects but hardly any garbage. Garbage collection would take a tenth of the time.
# ``pytest_collection_finish`` enables it again.
gc.disable()

# Tests interrupt child processes with SIGINT. If a script runs pytest in the background, SIGINT is ignored and children
# would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="accept the current output of code generation")
    parser.addoption("--nightly", action="store_true", help="many more samples, and the tests marked nightly")
    parser.addoption("--last-skipped", action="store_true", help="run only tests that the last run skipped")
    parser.addoption("--update-slow", action="store_true", help="measure the tests and list the slow ones (with -n 0)")
    parser.addoption(
        "--keep-launches",
        metavar="FOLDER",
        help="record launches that the emulator runs without a fault, for `python -m benchmarks.gpu.launches FOLDER`",
    )


@pytest.hookimpl(optionalhook=True)  # a hook of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are cores, since tests that wait for child processes leave a core idle."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--nightly"):
        settings.load_profile("nightly")
    # All test runs share a cache that is separate from the user's own.
    os.environ.setdefault("AUTOSCHED_CACHE_DIR", str(Path(gettempdir(), f"autosched-tests-{os.getuid()}")))
    _keep_bytecode(Path(os.environ["AUTOSCHED_CACHE_DIR"], "bytecode"))
    os.environ.setdefault(forked_python.OWNER, str(os.getpid()))
    config.pluginmanager.register(LastSkipped(config))
    if config.getoption("--update-slow"):
        if config.option.dist != "no" and config.option.numprocesses:
            raise pytest.UsageError("--update-slow measures one test after the other: add -n 0")
        config.pluginmanager.register(UpdateSlow(config.rootpath))
    folder = config.getoption("--keep-launches")
    if folder is not None:
        from keep_launches import KeepLaunches

        # The path is absolute, because tests and workers of xdist may change the working folder.
        config.pluginmanager.register(KeepLaunches(config.invocation_params.dir / folder))


def _keep_bytecode(folder: Path) -> None:
    """Let test processes cache bytecode, in ``folder`` if bytecode may not be written next to the sources."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the emulator before any test. Compiling takes minutes on a busy machine, and tests have a time limit."""
    if hasattr(session.config, "workerinput") or session.config.getoption("--collect-only"):
        return
    from measurements.emulator.host.build import runner
    from measurements.emulator.host.compiler import HostFailure

    note = Timer(2.0, print, ["compiling the emulator, once for each version of its sources"])
    note.start()
    with suppress(HostFailure):  # without a compiler, tests that need one fail or skip
        runner()
    note.cancel()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a new store, whose file is ``trials.db`` in ``tmp_path``."""
    from measurements.store.store import Store

    with Store.open(tmp_path / "trials.db") as opened:
        yield opened


@pytest.fixture(scope="session")
def nightly(request: pytest.FixtureRequest) -> bool:
    """Return True if the run has the option ``--nightly``, for many more samples."""
    return bool(request.config.getoption("--nightly"))


def _leaves_out_nightly(config: pytest.Config) -> bool:
    return not (config.getoption("--nightly") or config.getoption("--update-golden"))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Create no items for a deselected nightly function, since some functions have thousands of cases."""
    marks = getattr(obj, "pytestmark", [])
    if any(mark.name == "nightly" for mark in marks) and _leaves_out_nightly(collector.config):
        return []
    return None


@pytest.hookimpl(tryfirst=True)  # before -m evaluates marks, since this hook adds some
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _leaves_out_nightly(config):
        left_out = [item for item in items if item.get_closest_marker("nightly") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]
    slow = slow_functions(config.rootpath)
    for item in items:
        if function_of(item) in slow:
            item.add_marker(pytest.mark.slow)
    with_gpu = [item for item in items if item.get_closest_marker("gpu") is not None]
    if with_gpu:
        available, why_not = _gpu()
        if not available:
            for item in with_gpu:
                item.add_marker(pytest.mark.skip(reason=f"no GPU answers: {why_not}"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the extension for torch if a test of it was collected, and prepare the garbage collector.

    Freezing exempts the thousands of collected tests from garbage collection. A higher threshold makes collections
    rarer: parsing PTX creates hundreds of thousands of objects. If there were a collection after every 700 new objects,
    collections would take 5% of a verification's time.
    """
    collect_only = session.config.getoption("--collect-only")
    if not collect_only and any(item.path.name == "test_host_path.py" for item in session.items):
        from autosched.torch.extension import NotBuilt, extension

        with suppress(NotBuilt):  # tests of the extension report the error
            extension()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def _gpu() -> tuple[bool, str]:
    from measurements.runners.cuda.runner import cuda_available

    return cuda_available()


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread. Each process of pytest-xdist has one core, and waiting BLAS threads take CPU time."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def plain_terminal() -> None:
    """Format output as for a pipe, whatever the terminal's width."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session")
def data_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return an iterator of new paths, one per test. Folders are not created, since most tests need none."""
    root = tmp_path_factory.mktemp("data")
    return (root / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def no_database_of_the_user(data_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's own database from tests."""
    monkeypatch.delenv("AUTOSCHED_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(next(data_homes)))


@pytest.fixture(scope="session", autouse=True)
def no_full_verification_of_winners() -> None:
    """Disable full verification, which takes seconds for each run of ``tune``. Tests of full verification enable it."""
    from autosched.tuning.winner import winner_verification

    winner_verification.VERIFICATION_SECONDS = 0.0


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork workers from a process that has imported PyTorch, which saves each worker 2.5 s of CPU time."""
    from measurements.workers import worker

    class Forks:
        PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired
        Popen = partial(forked_python.Popen, torch=True)

    monkeypatch.setattr(worker, "subprocess", Forks)
    monkeypatch.setattr(
        worker, "_has_ended", lambda pid: not Path(f"/proc/{pid}").exists()
    )  # the worker is no child of this process, so its end is read from /proc
