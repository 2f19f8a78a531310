"""Output of ``verify``, ``run``, ``judge`` and ``check``: the options, and functions that print and write results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from autosched.cli.terminal.console import stdout_console
from autosched.cli.terminal.output import print_json
from autosched.cli.terminal.output_files import check_outputs, write_output
from autosched.reporting import ci
from autosched.reporting.ci import Summary
from autosched.reporting.exit_status import VERDICTS, ExitStatus
from measurements.files.text import harmless

_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class Output:
    """Options for the output of a command. Without an option, text is printed on stdout."""

    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
    junit: Annotated[str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None
    markdown: Annotated[str | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown summary.")] = None
    github: Annotated[
        bool, typer.Option("--github", help="Print GitHub annotations, and add the summary to $GITHUB_STEP_SUMMARY.")
    ] = False

    def check(self, inputs: Sequence[str | None], *more: str | None) -> None:
        """Check that the output files can be written, before the work starts.

        Args:
            inputs: Files that are read.
            more: Further output files of the command.

        Raises:
            InputError: A file cannot be written.
        """
        check_outputs([self.junit, self.markdown, *more], inputs)


class CommandAnswer(NamedTuple):
    """Result of a command, for all output formats.

    Attributes:
        summary: Cases and exit status.
        document: Fields of the JSON document that only this command has.
        text: Function that prints the answer as text and ends with the conclusion.
    """

    summary: Summary
    document: Mapping[str, Any]
    text: Callable[[Console], None]


def give(answer: CommandAnswer, output: Output) -> ExitStatus:
    """Print an answer and return the command's exit status. Call ``write_files`` before this function."""
    if output.json:
        print_json(document(answer))
    else:
        answer.text(stdout_console())
    return answer.summary.status


def document(answer: CommandAnswer) -> dict[str, Any]:
    """Return the JSON document: first the fields common to all commands, then the fields of this command."""
    summary = answer.summary
    return {
        "command": summary.command,
        "kind": summary.kind,
        "verdict": VERDICTS[summary.status],
        "conclusion": summary.conclusion,
        **answer.document,
    }


def write_files(summary: Summary, output: Output) -> None:
    """Write JUnit XML, Markdown and GitHub annotations, as far as the options request them."""
    if output.junit is not None:
        write_output(output.junit, ci.junit(summary))
    if output.markdown is not None:
        write_output(output.markdown, ci.markdown(summary).encode())
    if not output.github:
        return
    for line in ci.workflow_commands(summary):
        print(harmless(line), file=sys.stderr)
    summary_file = os.environ.get(_GITHUB_SUMMARY)
    if summary_file:
        with open(summary_file, "a", encoding="utf-8") as file:
            file.write(ci.markdown(summary))


def line(console: Console, text: str) -> None:
    """Print one line without markup or wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
