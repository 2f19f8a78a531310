"""On a broken machine, commands print one line with the remedy and leave no files behind."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import forked_python
import pytest
from cases import representative
from needs import needs_compiler, needs_nvrtc

SMALL = ("copy", "--rows", "64", "--columns", "64")  # a small space, which is counted quickly
TUNE = ("tune", *SMALL, "--db", "b.db", "--trials", "2", "--backend", "estimate", "--device", "h200", "--workers", "1")
VERIFY = ("verify", *SMALL, "--sample", "1", "--device", "h200")

FAILS = "#!/bin/sh\nexit 1\n"
COMPILES_NOTHING = '#!/bin/sh\ncase "$1" in --version|-dumpmachine) echo g++ 13 ;; esac\n'


@dataclass
class Machine:
    """An empty home folder and a working folder."""

    home: Path
    here: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """Run a command and return (status, stdout, stderr)."""
        completed = forked_python.run(
            [sys.executable, "-m", "autosched", *arguments],
            cwd=cwd or self.here,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith(("AUTOSCHED_", "XDG_", "CUPY_", "MPL"))},
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                "HOME": str(self.home),
                **self.environment,
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        return completed.returncode, completed.stdout, completed.stderr

    def refuses(self, *arguments: str) -> str:
        """Return the one-line error of a command that fails, and check that it leaves no files."""
        status, out, err = self.run(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("autosched: ")
        assert list(self.here.iterdir()) == []
        return err

    def compiler(self, script: str) -> None:
        folder = self.home.parent / "bin"
        folder.mkdir()
        (folder / "g++").write_text(script)
        (folder / "g++").chmod(0o755)
        self.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    new_machine = Machine(tmp_path / "home", tmp_path / "here")
    new_machine.home.mkdir()
    new_machine.here.mkdir()
    return new_machine


@pytest.mark.parametrize("script", [FAILS, COMPILES_NOTHING, "#!/no/such/interpreter\n"])
def test_a_broken_compiler(machine: Machine, script: str) -> None:
    machine.compiler(script)
    assert "bin/g++" in machine.refuses(*VERIFY)
    status, out, err = machine.run("doctor", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    (part,) = [p for p in document["parts"] if p["name"] == "host compiler"]
    assert part["version"] is None and "bin/g++" in part["note"]
    assert not {a["name"]: a["runs"] for a in document["abilities"]}["verify"]
    assert list(machine.home.iterdir()) == []


@needs_nvrtc
def test_a_broken_compiler_stops_a_tune_before_its_trials(machine: Machine) -> None:
    machine.compiler(COMPILES_NOTHING)
    assert "--no-verify" in machine.refuses(*TUNE)
    assert list(machine.home.iterdir()) == []
    assert machine.run(*TUNE, "--no-verify")[0] == 0


@needs_nvrtc
@needs_compiler
def test_a_compiler_that_breaks_on_the_emulator_stops_a_tune_before_its_trials(machine: Machine) -> None:
    real = shutil.which("g++")
    machine.compiler(
        f'#!/bin/sh\ncase "$*" in --version|-dumpmachine|*/autosched-work-emulator-*/probe) exec {real} "$@" ;; esac\n'
        "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1\n"
    )
    status, out, err = machine.run(*TUNE)
    *compiling, message = err.splitlines()
    assert (status, out) == (2, "") and all(line.startswith("Compiling the emulator") for line in compiling)
    assert message.startswith("autosched: ") and "Killed signal" in message and "--no-verify" in message
    assert list(machine.here.iterdir()) == []


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("blocked", representative(["", "emulator", "cubin"], "emulator", "cubin"))
def test_a_cache_that_cannot_be_written_leaves_no_database(machine: Machine, blocked: str) -> None:
    cache = machine.home / "cache"
    cache.mkdir()
    machine.environment["AUTOSCHED_CACHE_DIR"] = str(cache / "file" if not blocked else cache)
    (cache / (blocked or "file")).write_text("in the way")
    assert "set AUTOSCHED_CACHE_DIR" in machine.refuses(*TUNE)
    assert [p.name for p in cache.iterdir()] == [blocked or "file"]
    status, out, err = machine.run("doctor", "--json")
    assert (status, err) == (0, "")
    assert "cannot be written" in json.loads(out)["cache"]["problem"]


@pytest.mark.parametrize("name", ["x" * 300, "y/" * 3000], ids=["name", "path"])
def test_a_cache_with_too_long_a_name(machine: Machine, name: str) -> None:
    machine.environment["AUTOSCHED_CACHE_DIR"] = str(machine.home / name)
    assert "File name too long" in machine.refuses(*VERIFY)
    status, out, err = machine.run("doctor")
    assert (status, err) == (0, "") and "File name too long" in " ".join(out.split())


def test_queries_create_no_files_in_the_home_folder(machine: Machine) -> None:
    assert machine.run("doctor")[0] == 0
    assert "the folder does not exist" in machine.refuses("space", *SMALL, "--picture", "gone/a.svg")
    assert list(machine.home.iterdir()) == []


def test_doctor_reports_available_recordings(machine: Machine) -> None:
    document = json.loads(machine.run("doctor", "--json")[1])
    (replay,) = [a for a in document["abilities"] if a["name"] == "tune --backend replay"]
    assert ("measured earlier on" if replay["runs"] else "measurements.trials.recording FILE") in replay["note"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse to delete a folder that is in use")
def test_a_deleted_folder(machine: Machine) -> None:
    code = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "from autosched.cli import main; sys.exit(main(['best', 'matmul', '--db', 'b.db']))"
    )
    completed = forked_python.run(
        [sys.executable, "-c", code],
        cwd=machine.here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
    )
    line = "autosched: the current folder has been deleted: change to another one\n"
    assert (completed.returncode, completed.stdout, completed.stderr) == (2, "", line)
