"""Reads PTX text (PTX ISA, chapters 4 to 6) as NVRTC, nvcc, clang and Triton write it."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import replace

from measurements.emulator.ptx.syntax import (
    Address,
    Frame,
    Function,
    Group,
    Instruction,
    Module,
    Not,
    Number,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

TYPE_BYTES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,?\s*function_name\s+[^\s,]+\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?[^\n]*"
)
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"[^\n]*')
_BLOCKS_OF_SM = re.compile(r"\.minnctapersm\s+(\d+)")
_CLUSTER = re.compile(r"\.reqnctapercluster\s+(\d+(?:\s*,\s*\d+)*)")
_LABEL = re.compile(r"([$%\w.]+)\s*:(?!:)")
_STATEMENT = re.compile(r"(?:[^;\"]|\"[^\"]*\")*?;", re.DOTALL)
_MODULE_LINE = re.compile(r"\.(version|target|address_size)\s+([^\n]*)")
_FUNCTION = re.compile(r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(entry|func)\b")
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(global|const|shared|local|param|reg)\b((?:\s*\.\w+(?:\s+\d+)?)*)\s*([^;]*?)$",
    re.DOTALL,
)
_PARAMETER = re.compile(r"\.(param|reg)\b((?:\s*\.\w+(?:\s+\d+)?)*)\s+([%$\w]+)\s*((?:\[\s*\d*\s*\])*)")
_MNEMONIC = re.compile(r"(?:@(!?)\s*([%$\w]+)\s+)?([a-z]\w*)((?:\.[\w:]+)*)\s*", re.DOTALL)
_OPERAND_TOKEN = re.compile(
    r"\s*(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|[%$A-Za-z_][\w$.%]*|\d[\w.]*(?:[eE][+-]?\d+)?|[\[\]{}(),|!+\-~])"
)


class PtxError(ValueError):
    """The text is not PTX, or not what this parser knows. The message is one line that names the PTX line."""


def parse(text: str) -> Module:
    """Raises PtxError."""
    # Debug sections, which hold only numbers, come last and are as long as all the rest.
    debug = re.search(r"^\s*\.section\b", text, re.MULTILINE)
    files = {int(n): _unescape(name) for n, name in _FILE.findall(text)}
    return _Parser(text[: debug.start()] if debug else text, files).module()


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


class _Parser:
    def __init__(self, text: str, files: dict[int, str]) -> None:
        self.text, self.files = text, files
        self.at = 0
        self.line_starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def line(self, at: int) -> int:
        return bisect_right(self.line_starts, at)

    def error(self, what: str) -> PtxError:
        return PtxError(f"PTX line {self.line(self.at)}: {what}")

    def skip(self) -> bool:
        """Skips blanks and comments; whether there is more."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def statement(self) -> str:
        found = self.take(_STATEMENT)
        if found is None:
            raise self.error("a statement without a semicolon")
        return _without_comments(found[0][:-1])

    def module(self) -> Module:
        version = target = ""
        variables: list[Variable] = []
        functions: dict[str, Function] = {}
        while self.skip():
            if found := self.take(_MODULE_LINE):
                if found[1] == "version":
                    version = found[2].strip()
                elif found[1] == "target":
                    target = found[2].split(",")[0].strip()
            elif self.take(_FILE) or self.take(_LOC):
                continue
            elif _FUNCTION.match(self.text, self.at):
                function = self.function()
                known = functions.get(function.name)
                if known is None or not known.is_defined:
                    functions[function.name] = function
            elif self.text.startswith(".alias", self.at) or self.text.startswith(".pragma", self.at):
                self.statement()
            else:
                start = self.at
                statement = self.statement()
                found = _VARIABLE.match(statement)
                if found is None:
                    self.at = start
                    raise self.error(f"not understood: {statement.strip()[:80]}")
                variables += _variables(found)
        return Module(version, target, tuple(variables), functions)

    def function(self) -> Function:
        found = self.take(_FUNCTION)
        assert found is not None
        is_kernel = found[2] == "entry"
        self.skip()
        results = () if is_kernel or self.text[self.at] != "(" else self.parameters()
        self.skip()
        name = self.take(re.compile(r"[%$\w]+"))
        if name is None:
            raise self.error("a function without a name")
        self.skip()
        parameters = self.parameters() if self.text.startswith("(", self.at) else ()
        # Performance directives: .maxntid 128, 1, 1 and the like.
        start = self.at
        while self.skip() and self.text[self.at] not in "{;":
            self.at += 1
        directives_end = self.at
        cluster = _CLUSTER.search(self.text, start, directives_end)
        if self.text[self.at] == ";":
            self.at += 1
            return Function(name[0], is_kernel, results, parameters, is_defined=False)
        body = _Body(self, name[0], is_kernel, results, parameters).read()
        if blocks := _BLOCKS_OF_SM.search(self.text, start, directives_end):
            body = replace(body, blocks_of_sm=max(1, int(blocks[1])))
        if cluster is None:
            return body
        sides = [int(n) for n in re.findall(r"\d+", cluster[1])]
        return replace(body, cluster=(*sides, 1, 1)[:3])

    def parameters(self) -> tuple[Variable, ...]:
        end = self.text.find(")", self.at)
        inner = _without_comments(self.text[self.at + 1 : end])
        self.at = end + 1
        return tuple(_parameter(m) for m in _PARAMETER.finditer(inner))


