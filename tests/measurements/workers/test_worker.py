"""Workers are real processes that hang, crash, exhaust memory, flood stdout or send wrong answers. None remains."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import measurements.workers.worker
from measurements.workers.worker import Worker, WorkerClosed, WorkerDied, WorkerFailed, WorkerTimeout

ROOT = str(Path(measurements.workers.worker.__file__).resolve().parents[2])

PLAIN = r"""
import ctypes, os, signal, subprocess, sys, time
from measurements.workers.worker import serve

print("printed while importing")

def handle(request):
    action = request["action"]
    if action == "echo":
        return {"back": request["text"]}
    if action == "print":
        print("a line on standard output")
        os.write(1, b"and one below Python\n")
        subprocess.run(["echo", "and one of a child"], check=True)
        return {"read": sys.stdin.read()}
    if action == "hang":
        child = subprocess.Popen(["sleep", "1000"])
        open(request["file"], "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(1000)
    if action == "work in a folder":
        from measurements.files.work_folders import process_folder, temporary_folder
        with temporary_folder("test") as folder:
            (folder / "data").write_bytes(bytes(1000))
            (process_folder("test") / "data").write_bytes(bytes(1000))
            open(request["file"], "w").write("working")
            if request["ends"]:
                os._exit(3)
            time.sleep(1000)
    if action == "segfault":
        ctypes.string_at(0)
    if action == "abort":
        os.abort()
    if action == "exit":
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(3)
    if action == "raise":
        raise ValueError("not this")
    if action == "hoard":
        return {"length": len(bytearray(1 << 40))}
    if action == "set":
        return {"set": {1, 2}}
    if action == "list":
        return [1]
    if action == "leave a child":
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(3)
    if action == "paint":
        sys.stderr.write("\x1b]0;title\x07 red \x00\n")
        sys.stderr.flush()
        os._exit(3)
    if action == "flood":
        sys.stderr.write("noise " * 1_000_000)
        return {}

serve(handle)
"""


@pytest.fixture
def worker(tmp_path):
    (tmp_path / "plain_worker.py").write_text(PLAIN)
    with Worker("plain_worker", python_path=[str(tmp_path)]) as w:
        yield w


def alive(pid: int) -> bool:
    """Return True if a process is alive. A zombie that init has not collected yet counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.01)


def test_answers_come_back_in_order_from_one_process(worker):
    for i in range(50):
        assert worker.request({"action": "echo", "text": i}, 10) == {"back": i}
    assert worker.starts == 1


def test_a_document_larger_than_every_pipe_goes_both_ways(worker):
    text = "näive\n" * 500_000
    assert worker.request({"action": "echo", "text": text}, 30) == {"back": text}


def test_prints_of_python_libraries_and_children_do_not_reach_the_protocol(worker):
    assert worker.request({"action": "print"}, 10) == {"read": ""}
    assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}


def test_a_flood_on_standard_error_blocks_no_process(worker):
    assert worker.request({"action": "flood"}, 10) == {}


def test_an_overrun_kills_the_whole_process_group_and_the_next_request_restarts(worker, tmp_path):
    worker.start()
    with pytest.raises(WorkerTimeout, match=r"no reply within 0\.5 s"):
        worker.request({"action": "hang", "file": str(tmp_path / "pids")}, 0.5)
    pids = [int(p) for p in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(alive, pids)))
    assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}
    assert worker.starts == 2


@pytest.mark.parametrize(
    ("action", "returncode", "text"),
    [
        ("segfault", -signal.SIGSEGV, "was killed by SIGSEGV"),
        ("abort", -signal.SIGABRT, "was killed by SIGABRT"),
        ("exit", 3, "ended with exit status 3: last words"),
    ],
)
def test_a_death_tells_how_and_the_next_request_restarts(worker, action, returncode, text):
    with pytest.raises(WorkerDied, match=text) as caught:
        worker.request({"action": action}, 10)
    assert caught.value.returncode == returncode
    assert worker.pid is None
    assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}


def test_a_death_is_noticed_while_a_child_of_the_child_keeps_the_pipes(worker):
    with pytest.raises(WorkerDied, match="ended with exit status 3"):
        worker.request({"action": "leave a child"}, 60)


def test_control_characters_of_a_dying_process_are_escaped(worker):
    with pytest.raises(WorkerDied) as caught:
        worker.request({"action": "paint"}, 10)
    assert str(caught.value).endswith(r": \x1b]0;title\x07 red \x00")


@pytest.mark.parametrize(("action", "text"), [("raise", "ValueError: not this"), ("set", "TypeError")])
def test_an_exception_is_an_answer_and_the_process_stays(worker, action, text):
    worker.start()
    pid = worker.pid
    with pytest.raises(WorkerFailed, match=text):
        worker.request({"action": action}, 10)
    assert worker.pid == pid
    assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}


def test_an_answer_other_than_an_object_ends_the_process(worker):
    with pytest.raises(WorkerDied, match="not a JSON object"):
        worker.request({"action": "list"}, 10)
    assert worker.pid is None


