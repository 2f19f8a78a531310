"""A worker is ended at its limit of CPU time or memory, and replaced. Waiting does not count as CPU time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from measurements.workers.resource_watch import WorkerLimitExceeded, request_within
from measurements.workers.worker import Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched in /proc")

MODULE = """
import os, time
from measurements.workers.worker import serve

def handle(request):
    if request["does"] == "sleep":
        time.sleep(request["seconds"])
    elif request["does"] == "spin with a name of bytes":
        with open("/proc/self/comm", "wb") as name:
            name.write(bytes([0xFF]))
        while True:
            pass
    elif request["does"] == "spin":
        while True:
            pass
    elif request["does"] == "spin in a child":
        if os.fork() == 0:
            while True:
                pass
        time.sleep(request["seconds"])
    elif request["does"] == "grow":
        blocks = [bytearray(b"x") * (1 << 20) for _ in range(1 << 12)]
    return {"done": True}

serve(handle)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    (tmp_path / "limited_worker.py").write_text(MODULE)
    with Worker("limited_worker", python_path=[str(tmp_path)]) as limited:
        yield limited


def test_waiting_does_not_count_as_cpu_time(worker: Worker) -> None:
    assert request_within(worker, {"does": "sleep", "seconds": 1.0}, seconds=0.5) == {"done": True}


@pytest.mark.parametrize(
    ("does", "seconds", "memory", "limit"),
    [
        ("spin", 0.2, float("inf"), "time"),
        ("spin in a child", 0.5, float("inf"), "time"),
        ("grow", 60.0, 1 << 28, "memory"),
        ("sleep", 0.1, float("inf"), "wall clock"),
    ],
)
def test_a_worker_is_ended_at_its_limit_and_replaced(
    does: str, seconds: float, memory: float, limit: str, worker: Worker
) -> None:
    with pytest.raises(WorkerLimitExceeded) as exceeded:
        request_within(worker, {"does": does, "seconds": 60.0}, seconds=seconds, memory=memory)
    assert exceeded.value.limit == limit
    assert request_within(worker, {"does": "nothing"}, seconds=5.0) == {"done": True}


def test_a_process_whose_name_is_not_text_is_watched(worker: Worker) -> None:
    with pytest.raises(WorkerLimitExceeded) as exceeded:
        request_within(worker, {"does": "spin with a name of bytes"}, seconds=0.2)
    assert exceeded.value.limit == "time"
