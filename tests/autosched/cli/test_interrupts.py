"""Ctrl-C and SIGTERM are handled at once, even if the signal arrives just before the main thread waits."""

import subprocess
import sys

ROUNDS = 200
# A second thread sends the signal while the main thread is about to wait. Python handled 20 of 300 such signals only
# after the wait.
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
    completed = subprocess.run([sys.executable, "-c", SENT_BEFORE_A_WAIT], capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout) == (0, "stopped each time\n"), completed.stderr
