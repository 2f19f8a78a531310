"""Extract the device code of ordinary CUDA files, which also contain host code and C++ headers.

NVRTC does not support host code, so it receives only the device code of a file. Line numbers are unchanged.
"""

from __future__ import annotations

import re

_HOST_CODE = re.compile(r"<<<|\bint\s+main\s*\(|\bcuda(Malloc|Memcpy|DeviceSynchronize|Free)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_DIRECTIVE = re.compile(r"[ \t]*#(?:[^\n\\]|\\\n|\\.)*")
_DEVICE_WORDS = re.compile(r"\b(__global__|__device__|__constant__|__managed__|__shared__|constexpr)\b")
_TYPES = re.compile(r"\s*(?:template\s*<.*>\s*)?(?:typedef\s+)?(struct|class|union|enum)\b", re.DOTALL)
_NESTED = re.compile(r'\s*(?:inline\s+)?(?:namespace\b[\w\s:]*|extern\s*"[^"]*"\s*)$')


def has_host_code(text: str) -> bool:
    """Return True if a CUDA file contains host code, which device-only compilers reject."""
    return _HOST_CODE.search(_COMMENT.sub(" ", text)) is not None


def device_part(text: str) -> str:
    """Return a CUDA file without host functions and host variables; line numbers are preserved."""
    blank = _blanked(text)
    return _declarations(text, blank, 0, len(text))


def _blanked(text: str) -> str:
    """Return the text with comments, literals and directives blanked, so that all remaining brackets are code."""

    def blanks(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    plain = re.compile(f"{_COMMENT.pattern}|{_LITERAL.pattern}", re.DOTALL)
    # A directive is matched as one token, including literals in it (#include "x").
    return re.sub(r"(?m)^" + _DIRECTIVE.pattern, blanks, plain.sub(blanks, text))


def _declarations(text: str, blank: str, start: int, end: int) -> str:
    """Return the declarations between two positions in the text, with host code replaced by empty lines."""
    out, at = [], start
    while at < end:
        stop, opening = _item(blank, at, end)
        head = blank[at : opening if opening >= 0 else stop]
        if opening >= 0 and _NESTED.match(_with_literals(text, blank, at, opening)):
            out.append(
                text[at : opening + 1] + _declarations(text, blank, opening + 1, stop - 1) + text[stop - 1 : stop]
            )
        elif _is_for_device(head, opening >= 0):
            out.append(text[at:stop])
        else:
            out.append(_lines_alone(text, blank, at, stop))
        at = stop
    return "".join(out)


def _with_literals(text: str, blank: str, start: int, end: int) -> str:
    """Return the text before a declaration's body, including the literal of ``extern "C"``."""
    words = blank[start:end].strip()
    return 'extern "C"' if words == "extern" and '"' in text[start:end] else words


def _item(blank: str, start: int, end: int) -> tuple[int, int]:
    """Return the end of the declaration that begins at ``start``, and the position where its body opens."""
    depth, opening = 0, -1
    for at in range(start, end):
        c = blank[at]
        if c in "([{":
            if c == "{" and depth == 0 and opening < 0:
                opening = at
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0 and c == "}" and opening >= 0 and _is_function_or_scope(blank[start:opening]):
                return at + 1, opening
        elif c == ";" and depth == 0:
            return at + 1, opening
    return end, opening


def _is_function_or_scope(head: str) -> bool:
    """Return True if a declaration whose body ends with this bracket needs no semicolon."""
    return not _TYPES.match(head) and "=" not in head.partition("(")[0]


def _is_for_device(head: str, has_body: bool) -> bool:
    if _DEVICE_WORDS.search(head) or _TYPES.match(head):
        return True
    words = head.split()
    if not words or words[0] in ("using", "typedef", "template", "static_assert"):
        return words[:2] != ["using", "namespace"] and (words[:1] != ["template"] or not has_body)
    if words[0] in ("const", "static") and "(" not in head.partition("=")[0]:
        return "std::" not in head  # keep this variable, a constant that device code may use
    return False


def _lines_alone(text: str, blank: str, start: int, end: int) -> str:
    """Return host code in which all lines except preprocessor directives are empty."""
    pieces, at = [], start
    for match in re.finditer(r"(?m)^" + _DIRECTIVE.pattern, text[start:end]):
        begin, after = start + match.start(), start + match.end()
        if blank[begin:after].strip():
            continue  # skip a "#" that does not start a directive: in a comment, a literal or the middle of a line
        pieces.append("\n" * text.count("\n", at, begin) + text[begin:after])
        at = after
    pieces.append("\n" * text.count("\n", at, end))
    return "".join(pieces)
