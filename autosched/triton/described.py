"""Convert a Triton launch to the emulator's description of a launch, with arguments in the order of PTX parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from autosched.triton.arguments import LaunchArguments, flattened, scalar_bytes
from autosched.triton.driver import TritonLaunch, cluster_of
from autosched.triton.storages import Storages
from measurements.emulator.ptx.parser import parse
from measurements.emulator.ptx.syntax import Module
from search_spaces.launches.launch import Launch


class LaunchFailed(RuntimeError):
    """A launch that did not end or cannot be emulated, so the program cannot continue. The message is one line."""


def described_launch(launch: TritonLaunch, storages: Storages) -> tuple[LaunchArguments, Launch]:
    """Return the launch's arguments for the emulator. Raises LaunchFailed and ArgumentMismatch."""
    module = _parsed(launch.ptx)
    function = module.functions[launch.name if launch.name in module.kernels else module.kernels[0]]
    arguments = LaunchArguments(storages)
    parameters = function.parameters
    metas = list(getattr(launch.metadata, "tensordesc_meta", None) or ())
    for name, kind, value in flattened(launch.names, launch.kinds, launch.values):
        if kind.startswith("tensordesc"):
            _add_descriptor(arguments, parameters, name, value, metas.pop(0) if metas else None)
        elif kind.startswith("*"):
            arguments.pointer(name, value)
        else:
            at = len(arguments.arguments)
            if at >= len(parameters):
                raise LaunchFailed(
                    f"{launch.name}: the launch has more arguments than its PTX has parameters ({len(parameters)})"
                )
            arguments.raw(name, scalar_bytes(name, kind, value, parameters[at]))
    for k, parameter in enumerate(parameters[len(arguments.arguments) :]):
        # The first parameter that the compiler adds is the scratch memory; further added parameters are null.
        if k == 0 and launch.scratch is not None:
            arguments.pointer("scratch", launch.scratch)
        else:
            arguments.raw(f"added_{k}", b"\0" * parameter.bytes)
    unpassed = arguments.follow_addresses()
    x, y, z = launch.grid
    ctas = cluster_of(launch.metadata)
    threads_x, threads_y, threads_z = function.exact_threads or (32 * int(launch.metadata.num_warps), 1, 1)
    described = Launch(
        entry=function.name,
        arguments=tuple(arguments.arguments),
        grid=(x * ctas, y, z),
        block=(threads_x, threads_y, threads_z),
        cluster=(ctas, 1, 1),
        dynamic_shared_bytes=int(launch.metadata.shared),
        unpassed=tuple(unpassed),
    )
    return arguments, described


def _add_descriptor(arguments: LaunchArguments, parameters: Sequence[Any], name: str, value: Any, meta: Any) -> None:
    """Pass a tensor map, then shape and strides.

    If there is no tensor map, a pointer, shape, strides and flags are passed in its place.
    """
    shape, strides = list(value.shape), list(value.strides)
    if meta is not None:
        arguments.tensor_map(name, value, meta)
        numbers = [*shape, *strides]
    else:
        arguments.pointer(name, value.base)
        flags = len(parameters) and _descriptor_flags(value)
        numbers = [*shape, *strides, *(flags or ()), *shape, *strides]
    for k, number in enumerate(numbers):
        parameter = parameters[len(arguments.arguments)]
        arguments.raw(f"{name}.{k}", scalar_bytes(name, "i64", number, parameter))


def _descriptor_flags(descriptor: Any) -> list[int]:
    """Return a descriptor's flags. Newer versions of Triton pass shape and strides twice, with the flags in between."""
    flags = [int(descriptor.padding == "nan")] if hasattr(descriptor, "padding") else []
    return flags + ([int(descriptor.round_f32_to_tf32)] if hasattr(descriptor, "round_f32_to_tf32") else [])


@lru_cache(maxsize=256)
def _parsed(ptx: str) -> Module:
    return parse(ptx)
