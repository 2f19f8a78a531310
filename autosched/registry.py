"""Names of the integrations with other projects, and the one way to reach them.

Rooms below ``autosched.integrations`` know a name and a protocol, never a module: an integration is imported when its
name is looked up here. Each group names its protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

_ROOM = "autosched.integrations"


class UnknownIntegration(ValueError):
    """No integration has this name. The message is one line that lists the names."""


class IntegrationGroup:
    """Integrations that offer the same thing, by name. Iterating yields the names.

    Args:
        places: For each name, ``module:object`` below ``autosched.integrations``.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def load(self, name: str) -> Any:
        """Import an integration.

        Args:
            name: One of the names.

        Returns:
            The object that obeys the protocol of the group.

        Raises:
            UnknownIntegration: There is none of this name.
            ImportError: A package that the integration needs is not installed.
        """
        if name not in self._places:
            raise UnknownIntegration(f"{name[:60]} is not known: write {' or '.join(self._places)}")
        module, _, attribute = self._places[name].partition(":")
        return getattr(import_module(f"{_ROOM}.{module}"), attribute)


# Files of tuned configurations: ``autosched.regression.config_files.ConfigFiles``.
CONFIG_FILES = IntegrationGroup({"vllm": "config_files.interface:VLLM", "sglang": "config_files.interface:SGLANG"})

# Logs of a program's calls: ``autosched.suites.logged_calls.CallReader``.
CALL_READERS = IntegrationGroup({"flashinfer": "flashinfer.trace_dump:READER", "tunableop": "tunableop.log:READER"})
