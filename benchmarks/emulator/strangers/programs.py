"""Programs of other people: where they are, how they are built for `autosched run`, which arguments they get."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# PTX alone (ptxas would take most of the time), the shared runtime, lines. nvcc takes the last of two architectures.
_NVCC_FLAGS = "-cudart shared -lineinfo -w -arch=compute_{sm}"
MOST_THINGS = 2**15  # the product of the sizes on a command line, in the median a thread each
_RUN_TARGET = re.compile(r"^run:.*\n((?:\t.*\n?)+)", re.M)
_ARGUMENT = re.compile(r"(\w+)\s*=[^;=]{0,40}\b(?:ato\w+|strto\w+|(?:std::)?sto\w+)\s*\(\s*argv\s*\[\s*(\d+)\s*\]")
_REPEATS = re.compile(
    r"rep(eat|s|etition|eats|$)|iter|trial|passes|loop|steps?$|time_?step|runs?$|cycles|nsteps|^r$", re.I
)
_COMMENT = re.compile(r"#.*")
_EXECUTABLE = re.compile(r"\badd_executable\s*\(([^)]*)\)")
_LINKED = re.compile(r"\btarget_link_libraries\s*\(([^)]*)\)")
_OWN_LIBRARIES = {
    "CUDA::cudart": (),
    "CUDA::cuda_driver": ("-lcuda",),
    "OpenMP::OpenMP_CXX": ("-Xcompiler", "-fopenmp"),
}
_SOURCES = (".cu", ".cpp", ".cc", ".c", ".cuh", ".h", ".hpp")


@dataclass(frozen=True)
class Program:
    """A folder with a makefile or a ``CMakeLists.txt``, or one ``.cu`` file with a ``main``. ``name`` is its path below
    the folder of all."""

    name: str
    path: Path

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent


class BuildFailed(Exception):
    """A program that nvcc does not build. The message is the compiler's first complaint."""


def programs_in(folder: Path) -> Iterator[Program]:
    """Folders with a makefile, folders whose ``CMakeLists.txt`` makes a program of CUDA files and needs no other
    library, and files with a ``main``, at any depth, in the order of their names."""
    for at, folders, files in os.walk(folder):
        folders.sort()
        here = Path(at)
        sources = [f for f in sorted(files) if f.endswith(".cu")]
        if "Makefile" in files and sources and here != folder:
            folders.clear()
            yield Program(str(here.relative_to(folder)), here)
            continue
        if "CMakeLists.txt" in files and sources and here != folder:
            folders.clear()
            if cmake_command(here, 80):
                yield Program(str(here.relative_to(folder)), here)
            continue
        for name in sources:
            if re.search(r"\bmain\s*\(", (here / name).read_text(errors="replace")):
                yield Program(str((here / name).relative_to(folder)), here / name)


def build(program: Program, sm: int, flags: Sequence[str], time_limit: float) -> Path:
    """Return the program's file, built in place. Raises BuildFailed."""
    environment = {**os.environ, "NVCC_APPEND_FLAGS": " ".join([_NVCC_FLAGS.format(sm=sm), *flags])}
    if program.path.is_dir() and not (program.path / "Makefile").is_file():
        command = cmake_command(program.folder, sm)
        to = program.folder / command[-1]
    elif program.path.is_dir():
        command = ["make", "-j1", *(f"{name}=sm_{sm}" for name in ("ARCH", "SM"))]
        before = _executables(program.folder)
    else:
        to = program.path.with_suffix(".run")
        command = ["nvcc", "-O2", "-std=c++17", program.path.name, "-o", to.name]
    try:
        done = subprocess.run(
            command, cwd=program.folder, env=environment, capture_output=True, text=True, errors="replace",
            timeout=time_limit, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"not done after {time_limit:.0f} s") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines()]
        first = next((line for line in lines if re.search(r"\b(error|Error|undefined)\b|No such", line)), "no message")
        raise BuildFailed(first[:200])
    if command[0] != "make":
        return to
    made = _executables(program.folder)
    if not made:
        raise BuildFailed("the makefile makes no program")
    return max(made - before or made, key=lambda p: (p.name == "main", p.stat().st_mtime))


