"""Launches with attributes that cupy does not support: clusters, cooperative and dependent launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from measurements.runners.launch_refused import LaunchRefused
from search_spaces.arrays import Array
from search_spaces.launches.launch import Launch, Size3


class AttributedLaunch:
    """A loaded function, launched by ``cuLaunchKernelEx``.

    Args:
        function: Driver handle of the function.
        launch: Block size, shared memory and cooperative flag of the launch.
        cluster: Blocks of a cluster along each axis; (1, 1, 1) for no cluster, or if the function's code sets the
            cluster.
        dependent: If True, the launch may start before the preceding launch in the stream has ended.
    """

    def __init__(self, function: int, launch: Launch, *, cluster: Size3 = (1, 1, 1), dependent: bool = False) -> None:
        from cuda.bindings import driver

        self.cluster, self.dependent = cluster, dependent
        self._driver, self._function = driver, driver.CUfunction(function)
        config = self._config = driver.CUlaunchConfig()
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes = launch.dynamic_shared_bytes
        names, attributes = driver.CUlaunchAttributeID, []
        if cluster != (1, 1, 1):
            attributes.append(_attribute(driver, names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION))
            sides = attributes[-1].value.clusterDim
            sides.x, sides.y, sides.z = cluster
        if launch.cooperative:
            attributes.append(_attribute(driver, names.CU_LAUNCH_ATTRIBUTE_COOPERATIVE))
            attributes[-1].value.cooperative = 1
        if dependent:
            attributes.append(_attribute(driver, names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION))
            attributes[-1].value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = attributes, len(attributes)

    def __call__(self, grid: Size3, parameters: Sequence[Any], stream: int) -> None:
        """Launch on a stream, without waiting.

        Args:
            grid: Blocks along each axis.
            parameters: Parameters in cupy's format: a GPU array or an address for a pointer, a numpy array for a value.
            stream: Driver handle of the stream.

        Raises:
            LaunchRefused: The driver rejects the launch.
        """
        driver, config = self._driver, self._config
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.hStream = driver.CUstream(stream)
        values = [_stored(parameter) for parameter in parameters]
        pointers = np.array([value.ctypes.data for value in values], np.uint64)
        (status,) = driver.cuLaunchKernelEx(config, self._function, pointers.ctypes.data, 0)
        if int(status) != 0:
            raise LaunchRefused(f"the driver rejects the launch: {driver.CUresult(int(status)).name}")


def _attribute(driver: Any, name: Any) -> Any:
    attribute = driver.CUlaunchAttribute()
    attribute.id = name
    return attribute


def _stored(parameter: Any) -> Array:
    """Return a numpy array with a parameter's bytes, which the driver copies at the launch."""
    if isinstance(parameter, np.ndarray):
        return np.ascontiguousarray(parameter)
    address = parameter if isinstance(parameter, int) else int(parameter.data.ptr)
    return np.array([address], np.uint64)
