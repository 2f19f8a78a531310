"""Fake compile worker: after AUTOSCHED_TEST_COMPILE seconds it returns a kernel's source as the cubin."""

import os
import re
import time

from measurements.workers.messages import Message
from measurements.workers.worker import serve

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = float(os.environ.get("AUTOSCHED_TEST_COMPILE", "0"))


def handle(request):
    """Return the answer to a request."""
    time.sleep(SECONDS)
    log = ""
    for entry in dict.fromkeys([*re.findall(r"__global__ void (\w+)\(", request["source"]), request["entry"]]):
        log += (
            f"ptxas info    : Compiling entry function '{entry}' for 'sm_90a'\n"
            f"ptxas info    : Function properties for {entry}\n"
            "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
            "ptxas info    : Used 8 registers, used 0 barriers\n"
        )
    answer = Message({"entry": request["entry"], "log": log, "seconds": 0.001})
    answer["cubin"] = answer.attach(request["source"].encode())
    return answer


if __name__ == "__main__":
    serve(handle)
