"""A process forked by ``forked_python`` behaves like a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each process is a new interpreter")


@pytest.mark.parametrize(
    "code",
    [
        "import atexit, os, sys; atexit.register(print, 'end'); print(sys.argv, sys.path[0], __name__, os.getcwd())",
        "import os, sys; print(sorted(os.environ), sys.stdin.read(), os.listdir('/proc/self/fd'))",
        "import signal; print(*map(signal.getsignal, (2, 15, 1, 17, 13)))",
        "import sys; print('text'); print('more', file=sys.stderr); sys.exit(7)",
        "import sys; sys.exit('a sentence')",
        "def f(x: 1): pass\nprint(f.__annotations__)",
        "import os; print('lost'); os._exit(3)",
        "import os; os.kill(os.getpid(), 11)",
        "import threading; threading.Timer(0.1, print, ['after']).start()",
        "import os, sys; print(os.fork() > 0, flush=True); sys.exit(5)",
        "import os; os.close(1); os.open('/dev/full', 1); print('full')",
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_fork_ends_like_a_new_interpreter(code: str, unbuffered: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-c", code, "argument"]
    forked, new = (
        start(command, cwd=tmp_path, env=environment, input="in", capture_output=True, text=True)
        for start in (forked_python.run, subprocess.run)
    )
    assert (sorted(forked.stdout), forked.returncode) == (sorted(new.stdout), new.returncode)
    assert forked.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:] or forked.returncode == 120


@pytest.mark.parametrize("code", ["1 / 0", "raise KeyboardInterrupt"])
def test_an_exception_is_reported_at_the_end(code: str) -> None:
    forked, new = (
        start([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        for start in (forked_python.run, subprocess.run)
    )
    assert forked.returncode == new.returncode
    assert forked.stderr.splitlines()[-1] == new.stderr.splitlines()[-1]


def test_scripts_and_modules_are_main(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print(__name__, __file__, sys.argv, sys.path[0])")
    for command in (["script.py", "x"], [str(tmp_path / "script.py")], ["-m", "script", "x", "y"]):
        forked, new = (
            start([sys.executable, *command], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
            for start in (forked_python.run, subprocess.run)
        )
        assert forked.stdout == new.stdout


def test_modules_are_found_in_the_folders_of_the_variable(tmp_path: Path) -> None:
    (tmp_path / "of_variable.py").write_text("print('imported')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = forked_python.run(
        [sys.executable, "-c", "import of_variable"], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("imported\n", "")


def test_a_fork_is_signalled_awaited_and_killed() -> None:
    command = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
    with forked_python.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM == process.poll()
    before = forked_python.cpu_seconds
    with pytest.raises(subprocess.TimeoutExpired):
        forked_python.run(command, stdout=subprocess.PIPE, timeout=0.01)
    assert forked_python.cpu_seconds > before


def test_options_that_a_fork_cannot_apply_start_a_new_interpreter() -> None:
    code = "import sys; print('scipy' in sys.modules, sys.flags.hash_randomization, sys.warnoptions)"
    for options, variables in (([], {"PYTHONHASHSEED": "0"}), (["-W", "error"], {})):
        command = [sys.executable, *options, "-c", code]
        environment = {**os.environ, **variables}
        forked, new = (
            start(command, env=environment, capture_output=True, text=True)
            for start in (forked_python.run, subprocess.run)
        )
        assert forked.stdout == new.stdout and forked.stdout.startswith("False")
