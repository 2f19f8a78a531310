"""Worker process that runs NVRTC, which may hang, crash or be killed. It imports little, so that it starts fast."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from types import ModuleType

from measurements.compiler import nvrtc
from measurements.workers.messages import Message
from measurements.workers.worker import serve
from search_spaces.launches.headers import Headers

_decoded = lru_cache(maxsize=8)(Headers.decode)


def handle(request: Message) -> Message:
    """Compile the functions ``entry`` and ``then`` of ``source`` for ``arch`` with ``options``.

    ``headers`` is the name of the blob with the headers; ``cubin`` in the reply is the name of the blob with the cubin,
    or null on failure. A request with ``ptx`` compiles ``text`` to PTX in ``folder``. A request with only ``version``
    returns the compiler's ``toolchain``.
    """
    if "version" in request:
        return Message({"toolchain": nvrtc.loaded_version()})
    headers = _decoded(bytes(request.blobs[request["headers"]]))
    if request.get("ptx"):
        return _ptx(request, headers)
    output = _compiler(request).compile_source(
        request["source"], request["entry"], request["arch"], headers, request["options"], request.get("then", ())
    )
    answer = Message({"cubin": None, "entry": output.entry, "log": output.log, "seconds": output.seconds})
    answer["then"] = list(output.then)
    if output.cubin is not None:
        answer["cubin"] = answer.attach(output.cubin)
    return answer


def _compiler(request: Message) -> ModuleType:
    if nvrtc.NVCC not in request["options"]:
        return nvrtc
    # a late import, because nvcc.py imports process management, which NVRTC does not need
    from measurements.compiler import nvcc

    return nvcc


def _ptx(request: Message, headers: Headers) -> Message:
    with suppress(OSError):  # if the folder was deleted, only relative includes fail
        os.chdir(request["folder"])
    output = _compiler(request).compile_to_ptx(
        request["source"], request["entry"], request["arch"], headers, request["options"], request.get("then", ())
    )
    answer = Message({"text": None, "entry": output.entry, "log": output.log, "seconds": output.seconds})
    if output.text is not None:
        answer["text"] = answer.attach(output.text.encode())
    return answer


if __name__ == "__main__":
    serve(handle)
