"""A wait for a future ends on Ctrl-C even if the signal does not interrupt the wait itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import CancelledError, Future

import pytest

from measurements.interruptible import result_of


def test_results_and_exceptions_pass_through() -> None:
    done: Future[int] = Future()
    done.set_result(3)
    assert result_of(done) == 3
    failed: Future[int] = Future()
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        result_of(failed)
    cancelled: Future[int] = Future()
    cancelled.cancel()
    with pytest.raises(CancelledError):
        result_of(cancelled)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs pthread_sigmask")
def test_a_signal_that_another_thread_receives_ends_the_wait() -> None:
    never: Future[int] = Future()
    begun = threading.Event()

    def send() -> None:
        begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Both threads start before the mask is set, because threads inherit it.
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    late = threading.Timer(20, never.set_result, (0,))  # ends the wait if the signal is missed
    late.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the kernel then delivers it to another thread
            begun.set()
            result_of(never)
        assert not never.done(), "the signal was handled only when the wait ended"
        sender.join()
    finally:
        late.cancel()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
