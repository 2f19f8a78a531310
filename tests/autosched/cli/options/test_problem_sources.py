"""Every command that reads a database has the options that name the files with a user's problems."""

from __future__ import annotations

import inspect

import pytest

from autosched.cli import app, command_functions
from autosched.cli.options import kernel, sources, triton

DATABASES = {"db", "into"}
SOURCES = {"kernel": sources.Kernels, "program": sources.Programs, "triton": sources.TritonKernels}
NOT_OF_PROBLEMS = ("db stats", "db gc", "serve")  # these commands use all trials or a script's kernels
# These commands accept --kernel FILE or --program FILE in place of an operator.
OPERATORS = {" ".join(command) for command in kernel.COMMANDS}
READING = [
    name
    for name in command_functions.FUNCTIONS
    if name not in (*app.spellings.HIDDEN, *NOT_OF_PROBLEMS)
    and DATABASES & inspect.signature(command_functions.call_of(name), eval_str=True).parameters.keys()
]


def test_commands_are_found() -> None:
    assert {"best", "check", "report", "train", "export", "merge", "db check", "db threshold"} <= set(READING)


@pytest.mark.parametrize("name", READING)
def test_a_command_that_reads_a_database_takes_every_source(name: str) -> None:
    if name in OPERATORS:
        assert name in ("tune", "verify") or tuple(name.split()) in triton.COMMANDS
        return
    parameters = inspect.signature(command_functions.call_of(name), eval_str=True).parameters
    for source, annotation in SOURCES.items():
        assert source in parameters, f"autosched {name} has no --{source}"
        assert parameters[source].annotation == annotation
