"""Files of processes that were killed during a compile or launch are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from measurements.files.cache_folder import put
from measurements.files.work_folders import build_folder, note_compiler, remove_abandoned

CHILD = """
import os, signal, subprocess, sys
from pathlib import Path
sys.path[:0] = sys.argv[2].split(os.pathsep)
from measurements.files.work_folders import build_folder, note_compiler
with build_folder(Path(sys.argv[1])) as folder:
    compiler = subprocess.Popen(["sleep", "600"], process_group=0, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    note_compiler(folder, compiler.pid)
    print(compiler.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


LAUNCHER = """
import os, signal, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from measurements.files.work_folders import temporary_folder
with temporary_folder() as folder:
    (folder / "data").write_bytes(bytes(1000))
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


OF_A_PROCESS = """
import os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from measurements.files.work_folders import process_folder
folder = process_folder("test")
assert process_folder("test") == folder
(folder / "data").write_bytes(bytes(1000))
if os.fork() == 0:
    assert process_folder("test") != folder
    sys.exit(0)
os.wait()
assert (folder / "data").exists(), "the child has removed it"
assert len(os.listdir(folder.parent)) == 1, "the child has left its own"
"""


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_next_process_removes_the_folder_and_compiler_of_a_killed_one(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), os.pathsep.join(p for p in sys.path if p)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    compiler = int(child.stdout)
    try:
        assert child.returncode == -signal.SIGKILL and len(os.listdir(tmp_path)) == 1 and not ended(compiler)
        with build_folder(tmp_path) as own_folder:
            assert os.listdir(tmp_path) == [own_folder.name]
        deadline = time.monotonic() + 30
        while not ended(compiler) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ended(compiler)
    finally:
        if not ended(compiler):
            os.kill(compiler, signal.SIGKILL)
    assert os.listdir(tmp_path) == []


def test_the_arrays_of_a_killed_launch_are_removed_by_the_next_process(tmp_path: Path) -> None:
    def launch(end: str) -> int:
        command = [sys.executable, "-c", LAUNCHER, os.pathsep.join(p for p in sys.path if p), end]
        return subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False).returncode

    assert launch("killed") == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert (left / "data").stat().st_size == 1000
    assert launch("well") == 0
    assert os.listdir(tmp_path) == []


def test_folders_with_content_and_without_a_lock_are_kept(tmp_path: Path) -> None:
    filled, empty, cut = (tmp_path / f"build-{name}" for name in ("kept", "empty", "cut"))
    for folder in (filled, empty, cut):
        folder.mkdir()
    (filled / "results").touch()
    (cut / "lock.new").touch()
    new = tmp_path / "build-new"
    for folder in (filled, empty, cut):
        os.utime(folder, (0, 0))
    new.mkdir()
    remove_abandoned(tmp_path, "build-")
    assert {*tmp_path.iterdir()} == {filled, new} and (filled / "results").exists()


def test_a_folder_of_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "build-theirs"
    folder.mkdir()
    (folder / "lock").touch()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    remove_abandoned(tmp_path, "build-")
    assert (folder / "lock").exists()


def test_a_folder_in_use_stays(tmp_path: Path) -> None:
    with build_folder(tmp_path) as first, build_folder(tmp_path) as second:
        remove_abandoned(tmp_path, "build-")
        assert {first.name, second.name} == set(os.listdir(tmp_path))


def test_a_process_that_reuses_the_compilers_pid_is_not_killed(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"], process_group=0)
    try:
        folder = tmp_path / "build-left"
        folder.mkdir()
        (folder / "lock").touch()
        note_compiler(folder, other.pid)
        (noted,) = folder.glob("group-*")
        noted.write_text(str(int(noted.read_text()) - 1))
        remove_abandoned(tmp_path, "build-")
        assert not folder.exists() and other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_link_out_of_the_cache_is_not_followed(tmp_path: Path) -> None:
    outside, cache = tmp_path / "outside", tmp_path / "cache"
    outside.mkdir()
    cache.mkdir()
    (outside / "lock").touch()
    (cache / "build-link").symlink_to(outside)
    remove_abandoned(cache, "build-")
    assert (outside / "lock").exists()


def test_a_folder_in_place_of_a_cached_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    (tmp_path / "entry.json").mkdir()
    with pytest.raises(OSError, match=r"entry.json is a folder, but the cache needs a file") as caught:
        put(tmp_path / "new", tmp_path / "entry.json")
    assert caught.value.errno is None


def test_a_folder_of_a_process_ends_with_it_and_not_with_its_copy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OF_A_PROCESS, os.pathsep.join(p for p in sys.path if p)]
    assert subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False).returncode == 0
    assert os.listdir(tmp_path) == []
