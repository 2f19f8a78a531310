"""Read the tables of a TOML or JSON document key by key.

An error about a missing key, a wrong type or an unknown key is one line with the position of the key.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.expressions import Expression, from_function, parse, suggestion
from autosched.user_kernels.function_traits import function_text
from measurements.files.bounded import read_bounded

Keys = tuple[str | int, ...]
P = ParamSpec("P")
T = TypeVar("T")


MOST_TEXT = 16 << 20  # maximum bytes of a source file
MOST_INTEGER = 1 << 64
MOST_DOCUMENT = 1 << 20  # maximum bytes of a kernel file, and of a T1 file
MOST_ENTRIES = 1000  # maximum number of entries of a section
_MOST_PARTS = 20  # maximum number of parts of a dotted key: TOML creates a nested table for each part

_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_PARTS}}}")


@dataclass(frozen=True)
class KeyPositions:
    """Positions of a document's keys. ``lines`` maps paths of keys to line numbers; empty without a file."""

    name: str
    lines: Mapping[Keys, int] = field(default_factory=dict)

    def at(self, path: Keys) -> str:
        """Return a prefix for messages: the file, the line of the key or of its nearest parent, and the key's path."""
        known = [path[:n] for n in range(len(path), 0, -1) if path[:n] in self.lines]
        line = f":{self.lines[known[0]]}" if known else ""
        shown = re.sub(r"\.\[", "[", ".".join(f"[{p + 1}]" if isinstance(p, int) else p for p in path))
        return f"{self.name}{line}: {shown}" if shown else f"{self.name}{line}"

    def error(self, path: Keys, message: str) -> KernelFileError:
        """Return the error with the position of ``path``."""
        return KernelFileError(f"{self.at(path)}: {' '.join(message.split())}")


