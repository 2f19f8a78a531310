"""CUDA programs of other repositories: copied, made small, built for `autosched run`, run kernel by kernel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.emulator.kernels_of_others.outcome import Outcome
from benchmarks.emulator.strangers.limited import ends_within
from measurements.emulator.programs.libraries import DRIVER, library_folder

_BLAS = Path(__file__).with_name("host_blas.c")
_DEFINED = re.compile(r"^int (cublas\w+)\(", re.M)


class NotBuilt(Exception):
    """The message is the compiler's first complaint."""


@dataclass(frozen=True)
class Workshop:
    """``include``: where the headers of cuBLAS are. Limits in CPU seconds."""

    mirrors: Path
    work: Path
    include: Path | None
    launch_limit: float
    time_limit: float

    def repository(self, name: str) -> Path:
        return self.mirrors / name.replace("/", "+") / "repo"

    def has(self, name: str) -> bool:
        return self.repository(name).is_dir()

    def commit(self, name: str) -> str:
        return _git(self.repository(name), "rev-parse", "--short=7", "HEAD").strip()

    def copy(self, name: str, folder: str = ".") -> Path:
        """Return a copy of a folder of the repository, checked out where it is not there yet."""
        to = self.work / name.replace("/", "+")
        if not (to / folder).is_dir():
            to.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile() as archive:
                command = ["git", "-C", str(self.repository(name)), "archive", "HEAD", folder]
                subprocess.run(command, stdout=archive, check=True)
                archive.seek(0)
                subprocess.run(["tar", "-x", "-C", str(to)], stdin=archive, check=True)
        return to / folder

    def sources(self, recipe: Mapping[str, Any]) -> Iterator[Path]:
        """Yield the programs of a recipe, with small sizes."""
        folder = self.copy(recipe["name"], recipe["folder"])
        for pattern in recipe["programs"]:
            for source in sorted(folder.glob(pattern)):
                if source.name in recipe.get("left_out", {}):
                    continue
                text = source.read_text()
                for old, new in recipe.get("replace_in", {}).get(source.name, recipe["replace"]):
                    text = re.sub(old, new, text)
                source.write_text(text)
                yield source


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=True).stdout


def kernels_of(recipe: Mapping[str, Any], source: Path) -> list[str]:
    """Return the arguments that choose a kernel each; "" where the program takes none."""
    if "arguments" in recipe:
        return list(recipe["arguments"])
    numbers = {int(n) for n in re.findall(recipe["numbers"], source.read_text())}
    return [str(n) for n in sorted(numbers) if n < recipe["most"]] or [""]


def build(recipe: Mapping[str, Any], source: Path, workshop: Workshop) -> Path:
    """Return the program; what is built already is not built again. Raises NotBuilt."""
    to = source.with_suffix(".run")
    if to.exists():
        return to
    architecture = f"-gencode=arch={recipe['arch']},code={recipe['arch']}"
    include = [f"-I{workshop.include}"] if workshop.include else []
    options = ["-cudart", "shared", "-lineinfo", "-w", architecture, *recipe["flags"], *include]
    objects = []
    for name in (source.name, *recipe.get("with", [])):
        objects.append(str(Path(name).with_suffix(".o")))
        _run(["nvcc", *options, "-c", name, "-o", objects[-1]], source.parent)
    wanted = {w for o in objects for w in re.findall(r"\bcublas\w+", _run(["nm", "-u", o], source.parent))}
    lacking = sorted(wanted - set(_DEFINED.findall(_BLAS.read_text())))
    stubs = source.with_suffix(".stubs.c")
    stubs.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in lacking))
    driver = ["-Xlinker", str(library_folder() / DRIVER)]
    _run(
        [
            "nvcc",
            "-cudart",
            "shared",
            architecture,
            *objects,
            str(stubs),
            str(_BLAS),
            *driver,
            "-o",
            str(to),
        ],
        source.parent,
    )
    return to


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines()]
        raise NotBuilt(
            next((line for line in lines if re.search(r"\b(error|undefined)\b|No such", line)), "no message")[:200]
        )
    return done.stdout


def run(recipe: Mapping[str, Any], program: Path, source: Path, kernel: str, workshop: Workshop) -> Outcome | None:
    """Run one kernel; None where the program says that it has none of that number."""
    with tempfile.TemporaryDirectory() as work:
        report, printed = Path(work) / "report.json", Path(work) / "printed"
        command = [
            sys.executable, "-m", "autosched", "run", "--device", recipe["device"], "--driver",
            "--time-limit", str(workshop.launch_limit), "--report", str(report), "--", str(program),
            *filter(None, [kernel]),
        ]  # fmt: skip
        started = time.monotonic()
        with printed.open("wb") as to:
            late = not ends_within(workshop.time_limit, command, program.parent, to)
        seconds = round(time.monotonic() - started, 1)
        said = printed.read_text(errors="replace")
        document = json.loads(report.read_text()) if report.exists() else {}
    if re.search(recipe.get("absent", r"(?!)"), said):
        return None
    place = f"{workshop.work}/{recipe['name'].replace('/', '+')}/"
    document = json.loads(json.dumps(document).replace(place, ""))
    verdict, why = judged(recipe, said.replace(place, ""), document, late=late)
    launches, findings = document.get("launches", 0), document.get("findings", [])
    return Outcome(
        recipe["name"], source.name, kernel, verdict, why, launches=launches, seconds=seconds, findings=findings
    )


def judged(recipe: Mapping[str, Any], said: str, document: Mapping[str, Any], *, late: bool) -> tuple[str, str]:
    """Return how the kernel ended, and why where it is not "right"."""
    ends = [f for f in document.get("findings", []) if f["kind"] in ("timeout", "crash")]
    if late:
        return "time limit", "the whole program"
    if ends:
        return "time limit" if ends[0]["kind"] == "timeout" else "died", ends[0]["message"][:200]
    if document.get("lacking"):
        return "unsupported", "; ".join(document["lacking"])[:300]
    if not document.get("launches"):
        return "no launch", said.strip()[-200:]
    if re.search(recipe["wrong"], said, re.M):
        return "wrong", re.sub(r"\s+", " ", said.strip())[-120:]
    if re.search(recipe["right"], said, re.M):
        return "right", ""
    return "died", f"exit status {document.get('status')}: {said.strip()[-120:]}"
