"""Generate loops over the registers of a thread. Consecutive statements for equally many registers share a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from search_spaces.programs.language.ir import Source

# Returns the statement for a register or group of registers, given the (first) register's index.
Text = Callable[[str], str]


@dataclass(frozen=True)
class _Statement:
    text: Text
    width: int
    source: Source


@dataclass
class Code:
    """The lines of a kernel's body.

    A statement on all registers of a value is not written immediately, so that it can share a loop with later
    statements.
    """

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    _count: int = 0
    _statements: list[_Statement] = field(default_factory=list)
    _written: set[str] = field(default_factory=set)
    _tables: dict[tuple[int, ...], str] = field(default_factory=dict)
    source: Source | None = None  # position in the user's program of the operation that is being emitted
    prefix: str = ""  # prefix of the names of constant tables

    @contextmanager
    def default_source(self, source: Source) -> Iterator[None]:
        """Make ``source`` the default source position of lines that the ``with`` body adds."""
        before, self.source = self.source, source
        try:
            yield
        finally:
            self.source = before

    def add(self, line: str, source: Source | None = None) -> None:
        """Write the collected statements as a loop, then add a line."""
        self.flush()
        self._put(line, source)

    def _put(self, line: str, source: Source | None) -> None:
        """Write a ``#line`` directive and a line.

        Without the directive, the compiler would attribute the line to a wrong line of the program.
        """
        source = source or self.source
        if source is not None and not line.startswith("#"):
            self.lines.append(f'#line {source.line} "{source.file}"')
        self.lines.append(line if line.startswith("#") else "  " * self.depth + line)

    def declare(self, line: str) -> None:
        """Write a declaration immediately, before the statements that are still being collected for a common loop."""
        self._put(line, None)

    def open(self, line: str, source: Source | None = None) -> None:
        """Add a line that opens a brace."""
        self.add(line, source)
        self.depth += 1

    def close(self, line: str = "}") -> None:
        """Add a line that closes a brace."""
        self.flush()
        self.depth -= 1
        self._put(line, None)

    def each(
        self, count: int, text: Text, source: Source, *, width: int = 1, writes: str = "", scattered: Iterable[str] = ()
    ) -> None:
        """Add a statement for each register, or for each group of ``width`` registers.

        Args:
            count: Number of registers.
            text: Function that returns the statement for register r.
            source: Source position in the user's program.
            width: Number of registers per statement.
            writes: Name of the array that the statement writes; "" for none.
            scattered: Arrays that the statement reads at indices other than r. If collected statements write one of
                these arrays, their loop ends before this statement.
        """
        if count != self._count or self._written & set(scattered):
            self.flush()
        self._count = count
        self._statements.append(_Statement(text, width, source))
        if writes:
            self._written.add(writes)

    def flush(self) -> None:
        """Write the collected statements as a loop."""
        statements, self._statements = self._statements, []
        self._written = set()
        if not statements:
            return
        step = max(s.width for s in statements)
        if self._count == step == 1:
            for statement in statements:
                self._put(statement.text("0"), statement.source)
            return
        first = statements[0].source
        self._put("#pragma unroll", None)
        self._put(f"for (int r = 0; r < {self._count}; r += {step}) {{", first)
        self.depth += 1
        at = 0
        while at < len(statements):
            width, end = statements[at].width, at
            while end < len(statements) and statements[end].width == width:
                end += 1
            index = "r"
            if width < step:
                index = "e"
                self._put("#pragma unroll", None)
                self._put(f"for (int e = r; e < r + {step}; e += {width}) {{", first)
                self.depth += 1
            for statement in statements[at:end]:
                self._put(statement.text(index), statement.source)
            if width < step:
                self.depth -= 1
                self._put("}", first)
            at = end
        self.depth -= 1
        self._put("}", first)

    def table(self, numbers: tuple[int, ...]) -> str:
        """Return the name of a constant table that contains these numbers."""
        return self._tables.setdefault(numbers, f"{self.prefix}table_{len(self._tables) + 1}")

    def at(self, numbers: tuple[int, ...], index: str) -> str:
        """Return CUDA C++ for ``numbers[index]``: a formula or an access to a constant table."""
        first = numbers[0]
        if all(n == first for n in numbers):
            return str(first)
        if len(numbers) > 1 and numbers == tuple(first + i * (numbers[1] - first) for i in range(len(numbers))):
            step, wide = numbers[1] - first, "ll" if _is_far(numbers) else ""
            text = index if step == 1 else f"{index} * {step}{wide}"
            return text if first == 0 else f"({text} + {first})"
        return f"{self.table(numbers)}[{index}]"

    @property
    def tables(self) -> list[str]:
        """Definitions of all constant tables, as CUDA C++."""
        return [
            f"__device__ constexpr {'long long' if _is_far(numbers) else 'int'} {name}[{len(numbers)}] = "
            f"{{{', '.join(map(str, numbers))}}};"
            for numbers, name in self._tables.items()
        ]


def _is_far(numbers: tuple[int, ...]) -> bool:
    """Return True if some number, such as an offset in a large array, does not fit in a 32-bit int."""
    return max(map(abs, numbers)) >= 1 << 31
