"""Ctrl-C and SIGTERM at the worst moments."""

import subprocess
import sys

ROUNDS = 200
# The thread is woken, and sends the signal, while the main thread is about to wait: of 300 such signals, 20 were
# handled only when the wait ended.
SENT_BEFORE_A_WAIT = f"""
import os, signal, threading
from concurrent.futures import Future
from autosched.cli.terminal import interrupts

for _ in range({ROUNDS}):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interrupts.take()
    result, go = Future(), threading.Event()
    thread = threading.Thread(target=lambda: (go.wait(), os.kill(os.getpid(), signal.SIGTERM)))
    thread.start()
    ended = threading.Timer(10.0, lambda: print("waited", flush=True) or os._exit(1))
    ended.start()
    try:
        with interrupts.raised():
            go.set()
            result.result()
    except KeyboardInterrupt:
        ended.cancel()
    thread.join()
print("stopped each time")
"""


def test_a_signal_just_before_a_wait_ends_the_wait() -> None:
    done = subprocess.run([sys.executable, "-c", SENT_BEFORE_A_WAIT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "stopped each time\n"), done.stderr
