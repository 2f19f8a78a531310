"""Description of a launch and its arguments, for the emulator, GPU workers and other code that calls kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import BoundingBox, TensorMap
from search_spaces.launches.texture import LinearTexture
from search_spaces.short_repr import short_repr

Size3 = tuple[int, int, int]

_MAX_CLUSTER = 16  # largest number of blocks of a cluster; every GPU with clusters supports at least 8


@dataclass(frozen=True)
class ScalarArgument:
    """A parameter passed by value. Raises ValueError if ``dtype`` cannot represent the value.

    With ``limits``, a call may pass any value in this closed range, and ``value`` is the default.
    """

    name: str
    dtype: DType
    value: int | float | bool
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        kind = "f" if self.dtype.is_float else np.dtype(self.dtype.storage).kind
        fits = isinstance(self.value, bool) if kind == "b" else not isinstance(self.value, bool)
        if fits and kind in "iu":
            limits = np.iinfo(self.dtype.storage)
            fits = isinstance(self.value, int) and limits.min <= self.value <= limits.max
        if not fits or not isinstance(self.value, (int, float)):
            raise ValueError(f"scalar {self.name} must be a {self.dtype.name}, not {self.value!r}")

    @property
    def stored(self) -> Array:
        """The value in the type that the kernel receives, as an array of one element."""
        return np.ascontiguousarray(self.dtype.store(np.asarray([self.value])))

    def passing(self, value: Any) -> Self:
        """Return this argument with another value. Raises ValueError if the value is outside of ``limits``."""
        low, high = self.limits or (self.value, self.value)
        number = value.item() if isinstance(value, np.generic) else value
        if self.dtype.is_float and isinstance(number, int) and not isinstance(number, bool):
            number = float(number)
        argument = replace(self, value=number)
        if not low <= number <= high:
            raise ValueError(f"{self.name} must be from {low} to {high}, not {value!r}")
        return argument


@dataclass(frozen=True)
class BytesArgument:
    """A parameter passed by value, given by its bytes: a struct, or a number of unknown type."""

    name: str
    content: bytes

    @property
    def stored(self) -> Array:
        """The value as an array of one element that contains all bytes."""
        return np.frombuffer(self.content, np.dtype((np.void, len(self.content))))


Argument = Operand | ScalarArgument | BytesArgument | TensorMap | LinearTexture


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The launch of a function: ``arguments`` in the order of the function's parameters, and the grid of blocks.

    Attributes:
        entry: Name of the function.
        cluster: Cluster size, as in ``__cluster_dims__`` of the source.
        launches: Number of consecutive launches on one stream with the same arguments; each launch sees the writes of
            the previous one.
        cooperative: True if all blocks must run at the same time.
        dependent: True if the launch may begin before preceding launches in its stream have ended (programmatic stream
            serialization). The kernel waits for them by ``griddepcontrol.wait``, which has no effect without this
            attribute.
        grid_may_shrink: True if any smaller number of whole clusters computes the same result. The grid can then be
            limited to the blocks that run at the same time.
        symbols: Inputs that are copied to the ``__constant__`` variables of the same names before a launch.
        unpassed: Arrays that are not arguments, because their addresses are stored in other arrays. Only the emulator
            supports them.
        then: Further launches of functions of the same module, in order on one stream. All launches together are a
            pipeline.

    Raises:
        ValueError: No GPU supports the launch.
    """

    entry: str
    arguments: tuple[Argument, ...]
    grid: Size3
    block: Size3
    cluster: Size3 = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    launches: int = 1
    cooperative: bool = False
    dependent: bool = False
    grid_may_shrink: bool = False
    symbols: tuple[Operand, ...] = ()
    unpassed: tuple[Operand, ...] = ()
    then: tuple[Launch, ...] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            size = getattr(self, name)
            if len(size) != 3 or min(size) < 1:
                raise ValueError(f"{name} must be three numbers of at least 1, not {size}")
        if any(blocks % side for blocks, side in zip(self.grid, self.cluster, strict=True)):
            raise ValueError(f"the grid {self.grid} must be a multiple of the cluster {self.cluster} in each dimension")
        if math.prod(self.cluster) > _MAX_CLUSTER:
            raise ValueError(f"a cluster has at most {_MAX_CLUSTER} blocks, not {math.prod(self.cluster)}")
        if self.dynamic_shared_bytes < 0 or self.launches < 1:
            raise ValueError("dynamic_shared_bytes must be at least 0, and launches at least 1")
        if self.grid_may_shrink and (self.grid[1:] != (1, 1) or self.cluster[1:] != (1, 1)):
            raise ValueError(
                f"grid_may_shrink needs a grid of one dimension, not {self.grid} in clusters of {self.cluster}"
            )
        different = dict.fromkeys(self.arguments)  # count equal operands once, as an array may be passed twice
        if len({a.name for a in different}) < len(different):
            raise ValueError(f"the names of arguments must be distinct, not {[a.name for a in self.arguments]}")
        if self.cooperative and self.dependent:
            raise ValueError("a launch cannot be both cooperative and dependent: set only one of them")
        if any(step.then or step.symbols or step.unpassed or step.grid_may_shrink for step in self.then):
            raise ValueError(
                "only the first launch can set 'then', 'symbols', 'unpassed' and 'grid_may_shrink': set them there"
            )
        names: dict[str, Operand] = {}
        for operand in self._listed_operands():
            if names.setdefault(operand.name, operand) != operand:
                raise ValueError(f"two different arrays are called {operand.name}: rename one")

    @property
    def threads(self) -> int:
        """Threads per block."""
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    def grid_of(self, clusters: int) -> Size3:
        """Return the grid, limited to ``clusters`` clusters if it may shrink.

        Args:
            clusters: Number of clusters that can run simultaneously.

        Raises:
            ValueError: ``clusters`` is below 1.
        """
        if clusters < 1:
            raise ValueError(f"a grid needs at least one cluster, not {clusters}")
        if not self.grid_may_shrink:
            return self.grid
        return min(self.grid[0], clusters * self.cluster[0]), 1, 1

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The arrays of this launch and of the launches in ``then``, without duplicates.

        An array is passed as a pointer, described by a tensor map or a texture, copied to constant memory, or
        ``unpassed``.
        """
        return tuple(dict.fromkeys(self._listed_operands()))

    def _listed_operands(self) -> list[Operand]:
        passed = [o for launch in (self, *self.then) for o in _all_operands(launch.arguments)]
        return [*passed, *self.symbols, *self.unpassed]

    @property
    def steps(self) -> tuple[Self, ...]:
        """The launches of a pipeline, each as a separate object.

        Attributes of the whole pipeline, such as the source, are the same in each object.
        """
        if not self.then:
            return (self,)
        own = [f.name for f in dataclasses.fields(Launch) if f.name not in ("symbols", "unpassed")]
        later = (replace(self, **{name: getattr(step, name) for name in own}) for step in self.then)
        return (replace(self, then=()), *later)

    def with_entries(self, entries: Sequence[str]) -> Self:
        """Return the same launches with these function names.

        Raises ValueError if the number of names does not match.
        """
        first, *rest = entries
        then = tuple(replace(step, entry=name) for step, name in zip(self.then, rest, strict=True))
        return replace(self, entry=first, then=then)

    def launch_json(self) -> dict[str, Any]:
        """Return the launch as JSON, which ``launch_from_json`` reads.

        ``grid_may_shrink``, ``cooperative``, ``dependent``, ``symbols`` and ``then`` are only present if they are set,
        so that digests of older kernels do not change.
        """
        flags = ("grid_may_shrink", "cooperative", "dependent")
        shrinks: dict[str, Any] = {name: True for name in flags if getattr(self, name)}
        if self.symbols:
            shrinks["symbols"] = [operand_json(o) for o in self.symbols]
        if self.then:
            shrinks["then"] = [step.launch_json() for step in self.then]
        return {
            "entry": self.entry,
            "arguments": [argument_json(a) for a in self.arguments],
            "grid": list(self.grid),
            "block": list(self.block),
            "cluster": list(self.cluster),
            "dynamic_shared_bytes": self.dynamic_shared_bytes,
            "launches": self.launches,
            **shrinks,
        }


def operand_json(operand: Operand) -> dict[str, Any]:
    """Return an operand as JSON, which ``operand_from_json`` reads."""
    columns = {} if operand.columns is None else {"columns": operand.columns}
    return {
        "name": operand.name,
        "role": operand.role,
        "dtype": operand.dtype.name,
        "shape": list(operand.shape),
        "zeroed": operand.zeroed,
        **columns,
    }


def operand_from_json(data: Mapping[str, Any]) -> Operand:
    """Read an operand from JSON. Raises KeyError or ValueError if the JSON is invalid."""
    shape = tuple(int(n) for n in data["shape"])
    dtype, columns = SCALAR_DTYPES[data["dtype"]], data.get("columns")
    return Operand(
        data["name"], data["role"], dtype, shape, bool(data["zeroed"]), None if columns is None else int(columns)
    )


def argument_json(argument: Argument) -> dict[str, Any]:
    """Return an argument as JSON, which ``argument_from_json`` reads. The field "kind" names the argument's class."""
    match argument:
        case Operand():
            return {"kind": "operand", **operand_json(argument)}
        case ScalarArgument(name, dtype, value, limits):
            # as text, because JSON has no infinities
            ends = {} if limits is None else {"limits": [str(end) for end in limits]}
            return {"kind": "scalar", "name": name, "dtype": dtype.name, "value": value, **ends}
        case BytesArgument(name, content):
            return {"kind": "bytes", "name": name, "content": content.hex()}
        case LinearTexture():
            fields = {f.name: getattr(argument, f.name) for f in dataclasses.fields(argument)}
            return {"kind": "texture", **fields, "operand": operand_json(argument.operand)}
        case TensorMap():
            fields = {f.name: getattr(argument, f.name) for f in dataclasses.fields(argument)}
            corners = None if argument.im2col is None else dataclasses.asdict(argument.im2col)
            return {"kind": "tensor_map", **fields, "operand": operand_json(argument.operand), "im2col": corners}