def cmake_command(folder: Path, sm: int) -> list[str]:
    """Return nvcc's for the first program of a ``CMakeLists.txt`` (those of cuda-samples); the last word is the
    program's name. Empty where it needs libraries besides CUDA's runtime, or has no CUDA files."""
    text = _COMMENT.sub("", (folder / "CMakeLists.txt").read_text(errors="replace"))
    found = _EXECUTABLE.search(text)
    name, *sources = found[1].split() if found else ("",)
    linked = {w for words in _LINKED.findall(text) for w in words.split()[1:]} - {"PRIVATE", "PUBLIC"}
    if not linked <= set(_OWN_LIBRARIES) or not any(s.endswith(".cu") for s in sources):
        return []
    common = next((up / "Common" for up in folder.parents if (up / "Common").is_dir()), folder)
    flags = [flag for library in sorted(linked) for flag in _OWN_LIBRARIES[library]]
    apart = ["-rdc=true"] if "CUDA_SEPARABLE_COMPILATION ON" in text else []
    return [
        "nvcc",
        "-std=c++17",
        "--extended-lambda",
        f"-arch=sm_{sm}",
        *apart,
        "-I",
        str(common),
        *sources,
        *flags,
        "-o",
        name,
    ]


def _executables(folder: Path) -> set[Path]:
    found = set()
    for path in folder.iterdir():
        if path.is_file() and os.access(path, os.X_OK):
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF" and path.suffix not in (".so", ".o"):
                    found.add(path)
    return found


def arguments_of(program: Program, given: Mapping[str, Sequence[str]]) -> list[str]:
    """Those that are written down for the program; else of the makefile's first run, with one repetition, and sizes
    halved, the largest first, until their product is at most ``MOST_THINGS``."""
    if program.name in given:
        return list(given[program.name])
    makefile = program.folder / "Makefile"
    if not (program.path.is_dir() and makefile.is_file()):
        return []
    target = _RUN_TARGET.search(makefile.read_text(errors="replace") + "\n")
    lines = [line for line in (target[1].splitlines() if target else []) if not line.strip().startswith(("#", "@echo"))]
    words = lines[0].replace("\\", " ").split() if lines else []
    at = next((k for k, w in enumerate(words) if w.startswith("./")), None)
    if at is None:
        return []
    arguments = [w for w in words[at + 1 :] if w not in ("$(ARGS)",)]
    text = "".join(
        f.read_text(errors="replace") for f in sorted(program.folder.iterdir()) if f.suffix in _SOURCES and f.is_file()
    )
    names = {int(number): name for name, number in _ARGUMENT.findall(text)}
    return scaled(arguments, names)


def scaled(arguments: Sequence[str], names: Mapping[int, str]) -> list[str]:
    """Arguments with one repetition and small sizes. ``names``: of the variables that take them, from 1."""
    few = list(arguments)
    sizes: dict[int, int] = {}
    for k, word in enumerate(few):
        if not word.isdecimal():
            continue
        option = few[k - 1].lstrip("-") if k and few[k - 1].startswith("-") else ""
        last = k + 1 == len(few) > 1 and not option and k + 1 not in names  # where HeCBench has the repetitions
        if last or _REPEATS.search(option or names.get(k + 1, "")):
            few[k] = "1"
        elif int(word) > 16:
            sizes[k] = int(word)
    while math.prod(sizes.values()) > MOST_THINGS:
        largest = max(sizes, key=lambda k: sizes[k])
        if sizes[largest] <= 16:
            break
        sizes[largest] = -(-sizes[largest] // 2)
    for k, size in sizes.items():
        few[k] = str(size)
    return few
