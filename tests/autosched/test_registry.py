"""Integrations are looked up by name, imported on first use, and implement the protocol of their group."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from autosched.registry import CALL_READERS, CONFIG_FILES, IntegrationGroup, UnknownIntegration
from autosched.regression.config_files import ConfigFiles
from autosched.suites.logged_calls import CallReader

GROUPS = [(CALL_READERS, CallReader), (CONFIG_FILES, ConfigFiles)]


@pytest.mark.parametrize(("group", "protocol"), GROUPS)
def test_every_entry_implements_its_protocol(group: IntegrationGroup, protocol: type) -> None:
    if group is CONFIG_FILES:
        pytest.importorskip("torch", reason="the kernels of configuration files need torch and Triton")
    members = [name for name in vars(protocol) if not name.startswith("_")]
    assert members and list(group)
    for name in group:
        integration = group.load(name)
        for member in members:
            declared, offered = vars(protocol)[member], getattr(integration, member)
            if inspect.isfunction(declared):
                expected = list(inspect.signature(declared).parameters)[1:]
                assert list(inspect.signature(offered).parameters) == expected, (name, member)


def test_an_unknown_name_is_rejected_with_the_known_names() -> None:
    with pytest.raises(UnknownIntegration, match="vllm"):
        CONFIG_FILES.load("frobnicate")


def test_an_integration_is_imported_when_it_is_looked_up() -> None:
    code = (
        "import sys, autosched.cli.app, autosched.suites.logged_calls, autosched.regression.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('autosched.integrations')))"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
