"""Programs in README and the documentation run, and their commands and options exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from needs import needs_compiler, needs_nvrtc

from autosched.cli.app import build
from autosched.cli.options import spellings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```$|((?:^    \$? ?autosched [^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:echo [^|\n]*\| )?(autosched [^\n#]*)", re.MULTILINE)


def commands(page: Path) -> Iterator[str]:
    """Yield the ``autosched`` command lines in a page's code blocks. Lines continued by a backslash are joined."""
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        text = (block[1] or block[2]).replace("\\\n", " ")
        yield from (match[1].strip() for match in _COMMAND.finditer(text))


LINES = [(page, line) for page in PAGES for line in commands(page)]


def test_the_pages_contain_commands() -> None:
    assert len(LINES) > 25


def test_commands_and_their_options_exist() -> None:
    root: Any = typer.main.get_command(build())
    wrong = []
    for page, line in LINES:
        for part in re.split(r"\s(?:\||&&|;)\s", line):
            words = [w for w in shlex.split(part.split(" > ")[0]) if w not in ("...", "\\")]
            if not words or words[0] != "autosched":
                continue
            command, context, remaining = root, typer.Context(root), spellings.expanded(words[1:])
            while remaining and hasattr(command, "list_commands") and remaining[0] in command.list_commands(context):
                command, remaining = command.get_command(context, remaining[0]), remaining[1:]
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
            known |= _inner(command) if hasattr(command, "list_commands") else set()
            options = [w.partition("=")[0] for w in remaining if re.match(r"--?[a-z]", w)]
            wrong += [f"{page.relative_to(ROOT)}: {part}: {o}" for o in options if o not in known]
            if command is root and remaining and not remaining[0].startswith("-"):
                wrong.append(f"{page.relative_to(ROOT)}: {part}: no such command")
    assert not wrong, "\n".join(wrong)


def _inner(group: Any) -> set[str]:
    """Return the options of a group's commands, and of the group's hidden command for calls without an operator."""
    context = typer.Context(group)
    known = {
        o for name in group.list_commands(context) for p in group.get_command(context, name).params for o in p.opts
    }
    return known | {
        "--kernel",
        "--size",
        "--suite",
        "--from",
        "--program",
        "--budget",
        "--triton",
        "--args",
    }


def programs(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@needs_nvrtc
@needs_compiler
def test_the_emulated_program_of_the_readme_finds_its_fault(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (p for p in programs(ROOT / "README.md") if "emulate" in p)
    exec(program, {})
    promised = program.rpartition("# ")[2].partition("...")[0].strip()
    assert capsys.readouterr().out.startswith(promised[:-1])


@needs_nvrtc
@needs_compiler
def test_the_first_emulation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for program in programs(ROOT / "docs" / "tutorial" / "first-emulation.md"):
        exec(program, names)
    stdout = capsys.readouterr().out
    assert "shared_race" in stdout and "kernel.cu:5" in stdout and "uninitialized_shared_read" in stdout


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split()) < 750
    assert "estimates" in text[:1500] and "docs/status.md" in text[:1500], (
        "the beginning of the README must state the limitations"
    )