class _Body:
    """The statements of one function, with the scopes of ``{ }`` flattened."""

    def __init__(
        self,
        parser: _Parser,
        name: str,
        is_kernel: bool,
        results: tuple[Variable, ...],
        parameters: tuple[Variable, ...],
    ) -> None:
        self.parser = parser
        self.name, self.is_kernel = name, is_kernel
        self.results, self.params = results, parameters
        self.registers: dict[str, int] = {
            p.name: TYPE_BYTES[p.type] for p in (*results, *parameters) if p.space == "reg"
        }
        self.variables: list[Variable] = []
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.scopes: list[dict[str, str]] = []  # names that a scope declares again, with what stands for them
        self.frames: tuple[Frame, ...] = ()
        self.outer: dict[tuple[int, int, int], tuple[int, int, int] | None] = {}
        self.scope_number = 0

    def read(self) -> Function:
        p = self.parser
        depth = 0
        starts: list[int] = []  # of the open scopes
        pending = ""
        while p.skip():
            if p.text[p.at] == "{":
                p.at += 1
                depth += 1
                self.scopes.append({})
                starts.append(len(self.body))
            elif p.text[p.at] == "}":
                p.at += 1
                depth -= 1
                self.resolve_forward(self.scopes.pop(), starts.pop())
                if depth == 0:
                    return Function(
                        self.name, self.is_kernel, self.results, self.params, self.registers, tuple(self.variables),
                        tuple(self.body), self.labels, self.tables,
                    )  # fmt: skip
            elif found := p.take(_LOC):
                self.location(found)
            elif p.take(_FILE):
                continue
            elif found := p.take(_LABEL):
                pending = self.declare(found[1])
                self.labels[pending] = len(self.body)
            else:
                self.statement(pending)
                pending = ""
        raise p.error(f"the body of {self.name} does not end")

    def location(self, found: re.Match[str]) -> None:
        numbers = [int(g) if g is not None else -1 for g in found.groups()]
        here, outer = (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5])
        if numbers[1] == 0:  # line 0: the compiler names none; the last one stays
            return
        self.outer[here] = outer if numbers[3] >= 0 else None
        frames: list[Frame] = []
        at: tuple[int, int, int] | None = here
        while at is not None and len(frames) < 64:
            frames.append(Frame(self.parser.files.get(at[0], f"file {at[0]}"), at[1]))
            at = self.outer.get(at)
        self.frames = tuple(frames)

    def declare(self, name: str) -> str:
        """A name of this scope: another one where an outer or an earlier scope has it."""
        if len(self.scopes) <= 1 or name.startswith("$L"):
            return name
        self.scope_number += 1
        mine = f"{name}#{self.scope_number}"
        self.scopes[-1][name] = mine
        return mine

    def resolve_forward(self, names: dict[str, str], start: int) -> None:
        """Branches of a finished scope to labels that it has declared behind them."""
        for k in range(start, len(self.body) if names else start):
            i = self.body[k]
            target = i.operands[0] if i.opcode == "bra" else None
            if isinstance(target, Symbol) and target.name in names and names[target.name] in self.labels:
                self.body[k] = replace(i, operands=(Symbol(names[target.name]),))

    def renamed(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def statement(self, label: str) -> None:
        p = self.parser
        start = p.at
        text = p.statement().strip()
        if text.startswith("."):
            self.directive(text, label, start)
            return
        found = _MNEMONIC.match(text)
        if found is None:
            p.at = start
            raise p.error(f"not understood: {text[:80]}")
        operands = self.operands(text[found.end() :], start)
        self.body.append(
            Instruction(
                found[3], tuple(found[4].split(".")[1:]), operands, self.renamed(found[2] or ""), found[1] == "!",
                p.line(start), " ".join(text.split()), self.frames,
            )
        )  # fmt: skip

    def directive(self, text: str, label: str, start: int) -> None:
        if text.startswith(".branchtargets"):
            self.tables[label] = tuple(self.renamed(n.strip()) for n in text[len(".branchtargets") :].split(","))
            return
        if text.startswith((".pragma", ".callprototype", ".calltargets")):
            return
        found = _VARIABLE.match(text)
        if found is None:
            self.parser.at = start
            raise self.parser.error(f"not understood: {text[:80]}")
        if found[1] != "reg":
            for v in _variables(found):
                name = self.declare(v.name)
                self.variables.append(Variable(name, v.space, v.type, v.bytes, v.element_bytes, v.alignment, v.initial))
            return
        kind = _qualifiers(found[2])[0]
        if kind not in TYPE_BYTES:
            self.parser.at = start
            raise self.parser.error(f"registers of type .{kind} are not known")
        width = max(TYPE_BYTES[kind], 2) if kind != "pred" else 0
        for name in found[3].split(","):
            ranged = re.fullmatch(r"\s*([%$\w]+?)<(\d+)>\s*", name)
            if ranged:
                for k in range(int(ranged[2])):
                    self.registers[self.declare(f"{ranged[1]}{k}")] = width
            else:
                self.registers[self.declare(name.strip())] = width

    def operands(self, text: str, start: int) -> tuple[Operand, ...]:
        tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _OPERAND_TOKEN.match(text, at)
            if found is None:
                self.parser.at = start
                raise self.parser.error(f"not understood: {text[at:].strip()[:60]}")
            tokens.append(found[1])
            at = found.end()
        self.tokens, self.next = tokens, 0
        operands: list[Operand] = []
        while self.next < len(tokens):
            operands.append(self.operand(start))
            if self.next < len(tokens):
                if tokens[self.next] != ",":
                    self.parser.at = start
                    raise self.parser.error(f"expected a comma before {tokens[self.next]!r}")
                self.next += 1
        return tuple(operands)

    def peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def pop(self) -> str:
        token = self.peek()
        self.next += 1
        return token

    def items(self, close: str, start: int) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while self.peek() != close:
            if not self.peek():
                self.parser.at = start
                raise self.parser.error(f"{close!r} is missing")
            items.append(self.operand(start))
            if self.peek() == ",":
                self.pop()
        self.pop()
        return tuple(items)

    def operand(self, start: int) -> Operand:
        token = self.pop()
        if token == "[":
            base = self.operand(start)
            offset = 0
            if isinstance(base, Symbol):
                base, offset = Symbol(base.name), base.offset
            while self.peek() in ("+", "-"):
                sign = 1 if self.pop() == "+" else -1
                if self.peek() == "-":
                    self.pop()
                    sign = -sign
                offset += sign * _integer(self.pop())
            if self.peek() == ",":  # a tensor map's coordinates
                self.pop()
                inside = self.items("]", start)
                if len(inside) != 1 or not isinstance(inside[0], Vector) or not isinstance(base, Register | Symbol):
                    self.parser.at = start
                    raise self.parser.error("an address that is not understood")
                return Address(base, offset, inside[0].items)
            if self.pop() != "]" or not isinstance(base, Register | Symbol | Number):
                self.parser.at = start
                raise self.parser.error("an address that is not understood")
            return Address(base, offset)
        if token == "{":
            return Vector(self.items("}", start))
        if token == "(":
            return Group(self.items(")", start))
        if token == "!":
            return Not(self.operand(start))
        if token in ("-", "+", "~"):
            number = self.operand(start)
            if not isinstance(number, Number):
                self.parser.at = start
                raise self.parser.error(f"{token} before what is not a number")
            if token == "-":
                return _negative(number)
            return number if token == "+" else Number(~number.bits & 2**64 - 1)
        operand: Operand
        if token[0].isdigit():
            operand = _number(token)
        elif token == "WARP_SZ":
            operand = Number(32)
        else:
            name = self.renamed(token)
            operand = Register(name) if name[0] == "%" or name in self.registers or name == "_" else Symbol(name)
            if isinstance(operand, Symbol) and self.peek() in ("+", "-"):
                sign = 1 if self.pop() == "+" else -1
                operand = Symbol(name, sign * _integer(self.pop()))
        if self.peek() == "|":
            self.pop()
            return Pair(operand, self.operand(start))
        return operand


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL) if "/" in text else text


