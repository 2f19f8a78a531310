"""Mutants of device code: all small edits of a ``.cuh`` file, at every position.

An edit imitates a plausible mistake: a missing statement, another operator, a number that is off by one, or a wrong
identity, width, predicate or index term. Comments, preprocessor lines, assertions and strings are not edited. Mutants
are listed in the order of their positions, so that a seed identifies a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One edit: ``new`` replaces ``old`` at position ``start`` of ``header`` (a path below include/autosched)."""

    header: str
    line: int
    kind: str
    start: int
    old: str
    new: str

    @property
    def name(self) -> str:
        return (
            f"{self.header}:{self.line} {self.kind}: `{' '.join(self.old.split())}` -> `{' '.join(self.new.split())}`"
        )

    def applied(self, text: str) -> str:
        """Apply the edit to ``text``, the content of the header, and return the result."""
        assert text[self.start : self.start + len(self.old)] == self.old
        return text[: self.start] + self.new + text[self.start + len(self.old) :]


# Replacements of operators. Spaces around an operator distinguish it from template brackets and addresses.
_OPERATORS = {
    " < ": (" <= ", " > "),
    " <= ": (" < ",),
    " > ": (" >= ", " < "),
    " >= ": (" > ",),
    " == ": (" != ",),
    " != ": (" == ",),
    " + ": (" - ",),
    " - ": (" + ",),
    " * ": (" / ", " + "),
    " / ": (" * ", " % "),
    " % ": (" / ",),
    " && ": (" || ",),
    " || ": (" && ",),
    " << ": (" >> ",),
    " >> ": (" << ",),
    " & ": (" | ",),
    " | ": (" & ",),
    " ^ ": (" | ",),
    " += ": (" = ", " -= "),
    " *= ": (" = ",),
    " |= ": (" = ",),
}
_WORDS = {
    "negative_infinity()": ("0.0f", "-3.402823466e38f"),
    "max_nan": ("min_nan",),
    "threadIdx.x": ("blockIdx.x",),
    "blockIdx.x": ("threadIdx.x",),
    "true": ("false",),
    "false": ("true",),
}
_NAMES = ((r"\bmajor\b", "minor"), (r"\bTilesM\b", "TilesN"), (r"\bwarp_m\b", "warp_n"), (r"\brow\b(?!\()", "col"))
_OPERATOR = re.compile("|".join(re.escape(o) for o in sorted(_OPERATORS, key=len, reverse=True)))
_WORD = re.compile("|".join(rf"(?<!\w){re.escape(w)}(?!\w)" for w in _WORDS))
_NUMBER = re.compile(r"(?<![\w.])(\d+)(u?)(?![\w.])")
_FLOAT = re.compile(r"(?<![\w.])(\d+\.\d+)f\b")
_CONDITION = re.compile(r"\bif \((?!constexpr)")
_TERM = re.compile(r" [+-] [\w:.]+(?:\[\w+\])?(?=[;,)\]])")
_FACTOR = re.compile(r" \* [\w:.]+(?:\[\w+\])?(?=[;,)\] ])")
_CONJUNCT = re.compile(r" (?:&&|\|\|) [\w:. ()%<>=!+\-\[\]]+?(?=\)? (?:&&|\|\||\?)|;|\) )")
_CHOICE = re.compile(r"\? ([\w:.]+(?:\([^()]*\))?) : ([\w:.]+(?:\([^()]*\))?)(?=[;,) ])")
_STATEMENT = re.compile(
    r"^[ ]*(?P<statement>"
    r"(?!return\b|using\b|template\b|static\b|constexpr\b|const\b|struct\b|typename\b|friend\b|case\b)"
    r"[A-Za-z_*][\w:.<>\[\], ]*(?:\(.*\)| (?:[-+*/|&^]|<<|>>)?= .*|\+\+|--);)$",
    re.MULTILINE,
)
_DECLARATION = re.compile(r"^(?:unsigned|int|float|bool|long long|auto|[A-Z]\w*(?:<.*>)?) \w+( =|\{|\()")
_GUARD = re.compile(r"\b(?P<guard>if \((?:[^()]|\([^()]*\))*\)) (?P<jump>continue|return[^;]*);")
_TEMPLATE_ARGUMENT = re.compile(r"(?<=[\w])<([\w:]+|\d+)>(?=\()")


def mutants_of(header: str, text: str) -> Iterator[Mutant]:
    """Return every mutant of one file."""
    code = _blanked(text)

    def mutant(kind: str, start: int, old: str, new: str) -> Mutant:
        return Mutant(header, text.count("\n", 0, start) + 1, kind, start, text[start : start + len(old)], new)

    for match in _STATEMENT.finditer(code):
        statement = match["statement"]
        if not _DECLARATION.match(statement):
            yield mutant("statement left out", match.start("statement"), statement, ";")
    for match in _GUARD.finditer(code):
        yield mutant("guard left out", match.start(), match[0], ";")
    for match in _OPERATOR.finditer(code):
        for new in _OPERATORS[match[0]]:
            yield mutant("operator", match.start(), match[0], new)
    for match in _WORD.finditer(code):
        for new in _WORDS[match[0]]:
            yield mutant("identity or name", match.start(), match[0], new)
    for pattern, new in _NAMES:
        for match in re.finditer(pattern, code):
            yield mutant("name", match.start(), match[0], new)
    for match in _NUMBER.finditer(code):
        value = int(match[1])
        for other in (value + 1, value - 1) if value > 0 else (1,):
            yield mutant("number", match.start(), match[0], f"{other}{match[2]}")
    for match in _FLOAT.finditer(code):
        yield mutant("number", match.start(), match[0], "1.0f" if float(match[1]) == 0.0 else "0.0f")
    for match in _CONDITION.finditer(code):
        end = _closing(code, match.end() - 1)
        condition = code[match.end() : end]
        for new in ("true", "false", f"!({text[match.end() : end]})"):
            yield mutant("condition", match.end(), condition, new)
    for kind, pattern in (("term left out", _TERM), ("factor left out", _FACTOR), ("condition left out", _CONJUNCT)):
        for match in pattern.finditer(code):
            yield mutant(kind, match.start(), match[0], "")
    for match in _CHOICE.finditer(code):
        yield mutant("choice", match.start(), match[0], f"? {match[2]} : {match[1]}")
    for match in _TEMPLATE_ARGUMENT.finditer(code):
        yield mutant("width", match.start(), match[0], f"<({match[1]}) + 1>")


def _blanked(text: str) -> str:
    """Return ``text`` with spaces in place of everything that is not mutated. Positions are unchanged."""

    def blanks(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = re.sub(r"//[^\n]*", blanks, text)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', blanks, text)
    text = re.sub(r"^ *#[^\n]*", blanks, text, flags=re.MULTILINE)
    text = re.sub(r"^ *template <[^{};]*?>\n", blanks, text, flags=re.MULTILINE)
    return re.sub(r"\bstatic_assert\([^;]*;", blanks, text)


def _closing(code: str, opening: int) -> int:
    """Return the position of the bracket that closes the bracket at ``opening``."""
    depth = 0
    for position in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return opening
