"""The manifest of an export, as JSON (docs/reference/manifest.md)."""

from __future__ import annotations

import dataclasses
from typing import Any

from autosched.aot.exported import ExportedKernel, driver_name, fields
from autosched.aot.portable import PortableLaunch, PortableStep
from autosched.verify import stored
from search_spaces.launches.launch import Argument, BytesArgument, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.launches.texture import LinearTexture


def manifest_entry(kernel: ExportedKernel) -> dict[str, Any]:
    """Return the manifest entry of one kernel."""
    launch, expressions = kernel.launch, kernel.portable
    sizes, texts = {}, {}
    for name, value, otherwise in fields(kernel.problem):
        if type(value) is int:
            sizes[name] = {
                "value": value,
                "default": otherwise if type(otherwise) is int else None,
                "free": name in expressions.free,
                "padded": name in kernel.padded,
            }
        else:
            texts[name] = {"value": str(value), "default": None if otherwise is None else str(otherwise)}
    return {
        "operator": kernel.problem.operator,
        "problem": kernel.text,
        "sizes": sizes,
        "texts": texts,
        "device": {
            "name": kernel.device.name,
            "driver_name": driver_name(kernel.device),
            "arch": kernel.device.arch,
        },
        "entry": launch.entry,
        "cubin": f"cubins/{kernel.digest}.cubin",
        "sha256": kernel.digest,
        "ptx": None if kernel.ptx is None else f"ptx/{kernel.digest}.ptx",
        "launch": {
            **_shape(expressions.steps[0]),
            "launches": launch.launches,
            "grid_may_shrink": launch.grid_may_shrink,
        },
        "then": [
            {
                "entry": step.entry,
                "launch": _shape(texts_of),
                "arguments": [_argument(a, expressions) for a in step.arguments],
            }
            for step, texts_of in zip(launch.then, expressions.steps[1:], strict=True)
        ],
        "guards": [{"holds": text, "reason": why} for text, why in expressions.guards],
        "operands": [
            {
                **{"name": o.name, "role": o.role, "dtype": o.dtype.name, "shape": list(shape), "zeroed": o.zeroed},
                **({"constant": True} if o in launch.symbols else {}),
            }
            for o, shape in zip(launch.operands, expressions.shapes, strict=True)
        ],
        "arguments": [_argument(a, expressions) for a in launch.arguments],
        "verification": _verification(kernel.verification),
        "provenance": kernel.provenance.to_json(),
        "seconds": kernel.seconds,
    }


def _shape(step: PortableStep) -> dict[str, Any]:
    sizes = {"grid": list(step.grid), "block": list(step.block), "cluster": list(step.cluster)}
    return {**sizes, "dynamic_shared_bytes": step.dynamic_shared_bytes}


def _argument(argument: Argument, expressions: PortableLaunch) -> dict[str, Any]:
    match argument:
        case Operand():
            return {"kind": "array", "operand": argument.name}
        case ScalarArgument():
            value = expressions.scalars[argument.name]
            ends = {} if argument.limits is None else {"limits": [str(end) for end in argument.limits]}
            return {"kind": "scalar", "name": argument.name, "dtype": argument.dtype.name, "value": value, **ends}
        case BytesArgument():
            raise ValueError(f"{argument.name} is a struct, which exports do not support")
        case LinearTexture():
            raise ValueError(f"{argument.name} is a texture, which exports do not support")
        case TensorMap():
            recipe = {f.name: getattr(argument, f.name) for f in dataclasses.fields(argument) if f.name != "operand"}
            return {"kind": "tensor_map", **recipe, "operand": argument.operand.name}


def _verification(verification: str | None) -> dict[str, Any] | None:
    if verification is None:
        return None
    summary, document = stored.summary(verification), stored.document(verification)
    return {"depth": stored.brief(verification), "summary": summary, "document": document}