def _integer(token: str) -> int:
    number = _number(token)
    value = number.bits
    return value - 2**64 if value >= 2**63 else value


def _number(token: str) -> Number:
    if token[:2] in ("0f", "0F"):
        return Number(int(token[2:], 16), "f")
    if token[:2] in ("0d", "0D"):
        return Number(int(token[2:], 16), "d")
    digits = token.rstrip("U")
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", digits):
        return Number(int(digits, 16) & 2**64 - 1)
    if re.fullmatch(r"0[bB][01]+", digits):
        return Number(int(digits, 2))
    if re.fullmatch(r"0[0-7]+", digits):
        return Number(int(digits, 8))
    if digits.isdigit():
        return Number(int(digits) & 2**64 - 1)
    try:
        return Number(int.from_bytes(struct.pack("<d", float(token)), "little"), "d")
    except ValueError:
        raise PtxError(f"not a number: {token}") from None


def _negative(number: Number) -> Number:
    if number.kind == "i":
        return Number(-number.bits & 2**64 - 1)
    return Number(number.bits ^ (2**31 if number.kind == "f" else 2**63), number.kind)


def _qualifiers(text: str) -> list[str]:
    """The types among ``.align 4 .b8``."""
    return [q for q in re.findall(r"\.(\w+)", text) if q in TYPE_BYTES] or ["b8"]


