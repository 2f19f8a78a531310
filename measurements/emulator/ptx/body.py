"""Parse the body of a function: instructions, labels, declarations and source lines (PTX ISA, chapter 4)."""

from __future__ import annotations

import re
from dataclasses import replace

from measurements.emulator.ptx.cursor import Cursor, PtxError
from measurements.emulator.ptx.declarations import MOST_LOCAL, MOST_REGISTERS, VARIABLE, type_of, variables
from measurements.emulator.ptx.operands import OperandReader
from measurements.emulator.ptx.syntax import TYPE_BYTES, Frame, Function, Instruction, Symbol, Variable

LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,?\s*function_name\s+[^\s,]+\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?[^\n]*"
)
FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"[^\n]*')
_LABEL = re.compile(r"([$%\w.]+)\s*:(?!:)")
_MNEMONIC = re.compile(r"(?:@(!?)\s*([%$\w]+)\s+)?([a-z]\w*)((?:\.[\w:]+)*)\s*", re.DOTALL)
# Fast path for an instruction on a separate line, as in nearly all compiler output. The result is the same as
# with _MNEMONIC.
_LINE = re.compile(r'\s*((?:@(!?)([%$\w]+)[ \t]+)?([a-z]\w*)((?:\.[\w:]+)*)[ \t]*([^;:"/\n]*));')

_Location = tuple[int, int, int]  # file, line, column


