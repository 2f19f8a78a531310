"""The emulator executes the inline assembly of CUDA's headers: narrow types, cooperative groups, libcu++, CUB."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler

import autosched

pytestmark = [
    needs_compiler,
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
]

HEADERS = (
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h", "mma.h", "cooperative_groups.h",
    "cooperative_groups/reduce.h", "cooperative_groups/scan.h", "cooperative_groups/memcpy_async.h", "cuda_pipeline.h",
    "cuda_awbarrier.h", "cuda/ptx", "cuda/atomic", "cuda/barrier", "cuda/pipeline", "cuda/annotated_ptr", "cub/cub.cuh",
)  # fmt: skip
CLASSES = {"r": "b32", "l": "b64", "h": "b16", "f": "f32", "d": "f64", "C": "b64", "q": "b128"}
# Instructions that the emulator does not support (docs/explanation/emulator.md).
LACKING = re.compile(r"\.swizzle_atomicity\.|tcgen05\.(mma\.ws|shift)\.|tcgen05\.cp\.\S*\.b8x16")
ASSEMBLY = re.compile(r"\basm\s*(?:volatile|__volatile__)?\s*\(")
TOGETHER = 100  # number of assembly statements in one kernel


def statements(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the text of each inline assembly statement, and the constraints of its operands."""
    for statement in ASSEMBLY.finditer(text):
        depth, quoted, at = 1, False, statement.end()
        fields: list[str] = [""]
        while depth:
            c = text[at]
            if quoted and c == "\\":
                fields[-1] += text[at : at + 2]
                at += 2
                continue
            quoted ^= c == '"'
            depth += 0 if quoted else (c in "([{") - (c in ")]}")
            if not quoted and depth == 1 and c == ":":
                fields.append("")
            else:
                fields[-1] += c
            at += 1
        template = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', fields[0])).encode().decode("unicode_escape")
        yield template, re.findall(r'"([^"]*)"\s*\(', ":".join(fields[1:3]))


def as_ptx(template: str, constraints: list[str], number: int) -> str | None:
    """Return an assembly statement in a scope that declares registers for its operands, or None if it is not PTX.

    Statements that are not PTX are, for example, names of libc functions, and macros that were not expanded or are
    incomplete.
    """
    names: list[str] = []
    declared = []
    for k, constraint in enumerate(constraints):
        letter = constraint.strip("=+&")[:1]
        if letter.isdigit():
            names.append(names[int(letter)])
        elif letter == "n":
            names.append("128" if "tensormap::generic" in template else "0" if "st.bulk" in template else "1")
        elif letter in CLASSES:
            names.append(f"%o{number}_{k}")
            declared.append(f".reg .{CLASSES[letter]} {names[-1]};")
        else:
            return None
    if not re.search(r"[;.]", template) or "YYY(" in template or LACKING.search(template):
        return None
    parts = template.replace("%%", "\0")
    parts = re.sub(r"%(\d+)", lambda m: names[int(m[1])], parts).replace("\0", "%")
    end = "" if parts.rstrip().endswith((";", "}")) else ";"
    return f"{' '.join(declared)}\n{{\n{parts}{end}\n}}"


@pytest.mark.parametrize("architecture", ["75", "80", "90a", "100a"])
def test_inline_assembly_of_headers(architecture: str, tmp_path: Path) -> None:
    source = tmp_path / "all.cu"
    source.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
    flags = ["-std=c++17", f"-D__CUDA_ARCH__={architecture.rstrip('a')}0", f"-arch=sm_{architecture}", "-E"]
    if architecture.endswith("a"):
        flags.append(f"-D__CUDA_ARCH_FEAT_SM{architecture.rstrip('a')}_ALL")
    text = subprocess.run(["nvcc", *flags, str(source)], capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    unique_statements = dict.fromkeys((template, tuple(constraints)) for template, constraints in statements(text))
    ptx = [as_ptx(template, list(constraints), k) for k, (template, constraints) in enumerate(unique_statements)]
    known = [one for one in ptx if one is not None]
    assert len(known) > 1000
    for first in range(0, len(known), TOGETHER):
        body = "\n".join(known[first : first + TOGETHER])
        # The statements follow the kernel's ret, so they are parsed but not executed.
        head = f".version 9.0\n.target sm_{architecture}\n.address_size 64\n.visible .entry k(.param .u64 o)"
        kernel = f"{head} {{\nret;\n{body}\nret; }}"
        done = autosched.emulate(kernel, arguments=(np.zeros(1, np.uint32),), grid=1, block=32)
        assert done.status != "unsupported" and done.status != "compile_error", done.reason
