"""The operands of instructions (PTX ISA, 6.4) and literals (4.5)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Container

from measurements.emulator.ptx.cursor import PtxError
from measurements.emulator.ptx.syntax import (
    Address,
    Group,
    Minus,
    Not,
    Number,
    Operand,
    Pair,
    Register,
    RegisterPart,
    Symbol,
    Vector,
)

_TOKEN = re.compile(
    r"\s*(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|[%$A-Za-z_][\w$.%]*|\d[\w.]*(?:[eE][+-]?\d+)?|[\[\]{}(),|!+\-~])"
)
# The most common operands, and the commas between them.
_NAME = re.compile(r"\s*([%$A-Za-z_][\w$.%]*)\s*")
_DECIMAL = re.compile(r"\s*(-?)(0|[1-9]\d*)\s*")
_ADDRESS = re.compile(r"\s*\[\s*([%$A-Za-z_][\w$.%]*)\s*(?:\+\s*(-?)(0|[1-9]\d*)\s*)?\]\s*")
_VECTOR = re.compile(r"\s*\{([^{}\[\]()]*)\}\s*")
_PART = re.compile(r"([%$\w]+)\.([bh]\d+)")
_COMMA = re.compile(r",(?![^{}\[\]()]*[}\])])")


class OperandReader:
    """Reads operands of one function. Declared registers are added to ``registers``.

    ``renamed`` returns the replacement of a name that an inner scope redeclares.
    """

    def __init__(self, registers: Container[str], renamed: Callable[[str], str]) -> None:
        self._registers, self._renamed = registers, renamed
        # Parsed operands by text, because many texts occur several times.
        self._known: dict[str, Operand] = {}
        self._scoped: set[str] = set()  # names that have different meanings in different scopes
        self._tokens: list[str] = []
        self._next = 0

    def declared(self, name: str, *, in_scope: bool) -> None:
        """Forget cached operands with this name, because its meaning may change."""
        if in_scope and name not in self._scoped:
            self._scoped.add(name)
            self._known.clear()
        elif not in_scope and self._known:
            self._known.clear()

    def read(self, text: str) -> tuple[Operand, ...]:
        """Return the comma-separated operands in ``text``.

        Raises:
            PtxError: If ``text`` is invalid. The message contains no line number yet.
        """
        if not text:
            return ()
        operands = []
        for part in _COMMA.split(text) if "{" in text or "(" in text else text.split(","):
            operand = self._known.get(part) or self._usual(part)
            if operand is None:
                return self._parsed(text)
            operands.append(operand)
        return tuple(operands)

    # Fast path for the operands of nearly all compiler output, with the same result as _parsed.

    def _usual(self, part: str) -> Operand | None:
        """Return an operand of a common form. Returns None if the full grammar is needed."""
        operand: Operand | None = None
        if "." in part and _PART.search(part):
            return None
        if match := _NAME.fullmatch(part):
            name = match[1]
            operand = self._named(name)
            if name not in self._scoped:
                self._known[part] = operand
        elif match := _ADDRESS.fullmatch(part):
            base = self._named(match[1])
            if isinstance(base, Register | Symbol):
                operand = Address(base, int(match[2] + match[3]) if match[3] else 0)
        elif match := _VECTOR.fullmatch(part):
            items = [self._known.get(item) or self._usual(item) for item in match[1].split(",")]
            operand = Vector(tuple(item for item in items if item is not None))
            if len(operand.items) < len(items):
                return None
        elif match := _DECIMAL.fullmatch(part):
            self._known[part] = operand = Number(int(match[1] + match[2]) & 2**64 - 1)
        return operand

    def _named(self, token: str) -> Register | Symbol | Number:
        if token == "WARP_SZ":
            return Number(32)
        name = self._renamed(token) if token in self._scoped else token
        return Register(name) if name[0] == "%" or name in self._registers or name == "_" else Symbol(name)

    # The full grammar of operands.

    def _parsed(self, text: str) -> tuple[Operand, ...]:
        tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise PtxError(f"not understood: {text[at:].strip()[:60]}")
            tokens.append(match[1])
            at = match.end()
        self._tokens, self._next = tokens, 0
        operands: list[Operand] = []
        while self._next < len(tokens):
            operands.append(self._operand())
            if self._next < len(tokens):
                if tokens[self._next] != ",":
                    raise PtxError(f"expected a comma before {tokens[self._next]!r}")
                self._next += 1
        return tuple(operands)

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _pop(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _items(self, close: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while self._peek() != close:
            if not self._peek():
                raise PtxError(f"{close!r} is missing")
            items.append(self._operand())
            if self._peek() == ",":
                self._pop()
        self._pop()
        return tuple(items)

    def _operand(self) -> Operand:
        token = self._pop()
        if token == "[":
            return self._address()
        if token == "{":
            if self._peek() == "}":
                raise PtxError("an empty vector")
            return Vector(self._items("}"))
        if token == "(":
            return Group(self._items(")"))
        if token == "!":
            return Not(self._operand())
        if token in ("-", "+", "~"):
            value = self._operand()
            if token == "-" and isinstance(value, Register | RegisterPart):
                return Minus(value)
            if not isinstance(value, Number):
                raise PtxError(f"{token} is not followed by a number")
            if token == "-":
                return negative(value)
            return value if token == "+" else Number(~value.bits & 2**64 - 1)
        operand: Operand
        if token[:1].isdigit():
            operand = number(token)
        elif not _NAME.fullmatch(token):
            raise PtxError(f"an operand is missing before {token!r}" if token else "an operand is missing")
        elif (match := _PART.fullmatch(token)) and isinstance(register := self._named(match[1]), Register):
            operand = RegisterPart(register, match[2])
        else:
            operand = self._named(token)
            if isinstance(operand, Symbol) and self._peek() in ("+", "-"):
                sign = 1 if self._pop() == "+" else -1
                operand = Symbol(operand.name, sign * _integer(self._pop()))
        if self._peek() == "|":
            self._pop()
            return Pair(operand, self._operand())
        return operand

    def _address(self) -> Address:
        base = self._operand()
        offset = 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        while self._peek() in ("+", "-"):
            sign = 1 if self._pop() == "+" else -1
            if self._peek() == "-":
                self._pop()
                sign = -sign
            offset += sign * _integer(self._pop())
        if self._peek() == ",":  # after the comma: coordinates in a tensor
            self._pop()
            inside = self._items("]")
            if len(inside) != 1 or not isinstance(inside[0], Vector) or not isinstance(base, Register | Symbol):
                raise PtxError("an invalid address")
            return Address(base, offset, inside[0].items)
        if self._pop() != "]" or not isinstance(base, Register | Symbol | Number):
            raise PtxError("an invalid address")
        return Address(base, offset)


def number(token: str) -> Number:
    """Return the number that a literal represents. Raises PtxError."""
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


def negative(value: Number) -> Number:
    """Return the arithmetic negation of a literal."""
    if value.kind == "i":
        return Number(-value.bits & 2**64 - 1)
    return Number(value.bits ^ (2**31 if value.kind == "f" else 2**63), value.kind)


def _integer(token: str) -> int:
    value = number(token).bits
    return value - 2**64 if value >= 2**63 else value
