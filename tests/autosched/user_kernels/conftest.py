"""Fixtures that write a user's kernel file, its source and its reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.user_kernels.kernel_file import KernelFile
from autosched.user_kernels.reading.kernel_files import read_file

SOURCE = """\
#include "tile.h"

__global__ void scale(float* out, const float* in, int width, float factor) {
  extern __shared__ float staged[];
  for (int i = 0; i < tile; ++i) {
    int x = (blockIdx.x * tile + i) * block_x + threadIdx.x;
    if (x < width) out[blockIdx.y * width + x] = factor * in[blockIdx.y * width + x];
  }
}
"""

REFERENCE = """\
def scale(input, factor=3.0):
    return factor * input


def two(input):
    return {"out": input, "more": input}


def wrong_shape(input):
    return input[0]


def wrong_name(input, weights):
    return input


def fails(input):
    raise RuntimeError("no\\nluck")


def words(input):
    return "words"
"""

TOML = """\
[kernel]
source = "scale.cu"
entry = "scale"
options = ["--use_fast_math", "-O3"]

[sizes]
width = 1000
height = 8

[[problem]]
width = 4096

[[problem]]
width = 100
height = 3

[parameters]
block_x = [32, 64, 128, 256, 512, 1024, 2048]
tile = { values = [1, 2, 4, 8], default = 2, doc = "elements of a thread" }
order = ["row", "column"]
alpha = [0.5, 2.0]
fast = [false, true]

[attributes]
span = "block_x * tile"

[defines]
WIDTH = "width"

[[rule]]
expr = "span <= width"
reason = "a block must not be longer than a row"

[[rule]]
expr = "fast or alpha < 1"
kind = "pruning"

[launch]
block = "block_x"
grid = ["ceil_div(width, span)", "height"]
shared_bytes = "4 * span"

[[argument]]
name = "out"
kind = "output"
dtype = "float"
shape = ["height", "width"]

[[argument]]
name = "input"
kind = "input"
dtype = "float32"
shape = ["height", "width"]
fill = { uniform = [-1, 1] }

[[argument]]
name = "width"
kind = "scalar"
value = "width"

[[argument]]
name = "factor"
kind = "scalar"
value = 3.0

[reference]
python = "reference.py:scale"

[cost]
flops = "width * height"
bytes = "8 * width * height"

[metrics]
"elements/s" = "width * height / time"
relative = "flops / 1e9"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a kernel file, source and reference. ``replace`` edits the TOML text."""

    def make(toml: str = TOML, *replace: tuple[str, str], source: str = SOURCE) -> Path:
        for old, new in replace:
            assert old in toml
            toml = toml.replace(old, new)
        (tmp_path / "scale.cu").write_text(source)
        (tmp_path / "tile.h").write_text('#include "deeper.h"\n')
        (tmp_path / "deeper.h").write_text("#define DEEPER 1\n")
        (tmp_path / "reference.py").write_text(REFERENCE)
        path = tmp_path / "scale.toml"
        path.write_text(toml)
        return path

    return make


@pytest.fixture
def kernel_file(write: Callable[..., Path]) -> KernelFile:
    return read_file(write())
