"""The contract of a transport to a worker, tested with a child process and pipes, and the format of messages."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import measurements.workers.channel
from measurements.workers.messages import BlobStore, Message, MessageDecoder, checked, digest_of, frame
from measurements.workers.transport import WorkerClosed, WorkerDied, WorkerFailed, WorkerTimeout
from measurements.workers.worker import Worker

MODULE = r"""
import ctypes, os, time
from contextlib import suppress
from measurements.workers.messages import Message
from measurements.workers.worker import serve

known = []

def handle(request):
    action = request["action"]
    if action == "echo":
        return {"back": request["text"]}
    if action == "turn":
        answer = Message()
        answer["turned"] = [answer.attach(bytes(request.blobs[d])[::-1]) for d in request["digests"]]
        return answer
    if action == "count":
        known.append(1)
        return {"calls": len(known)}
    if action == "hang":
        with open(request["file"], "w") as file:
            file.write(str(os.getpid()))
        time.sleep(1000)
    if action == "segfault":
        ctypes.string_at(0)
    if action == "garbage":
        for fd in range(3, 64):
            with suppress(OSError):
                os.write(fd, b'{"id": 1, "blobs": [["short", 3]]}\n')
        time.sleep(1000)
    if action == "half":
        for fd in range(3, 64):
            with suppress(OSError):
                os.write(fd, b'{"id": 1, "resu')
        os._exit(3)
    if action == "raise":
        raise ValueError("not this")

if __name__ == "__main__":
    serve(handle, store_bytes=1000)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lent_worker.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def worker(folder):
    with Worker("lent_worker", python_path=[str(folder)]) as w:
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


def reversed_blobs(worker, *contents):
    """Send blobs to a worker, and return the reversed blobs with which it answers."""
    blobs = {digest_of(content): content for content in contents}
    answer = worker.request({"action": "turn", "digests": list(blobs)}, 60, blobs)
    return [bytes(answer.blobs[digest]) for digest in answer["turned"]]


class TestTransport:
    def test_answers_come_back_in_order_from_one_worker(self, worker):
        for i in range(20):
            assert worker.request({"action": "echo", "text": f"näive {i}\n"}, 10) == {"back": f"näive {i}\n"}
        assert worker.starts == 1
        assert alive(worker.pid)

    def test_blobs_go_both_ways(self, worker):
        assert reversed_blobs(worker, b"abc", b"", memoryview(b"12345")) == [b"cba", b"", b"54321"]

    def test_a_large_blob_is_transferred(self, worker):
        content = os.urandom(1 << 20) * 64
        assert reversed_blobs(worker, content) == [content[::-1]]

    def test_a_blob_is_sent_once_and_again_if_evicted(self, worker, monkeypatch):
        sent = []

        def note(header, blobs):
            sent.extend(len(content) for content in blobs.values())
            return frame(header, blobs)

        monkeypatch.setattr(measurements.workers.channel, "frame", note)
        large, small, other = b"l" * 600, b"s" * 100, b"o" * 700
        reversed_blobs(worker, large, small)
        # Number of transports between this process and the worker: 1 (a pipe), or 2 (a connection and a pipe).
        hops = len(sent) // 2
        assert sent == [600, 100] * hops
        del sent[:]
        reversed_blobs(worker, small, large)
        assert sent == []
        reversed_blobs(worker, other)  # the worker stores 1000 bytes and evicts other blobs
        assert sent == [700] * hops
        del sent[:]
        assert reversed_blobs(worker, large) == [large]
        assert 600 in sent and worker.starts == 1
        worker.stop()
        del sent[:]
        reversed_blobs(worker, large)
        assert 600 in sent, "a new worker has no blobs"

    def test_bytes_of_another_digest_are_rejected(self, worker):
        wrong = digest_of(b"these")
        with pytest.raises(WorkerFailed, match="does not match its digest"):
            worker.request({"action": "turn", "digests": [wrong]}, 10, {wrong: b"those"})
        assert reversed_blobs(worker, b"these") == [b"eseht"]
        assert worker.starts == 1

    def test_an_exception_is_an_answer_and_the_worker_stays(self, worker):
        with pytest.raises(WorkerFailed, match="ValueError: not this"):
            worker.request({"action": "raise"}, 10)
        assert worker.request({"action": "count"}, 10) == {"calls": 1}
        assert worker.request({"action": "count"}, 10) == {"calls": 2}

    def test_a_death_is_reported_and_the_next_request_starts_a_new_worker(self, worker):
        worker.request({"action": "count"}, 10)
        with pytest.raises(WorkerDied, match="was killed by SIGSEGV") as caught:
            worker.request({"action": "segfault"}, 10)
        assert caught.value.returncode == -signal.SIGSEGV
        assert worker.pid is None
        assert worker.request({"action": "count"}, 10) == {"calls": 1}
        assert worker.starts == 2

    def test_a_worker_killed_while_it_works_has_died(self, worker, folder):
        file = folder / "pid"

        def kill():
            wait_until(lambda: file.exists() and file.read_text())
            os.kill(int(file.read_text()), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(WorkerDied, match="SIGKILL"):
            worker.request({"action": "hang", "file": str(file)}, 60)
        killer.join()
        assert worker.request({"action": "count"}, 10) == {"calls": 1}

    def test_a_worker_killed_while_idle_is_replaced_with_a_message(self, worker):
        worker.request({"action": "count"}, 10)
        pid = worker.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid))
        try:
            answer = worker.request({"action": "count"}, 10)
        except WorkerDied:
            answer = worker.request({"action": "count"}, 10)
        assert answer == {"calls": 1}
        assert worker.starts == 2

    def test_an_overrun_kills_the_worker(self, worker, folder):
        worker.start()
        with pytest.raises(WorkerTimeout, match=r"no reply within 0\.5 s"):
            worker.request({"action": "hang", "file": str(folder / "pid")}, 0.5)
        wait_until(lambda: not alive(int((folder / "pid").read_text())))
        assert worker.request({"action": "count"}, 10) == {"calls": 1}
        assert worker.starts == 2

    @pytest.mark.parametrize("action", ["garbage", "half"])
    def test_an_invalid_response_ends_the_worker(self, worker, action):
        with pytest.raises(WorkerDied, match="malformed" if action == "garbage" else "ended with exit status 3"):
            worker.request({"action": action}, 10)
        assert worker.request({"action": "echo", "text": 1}, 10) == {"back": 1}

    @pytest.mark.parametrize(("end", "error"), [("kill", WorkerDied), ("close", WorkerClosed)])
    def test_the_end_of_a_request_may_come_from_another_thread(self, worker, folder, end, error):
        file = folder / "pid"

        def finish():
            wait_until(lambda: file.exists() and file.read_text())
            getattr(worker, end)()

        other = threading.Thread(target=finish)
        other.start()
        with pytest.raises(error):
            worker.request({"action": "hang", "file": str(file)}, 60)
        other.join()
        wait_until(lambda: not alive(int(file.read_text())))
        if end == "close":
            with pytest.raises(WorkerClosed):
                worker.request({"action": "count"}, 10)
        else:
            assert worker.request({"action": "count"}, 10) == {"calls": 1}

    def test_stop_ends_the_worker_and_the_next_request_starts_another(self, worker):
        worker.start()
        pid = worker.pid
        worker.stop()
        worker.stop()
        wait_until(lambda: not alive(pid))
        assert worker.request({"action": "count"}, 10) == {"calls": 1}