class Body:
    """Parser of one function, which flattens ``{ }`` scopes. ``files``: source files by their number in ``.file``."""

    def __init__(
        self,
        cursor: Cursor,
        files: dict[int, str],
        name: str,
        is_kernel: bool,
        results: tuple[Variable, ...],
        parameters: tuple[Variable, ...],
    ) -> None:
        self.cursor, self.files = cursor, files
        self.name, self.is_kernel = name, is_kernel
        self.results, self.params = results, parameters
        self.registers: dict[str, int] = {
            p.name: TYPE_BYTES[p.type] for p in (*results, *parameters) if p.space == "reg"
        }
        self.variables: list[Variable] = []
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.scopes: list[dict[str, str]] = []  # for each open scope: new names of the redeclared names
        self.scope_number = 0
        self.operands = OperandReader(self.registers, self.renamed)
        self.qualifiers: dict[str, tuple[str, ...]] = {}  # parsed qualifiers, by their text
        self.lines = _Lines(files)
        self.local_bytes = 0

    def read(self) -> Function:
        """Parse the body, and return the function. Raises PtxError."""
        c = self.cursor
        text = c.text
        depth = 0
        starts: list[int] = []  # number of instructions before each open scope
        pending = ""
        while True:
            if match := _LINE.match(text, c.at):
                c.at = match.end()
                self.instruction(match[1], match[2], match[3], match[4], match[5], match[6], match.start(1))
                pending = ""
            elif match := LOC.match(text, c.at):
                c.at = match.end()
                self.lines.enter(match)
            elif self.moved():
                continue
            elif text[c.at] == "{":
                c.at += 1
                depth += 1
                self.scopes.append({})
                starts.append(len(self.body))
            elif text[c.at] == "}":
                c.at += 1
                depth -= 1
                self.resolve_forward(self.scopes.pop(), starts.pop())
                if depth == 0:
                    self.check_targets()
                    return Function(
                        self.name, self.is_kernel, self.results, self.params, self.registers, tuple(self.variables),
                        tuple(self.body), self.labels, self.tables,
                    )  # fmt: skip
            elif c.take(FILE):
                continue
            elif match := c.take(_LABEL):
                pending = self.declare(match[1])
                self.labels[pending] = len(self.body)
            else:
                self.statement(pending)
                pending = ""

    def check_targets(self) -> None:
        """Raise PtxError if a branch has a label that the function does not define."""
        for i in self.body:
            target = i.operands[0] if i.opcode == "bra" else None
            if isinstance(target, Symbol) and target.name not in self.labels:
                raise PtxError(f"PTX line {i.line}: {self.name} does not define the label {target.name}")
        for name, targets in self.tables.items():
            missing = next((label for label in targets if label not in self.labels), None)
            if missing is not None:
                raise PtxError(f"{self.name} does not define the label {missing}, which {name} lists")

    def moved(self) -> bool:
        """Skip blanks and comments; return True if there were any. Raises PtxError at the end of the text."""
        before = self.cursor.at
        if not self.cursor.skip():
            raise self.cursor.error(f"the body of {self.name} does not end")
        return self.cursor.at != before

    def declare(self, name: str) -> str:
        """Declare a name in this scope. Return a new name if an outer or an earlier scope has declared it."""
        inner = len(self.scopes) > 1 and not name.startswith("$L")
        self.operands.declared(name, in_scope=inner)
        if not inner:
            return name
        self.scope_number += 1
        mine = f"{name}#{self.scope_number}"
        self.scopes[-1][name] = mine
        return mine

    def resolve_forward(self, names: dict[str, str], start: int) -> None:
        """Resolve branches of a finished scope to labels that the scope declares after the branch."""
        for k in range(start, len(self.body) if names else start):
            i = self.body[k]
            target = i.operands[0] if i.opcode == "bra" else None
            if isinstance(target, Symbol) and target.name in names and names[target.name] in self.labels:
                self.body[k] = replace(i, operands=(Symbol(names[target.name]),))

    def renamed(self, name: str) -> str:
        """Return the name that replaces ``name`` in the open scopes."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def statement(self, label: str) -> None:
        """Parse the next directive or instruction."""
        c = self.cursor
        start = c.at
        text = c.statement().strip()
        if text.startswith("."):
            self.directive(text, label, start)
            return
        match = _MNEMONIC.match(text)
        if match is None:
            raise c.error(f"not understood: {text[:80]}", start)
        self.instruction(text, match[1], match[2], match[3], match[4], text[match.end() :], start)

    def instruction(
        self,
        text: str,
        negation: str | None,
        guard: str | None,
        opcode: str,
        qualifiers: str,
        operands: str,
        start: int,
    ) -> None:
        """Parse the operands of an instruction and append it to the body."""
        known = self.qualifiers.get(qualifiers)
        if known is None:
            known = self.qualifiers[qualifiers] = tuple(qualifiers.split(".")[1:])
        try:
            read = self.operands.read(operands.rstrip())
        except PtxError as error:
            raise self.cursor.error(str(error), start) from None
        self.body.append(
            Instruction(
                opcode, known, read, self.renamed(guard) if guard else "", negation == "!", self.cursor.line(start),
                " ".join(text.split()), self.lines.frames,
            )
        )  # fmt: skip

    def directive(self, text: str, label: str, start: int) -> None:
        """Parse a directive: a table of branch targets, or declarations of registers or variables."""
        if text.startswith(".branchtargets"):
            self.tables[label] = tuple(self.renamed(n.strip()) for n in text[len(".branchtargets") :].split(","))
            return
        if text.startswith((".pragma", ".callprototype", ".calltargets")):
            return
        match = VARIABLE.match(text)
        if match is None:
            raise self.cursor.error(f"not understood: {text[:80]}", start)
        if match[1] != "reg":
            for v in self.cursor.attempt(start, variables, match):
                self.local_bytes += v.bytes if v.space == "local" else 0
                if self.local_bytes > MOST_LOCAL:
                    raise self.cursor.error(f"{self.name} has more than {MOST_LOCAL:,} bytes of local memory", start)
                self.variables.append(replace(v, name=self.declare(v.name)))
            return
        kind = type_of(match[2])
        width = max(TYPE_BYTES[kind], 2) if kind != "pred" else 0
        for name in match[3].split(","):
            ranged = re.fullmatch(r"\s*([%$\w]+?)<(\d+)>\s*", name)
            if ranged:
                if len(ranged[2]) > 7 or len(self.registers) + int(ranged[2]) > MOST_REGISTERS:
                    raise self.cursor.error(f"{self.name} declares more than {MOST_REGISTERS:,} registers", start)
                for k in range(int(ranged[2])):
                    self.registers[self.declare(f"{ranged[1]}{k}")] = width
            else:
                self.registers[self.declare(name.strip())] = width


class _Lines:
    """Tracks the source line of the next instruction, and the lines into which it is inlined."""

    def __init__(self, files: dict[int, str]) -> None:
        self.frames: tuple[Frame, ...] = ()
        self._files = files
        self._outer: dict[_Location, _Location | None] = {}
        # Cached results of ``enter`` by the text of .loc, valid for the current inlined position.
        self._known: dict[str, tuple[Frame, ...]] = {}

    def enter(self, loc: re.Match[str]) -> None:
        """Process a .loc directive, which sets the source line of later instructions."""
        known = self._known.get(loc[0])
        if known is not None:
            self.frames = known
            return
        numbers = [int(g) if g is not None else -1 for g in loc.groups()]
        here, outer = (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5])
        if numbers[1] == 0:  # line 0 means that the line is unknown: keep the last known line
            return
        inlined = outer if numbers[3] >= 0 else None
        if here not in self._outer or self._outer[here] != inlined:
            self._outer[here] = inlined
            self._known.clear()
        frames: list[Frame] = []
        at: _Location | None = here
        while at is not None and len(frames) < 64:
            frames.append(Frame(self._files.get(at[0], f"file {at[0]}"), at[1]))
            at = self._outer.get(at)
        self.frames = self._known[loc[0]] = tuple(frames)
