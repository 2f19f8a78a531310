"""Mutants of device code: all small edits of a ``.cuh`` file, at every position.

An edit imitates a plausible mistake: a missing statement, another operator, a number that is off by one, or a wrong
identity, width, predicate or index term. Comments, preprocessor lines, assertions and strings are not edited. Mutants
are in file order, so that a seed identifies a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A fault of some ``kind``: ``new`` replaces ``old`` at ``start`` in ``header`` (below include/autosched)."""

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
        """Return ``text``, which must be the file's content, with the edit applied."""
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

    def made(kind: str, start: int, old: str, new: str) -> Mutant:
        return Mutant(header, text.count("\n", 0, start) + 1, kind, start, text[start : start + len(old)], new)

    for found in _STATEMENT.finditer(code):
        statement = found["statement"]
        if not _DECLARATION.match(statement):
            yield made("statement left out", found.start("statement"), statement, ";")
    for found in _GUARD.finditer(code):
        yield made("guard left out", found.start(), found[0], ";")
    for found in _OPERATOR.finditer(code):
        for new in _OPERATORS[found[0]]:
            yield made("operator", found.start(), found[0], new)
    for found in _WORD.finditer(code):
        for new in _WORDS[found[0]]:
            yield made("identity or name", found.start(), found[0], new)
    for pattern, new in _NAMES:
        for found in re.finditer(pattern, code):
            yield made("name", found.start(), found[0], new)
    for found in _NUMBER.finditer(code):
        value = int(found[1])
        for other in (value + 1, value - 1) if value > 0 else (1,):
            yield made("number", found.start(), found[0], f"{other}{found[2]}")
    for found in _FLOAT.finditer(code):
        yield made("number", found.start(), found[0], "1.0f" if float(found[1]) == 0.0 else "0.0f")
    for found in _CONDITION.finditer(code):
        end = _closing(code, found.end() - 1)
        condition = code[found.end() : end]
        for new in ("true", "false", f"!({text[found.end() : end]})"):
            yield made("condition", found.end(), condition, new)
    for kind, pattern in (("term left out", _TERM), ("factor left out", _FACTOR), ("condition left out", _CONJUNCT)):
        for found in pattern.finditer(code):
            yield made(kind, found.start(), found[0], "")
    for found in _CHOICE.finditer(code):
        yield made("choice", found.start(), found[0], f"? {found[2]} : {found[1]}")
    for found in _TEMPLATE_ARGUMENT.finditer(code):
        yield made("width", found.start(), found[0], f"<({found[1]}) + 1>")


def _blanked(text: str) -> str:
    """Return ``text`` with everything that is not mutated replaced by spaces, so that positions are unchanged."""

    def blanks(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    text = re.sub(r"//[^\n]*", blanks, text)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', blanks, text)
    text = re.sub(r"^ *#[^\n]*", blanks, text, flags=re.MULTILINE)
    text = re.sub(r"^ *template <[^{};]*?>\n", blanks, text, flags=re.MULTILINE)
    return re.sub(r"\bstatic_assert\([^;]*;", blanks, text)


def _closing(code: str, opening: int) -> int:
    """Return the position of the bracket that closes the bracket at ``opening``."""
    depth = 0
    for place in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return opening
