"""Pytest plug-in that checks a database or tuned-configuration files, and provides the fixture ``tuned_kernel``.

``pytest --autosched-db best.db [--autosched-static]`` adds one test for every entry of a database.
``--autosched-configs DIR`` adds one test for every entry of tuned-configuration files.

The module is imported in every pytest run, so it imports other modules of autosched only when an option or the fixture
is used.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from autosched.regression.check import CheckOptions
    from autosched.regression.config_files import ConfigEntry
    from autosched.regression.entries import CheckedEntry
    from autosched.regression.report import CheckFinding
    from search_spaces.operators.problem import Problem

_NODE = "autosched"
_EMULATION = "autosched-triton"  # name of the plug-in that emulates Triton launches
_VERDICT = "autosched_verdict"  # name of the property of a test report that contains the verdict


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options."""
    group = parser.getgroup("autosched", "tuned kernels")
    group.addoption("--autosched-db", metavar="DB", help="test every entry of this database of tuned schedules")
    group.addoption("--autosched-static", action="store_true", help="run only tests that need no GPU")
    group.addoption("--autosched-no-emulate", action="store_true", help="do not emulate the entries")
    group.addoption("--autosched-max-slowdown", metavar="SHARE", default="1%", help="allowed slowdown (default 1%%)")
    group.addoption("--autosched-against", metavar="DB", help="compare times with the schedules of this database")
    group.addoption(
        "--autosched-configs", metavar="DIR", help="test every entry of tuned-configuration files, without a GPU"
    )
    group.addoption(
        "--autosched-format",
        metavar="NAME",
        help="project that reads these files (vllm or sglang), needed only if it is not recognised",
    )
    group.addoption("--autosched-device", metavar="D", help="only files of this device, such as h100")
    group.addoption(
        "--autosched-triton",
        metavar="DEVICE",
        help="emulate every Triton launch on this GPU, such as h100",
    )
    group.addoption("--autosched-full", action="store_true", help="launch in several orders, and twice in a row")
    group.addoption(
        "--autosched-allow-undefined",
        action="store_true",
        help="do not report reads of unwritten memory of torch.empty",
    )
    group.addoption(
        "--autosched-first-config",
        action="store_true",
        help="run only the first configuration of each triton.autotune",
    )
    parser.addini("autosched_db", "database of tuned schedules for the fixture tuned_kernel", default="")


class RegressionFound(Exception):
    """Failure of a test: an entry is slower, wrong or broken."""

    def __init__(self, finding: CheckFinding) -> None:
        super().__init__(f"{finding.verdict.value}: {finding.reason}")
        self.finding = finding


class SessionGuard:
    """Check of the entries of a database in one pytest session.

    All selected entries are timed when the first test runs.
    """

    def __init__(self, config: pytest.Config, database: str) -> None:
        from autosched.regression.check import CheckOptions
        from autosched.regression.slowdown import SlowdownLimits
        from autosched.regression.static import StaticOptions

        self.config, self.database = config, database
        self.static: bool = config.getoption("autosched_static")
        self.options: CheckOptions = CheckOptions(
            limits=SlowdownLimits(max_slowdown=_share(config.getoption("autosched_max_slowdown"))),
            static=StaticOptions(emulate=not config.getoption("autosched_no_emulate")),
            against=config.getoption("autosched_against") or "",
        )
        self.wanted: list[CheckedEntry | CheckFinding] = []
        self._pool: Any = None
        self._timed: dict[str, CheckFinding] | None = None

    def entries(self) -> list[CheckedEntry | CheckFinding]:
        """Return the selected entries of the database."""
        from autosched.regression.check import selected
        from measurements.store.store import Store

        with Store.open(self.database, create=False) as store:
            return selected(store, self.options)

    def finding(self, entry: CheckedEntry | CheckFinding) -> CheckFinding:
        """Return the finding on one entry. A static check runs for each entry, a timed check once for all entries."""
        from autosched.regression.check import timed_report
        from autosched.regression.report import CheckFinding
        from autosched.regression.static import check_entry
        from measurements.compiler.pool import CompilePool

        if isinstance(entry, CheckFinding):
            return entry
        if self.static:
            self._pool = self._pool or CompilePool(workers=1)
            return check_entry(entry, self._pool, self.options.static)
        if self._timed is None:
            report = timed_report(self.database, self.wanted, self.options, lambda note: None)
            self._timed = {finding.name: finding for finding in report.findings}
        return self._timed[entry.name]

    def close(self) -> None:
        """End the compiler processes."""
        if self._pool is not None:
            self._pool.close()


