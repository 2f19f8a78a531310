"""Verify the configurations that Helion's autotuner tries, without a GPU, through ``autotune_config_filter``.

    kernel.settings.autotune_config_filter = autosched.integrations.helion.verified(kernel, args, device="h100")

Helion calls the filter with each configuration before compiling or timing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from autosched.integrations.helion.emulating import emulating
from autosched.verify.oracle import Comparison
from measurements.files.text import one_line
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row

# function of expected and actual results that raises AssertionError if the results differ
Compare = Callable[[Any, Any], None]


class VerifiedConfigs:
    """A filter of configurations for Helion.

    The filter returns a configuration unchanged if it passes, and None otherwise. To pass, the kernel that Helion
    generates must compile for the device, launch, have no fault in the emulator, and compute the results of the default
    configuration. ``accepted`` lists the configurations that passed. ``refused`` lists all other configurations, each
    with the reason in one line. Each configuration is emulated once.

    Args:
        kernel: The result of ``@helion.kernel``.
        args: Small tensors, which are copied to the CPU.
        device: The GPU that is emulated.
        compare: As in ``verified``; None for the default tolerance.
    """

    def __init__(self, kernel: Any, args: Sequence[Any], device: Device, compare: Compare | None) -> None:
        self._kernel, self._device = kernel, device
        self._args = tuple(a.detach().cpu() if isinstance(a, torch.Tensor) else a for a in args)
        self._compare = compare or self._close
        # reason of the refusal, by the configuration's JSON; "" if the configuration passed
        self._known: dict[str, str] = {}
        self._bound: Any = None
        self._expected: Any = None
        self.accepted: list[Any] = []
        self.refused: list[tuple[Any, str]] = []

    def __call__(self, config: Any) -> Any:
        """Return ``config`` if it passes, else None.

        Raises:
            ValueError: The default configuration itself fails, so that results cannot be compared with it.
        """
        key = config.to_json()
        if key not in self._known:
            self._known[key] = why = self._why_not(config)
            if why:
                self.refused.append((config, why))
            else:
                self.accepted.append(config)
        return None if self._known[key] else config

    def _why_not(self, config: Any) -> str:
        if self._bound is None:
            with emulating(self._device):
                bound = self._kernel.bind(self._fresh())
            default = bound.config_spec.default_config()
            result, why = self._run(bound, default)
            if why:
                raise ValueError(f"Helion's default configuration does not pass: {why}")
            self._bound, self._expected = bound, result
        return self._run(self._bound, config, self._unlike_default)[1]

    def _unlike_default(self, result: Any) -> Comparison:
        try:
            self._compare(self._expected, result)
        except AssertionError as error:
            return Comparison(
                None, f"the results differ from the results of the default configuration: {one_line(str(error))}"
            )
        return Comparison(None)

    def _run(self, bound: Any, config: Any, compare: Callable[[Any], Comparison] | None = None) -> tuple[Any, str]:
        """Return the results of a configuration, and the reason of a refusal in one line ("" if it is accepted)."""
        with emulating(self._device) as session:
            try:
                result = bound.compile_config(config)(*self._fresh())
            except Exception as error:  # Helion, Triton and the emulator raise many types of exceptions
                return None, one_line(f"{type(error).__name__}: {error}")
        verdict = session.verdict(compare(result) if compare is not None and session.ok else None)
        if verdict.ok or not session.launches:
            return result, ""
        faults = verdict.emulation.faults
        return None, one_line(f"{faults[0].kind}: {faults[0].message}" if faults else verdict.reason)

    def _fresh(self) -> tuple[Any, ...]:
        """Return copies of the original arguments, because kernels may write to them."""
        return tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in self._args)

    def _close(self, expected: Any, actual: Any) -> None:
        actual, expected = (tree_map(_finite, tensors) for tensors in (actual, expected))
        torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


def _finite(leaf: Any) -> Any:
    """Replace infinities by the largest finite number, because a large result may be rounded to either value."""
    if not isinstance(leaf, torch.Tensor) or leaf.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return leaf
    return torch.nan_to_num(leaf, nan=math.nan)


def verified(
    kernel: Any, args: Sequence[Any], *, device: str | Device, compare: Compare | None = None
) -> VerifiedConfigs:
    """Return a filter that emulates each configuration of a ``@helion.kernel``.

    Args:
        kernel: Result of ``@helion.kernel``.
        args: Small tensors.
        device: Name or row of the GPU that is emulated.
        compare: ``compare(expected, actual)`` raises AssertionError if results differ. Default: the difference may be
            at most 2% of the value plus 0.02.

    Returns:
        The filter.

    Raises:
        ValueError: An unknown device.
    """
    return VerifiedConfigs(kernel, args, device if isinstance(device, Device) else device_row(device), compare)
