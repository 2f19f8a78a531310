"""Parameter values that need a device feature, and are excluded for devices without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from search_spaces.hardware.devices import Device
from search_spaces.spaces.parameters import Parameter

# Values of parameters in any template, and the device feature that each value needs.
_NEEDS = {"cp.async": "cp_async", "no_allocate_l2_256b": "l2_256b"}


def offered(
    parameters: tuple[Parameter, ...], device: Device, own: Mapping[tuple[str, str], str] | None = None
) -> tuple[Parameter, ...]:
    """Return ``parameters`` without the values for which ``device`` has no instructions.

    ``own``: features that only this template's values need, by (parameter, value).
    """

    def needs(parameter: Parameter, value: int | str) -> str:
        return (own or {}).get((parameter.name, str(value)), _NEEDS.get(str(value), ""))

    def narrowed(parameter: Parameter) -> Parameter:
        values = tuple(value for value in parameter.values if device.has(needs(parameter, value)))
        return parameter if values == parameter.values else replace(parameter, values=values)

    return tuple(map(narrowed, parameters))
