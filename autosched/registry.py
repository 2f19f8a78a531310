"""Registry of the integrations with other projects.

Other packages refer to an integration by its name and protocol, not by its module. An integration is imported when its
name is looked up here. Each group is documented with its protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

_PACKAGE = "autosched.integrations"


class UnknownIntegration(ValueError):
    """No integration has this name. The message is one line with the known names."""


class IntegrationGroup:
    """Integrations with the same protocol, by name. Iteration yields the names.

    Args:
        locations: Location of each integration, ``module:object`` below ``autosched.integrations``, by name.
    """

    def __init__(self, locations: Mapping[str, str]) -> None:
        self._locations = dict(locations)

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def load(self, name: str) -> Any:
        """Import an integration.

        Args:
            name: One of the names.

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


# Files of tuned configurations: ``autosched.regression.config_files.ConfigFiles``.
CONFIG_FILES = IntegrationGroup({"vllm": "config_files.interface:VLLM", "sglang": "config_files.interface:SGLANG"})

# Logs of a program's calls: ``autosched.suites.logged_calls.CallReader``.
CALL_READERS = IntegrationGroup({"flashinfer": "flashinfer.trace_dump:READER", "tunableop": "tunableop.log:READER"})