def _alignment(text: str, element: int) -> int:
    found = re.search(r"\.align\s+(\d+)", text)
    return int(found[1]) if found else max(element, 1)


def _parameter(found: re.Match[str]) -> Variable:
    kind = _qualifiers(found[2])[0]
    count = 1
    for n in re.findall(r"\[\s*(\d*)\s*\]", found[4]):
        count *= int(n or 0)
    element = TYPE_BYTES[kind]
    # ``.ptr .align 16`` speaks of what a pointer points to.
    own = found[2].split(".ptr")[0]
    return Variable(found[3], found[1], kind, element * count, element, _alignment(own, element))


def _variables(found: re.Match[str]) -> list[Variable]:
    kinds = _qualifiers(found[2])
    element = max(TYPE_BYTES[kinds[0]], 1)
    vector = 4 if re.search(r"\.v4\b", found[2]) else 2 if re.search(r"\.v2\b", found[2]) else 1
    declared, _, value = found[3].partition("=")
    variables = []
    for one in declared.split(","):
        name = re.match(r"\s*([%$\w]+)\s*((?:\[\s*\d*\s*\])*)", one)
        if name is None:
            raise PtxError(f"a variable without a name: {one.strip()[:60]}")
        count = vector
        for n in re.findall(r"\[\s*(\d*)\s*\]", name[2]):
            count *= int(n or 0)
        initial = tuple(_initial(v) for v in re.findall(r"[^{},\s][^{},]*", value)) if value.strip() else ()
        if not count and initial:
            count = len(initial)
        variables.append(
            Variable(name[1], found[1], kinds[0], element * count, element, _alignment(found[2], element), initial)
        )
    return variables


def _initial(text: str) -> Operand:
    text = text.strip()
    generic = re.fullmatch(r"generic\(\s*([^)]*?)\s*\)\s*(?:\+\s*(\d+))?", text)
    if generic:
        return Symbol(generic[1], int(generic[2] or 0))
    if text[0] == "-":
        return _negative(_number(text[1:]))
    if text[0].isdigit():
        return _number(text)
    name, _, offset = text.partition("+")
    return Symbol(name.strip(), int(offset or 0))
