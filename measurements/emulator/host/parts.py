"""Translation units of the runner. Each folder of the runtime is one translation unit.

Most of the compile time of a C++ file comes from the standard library and shared headers. A translation unit of a whole
folder compiles each header only once. It requires that names in unnamed namespaces are unique within the folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


class RuntimePart(NamedTuple):
    """The C++ files of one folder, relative to the runtime's folder."""

    name: str
    files: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the C++ text of the translation unit."""
        return "".join(f'#include "{file}"\n' for file in self.files)

    def contents(self, runtime: Path) -> list[str]:
        """Return the texts of the part's files, and of all runtime headers that they include, in a fixed order."""
        texts: dict[str, str] = {}
        pending = list(self.files)
        while pending:
            file = pending.pop()
            if file not in texts:
                texts[file] = (runtime / file).read_text()
                pending += _INCLUDE.findall(texts[file])
        return [f"{file}:{texts[file]}" for file in sorted(texts)]


def parts_of(runtime: Path) -> list[RuntimePart]:
    """Return the parts of a runtime. Parts with the most files come first, because they take longest to compile."""
    folders: dict[str, list[str]] = {}
    for source in sorted(runtime.rglob("*.cpp")):
        file = source.relative_to(runtime)
        folders.setdefault("-".join(file.parent.parts) or "main", []).append(file.as_posix())
    parts = [RuntimePart(name, tuple(files)) for name, files in folders.items()]
    return sorted(parts, key=lambda part: (-len(part.files), part.name))