def test_memory_beyond_the_limit_is_rejected(tmp_path):
    (tmp_path / "plain_worker.py").write_text(PLAIN)
    with Worker("plain_worker", python_path=[str(tmp_path)], memory_limit=4 << 30) as worker:
        with pytest.raises(WorkerFailed, match="MemoryError"):
            worker.request({"action": "hoard"}, 10)
        assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("raise ImportError('no such library')", WorkerDied, "exit status 1: ImportError: no such library"),
        ("import time; time.sleep(1000)", WorkerTimeout, "did not start within 1 s"),
        ("import os; os.write(OUT, b'\\xff\\x00 garbage\\n')", WorkerDied, "not a JSON object"),
        ("import os; os.write(OUT, b'{\"hello\": 1}\\n')", WorkerDied, "invalid first line"),
        ("import os, time; os.close(OUT); time.sleep(1000)", WorkerDied, "closed its output but did not exit"),
    ],
)
def test_a_child_that_does_not_greet_as_it_should_is_ended(tmp_path, source, error, text):
    find = "import os\nOUT = max(int(f) for f in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{f}'))\n"
    (tmp_path / "rude_worker.py").write_text(find + source)
    with Worker("rude_worker", python_path=[str(tmp_path)], start_timeout=1.0) as worker:
        with pytest.raises(error, match=text):
            worker.request({}, 10)
        assert worker.pid is None


def test_an_answer_to_another_question_ends_the_process(tmp_path):
    (tmp_path / "wrong_worker.py").write_text(
        "import os, sys\n"
        "out = max(int(f) for f in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{f}'))\n"
        "os.write(out, b'{\"ready\": true}\\n')\n"
        'os.write(out, b\'{"id": 77, "result": {}}\\n\')\n'
        "import time; time.sleep(1000)\n"
    )
    with (
        Worker("wrong_worker", python_path=[str(tmp_path)]) as worker,
        pytest.raises(WorkerDied, match="replied to another request"),
    ):
        worker.request({}, 10)


def test_a_child_that_died_while_idle_is_replaced(worker):
    worker.start()
    os.kill(worker.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}
    assert worker.starts == 2


def test_close_from_another_thread_ends_a_request(worker, tmp_path):
    worker.start()
    timer = threading.Timer(0.2, worker.close)
    timer.start()
    with pytest.raises(WorkerClosed):  # closing raises WorkerClosed, not WorkerTimeout
        worker.request({"action": "hang", "file": str(tmp_path / "pids")}, 60)
    timer.join()
    with pytest.raises(WorkerClosed):
        worker.request({"action": "echo", "text": 1}, 10)


def test_kill_from_another_thread_is_a_death(worker, tmp_path):
    worker.start()
    timer = threading.Timer(0.2, worker.kill)
    timer.start()
    with pytest.raises(WorkerDied, match="SIGKILL"):
        worker.request({"action": "hang", "file": str(tmp_path / "pids")}, 60)
    timer.join()


def test_close_leaves_neither_process_nor_zombie(worker):
    worker.start()
    pid = worker.pid
    worker.close()
    worker.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("busy", [False, True])
def test_the_child_ends_when_its_parent_is_killed(tmp_path, busy):
    (tmp_path / "plain_worker.py").write_text(PLAIN)
    pids = tmp_path / "pids"
    request = {"action": "hang", "file": str(pids)} if busy else {"action": "echo", "text": 1}
    program = (
        "import sys, time\n"
        f"sys.path.insert(0, {ROOT!r})\n"
        "from measurements.workers.worker import Worker\n"
        f"w = Worker('plain_worker', python_path=[{str(tmp_path)!r}])\n"
        "w.start()\n"
        "print(w.pid, flush=True)\n"
        f"w.request({request!r}, 1000)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        children = [int(parent.stdout.readline())]
        if busy:
            wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
            children = [int(p) for p in pids.read_text().split()]
        assert all(map(alive, children))
        parent.kill()
    wait_until(lambda: not any(map(alive, children)))


def test_the_compiler_process_imports_no_heavy_module():
    program = "import sys, measurements.compiler.nvrtc_worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "cupy", "xgboost", "optuna", "sqlalchemy", "rich", "typer"}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return the folder of temporary files of this process and its workers."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize("ends", [False, True])
def test_folders_of_a_killed_worker_are_removed_by_its_parent(worker, tmp_path, temporary, ends):
    request = {"action": "work in a folder", "file": str(tmp_path / "working"), "ends": ends}
    with pytest.raises(WorkerDied if ends else WorkerTimeout):
        worker.request(request, 30.0 if ends else 2.0)
    assert (tmp_path / "working").exists()
    assert not list(temporary.iterdir())


ORPHAN = """
import os, signal, sys, threading
sys.path[:0] = sys.argv[1].split(os.pathsep)
from measurements.workers.worker import Worker
worker = Worker("plain_worker", python_path=[sys.argv[2]])
request = {"action": "work in a folder", "file": sys.argv[3], "ends": False}
threading.Thread(target=lambda: worker.request(request, 60.0), daemon=True).start()
while not os.path.exists(sys.argv[3]):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("worker")
def test_a_worker_removes_its_folders_if_its_parent_is_killed(tmp_path, temporary):
    path = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-c", ORPHAN, path, str(tmp_path), str(tmp_path / "working")]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not list(temporary.iterdir())
