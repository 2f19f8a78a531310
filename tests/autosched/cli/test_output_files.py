"""Output files are written completely or not at all, and an error names the file."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.cli.terminal.output_files import write_output


@pytest.fixture
def file_limit() -> Iterator[int]:
    """Limit the size of files, so that writes fail as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    yield 100
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


def test_a_file_that_does_not_fit_keeps_its_contents(tmp_path: Path, file_limit: int) -> None:
    file = tmp_path / "junit.xml"
    write_output(file, b"old")
    with pytest.raises(OSError) as caught:
        write_output(file, bytes(2 * file_limit))
    assert caught.value.filename == str(file)
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_output(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_full_device_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k() {}')
    assert main(["verify", str(source), option, "/dev/full"]) == 2
    assert "/dev/full" in capsys.readouterr().err
