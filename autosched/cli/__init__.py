"""The command ``autosched``: one module a command, ``app`` ties them together."""

from autosched.cli.app import main

__all__ = ["main"]
