"""If the torch extension cannot be built, operators run in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

from autosched.torch import extension, host_path  # noqa: E402
from autosched.torch.extension import NotBuilt  # noqa: E402
from measurements.emulator.host.compiler import HostCompilerMissing  # noqa: E402


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_older_torch(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu130")
    with pytest.raises(NotBuilt, match=r"2\.9\.1.*2\.10"):
        extension.extension()


def test_no_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise HostCompilerMissing("neither g++ nor clang++ is on the PATH")

    monkeypatch.setattr(extension, "host_compiler", missing)
    with pytest.raises(NotBuilt, match=r"g\+\+"):
        extension.extension()


@needs_compiler
def test_a_compiler_that_fails(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "host_path.cpp").write_text("#error this torch lacks a header\n")
    monkeypatch.setattr(extension, "_SOURCES", tmp_path)
    extension._digest.cache_clear()
    try:
        with pytest.raises(NotBuilt, match="lacks a header"):
            extension.extension()
    finally:
        extension._digest.cache_clear()
    assert not list(cache.rglob("*.so"))


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(NotBuilt):
        extension.extension()


def test_why_operators_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = host_path.launch_table.__wrapped__
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "without CUDA" in decide()
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(host_path, "missing_driver", lambda: "no driver")
    assert decide() == "no driver"
    monkeypatch.setattr(host_path, "missing_driver", lambda: "")

    def not_built() -> Any:
        raise NotBuilt("no compiler")

    monkeypatch.setattr(host_path, "extension", not_built)
    assert decide() == "no compiler"
    monkeypatch.setenv(host_path.VARIABLE, host_path.PYTHON)
    assert host_path.VARIABLE in decide()


@needs_compiler
def test_libraries_without_the_functions(tmp_path: Path) -> None:
    path = extension.extension()
    with pytest.raises(host_path.HostLaunchTableUnavailable, match="cannot be loaded"):
        host_path.HostLaunchTable(path, str(tmp_path / "missing.so"), "libc.so.6")
    with pytest.raises(host_path.HostLaunchTableUnavailable, match="is missing"):
        host_path.HostLaunchTable(path, "libc.so.6", "libc.so.6")
    with pytest.raises(host_path.HostLaunchTableUnavailable, match="does not load"):
        host_path.HostLaunchTable(tmp_path / "missing.so")


def test_an_unregistered_operator_runs_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def register(self, *_: Any) -> None:
            raise host_path.HostLaunchTableUnavailable("too many")

    events: list[tuple[str, str]] = []

    class Library:
        def impl(self, name: str, function: Any, key: str) -> None:
            events.append((name, key))

    for table in (Refusing(), "no driver"):
        monkeypatch.setattr(host_path, "launch_table", lambda table=table: table)
        host_path.implement(Library(), "f", "(Tensor x) -> Tensor", len, len)
    assert events == [("f", "CUDA")] * 2
