"""Worker process that runs Triton's compiler, which may hang, crash or be killed.

Triton writes its output to its own cache, which the tuning process reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from autosched.triton.arguments import tensor_of
from autosched.triton.driver import activated
from autosched.triton.tuning.function import TritonFunction
from autosched.triton.tuning.loading import FunctionNotLoaded, load_as_imported
from measurements.trials.measurement import Status
from measurements.workers.messages import Message
from measurements.workers.worker import serve
from search_spaces.hardware.devices import device

_ALIGNED = 16  # bytes; Triton compiles a specialised version for pointers with this alignment


class NotPortable(ValueError):
    """An argument or function that cannot be passed to another process."""


def import_location(function: TritonFunction) -> tuple[str, str]:
    """Return the file and the name from which another process can import a function. Raises NotPortable."""
    fn = function.jit.fn
    if fn.__module__ == "__main__" or not fn.__qualname__.isidentifier():
        raise NotPortable(f"{fn.__qualname__} of {fn.__module__} cannot be imported by another process")
    file = fn.__code__.co_filename
    if not Path(file).is_file():
        raise NotPortable(f"{file}: no such file")
    return file, fn.__name__


def portable(value: Any) -> Any:
    """Return an argument as JSON: for a tensor, only the properties that affect compilation. Raises NotPortable."""
    if isinstance(value, bool | int | float | str) or value is None:
        return {"value": value}
    if isinstance(value, tuple | list):
        return {"tuple": [portable(each) for each in value]}
    if isinstance(value, torch.dtype):
        return {"torch": str(value).removeprefix("torch.")}
    if hasattr(value, "block_shape") and hasattr(value, "base"):
        fields = ("shape", "strides", "block_shape")
        return {"descriptor": {f: [int(n) for n in getattr(value, f)] for f in fields}, "base": portable(value.base)}
    tensor = tensor_of(value)
    if tensor is None or not isinstance(value, torch.Tensor):
        raise NotPortable(f"a {type(value).__name__} cannot be passed to another process")
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": dtype, "aligned": tensor.data_ptr() % _ALIGNED == 0}


def _argument(data: Mapping[str, Any]) -> Any:
    if "value" in data:
        return data["value"]
    if "tuple" in data:
        return tuple(_argument(each) for each in data["tuple"])
    if "torch" in data:
        return getattr(torch, data["torch"])
    if "descriptor" in data:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(_argument(data["base"]), **data["descriptor"])
    dtype = getattr(torch, data["dtype"])
    aligned = torch.empty(_ALIGNED + 1, dtype=dtype)
    return aligned if data["aligned"] else aligned[1:]


def handle(request: Message) -> Message:
    """Compile ``function`` of ``file`` for ``device`` with ``arguments``.

    If Triton raises an exception, the result has ``status`` and ``reason``.
    """
    from autosched.triton.tuning.compiling.candidate import Capture, refusal_of

    row = device(request["device"])
    try:
        kernel = load_as_imported(
            request["module"], request["file"], request["function"], request["path"], "the kernel's module"
        )
    except FunctionNotLoaded as error:
        return Message({"status": Status.COMPILE_ERROR.value, "reason": str(error)})
    function = TritonFunction.of(getattr(kernel, "fn", kernel) if hasattr(kernel, "tuning") else kernel)
    if function.digest != request["digest"]:
        return Message({"unknown": True})
    arguments = {name: _argument(value) for name, value in request["arguments"].items()}
    with activated(Capture(row, [])):
        try:
            function.jit.run(grid=(1,), warmup=True, **arguments)
        except Exception as error:
            refused = refusal_of(error, row)
            return Message({"status": refused.status.value, "reason": refused.reason})
    return Message({})


if __name__ == "__main__":
    serve(handle)
