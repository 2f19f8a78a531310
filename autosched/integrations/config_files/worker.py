"""Worker process that compiles and verifies configurations, so that a crash of the compiler only ends this process."""

from __future__ import annotations

import warnings
from functools import lru_cache

from autosched.integrations.config_files.file_names import parse_file_name
from autosched.integrations.config_files.installed import kernel_for
from autosched.integrations.config_files.layer import Layer
from measurements.workers.messages import Message
from measurements.workers.worker import serve
from search_spaces.hardware.devices import device

_origin = lru_cache(maxsize=8)(kernel_for)


def handle(request: Message) -> Message:
    """Answer a request with the outcome of a configuration and the kernel's origin, or with an estimate.

    The request has ``format``, ``name`` (of a file), ``config``, ``device`` and ``verify``. A request with ``layer``
    and ``rows`` instead of ``name`` and ``verify`` asks for an estimate. The answer then has estimated ``seconds``, or
    None with a reason.
    """
    import triton

    if "version" in request:
        return Message({"triton": triton.__version__})
    from autosched.integrations.config_files.verify_config import verify_config

    if "layer" in request:
        return _counted(request)
    name = parse_file_name(request["name"])
    outcome = verify_config(
        request["format"], name, request["config"], device(request["device"]), verify=request["verify"]
    )
    origin = _origin(request["format"], name.is_moe).origin
    return Message({**outcome.to_json(), "kernel": origin, "triton": triton.__version__})


def _counted(request: Message) -> Message:
    from autosched.integrations.config_files.tuning.derived_counts import NotCounted, derived_seconds

    block = request["layer"].pop("block_shape")
    layer = Layer(**request["layer"], block_shape=(block[0], block[1]) if block else None)
    try:
        seconds = derived_seconds(
            request["format"], layer, request["rows"], request["config"], device(request["device"])
        )
    except NotCounted as error:
        return Message({"seconds": None, "reason": str(error)})
    return Message({"seconds": seconds, "reason": ""})


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # hide warnings of compilers
    serve(handle)
