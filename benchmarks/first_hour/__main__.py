"""Time the steps of the README, as a new user executes them: with an empty home folder and a fresh clone.

    python -m benchmarks.first_hour [--commit HEAD] [--dependencies SITE_PACKAGES] [--skip STEP ...] [--json]

Commands are taken from the README of the commit. CPU seconds include user and system time of all child processes.
Unlike wall-clock seconds, CPU seconds are comparable between runs on a busy machine. ``silence`` is the longest time
without output. ``--dependencies`` names a folder with all other packages, so that only autosched is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MATMUL = "matmul -m 4096 -n 4096 -k 4096 --device h200"
PYTHON_TUNE = """
import autosched
result = autosched.tune(autosched.Matmul(m=4096, n=4096, k=4096), device="h200")
print(result.best, result.database)
"""
OWN = "--kernel examples/convolution/convolution.toml --size width=512 --size height=512 --device h200"
PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 x) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
"""
PROGRAM = """#include <stdio.h>
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
int main() {
  int *device, host[32];
  cudaMalloc(&device, sizeof host);
  fill<<<1, 32>>>(device);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  printf("%d\\n", host[31]);
}
"""


@dataclass(frozen=True)
class Step:
    """One command and its times. ``silence`` is the maximum number of seconds without output."""

    name: str
    status: int
    wall: float
    cpu: float
    silence: float
    last_line: str


def run_step(name: str, command: Sequence[str], folder: Path, environment: dict[str, str]) -> Step:
    """Run a command and time it, with all its processes."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    output, silence, last = b"", 0.0, started
    while piece := os.read(process.stdout.fileno(), 1 << 16):
        now = time.monotonic()
        output, silence, last = (output + piece)[-4096:], max(silence, now - last), now
    _, waited, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(waited)
    ended = time.monotonic()
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return Step(
        name,
        process.returncode,
        ended - started,
        usage.ru_utime + usage.ru_stime,
        max(silence, ended - last),
        lines[-1].strip() if lines else "",
    )


def shown(clone: Path, beginning: str) -> list[str]:
    """Return the words of the first README command with this prefix. Raises ValueError if there is no such command."""
    for line in (clone / "README.md").read_text("utf-8").splitlines():
        command = line.removeprefix("$ ")
        if command.startswith(beginning):
            return shlex.split(command)
    raise ValueError(f"README of this commit has no command that begins with {beginning!r}")


def steps(clone: Path, home: Path, dependencies: Path | None) -> list[tuple[str, list[str]]]:
    """Return the names and commands of all steps, in their order. Raises ValueError as ``shown`` does."""
    environment = home / "venv"
    python = str(environment / "bin" / "python")
    if dependencies is None:
        install = [python, "-m", "pip", "install", ".[cuda13]"]
    else:
        install = [sys.executable, "-m", "pip", "--python", python, "install"]
        install += ["--no-deps", "--no-build-isolation", "-e", "."]
    (home / "fill.ptx").write_text(PTX)
    (home / "program.cu").write_text(PROGRAM)
    nvcc = ["nvcc", "-cudart", "shared", "-lineinfo", "-o", str(home / "program"), str(home / "program.cu")]
    return [
        ("venv", [sys.executable, "-m", "venv", *(["--without-pip"] if dependencies else []), str(environment)]),
        ("install", install),
        ("help", ["autosched", "--help"]),
        ("doctor", ["autosched", "doctor"]),
        ("tune, first", shown(clone, "autosched tune matmul")),
        ("tune, again", shown(clone, "autosched tune matmul")),
        ("tune in Python", [python, "-c", PYTHON_TUNE]),
        ("best", f"autosched best {MATMUL} --db best.db".split()),
        ("own kernel: verify", f"autosched verify {OWN} --sample 3".split()),
        ("own kernel: tune", shown(clone, "autosched tune --kernel")),
        ("verify PTX", ["autosched", "verify", str(home / "fill.ptx"), "-a", "out i32[32]"]),
        ("nvcc", nvcc),
        ("run, first", ["autosched", "run", str(home / "program")]),
        ("run, again", ["autosched", "run", str(home / "program")]),
    ]


def take_dependencies(environment: Path, dependencies: Path) -> None:
    """Make the packages of the folder SITE_PACKAGES importable in a new environment."""
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    # NVIDIA's shared libraries in this folder are only found inside the environment, so create a link to them.
    if (dependencies / "nvidia").is_dir():
        (site / "nvidia").symlink_to(dependencies / "nvidia")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--dependencies", type=Path)
    parser.add_argument("--skip", nargs="*", default=[], metavar="STEP")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    finished_steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        home, clone = Path(folder, "home"), Path(folder, "clone")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(REPOSITORY), str(clone)], check=True)
        subprocess.run(["git", "-C", str(clone), "checkout", "--quiet", options.commit], check=True)
        dropped = ("AUTOSCHED_", "XDG_", "PYTHON", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        environment |= {"HOME": str(home), "PATH": f"{home}/venv/bin:{os.environ['PATH']}"}
        for name, command in steps(clone, home, options.dependencies):
            if name in options.skip:
                continue
            finished_steps.append(run_step(name, command, clone, environment))
            print(f"{finished_steps[-1]}", file=sys.stderr, flush=True)
            if name == "venv" and options.dependencies is not None:
                take_dependencies(home / "venv", options.dependencies.resolve())
    load = os.getloadavg()[0]
    if options.json:
        print(
            json.dumps(
                {"commit": options.commit, "load": load, "steps": [asdict(step) for step in finished_steps]}, indent=2
            )
        )
        return 0
    print(f"{options.commit}, {platform.machine()}, {os.cpu_count()} cores, load average at the end {load:.1f}\n")
    print("| step | exit | wall s | CPU s | longest silence s |\n|---|---:|---:|---:|---:|")
    for step in finished_steps:
        print(f"| {step.name} | {step.status} | {step.wall:.1f} | {step.cpu:.1f} | {step.silence:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
