"""The worker process that runs NVRTC: little else is imported. It may hang, crash or be killed."""

from __future__ import annotations

from functools import lru_cache

from measurements.messages import Message
from measurements.nvrtc import compile_source
from measurements.worker import serve
from search_spaces.templates.headers import Headers

_decoded = lru_cache(maxsize=8)(Headers.decode)


def handle(request: Message) -> Message:
    """Compile ``source`` for ``arch`` with ``options``; ``headers`` names a blob, ``cubin`` in the answer another.

    ``cubin`` is null on failure.
    """
    headers = _decoded(bytes(request.blobs[request["headers"]]))
    output = compile_source(request["source"], request["entry"], request["arch"], headers, request["options"])
    answer = Message({"cubin": None, "entry": output.entry, "log": output.log, "seconds": output.seconds})
    if output.cubin is not None:
        answer["cubin"] = answer.attach(output.cubin)
    return answer


if __name__ == "__main__":
    serve(handle)