def argument_from_json(data: Mapping[str, Any]) -> Argument:
    """Read an argument from JSON. Raises KeyError, TypeError or ValueError if the JSON is invalid."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"}
    match data["kind"]:
        case "operand":
            return operand_from_json(data)
        case "scalar":
            ends = data.get("limits")
            limits = None if ends is None else (float(ends[0]), float(ends[1]))
            return ScalarArgument(data["name"], SCALAR_DTYPES[data["dtype"]], data["value"], limits)
        case "bytes":
            return BytesArgument(data["name"], bytes.fromhex(data["content"]))
        case "tensor_map":
            corners = data.get("im2col")
            box = None if corners is None else BoundingBox(tuple(corners["lower"]), tuple(corners["upper"]))
            return TensorMap(**fields | {"operand": operand_from_json(data["operand"]), "im2col": box})
        case "texture":
            return LinearTexture(**fields | {"operand": operand_from_json(data["operand"])})
    raise ValueError(f"invalid kind {data['kind']!r}: use operand, scalar, bytes, tensor_map or texture")


def launch_from_json(data: Mapping[str, Any]) -> Launch:
    """Read a launch from JSON. Raises KeyError, TypeError or ValueError if the JSON is invalid."""
    return Launch(
        entry=data["entry"],
        arguments=tuple(argument_from_json(a) for a in data["arguments"]),
        grid=_size3(data["grid"]),
        block=_size3(data["block"]),
        cluster=_size3(data["cluster"]),
        dynamic_shared_bytes=int(data["dynamic_shared_bytes"]),
        launches=int(data["launches"]),
        grid_may_shrink=bool(data.get("grid_may_shrink", False)),
        cooperative=bool(data.get("cooperative", False)),
        dependent=bool(data.get("dependent", False)),
        symbols=tuple(operand_from_json(o) for o in data.get("symbols", ())),
        then=tuple(launch_from_json(step) for step in data.get("then", ())),
    )


def _size3(numbers: Any) -> Size3:
    x, y, z = (int(n) for n in numbers)
    return x, y, z


def _all_operands(arguments: tuple[Argument, ...]) -> list[Operand]:
    pointed = [a.operand if isinstance(a, TensorMap | LinearTexture) else a for a in arguments]
    return [a for a in pointed if isinstance(a, Operand)]