class ConfigGuard:
    """Check of tuned-configuration files. Each entry is verified when its test runs."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        from autosched.registry import CONFIG_FILES, UnknownIntegration
        from autosched.regression.config_files import ConfigCheck, ConfigFiles, recognised_files
        from search_spaces.hardware.devices import device

        name, row = config.getoption("autosched_format"), config.getoption("autosched_device")
        try:
            files: ConfigFiles = CONFIG_FILES.load(name) if name else recognised_files(folder, "--autosched-format")
        except UnknownIntegration as error:
            raise ValueError(f"--autosched-format {error}") from error
        check = ConfigCheck(device(row) if row else None, not config.getoption("autosched_no_emulate"))
        self.folder = folder
        self.entries = files.entries(folder, check)[0]
        self._verifier = files.verifier(check, workers=1)
        self._started = False

    def finding(self, entry: ConfigEntry) -> CheckFinding:
        """Verify one entry. The first call starts the verifier's processes."""
        if not self._started:
            self._verifier.__enter__()
            self._started = True
        return self._verifier.finding(entry)

    def close(self) -> None:
        """End the verifier's processes."""
        if self._started:
            self._verifier.__exit__(None, None, None)


_GUARD = pytest.StashKey[SessionGuard]()
_CONFIGS = pytest.StashKey[ConfigGuard]()
_VERDICTS = pytest.StashKey[list[str]]()


class Entries(pytest.Collector):
    """Collector of the tests for a database."""

    def collect(self) -> Iterator[EntryItem]:
        """Yield one item per entry of the database."""
        for entry in self.config.stash[_GUARD].entries():
            yield EntryItem.of(self, entry)


