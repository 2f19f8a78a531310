"""The worker process that runs NVRTC: little else is imported. It may hang, crash or be killed."""

from __future__ import annotations

import base64
from typing import Any

from measurements.nvrtc import compile_source
from measurements.worker import serve
from search_spaces.templates.headers import Headers


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Compile ``source`` for ``arch`` with ``options`` and ``headers``; ``cubin`` is base64, null on failure."""
    headers = Headers.of(request["headers"])
    output = compile_source(request["source"], request["entry"], request["arch"], headers, request["options"])
    cubin = None if output.cubin is None else base64.b64encode(output.cubin).decode("ascii")
    return {"cubin": cubin, "entry": output.entry, "log": output.log, "seconds": output.seconds}


if __name__ == "__main__":
    serve(handle)
