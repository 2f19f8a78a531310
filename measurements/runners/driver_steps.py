"""Convert launches to arguments of CUDA's driver API (handles, sizes, parameter bytes), for callers without cupy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from measurements.runners.launch import LoadedLaunch, LoadedStep
from search_spaces.launches.launch import Size3
from search_spaces.launches.texture import LinearTexture


@dataclass(frozen=True)
class DriverParameter:
    """One parameter of a kernel.

    Attributes:
        kind: "address" of an array, "tensor_map" of an array, or "value", which is the same in every call.
        array: Index of the array in a call; 0 for a value.
        content: The 128 bytes of a tensor map, or the bytes of a value; empty for an address.
        encoded_address: Array address for which the tensor map was encoded; 0 for other kinds.
    """

    kind: Literal["address", "tensor_map", "value"]
    array: int = 0
    content: bytes = b""
    encoded_address: int = 0


@dataclass(frozen=True)
class DriverStep:
    """Arguments of ``cuLaunchKernelEx``.

    Attributes:
        function: Driver handle of the function.
        grid: Blocks along each axis.
        block: Threads along each axis.
        shared_bytes: Dynamic shared memory of a block.
        launches: Number of consecutive launches.
        cluster: Blocks of a cluster along each axis; zeros if the launch needs no cluster attribute.
        cooperative: True if all blocks must run at the same time.
        dependent: True if the launch may start before the preceding launch in the stream has ended.
        parameters: Parameters of the function, in order.
    """

    function: int
    grid: Size3
    block: Size3
    shared_bytes: int
    launches: int
    cluster: Size3
    cooperative: bool
    dependent: bool
    parameters: tuple[DriverParameter, ...]


def driver_steps(
    loaded: LoadedLaunch, names: Sequence[str], starts: Sequence[int], fixed: int = 0
) -> tuple[DriverStep, ...] | None:
    """Return the launches of a loaded kernel on arrays at the addresses ``starts``.

    Args:
        loaded: The kernel.
        names: Names of the arrays.
        starts: Addresses of the arrays on the GPU.
        fixed: Number of arrays, at the end of ``names``, whose addresses are the same in every call.

    Returns:
        One step per function, in order; None if the launch uses textures or constant memory, which ``DriverStep``
        cannot describe.
    """
    if loaded.launch.symbols:
        return None
    varying = len(names) - fixed
    steps = []
    for step in loaded.steps:
        parameters = _parameters(loaded, step, names, starts, varying)
        if parameters is None:
            return None
        attributed = step.attributed
        steps.append(
            DriverStep(
                step.handle,
                step.grid,
                step.launch.block,
                step.launch.dynamic_shared_bytes,
                step.launches,
                (0, 0, 0) if attributed is None or attributed.cluster == (1, 1, 1) else attributed.cluster,
                attributed is not None and step.launch.cooperative,
                attributed is not None and attributed.dependent,
                parameters,
            )
        )
    return tuple(steps)


def _parameters(
    loaded: LoadedLaunch, step: LoadedStep, names: Sequence[str], starts: Sequence[int], varying: int
) -> tuple[DriverParameter, ...] | None:
    parameters = []
    for name, maps, scalar in step.slots:
        if name is None or (maps is None and scalar is not None):  # a scalar, which is the same in every call
            parameters.append(DriverParameter("value", content=scalar.tobytes()))
            continue
        if isinstance(scalar, LinearTexture):
            return None
        array = names.index(name)
        start = starts[array]
        if maps is None:
            address = np.uint64(start).tobytes()
            parameters.append(
                DriverParameter("address", array) if array < varying else DriverParameter("value", content=address)
            )
            continue
        encoded = maps.get(start)
        content = (loaded.encoded(maps, scalar, start) if encoded is None else encoded).tobytes()
        parameters.append(
            DriverParameter("tensor_map", array, content, start)
            if array < varying
            else DriverParameter("value", content=content)
        )
    return tuple(parameters)
