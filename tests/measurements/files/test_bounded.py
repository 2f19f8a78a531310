"""When a pipe is read as a file, the reader waits while the pipe has a writer, up to a time limit."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from measurements.files import bounded
from measurements.files.bounded import read_bounded


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_pipe_without_a_writer_is_not_waited_for(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "NO_WRITER_SECONDS", 0.01)
    monkeypatch.setattr(bounded, "WAIT_SECONDS", 1e6)  # no test waits that long
    with pytest.raises(TimeoutError):
        read_bounded(pipe, 100)


def test_a_writer_may_take_its_time(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "NO_WRITER_SECONDS", 0.01)
    writer = os.open(pipe, os.O_RDWR)

    def write() -> None:
        os.write(writer, b"late")
        os.close(writer)

    timer = threading.Timer(0.2, write)
    timer.start()
    try:
        assert read_bounded(pipe, 100) == b"late"
    finally:
        timer.join()


def test_reading_a_pipe_without_data_times_out(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "NO_WRITER_SECONDS", 0.01)
    monkeypatch.setattr(bounded, "WAIT_SECONDS", 0.05)
    writer = os.open(pipe, os.O_RDWR)
    try:
        with pytest.raises(TimeoutError):
            read_bounded(pipe, 100)
    finally:
        os.close(writer)
