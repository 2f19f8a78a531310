"""Registry of integrations with other projects.

Other packages refer to an integration by name and protocol, not by module. The registry imports an integration when its
name is looked up. A comment at each group names the protocol of the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

_PACKAGE = "autosched.integrations"


class UnknownIntegration(ValueError):
    """No integration has this name. The message is one line with the known names."""


class IntegrationGroup:
    """Integrations with the same protocol. Iteration yields their names.

    Args:
        locations: Maps names to locations: ``module:object``, relative to ``autosched.integrations``.
    """

    def __init__(self, locations: Mapping[str, str]) -> None:
        self._locations = dict(locations)

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def load(self, name: str) -> Any:
        """Import an integration.

        Args:
            name: Name of an integration in this group.

        Returns:
            The object that implements the protocol of the group.

        Raises:
            UnknownIntegration: No integration has this name.
            ImportError: A package that the integration needs is not installed.
        """
        if name not in self._locations:
            raise UnknownIntegration(f"{name[:60]} is not known: write {' or '.join(self._locations)}")
        module, _, attribute = self._locations[name].partition(":")
        return getattr(import_module(f"{_PACKAGE}.{module}"), attribute)


# Formats of tuned configuration files. Protocol: ``autosched.regression.config_files.ConfigFiles``.
CONFIG_FILES = IntegrationGroup({"vllm": "config_files.interface:VLLM", "sglang": "config_files.interface:SGLANG"})

# Formats of call logs. Protocol: ``autosched.suites.logged_calls.CallReader``.
CALL_READERS = IntegrationGroup({"flashinfer": "flashinfer.trace_dump:READER", "tunableop": "tunableop.log:READER"})
