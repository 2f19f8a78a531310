"""The first build of the runner resumes after an interruption and reports progress. Two processes may build at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_compiler import install_fake_compiler

from measurements.emulator import HostFailure
from measurements.emulator.host import build
from measurements.emulator.host.parts import parts_of
from measurements.emulator.host.seal import intact

PARTS = {"one/a.cpp": "", "one/b.cpp": '#include "shared.hpp"\n', "two/c.cpp": "", "three/d.cpp": "", "main.cpp": ""}


class Site:
    """A folder with a cache, a runtime of a few files and a fake compiler. Test processes build this runtime."""

    def __init__(self, folder: Path) -> None:
        self.runtime, self.log, self.cache = folder / "runtime", folder / "log", folder / "cache"
        for file, text in {**PARTS, "shared.hpp": "", "standard.hpp": ""}.items():
            (self.runtime / file).parent.mkdir(parents=True, exist_ok=True)
            (self.runtime / file).write_text(text)
        self.compiler = install_fake_compiler(folder / "bin")
        self.environment = {
            **os.environ,
            "PATH": f"{self.compiler.parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AUTOSCHED_CACHE_DIR": str(self.cache),
            "LOG": str(self.log),
        }

    def start(self) -> subprocess.Popen[str]:
        code = (
            "from pathlib import Path; from measurements.emulator.host import build; "
            f"build.RUNTIME = Path({str(self.runtime)!r}); print(build.runner())"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def compiled(self) -> list[str]:
        return sorted(self.log.read_text().split()) if self.log.exists() else []

    def object_files(self) -> list[Path]:
        return sorted((self.cache / "emulator").glob("*.o"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_folder_is_a_part_and_includes_its_headers(site: Site) -> None:
    parts = parts_of(site.runtime)
    assert {part.name: part.files for part in parts} == {
        "one": ("one/a.cpp", "one/b.cpp"),
        "main": ("main.cpp",),
        "three": ("three/d.cpp",),
        "two": ("two/c.cpp",),
    }
    assert parts[0].text == '#include "one/a.cpp"\n#include "one/b.cpp"\n'
    before = {part.name: part.contents(site.runtime) for part in parts}
    (site.runtime / "shared.hpp").write_text("int changed;")
    assert [part.name for part in parts if part.contents(site.runtime) != before[part.name]] == ["one"]


def test_every_file_of_the_runtime_is_in_one_part() -> None:
    files = [file for part in parts_of(build.RUNTIME) for file in part.files]
    assert sorted(files) == sorted(p.relative_to(build.RUNTIME).as_posix() for p in build.RUNTIME.rglob("*.cpp"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_resumes(site: Site, how: signal.Signals) -> None:
    slow = Path(f"{site.log}.slow")
    slow.touch()
    process = site.start()
    while len(site.object_files()) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode != 0
    objects = site.object_files()
    assert len(objects) == 2 and all(intact(path) for path in objects)
    slow.unlink()
    site.log = site.log.with_name("log of the next")  # compilers of the killed process may still write to the first log
    site.environment["LOG"] = str(site.log)
    again = site.start()
    path, reported = again.communicate(timeout=60)
    assert again.returncode == 0, reported
    assert Path(path.strip()).exists()
    assert len(site.compiled()) == 4 - len(objects), "finished parts are not compiled again"
    assert [p.name for p in (site.cache / "emulator").iterdir() if p.name.startswith("build-")] == []


def test_two_processes_do_the_work_once(site: Site) -> None:
    first, second = site.start(), site.start()
    outputs = [process.communicate(timeout=120) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), outputs
    assert outputs[0][0] == outputs[1][0]
    assert site.compiled() == ["main.o", "one.o", "three.o", "two.o"]


def test_a_waiting_process_takes_over_from_a_killed_one(site: Site) -> None:
    slow = Path(f"{site.log}.slow")
    slow.touch()
    first = site.start()
    while len(site.object_files()) < 2:
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    second = site.start()
    assert second.stderr is not None
    assert "of 4 files" in second.stderr.readline(), "the second build must report that it waits"
    slow.unlink()
    first.kill()
    first.communicate(timeout=60)
    assert second.wait(60) == 0
    second.communicate()
    assert all(intact(path) for path in site.object_files()) and len(site.object_files()) == 4


def test_progress_goes_to_stderr_and_only_while_something_is_compiled(site: Site) -> None:
    for lines in (2, 0):
        process = site.start()
        answer, reported = process.communicate(timeout=60)
        assert process.returncode == 0 and len(answer.splitlines()) == 1
        assert (len(reported.splitlines()) >= lines) if lines else reported == ""
        assert "\r" not in reported and "\x1b" not in reported


def test_a_compile_error_of_a_part_ends_the_build_and_keeps_other_parts(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, text = site.compiler, site.compiler.read_text()
    refuses = 'case "$output" in */three.o) sleep 0.5; echo "three.cpp:1: error: no" >&2; exit 1 ;; esac\n'
    compiler.write_text(text.replace('if [ "$compiles"', refuses + 'if [ "$compiles"'))
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(build, "RUNTIME", site.runtime)
    with pytest.raises(HostFailure, match="three"):
        build.runner()
    compiler.write_text(text)
    site.log.unlink()
    assert build.runner().exists()
    assert "three.o" in site.compiled() and "one.o" not in site.compiled()


def test_a_damaged_object_is_compiled_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(build, "RUNTIME", site.runtime)
    build.runner().unlink()
    damaged = site.object_files()[0]
    damaged.write_bytes(b"?" + damaged.read_bytes()[1:])
    site.log.unlink()
    build.runner()
    assert [name.removesuffix(".o") for name in site.compiled()] == [damaged.name.rpartition("-")[0]]
    assert intact(damaged)