CONTENTS = st.lists(st.binary(max_size=50), max_size=4, unique=True)
HEADERS = st.dictionaries(st.sampled_from(["id", "payload", "needs"]), st.text(max_size=10) | st.integers())


@given(st.lists(st.tuples(HEADERS, CONTENTS), max_size=4), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_messages_arrive_complete_for_any_split_of_bytes(messages, cuts):
    stream = b"".join(
        bytes(piece)
        for header, contents in messages
        for piece in frame(header, {digest_of(content): content for content in contents})
    )
    unframer, arrived, at, iteration = MessageDecoder(), [], 0, 0
    while at < len(stream):
        step = cuts[iteration % len(cuts)]
        unframer.feed(stream[at : at + step])
        at, iteration = at + step, iteration + 1
        while (message := unframer.next()) is not None:
            arrived.append((dict(checked(message)), list(message.blobs.values())))
    assert arrived == messages


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\x00",
        b"[1]",
        b'{"blobs": 5}',
        b'{"blobs": [5]}',
        b'{"blobs": [["00", 1]]}',
        b'{"blobs": [["' + b"0" * 64 + b'", -1]]}',
        b'{"blobs": [["' + b"0" * 64 + b'", true]]}',
        b'{"blobs": [["' + b"0" * 64 + b'", 1e3]]}',
        b'{"blobs": [["' + b"0" * 64 + b'", 99999999999999]]}',
        b'{"blobs": [[5, 5]]}',
    ],
)
def test_invalid_messages_are_rejected(line):
    unframer = MessageDecoder()
    unframer.feed(line + b"\n")
    with pytest.raises(ValueError, match=r"not a JSON object|malformed|announced blobs"):
        unframer.next()


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True), max_size=20))
def test_a_store_keeps_the_most_recently_used_blobs(requests):
    contents = [bytes([i]) * 100 for i in range(10)]
    names = [digest_of(content) for content in contents]
    store, recent = BlobStore(350), []
    for requested in requests:
        missing = store.missing([names[i] for i in requested])
        assert missing == [names[i] for i in requested if i not in recent[-3:]]
        store.add(Message({}, {name: contents[names.index(name)] for name in missing}))
        assert store.take([names[i] for i in requested]) == {names[i]: contents[i] for i in requested}
        recent = [i for i in recent if i not in requested] + requested
    with pytest.raises(ValueError, match="does not match its digest"):
        store.add(Message({}, {names[0]: b"else"}))
