"""The worker process that runs NVRTC. It imports nothing but the bindings, and may hang, crash or be killed."""

from __future__ import annotations

import base64
from typing import Any

from measurements.nvrtc import compile_source
from measurements.worker import serve


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Compile ``source`` for ``arch`` with ``options`` and ``include_dirs``; ``cubin`` is base64, null on failure."""
    output = compile_source(request["source"], request["arch"], request["include_dirs"], request["options"])
    cubin = None if output.cubin is None else base64.b64encode(output.cubin).decode("ascii")
    return {"cubin": cubin, "log": output.log, "seconds": output.seconds}


if __name__ == "__main__":
    serve(handle)