def read_toml(name: str, text: str) -> tuple[dict[str, Any], KeyPositions]:
    """Return the document and the positions of its keys. Raises KernelFileError with the line of a TOML error."""
    if long := _DOTTED.search(text):
        number = text.count("\n", 0, long.start()) + 1
        raise KernelFileError(f"{name}:{number}: a key has more than {_MOST_PARTS} parts")
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise KernelFileError(f"{name}: tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        line = at[1] if at and at[1] else str(len(text.splitlines()))
        message = str(error)[: at.start()] if at else str(error)
        raise KernelFileError(f"{name}:{line}: invalid TOML: {message}") from None
    except ValueError:  # Python refuses to convert an integer with thousands of digits
        raise KernelFileError(f"{name}: a number has too many digits") from None
    refuse_too_many(name, document)
    return document, KeyPositions(name, _lines(text))


def refuse_too_many(name: str, document: Mapping[str, Any]) -> None:
    """Raise KernelFileError for a section with more than MOST_ENTRIES entries."""
    for key, section in (("sections", document), *document.items()):
        if isinstance(section, (Mapping, list, tuple)) and len(section) > MOST_ENTRIES:
            raise KernelFileError(f"{name}: {key}: there are more than {MOST_ENTRIES} of these")


def refuse_unprintable(document: Mapping[str, Any], positions: KeyPositions) -> None:
    """Raise KernelFileError for a text with control characters, which could manipulate the terminal when shown."""
    waiting: list[tuple[Keys, Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping):
            for key in value:
                if isinstance(key, str) and not _is_shown(key):
                    raise positions.error(path, f"the key {key!a:.60} has a character that cannot be printed")
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [((*path, position), inner) for position, inner in enumerate(value)]
        elif isinstance(value, str) and not _is_shown(value):
            raise positions.error(path, f"{value!a:.60} has a character that cannot be printed")


def _is_shown(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or not any(
        unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text if c not in "\n\r\t"
    )


_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=(?!=)""")


def _lines(text: str) -> dict[Keys, int]:
    """Map the path of every key and table header to its line."""
    lines: dict[Keys, int] = {}
    counts: dict[Keys, int] = {}
    table: Keys = ()
    inside_text = False
    for number, line in enumerate(text.splitlines(), 1):
        quotes = line.count('"""') + line.count("'''")
        header, key = _HEADER.match(line), _KEY.match(line)
        if not inside_text and header:
            table = _path(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif not inside_text and key:
            path = (*table, *_path(key[1]))
            lines.setdefault(path, number)
        inside_text ^= quotes % 2 == 1
    return lines


def _path(key: str) -> Keys:
    """Split a dotted key into its parts by TOML's rules."""
    if _BARE.fullmatch(key.strip()):
        return (key.strip(),)
    try:
        inner: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path: Keys = ()
    while isinstance(inner, dict):
        ((part, inner),) = inner.items()
        path = (*path, part)
    return path


class DocumentTable:
    """One table of a document. It records which keys are read; ``done`` rejects keys that were not read."""

    def __init__(self, values: Any, positions: KeyPositions, path: Keys = ()) -> None:
        self.positions, self.path = positions, path
        if not isinstance(values, Mapping):
            self.fail(f"this must be a table, not {_shown(values)}")
        for key in values:
            if not isinstance(key, str):
                self.fail(f"a key must be a text, not {key!r}")
        if not path:
            self._check_numbers(values, ())
        self.values: Mapping[str, Any] = values
        self._read_keys: dict[str, None] = {}

    def fail(self, message: str, *keys: str | int) -> NoReturn:
        """Raise KernelFileError with the position of a key of this table."""
        raise self.positions.error((*self.path, *keys), message)

    def _check_numbers(self, value: Any, keys: Keys) -> None:
        """Raise an error for a nested integer with more than 64 bits."""
        if isinstance(value, Mapping):
            for key, inner in value.items():
                self._check_numbers(inner, (*keys, str(key)))
        elif isinstance(value, list | tuple):
            for number, inner in enumerate(value):
                self._check_numbers(inner, (*keys, number))
        elif isinstance(value, int) and abs(value) >= MOST_INTEGER:
            self.fail("this number needs more than 64 bits", *keys)

    def attempt(self, key: str | int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on a value of this table, and add the value's position to an error.

        Args:
            key: Key of the value.
            function: Function to call.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Returns:
            The result of the function.

        Raises:
            KernelFileError: The function raised ValueError; the message has the line of ``key``.
        """
        try:
            return function(*args, **kwargs)
        except KernelFileError:
            raise
        except ValueError as error:
            self.fail(str(error), key)

    def expression(self, key: str | int, text: Any, types: Mapping[str, Type], kinds: Sequence[Type]) -> Expression:
        """Read an expression.

        Args:
            key: Key of the value, for errors.
            text: The value of ``key``, or an item of the value: a text, a number, or a Python function.
            types: Types of the names that the expression may use.
            kinds: Allowed types of the result, the preferred type first.

        Returns:
            The expression.

        Raises:
            KernelFileError: The value is not an expression, uses an unknown name, or has a type that is not allowed.
        """
        if callable(text):
            return from_function(text, function_text(text), "float" if "float" in kinds else kinds[0], types)
        if isinstance(text, bool) or not isinstance(text, (str, int, float)):
            self.fail(f"this must be an expression, a text or a number, not {_shown(text)}", key)
        expression = self.attempt(key, parse, str(text), types)
        if expression.type not in kinds:
            hint = ": use // or int(...)" if expression.type == "float" else ""
            self.fail(f'"{expression.text}" is a {expression.type}, but must be {" or ".join(kinds)}{hint}', key)
        return expression

    def __contains__(self, key: str) -> bool:
        self._read_keys[key] = None
        return key in self.values

    def get(self, key: str, kinds: type | tuple[type, ...], description: str, default: Any = None) -> Any:
        """Return the value of ``key``.

        Args:
            key: Name of the key.
            kinds: Allowed types; a bool is not an int.
            description: Description of the expected value, for errors.
            default: Value to return if the key is missing. With None, the key is required.

        Returns:
            The value, or the default.

        Raises:
            KernelFileError: The key is missing, or its value has a type that is not allowed.
        """
        if key not in self:
            if default is None:
                self.fail(f"{key} is missing: give {description}")
            return default
        value = self.values[key]
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.fail(f"this must be {description}, not {_shown(value)}", key)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return the text of ``key``."""
        return str(self.get(key, str, "a text", default))

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return the text of ``key``, which must be one of ``choices``."""
        value = self.text(key, default)
        if value not in choices:
            self.fail(f"{value!r} is not known: {suggestion(value, choices)}", key)
        return value

    def listed(self, key: str) -> list[Any]:
        """Return the value as a list: a single value becomes a list of one item, and a missing key an empty list."""
        if key not in self:
            return []
        value = self.values[key]
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def table(self, key: str) -> DocumentTable:
        """Return the table of ``key``; an empty table if the key is missing."""
        return DocumentTable(self.values[key] if key in self else {}, self.positions, (*self.path, key))

    def tables(self, key: str) -> list[DocumentTable]:
        """Return the tables of the array ``[[key]]``."""
        entries = self.get(key, (list, tuple), f"tables: [[{key}]]", ())
        return [DocumentTable(values, self.positions, (*self.path, key, i)) for i, values in enumerate(entries)]

    def items(self) -> list[tuple[str, Any]]:
        """Return all keys and values of a table whose keys the user chooses."""
        self._read_keys.update(dict.fromkeys(self.values))
        return list(self.values.items())

    def done(self) -> None:
        """Raise KernelFileError for a key that was not read."""
        for key in self.values:
            if key not in self._read_keys:
                self.fail(f"unknown key {key!r}, {suggestion(key, self._read_keys)}", key)


def _shown(value: object) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a table"}
    return f"{value!r}" if isinstance(value, (int, float, str)) else kinds.get(type(value), f"a {type(value).__name__}")


def read_text(path: Path, table: DocumentTable, key: str) -> str:
    """Return the text of the file at ``path``. ``key`` is the document's key for this file; "" for the document itself.

    Raises KernelFileError if the file cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            table.fail(f"{path if key else 'this'} is not a regular file", key)
        most = MOST_TEXT if key else MOST_DOCUMENT
        if path.stat().st_size > most:
            table.fail(f"{path if key else 'this'} has more than {most >> 20} MiB", key)
        content = read_bounded(path, most)  # count bytes while reading: files in /proc, for example, report no size
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except KernelFileError:
        raise
    except UnicodeDecodeError:
        table.fail(f"{path.name if key else 'this'} is not UTF-8 text", key)
    except OSError as error:
        table.fail(f"cannot read {path if key else 'it'}: {(error.strerror or str(error)).lower()}", key)
    except ValueError as error:  # for example, a path with a NUL character
        if "\0" not in str(path):
            table.fail(f"{path if key else 'this'} cannot be used: {error}", key)
        table.fail(f"{str(path)!r} is not a valid file name", key)
