"""Run recorded launches of the emulator's tests on a GPU, and compare the results byte by byte.

    pytest tests/measurements/emulator --keep-launches FOLDER
    python -m benchmarks.gpu.launches FOLDER --out OUT --minutes 5

The first command needs no GPU. The second command assembles each launch with ptxas, or with the driver if there is no
ptxas. It then makes the launch in one of several processes, which are restarted after a fault or a hang. The row of a
launch is appended to OUT/results.jsonl as soon as the launch is done. Launches that already have a row for this GPU are
not repeated. OUT/table.txt is the summary. ``--assemble sm_90a`` assembles all launches in advance on any machine, and
stores the machine code in FOLDER.

The exit status is 0 for success, and 2 for bad usage. It is 1 if no GPU can be used, if a launch faulted, hung or could
not be read, or if the run was interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.gpu.launches.device import MODULE, Refused, cubin_path, machine_code, ptxas
from benchmarks.gpu.launches.kept import header, names
from benchmarks.gpu.launches.table import FAULTS, table
from measurements.files.atomic_write import publish
from measurements.runners.cuda.runner import cuda_available
from measurements.workers.messages import Message
from measurements.workers.transport import WorkerClosed, WorkerDied, WorkerFailed, WorkerTimeout
from measurements.workers.worker import Worker

REQUEST_SECONDS = 180.0  # time limit of a request: assembling, and two launches
Row = dict[str, Any]


def read_rows(path: Path, gpu: str) -> list[Row]:
    """Return the rows of ``gpu`` in a file of results, except a line that was truncated when the process was killed."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["gpu"] == gpu:
            rows.append(row)
    return rows


def run(
    folder: Path,
    names: Sequence[str],
    on_row: Callable[[Row], None],
    *,
    seconds: float = math.inf,
    workers: int = 4,
    module: str = MODULE,
    python_path: Sequence[str] = (),
) -> None:
    """Run the launches ``names`` in ``folder``. The launches of one module run consecutively in one process.

    Args:
        folder: Folder of kept launches.
        names: Names of the launches.
        on_row: Called with each row, from one thread at a time.
        seconds: Time after which no further launch starts.
        workers: Number of processes.
        module: Module that the processes run.
        python_path: Folders that are added to ``sys.path`` of the processes.
    """
    headers = {name: header(folder, name) for name in names}
    by_module = sorted(names, key=lambda name: (headers[name][1], name))
    groups: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    for _, group in groupby(by_module, key=lambda name: headers[name][1]):
        groups.put(list(group))
    deadline, telling = time.monotonic() + seconds, threading.Lock()

    def work(worker: Worker) -> None:
        while True:
            try:
                group = groups.get_nowait()
            except queue.Empty:
                return
            for name in group:
                if time.monotonic() > deadline:
                    return
                try:
                    answer = _launched(worker, folder, name)
                except WorkerClosed:
                    return
                with telling:
                    on_row({"launch": name, "test": headers[name][0], **answer})

    with ExitStack() as stack:
        processes = [stack.enter_context(Worker(module, python_path=python_path)) for _ in range(workers)]
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        try:
            for done in [threads.submit(work, process) for process in processes]:
                done.result()
        except BaseException:
            for process in processes:
                process.close()
            raise


def _launched(worker: Worker, folder: Path, name: str) -> Mapping[str, Any]:
    """Return the result of a launch, and a process that can run the next launch."""
    try:
        answer = worker.request({"folder": str(folder), "name": name}, REQUEST_SECONDS)
    except WorkerTimeout as error:
        return {"status": "hang", "reason": str(error)}
    except WorkerDied as error:
        return {"status": "fault", "reason": str(error)}
    except WorkerFailed as error:
        answer = Message({"status": "error", "reason": str(error)})
    if answer["status"] in FAULTS:
        worker.stop()
    return answer


def assemble(folder: Path, launch_names: Sequence[str], arch: str, workers: int) -> str:
    """Assemble all modules, write the machine code to ``folder``, and print the number of modules."""

    def one(ptx: str) -> bool:
        path = cubin_path(folder, ptx, arch)
        try:
            code = machine_code(folder, (folder / "ptx" / f"{ptx}.ptx").read_text(encoding="utf-8"), arch)
        except Refused:  # skip this module; the run on the GPU reports the reason
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, code)
        return True

    modules = sorted({header(folder, name)[1] for name in launch_names})
    with ThreadPoolExecutor(workers) as threads:
        done = sum(threads.map(one, modules))
    return f"assembled {done} of {len(modules)} modules for {arch}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.launches", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder written by `pytest --keep-launches`")
    parser.add_argument("--out", type=Path, help="folder for the results, created if missing")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time limit (default: none)")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="processes (default 4)")
    parser.add_argument("--assemble", metavar="ARCH", help="only assemble, for example for sm_90a: needs no GPU")
    options = parser.parse_args(arguments)
    if (options.out is None) == (options.assemble is None):
        parser.error("--out OUT or --assemble ARCH is required")
    if not options.minutes > 0:
        parser.error(f"--minutes must be positive, not {options.minutes}")
    if options.workers < 1:
        parser.error(f"--workers must be at least 1, not {options.workers}")
    launch_names = names(options.folder)
    if not launch_names:
        parser.error(f"{options.folder} has no launches: pytest tests/measurements/emulator --keep-launches FOLDER")
    if options.assemble is not None:
        if ptxas() is None:
            parser.error("--assemble needs ptxas: pip install nvidia-cuda-nvcc")
        print(assemble(options.folder, launch_names, options.assemble, options.workers))
        return 0
    answers, message = cuda_available()
    if not answers:
        print(f"benchmarks.gpu.launches: no GPU can be used: {message}", file=sys.stderr)
        return 1
    gpu = message.removesuffix(" answers")
    results = options.out / "results.jsonl"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        file = results.open("a", encoding="utf-8")
    except OSError as error:
        parser.error(f"--out {options.out} cannot be written ({error.strerror})")
    with file:
        rows = [row for row in read_rows(results, gpu) if row["launch"] in set(launch_names)]
        known = {row["launch"] for row in rows}
        if file.tell() and not results.read_bytes().endswith(b"\n"):  # the last line is incomplete
            file.write("\n")

        def on_row(row: Row) -> None:
            rows.append({"gpu": gpu, **row})
            file.write(f"{json.dumps(rows[-1])}\n")
            file.flush()

        interrupted = False
        try:
            missing = [name for name in launch_names if name not in known]
            run(options.folder.absolute(), missing, on_row, seconds=options.minutes * 60, workers=options.workers)
        except KeyboardInterrupt:
            interrupted = True
            print("benchmarks.gpu.launches: interrupted; results so far are stored", file=sys.stderr)
        except (OSError, KeyError, ValueError) as error:
            print(f"benchmarks.gpu.launches: {options.folder} cannot be read ({error!r})", file=sys.stderr)
            return 1
    (options.out / "table.txt").write_text(f"{gpu}\n{table(rows)}\n", encoding="utf-8")
    print(gpu, table(rows, all_tests=False), sep="\n")
    if len(rows) < len(launch_names):
        print(f"not run for lack of time: {len(launch_names) - len(rows)} of {len(launch_names)} launches")
    return 1 if interrupted or any(row["status"] in FAULTS for row in rows) else 0
