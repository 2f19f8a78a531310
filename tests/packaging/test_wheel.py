"""The wheel contains everything that is needed outside of the repository, and builds are reproducible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fake_compiler import install_fake_compiler
from needs import needs_compiler
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("autosched", "cost_models", "measurements", "search_spaces")
PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry numbers(.param .u64 o) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [o];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
"""
SKIPPED = shutil.ignore_patterns("__pycache__", "*.egg-info")


def built(folder: Path, umask: int = 0o022, **variables: str) -> Path:
    """Return the path of a wheel built by ``built_wheel``, without the build's output."""
    return built_wheel(folder, umask, **variables)[0]


def built_wheel(folder: Path, umask: int = 0o022, **variables: str) -> tuple[Path, str]:
    """Build a wheel from a copy of the repository, because setuptools writes to the source folder.

    As pip does, request the wheel's metadata before the build.

    Args:
        folder: Folder of the copy and the wheel.
        umask: Umask of the copy and of the build.
        variables: Environment variables.

    Returns:
        The wheel, and the build's stderr.
    """
    source = folder / "source"
    for name in PACKAGES:
        shutil.copytree(REPOSITORY / name, source / name, ignore=SKIPPED)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(REPOSITORY / name, source / name)
    for path in source.rglob("*"):
        if path.is_file():
            path.chmod(0o666 & ~umask)
    script = (
        "import sys; from setuptools import build_meta; folder = sys.argv[1]; "
        "metadata = build_meta.prepare_metadata_for_build_wheel(folder); "
        "print(build_meta.build_wheel(folder, metadata_directory=f'{folder}/{metadata}'))"
    )
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **variables}
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        umask=umask,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1], done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(REPOSITORY).as_posix()
        for name in PACKAGES
        for path in (REPOSITORY / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".md")
    }
    assert expected - held == set()


def test_the_wheel_works_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    installed, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    zipfile.ZipFile(wheel).extractall(installed)
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(installed), "AUTOSCHED_CACHE_DIR": str(tmp_path / "cache")}

    def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", *arguments], cwd=elsewhere, env=environment, capture_output=True, text=True
        )

    where = run_python("-c", "import autosched, measurements; print(autosched.__file__, measurements.__file__)")
    assert all(path.startswith(str(installed)) for path in where.stdout.split())
    doctor = run_python("-m", "autosched", "doctor")
    assert doctor.returncode in (0, 1) and "autosched" in doctor.stdout and "Traceback" not in doctor.stderr
    problem = ("softmax", "--rows", "4", "--columns", "64", "--device", "h200")
    tuned = run_python("-m", "autosched", "tune", *problem, "--db", "a.db", "--trials", "1", "--no-verify")
    assert tuned.returncode == 0, tuned.stderr
    report = run_python("-m", "autosched", "report", "--db", "a.db", "--out", "report.html")
    assert report.returncode == 0, report.stderr
    assert "softmax" in (elsewhere / "report.html").read_text()


def test_the_same_files_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert built(tmp_path, 0o077).read_bytes() == wheel.read_bytes(), "the umask must not change the wheel"


@needs_compiler
def test_a_wheel_with_the_runner_emulates_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("wheel", reason="comes with the extra `dev`")
    completed = subprocess.run(
        [sys.executable, REPOSITORY / ".ci" / "wheel", tmp_path, "--of", wheel], capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr
    (platform_wheel,) = tmp_path.glob("*.whl")
    assert completed.stdout.split() == [str(platform_wheel)] and "-py3-none-manylinux2014_" in platform_wheel.name
    assert any(tag in set(sys_tags()) for tag in parse_wheel_filename(platform_wheel.name)[3]), (
        "pip must accept the wheel's tags on this machine"
    )
    installed = tmp_path / "site"
    zipfile.ZipFile(platform_wheel).extractall(installed)
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(PTX)
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "AUTOSCHED_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "autosched", "verify", str(ptx), "-a", "out u32[32]", "--block", "32"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("works", [True, False])
def test_building_the_wheel_compiles_the_emulator_if_possible(works: bool, tmp_path: Path) -> None:
    compiler = install_fake_compiler(tmp_path / "bin")
    if not works:
        compiler.write_text("#!/bin/sh\nexit 1\n")
    cache = tmp_path / "cache"
    _, progress = built_wheel(
        tmp_path,
        PATH=f"{compiler.parent}:{os.environ['PATH']}",
        AUTOSCHED_CACHE_DIR=str(cache),
        LOG=str(tmp_path / "log"),
    )
    assert len(list(cache.glob("emulator/runner-*"))) == works
    assert ("Compiling the emulator" in progress) == works  # pip advances its spinner at each output line
    assert ("HostFailure" in progress and "Traceback" not in progress) == (not works)


def test_an_editable_installation_compiles_the_emulator(tmp_path: Path) -> None:
    """The library compiled by the installation is found later, because it is identified by its sources."""
    compiler = install_fake_compiler(tmp_path / "bin")
    environment = {
        **os.environ,
        "PATH": f"{compiler.parent}:{os.environ['PATH']}",
        "AUTOSCHED_CACHE_DIR": str(tmp_path / "cache"),
        "LOG": str(tmp_path / "log"),
    }
    built(tmp_path, **environment)
    script = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path)]
    subprocess.run(command, cwd=tmp_path / "source", env=environment, check=True, capture_output=True)
    code = "from measurements.emulator.host.build import runner; print(runner())"
    environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *sys.path])
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert completed.stderr == "" and [completed.stdout.strip()] == [
        str(p) for p in tmp_path.glob("cache/emulator/runner-*")
    ]
