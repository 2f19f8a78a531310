"""Link separately compiled PTX files (nvcc -rdc=true) into the text of one module, like nvlink."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from measurements.emulator.ptx.body import FILE
from measurements.emulator.ptx.cursor import SPACE, without_comments

_HEADER = re.compile(r"^\s*\.(?:version|target|address_size)\b[^\n]*\n", re.MULTILINE)
_DEBUG = re.compile(r"^\s*\.section\b", re.MULTILINE)
_FILE_NUMBER = re.compile(r"^(\s*\.(?:file|loc)\s+)(\d+)", re.MULTILINE)
_INLINED_AT = re.compile(r"(\binlined_at\s+)(\d+)")
_LINKAGE = re.compile(r"\s*((?:\.(?:visible|extern|weak|common)\s+)*)")
_DEFINED_FUNCTION = re.compile(_LINKAGE.pattern + r"\.(?:entry|func)\b")
_FUNCTION = re.compile(r"\.(?:entry|func)\b\s*(?:\([^)]*\)\s*)?([%$\w]+)", re.DOTALL)
_VARIABLE = re.compile(r"\.(?:global|const|shared)\b[^;={]*?([%$\w]+)\s*(?:\[[^;={]*)?(?=[;=])", re.DOTALL)
_TOKEN = re.compile(r'[{};]|"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True)
class _ModuleStatement:
    """A statement at module level. ``linkage`` is extern, weak, visible or common, and empty for local names."""

    text: str
    name: str
    linkage: str
    defines: bool


def link(texts: Sequence[str]) -> str:
    """Link several PTX texts into one module.

    An ``.extern`` declaration refers to the definition in another text. The first of several ``.weak`` definitions is
    used. Local names that also occur in another text are renamed. A single text is returned unchanged.

    Args:
        texts: PTX texts of separately compiled files.

    Returns:
        The text of the module.
    """
    if len(texts) == 1:
        return texts[0]
    head = "".join(_HEADER.findall(max(texts, key=_version)))
    files, bodies = zip(*(_renumbered(text, k) for k, text in enumerate(texts)), strict=True)
    modules = [list(_statements(body)) for body in bodies]
    strong = {s.name for module in modules for s in module if s.defines and s.linkage == "visible"}
    defined = {s.name for module in modules for s in module if s.defines and s.linkage}
    symbols = set(defined)
    lines = [head, *(line for of_module in files for line in of_module)]
    weak: set[str] = set()
    for k, module in enumerate(modules):
        own = {s.name for s in module if not s.linkage and s.defines and s.name}
        renamed = {name: f"{name}$file{k}" for name in own & symbols}
        symbols |= own
        for s in module:
            if s.linkage == "extern" and s.name in defined:
                continue
            if s.linkage in ("weak", "common") and s.defines:
                if s.name in strong or s.name in weak:
                    continue
                weak.add(s.name)
            lines.append(_renamed(s.text, renamed))
    return "\n".join(lines)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    any_name = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![%$\w])(?:{any_name})(?![%$\w])", lambda m: names[m[0]], text)


def _version(text: str) -> tuple[int, ...]:
    match = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", text, re.MULTILINE)
    return tuple(map(int, match.groups())) if match else ()


def _renumbered(text: str, number: int) -> tuple[list[str], str]:
    """Return the ``.file`` lines, and the remaining text without header and debug sections.

    File numbers are changed so that they differ from the file numbers of other texts.
    """
    first = number * 10_000
    debug = _DEBUG.search(text)
    text = _HEADER.sub("", text[: debug.start()] if debug else text)
    text = _FILE_NUMBER.sub(lambda m: f"{m[1]}{int(m[2]) + first}", text)
    text = _INLINED_AT.sub(lambda m: f"{m[1]}{int(m[2]) + first}", text)
    return [m[0] for m in FILE.finditer(text)], FILE.sub("", text)


def _statements(text: str) -> Iterator[_ModuleStatement]:
    """Yield the declarations and definitions of a module."""
    start = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        if depth == 0 and (token[0] == ";" or (token[0] == "}" and _is_function(text, start))):
            yield _statement(text[start : token.end()])
            start = token.end()


def _is_function(text: str, start: int) -> bool:
    return _DEFINED_FUNCTION.match(text, _after_blanks(text, start)) is not None


def _after_blanks(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _statement(text: str) -> _ModuleStatement:
    plain = without_comments(text[_after_blanks(text, 0) :][:4000])
    match = _LINKAGE.match(plain)
    assert match is not None
    linkage = match[1].split()[0].removeprefix(".") if match[1] else ""
    rest = plain[match.end() :]
    if function := _FUNCTION.match(rest):
        return _ModuleStatement(text, function[1], linkage, defines=text.rstrip().endswith("}"))
    if variable := _VARIABLE.match(rest):
        return _ModuleStatement(text, variable[1], linkage, defines=linkage != "extern")
    return _ModuleStatement(text, "", "", defines=False)
