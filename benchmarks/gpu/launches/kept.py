"""A folder of recorded launches. ``pytest --keep-launches FOLDER`` writes it, possibly with several processes.

``launches/NAME.json`` is a launch, ``ptx/DIGEST.ptx`` a module, and ``arrays/DIGEST.z`` the zlib-compressed bytes of an
array. Digests are SHA-256 of the contents. NAME is the digest of a launch and its results, so equal launches are stored
once, with the id of the first test.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from measurements.files.atomic_write import publish
from measurements.workers.messages import digest_of
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import Launch, ScalarArgument, argument_json, launch_from_json
from search_spaces.launches.operand import Operand

MOST_EXPECTED = 64 << 10  # maximum bytes of a stored output; for larger outputs, only the digest is stored
READ = ("input", "inout")  # roles of arrays whose contents before the launch are stored
WRITTEN = ("output", "inout")  # roles of arrays whose contents after the launch are stored


@dataclass(frozen=True, eq=False)
class KeptLaunch:
    """A launch without findings in the emulator.

    Args:
        test: Id of the test that emulated the launch.
        text: PTX with the function ``launch.entry``.
        launch: The launch.
        inputs: Array of each operand or symbol that the launch reads, by name.
        expected: Digest of each output's bytes after the launch.
        known: The outputs with at most ``MOST_EXPECTED`` bytes.
        offsets: For each argument position, the offset in bytes from the start of the array to the address in the
            argument.
        notes: Kinds of the emulator's notes about the launch.
    """

    test: str
    text: str
    launch: Launch
    inputs: Mapping[str, Array]
    expected: Mapping[str, str]
    known: Mapping[str, Array]
    offsets: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def bytes_of(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def keep(
    folder: Path,
    test: str,
    text: str,
    launch: Launch,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    offsets: Mapping[int, int] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Write a launch and its data, and return its name. See ``KeptLaunch`` for the arguments.

    Raises OSError; ValueError if the launch has several steps, or uses arrays that are not arguments.
    """
    if launch.then or launch.unpassed:
        raise ValueError("only a single launch can be stored, and only if all its arrays are arguments")
    ptx = text.encode()
    _publish(folder / "ptx" / f"{digest_of(ptx)}.ptx", ptx)
    row = {
        "ptx": digest_of(ptx),
        "launch": _launch_json(launch),
        "offsets": {str(position): offset for position, offset in (offsets or {}).items() if offset},
        "inputs": {o.name: _keep_array(folder, inputs[o.name]) for o in launch.operands if o.role in READ},
        "outputs": {
            o.name: _keep_array(folder, outputs[o.name], o.bytes <= MOST_EXPECTED)
            for o in launch.operands
            if o.role in WRITTEN
        },
        "notes": sorted(set(notes)),
    }
    name = digest_of(json.dumps(row, sort_keys=True).encode())
    _publish(folder / "launches" / f"{name}.json", json.dumps({"test": test, **row}, indent=1).encode())
    return name


def names(folder: Path) -> tuple[str, ...]:
    """Return the names of all launches in ``folder``, in order; empty if the folder has no launches."""
    return tuple(sorted(file.stem for file in (folder / "launches").glob("*.json") if not file.stem.startswith(".")))


def header(folder: Path, name: str) -> tuple[str, str]:
    """Return the test id and the digest of the PTX of a launch. Raises the exceptions of ``read``."""
    row = _row(folder, name)
    return str(row["test"]), str(row["ptx"])


def read(folder: Path, name: str) -> KeptLaunch:
    """Return the launch of that name. Raises OSError, and KeyError, TypeError or ValueError for a damaged file."""
    row = _row(folder, name)
    launch = _launch_from_json(row["launch"])
    operands = {o.name: o for o in launch.operands}
    expected = {str(output): str(digest) for output, digest in row["outputs"].items()}
    return KeptLaunch(
        test=str(row["test"]),
        text=(folder / "ptx" / f"{row['ptx']}.ptx").read_text(encoding="utf-8"),
        launch=launch,
        inputs={n: _array(folder, operands[n], digest) for n, digest in row["inputs"].items()},
        expected=expected,
        known={n: _array(folder, operands[n], d) for n, d in expected.items() if operands[n].bytes <= MOST_EXPECTED},
        offsets={int(position): int(offset) for position, offset in row["offsets"].items()},
        notes=tuple(row["notes"]),
    )


def _row(folder: Path, name: str) -> dict[str, Any]:
    row = json.loads((folder / "launches" / f"{name}.json").read_text(encoding="utf-8"))
    if not isinstance(row, dict):
        raise ValueError(f"launch {name} must be a JSON object")
    return row


def _launch_json(launch: Launch) -> dict[str, Any]:
    """Return the launch as JSON, with scalars as bytes.

    Bytes are needed because JSON cannot represent NaN, infinity or 64-bit numbers exactly.
    """
    own = Launch(**{f.name: getattr(launch, f.name) for f in dataclasses.fields(Launch)})
    return own.launch_json() | {"arguments": [_argument_json(a) for a in launch.arguments]}


def _argument_json(argument: Any) -> dict[str, Any]:
    row = argument_json(argument)
    return row | {"value": argument.stored.tobytes().hex()} if isinstance(argument, ScalarArgument) else row


def _launch_from_json(row: Mapping[str, Any]) -> Launch:
    arguments = [a | {"value": _value(a)} if a["kind"] == "scalar" else a for a in row["arguments"]]
    return launch_from_json({**row, "arguments": arguments})


def _value(row: Mapping[str, Any]) -> float | int | bool:
    dtype = SCALAR_DTYPES[row["dtype"]]
    stored = np.frombuffer(bytes.fromhex(row["value"]), dtype.storage)
    if dtype.is_float:
        return float(dtype.load(stored)[0])
    value: int | bool = stored[0].item()
    return value


def _publish(path: Path, content: bytes) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)


def _keep_array(folder: Path, array: Array, complete: bool = True) -> str:
    content = bytes_of(array)
    digest = digest_of(content)
    if complete:
        _publish(folder / "arrays" / f"{digest}.z", zlib.compress(content))
    return digest


def _array(folder: Path, operand: Operand, digest: str) -> Array:
    content = zlib.decompress((folder / "arrays" / f"{digest}.z").read_bytes())
    if digest_of(content) != digest:
        raise ValueError(f"array {digest} is damaged")
    return np.frombuffer(content, operand.dtype.storage).reshape(operand.shape)