class _CheckedItem(pytest.Item):
    """Test of an entry.

    The test passes for the verdicts same, faster and sound. It fails for slower, wrong and broken. Other verdicts skip
    the test.
    """

    def checked(self) -> CheckFinding:
        raise NotImplementedError

    def runtest(self) -> None:
        finding = self.checked()
        self.user_properties.append((_VERDICT, finding.verdict.value))
        self.user_properties += [(name, value) for name, value in finding.numbers.items()]
        if finding.ratio is not None:
            self.user_properties += [(k, getattr(finding.ratio, k)) for k in ("median", "low", "high")]
        if finding.verdict.fails:
            raise RegressionFound(finding)
        if not finding.verdict.judged:
            pytest.skip(f"{finding.verdict.value}: {finding.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, RegressionFound):
            return super().repr_failure(excinfo, style)
        finding = excinfo.value.finding
        return "\n".join([f"{finding.name} is {finding.verdict.value}", *(f"  {reason}" for reason in finding.reasons)])


class EntryItem(_CheckedItem):
    """Test of one entry of the database."""

    entry: CheckedEntry | CheckFinding

    @classmethod
    def of(cls, parent: pytest.Collector, entry: CheckedEntry | CheckFinding) -> EntryItem:
        """Return the item of an entry."""
        item: EntryItem = cls.from_parent(parent, name=entry.name)
        item.entry = entry
        return item

    def checked(self) -> CheckFinding:
        """Check the entry of the database."""
        return self.config.stash[_GUARD].finding(self.entry)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Return the database as the location of the item."""
        return _shown(self.config.stash[_GUARD].database), None, self.name


class ConfigItem(_CheckedItem):
    """Test of one entry of a tuned-configuration file, or of the file as a whole."""

    entry: ConfigEntry

    @classmethod
    def of(cls, parent: pytest.Collector, entry: ConfigEntry) -> ConfigItem:
        """Return the item of a configuration."""
        item: ConfigItem = cls.from_parent(parent, name=entry.name)
        item.entry = entry
        return item

    def checked(self) -> CheckFinding:
        """Verify the configuration."""
        return self.config.stash[_CONFIGS].finding(self.entry)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Return the configuration file as the location of the item."""
        return self.entry.path, None, self.name


class ConfigEntries(pytest.Collector):
    """Collector of the tests for tuned-configuration files."""

    def collect(self) -> Iterator[ConfigItem]:
        """Yield one item per configuration."""
        for entry in self.config.stash[_CONFIGS].entries:
            yield ConfigItem.of(self, entry)


@pytest.hookimpl(tryfirst=True)  # run before other hooks, so that -k and -m also select entries
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each entry of the database and of configuration files."""
    if config.getoption("autosched_configs"):
        items += _config_items(session, config)
    database = config.getoption("autosched_db")
    if not database:
        return
    if hasattr(config, "workerinput") and not config.getoption("autosched_static"):
        raise pytest.UsageError("a timed check cannot run in several processes: use -n0 or --autosched-static")
    try:
        config.stash[_GUARD] = SessionGuard(config, database)
        items_of_entries = list(Entries.from_parent(session, name=_NODE, nodeid=_NODE).collect())
    except ValueError as error:
        raise pytest.UsageError(f"--autosched-db: {error}") from error
    if not items_of_entries:
        raise pytest.UsageError(
            f"{_shown(database)} has no working schedule, and an empty check does not pass: tune first"
        )
    items += items_of_entries


def _config_items(session: pytest.Session, config: pytest.Config) -> list[ConfigItem]:
    folder = Path(config.getoption("autosched_configs"))
    try:
        config.stash[_CONFIGS] = ConfigGuard(config, folder)
    except (ImportError, ValueError) as error:
        raise pytest.UsageError(f"--autosched-configs: {error}") from error
    return list(ConfigEntries.from_parent(session, name=_NODE, nodeid=_NODE).collect())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Restrict the measurements to the entries of the selected tests."""
    guard = session.config.stash.get(_GUARD, None)
    if guard is not None:  # items now has only the tests that -k and -m select
        guard.wanted = [item.entry for item in session.items if isinstance(item, EntryItem)]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the emulation before a conftest.py is imported, because a conftest.py may query the GPU and skip tests."""
    if early_config.known_args_namespace.autosched_triton:
        _emulate_triton(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Start collecting verdicts, and start the emulation of Triton kernels if requested."""
    config.stash[_VERDICTS] = []
    config.pluginmanager.register(_Verdicts(config), "autosched-verdicts")
    if config.getoption("autosched_triton") and not config.pluginmanager.has_plugin(_EMULATION):
        _emulate_triton(
            config, config.option
        )  # a conftest.py loaded this plug-in, so pytest_load_initial_conftests did not run


def _emulate_triton(config: pytest.Config, options: argparse.Namespace) -> None:
    try:
        from autosched.triton.pytest_emulation import TritonEmulation
    except ImportError as error:
        raise pytest.UsageError(f"--autosched-triton needs Triton and torch: {error}") from error
    emulation = TritonEmulation(
        options.autosched_triton,
        thorough=options.autosched_full,
        undefined_memory=not options.autosched_allow_undefined,
        first_configuration=options.autosched_first_config,
    )
    try:
        emulation.start()
    except ValueError as error:
        raise pytest.UsageError(f"--autosched-triton: {error}") from error
    config.pluginmanager.register(emulation, _EMULATION)


class _Verdicts:
    """Counts the verdicts of all processes. It runs in the process that writes the report."""

    def __init__(self, config: pytest.Config) -> None:
        self._verdicts = config.stash[_VERDICTS]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._verdicts += [str(value) for name, value in report.user_properties if name == _VERDICT]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the processes of the check, and set the session's exit status according to the verdicts."""
    config = session.config
    guard = config.stash.get(_GUARD, None)
    configs = config.stash.get(_CONFIGS, None)
    for one in (guard, configs):
        if one is not None:
            one.close()
    verdicts = config.stash[_VERDICTS]
    if verdicts and not hasattr(config, "workerinput") and exitstatus == pytest.ExitCode.OK:
        from autosched.regression.report import EntryStatus, status_of

        session.exitstatus = int(status_of([EntryStatus(verdict) for verdict in verdicts]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the number of each verdict."""
    verdicts = config.stash[_VERDICTS]
    if verdicts:
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        terminalreporter.write_line(f"autosched: {counts}")


@pytest.fixture(scope="session")
def tuned_kernel(pytestconfig: pytest.Config) -> Callable[[Problem], Any]:
    """Return a function that looks up and loads the kernel of a problem. The database must have exactly this problem.

    ``kernel = tuned_kernel(problem)``, then ``out = kernel(a, b)``.

    On a machine with a GPU ``autosched.Database`` loads the kernel. On other machines the same kernel runs in the
    emulator, on numpy arrays, so that tests of a user's program need no GPU. The option --autosched-db or the setting
    autosched_db names the database. If the database does not have the problem, the test fails.
    """
    database = pytestconfig.getoption("autosched_db") or pytestconfig.getini("autosched_db")
    if not database:
        raise pytest.UsageError(
            "the fixture tuned_kernel needs --autosched-db, or autosched_db in the settings of pytest"
        )
    location = pytestconfig.rootpath / database if "://" not in database else database

    def tuned_kernel(problem: Problem) -> Any:
        from autosched.dispatch.database import Database, NoSchedule
        from autosched.regression.emulated import EmulatedKernel
        from measurements.runners.cuda.runner import cuda_available

        store = Database(location)
        try:
            if cuda_available()[0]:
                return store.kernel(problem, exact=True)
            kernel = store.look_up(problem, exact=True).kernel
            if kernel is None:
                pytest.skip("the vendor's library is the fastest for this problem, and it needs a GPU")
            return EmulatedKernel(kernel)
        except NoSchedule as error:
            pytest.fail(str(error), pytrace=False)

    return tuned_kernel


def _shown(database: str) -> str:
    from measurements.files.text import without_password

    return without_password(database)


def _share(text: str) -> float:
    number = str(text).strip()
    return float(number[:-1]) / 100 if number.endswith("%") else float(number)
