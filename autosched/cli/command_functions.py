"""Find the function and the summary of each command without importing the command.

A command is imported when it is called. The list of commands only needs summaries, which are read from the sources:
importing every command would take half a second.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from autosched.cli.options import spellings

FUNCTIONS = {  # "module:function"; the module is relative to autosched.cli.commands
    "best": "best:best",
    "check": "check:check",
    "devices": "machine.list_devices:devices",
    "doctor": "machine.doctor:doctor",
    "judge": "verification.submission:judge",
    "run": "verification.executable:run",
    "verify": "verification.schedules:verify",
    spellings.VERIFY_FILE: "verification.file:verify_file",
    spellings.KNOWN: "best_known:best_known",
    "replay": "replay:replay",
    "report": "report:report",
    "export": "sharing:export",
    "import": "sharing:import_",
    "merge": "sharing:merge",
    "db stats": "database:stats",
    "db gc": "database:gc",
    "db check": "database:check_db",
    "db threshold": "threshold:threshold",
    "serve": "serve:serve",
    "space": "space:space",
    "train": "train:train",
    "worth": "worth:worth",
    "tune": "tuning.tune:tune",
    spellings.MOE: "tuning.tune_moe:tune_moe",
    spellings.SUITE: "tuning.tune_suite:tune_suite",
    spellings.TRITON: "tuning.tune_triton:tune_triton",
}


def call_of(name: str) -> Callable[..., int]:
    """Import the module of a command and return its function. Modules of other commands are not imported."""
    module, _, function = FUNCTIONS[name].partition(":")
    call: Callable[..., int] = getattr(import_module(f"autosched.cli.commands.{module}"), function)
    return call


def summary(name: str) -> str:
    """Return the first line of a command's docstring. Parent packages are imported, but not the command's module."""
    module, _, function = FUNCTIONS[name].partition(":")
    spec = find_spec(f"autosched.cli.commands.{module}")
    source = ""
    if spec is not None and spec.origin is not None and Path(spec.origin).suffix == ".py":
        source = Path(spec.origin).read_text("utf-8")  # read the file directly, because not every loader has get_source
    docstrings = [text for node in ast.parse(source).body if (text := _docstring(node, function)) is not None]
    return docstrings[-1].strip().partition("\n")[0] if docstrings else ""


def _docstring(node: ast.stmt, function: str) -> str | None:
    """Return the docstring of ``function`` if ``node`` defines or assigns it.

    A docstring that is an f-string is cut at its first field.
    """
    match node:
        case ast.FunctionDef(name=name) if name == function:
            return ast.get_docstring(node)
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=name), attr="__doc__")],
            value=ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]),
        ) if name == function:
            return text
    return None
