"""Arrays that a user's kernel reads through textures: emulation, description, creation on a GPU, and rejections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.entry import check_entry
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedules import verify_one
from measurements.runners.texture_objects import texture_object
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import F32, SCALAR_DTYPES
from search_spaces.launches.launch import argument_from_json, argument_json
from search_spaces.launches.operand import Operand
from search_spaces.launches.texture import LinearTexture

A100 = device("a100")
FETCHED = """
__global__ void fetched(float* out, cudaTextureObject_t image, int width) {
  int x = threadIdx.x + b * blockIdx.x, y = blockIdx.y;
  if (x < width) out[y * width + x] = FETCH;
}
"""


def kernel(fetch: str, name: str = "fetching", shape: Any = ("height", "width"), **texture: Any) -> KernelSpec:
    image = {"name": "image", "kind": "texture", "dtype": "f32", "shape": list(shape), **texture}
    return KernelSpec(
        FETCHED.replace("FETCH", fetch),
        "fetched",
        name=name,
        parameters={"b": [32, 64]},
        sizes={"width": 40, "height": 6},
        block="b",
        grid=["ceil_div(width, b)", "height"],
        arguments=[
            {"name": "out", "kind": "output", "dtype": "f32", "shape": ["height", "width"]},
            image,
            {"name": "width", "kind": "scalar", "value": "width"},
        ],
        reference=REFERENCES.get(name, lambda image: image),
    )


def _wrapped(image: Any) -> Any:
    return np.roll(image, -1, axis=1)


def _between(image: Any) -> Any:
    return (image + np.concatenate([image[:, 1:], image[:, -1:]], axis=1)) / 2


REFERENCES = {
    "fetch_last": lambda image: np.concatenate([image[:, 2:], image[:, -1:], image[:, -1:]], axis=1),
    "fetch_wrapped": _wrapped,
    "fetch_between": _between,
    "fetch_row": lambda image, height, width: image[: height * width].reshape(height, width),
    "fetch_fractions": lambda image: image / 255,
    "fetch_pairs": lambda image: image[:, :, 0] - image[:, :, 1],
}


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "fetch", "texture"),
    [
        ("fetch_last", "tex2D<float>(image, x + 2, y)", {}),  # beyond the end, the last column is read
        (
            "fetch_wrapped",
            "tex2D<float>(image, (x + 1.5f) / width, (y + 0.5f) / 6)",
            {"mode": "wrap", "normalized": True},
        ),
        ("fetch_between", "tex2D<float>(image, x + 1.0f, y + 0.5f)", {"filter": "linear"}),
        ("fetch_row", "tex1Dfetch<float>(image, y * width + x)", {"shape": ["height * width"]}),
        ("fetch_fractions", "tex2D<float>(image, x, y)", {"dtype": "u8", "normalized_read": True}),
        (
            "fetch_pairs",
            "tex2D<float2>(image, x, y).x - tex2D<float2>(image, x, y).y",
            {"shape": ["height", "width", 2], "channels": 2},
        ),
    ],
)
def test_fetches_agree_with_the_emulated_texture(name: str, fetch: str, texture: dict[str, Any]) -> None:
    spec = kernel(fetch, name, **texture)
    problem = spec.problem()
    (schedule,) = spec.template.space(problem, A100).sample(1, 0)
    check_entry(problem, [schedule], A100)
    verdict = verify_one(spec.template, problem, schedule, A100)
    assert verdict.ok, verdict.reason
    (wrong,) = [a for a in spec.template.kernel(problem, schedule, A100).arguments if isinstance(a, LinearTexture)]
    assert argument_from_json(argument_json(wrong)) == wrong


@needs_nvrtc
@pytest.mark.parametrize(
    ("fetch", "kind", "message"),
    [
        ("tex3D<float>(image, x, y, 0)", "texture", "uses tex.3d"),
        ("tex1D<float>(image, x)", "texture", "uses tex.1d"),
        ("surf2Dread<float>(image, 4 * x, y)", "texture", "reads or writes a surface"),
        ("tex2D<float>(image, x, y)", "input", 'add an [[argument]] with kind = "texture"'),
    ],
)
def test_unbound_textures_are_rejected_by_name(fetch: str, kind: str, message: str) -> None:
    spec = kernel(fetch, kind=kind)
    with pytest.raises(KernelFileError) as raised:
        check_entry(spec.problem(), spec.template.space(spec.problem(), A100).sample(1, 0), A100)
    assert message in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("texture", "message"),
    [
        ({"dtype": "f64"}, "at most 32 bits"),
        ({"shape": ["height", "width", 2, 2]}, "one or two dimensions"),
        ({"shape": ["width"], "filter": "linear"}, "tex1Dfetch"),
        ({"mode": "wrap"}, 'the mode "wrap" needs normalized coordinates'),
        ({"filter": "cubic"}, "'cubic' is not known"),
        ({"channels": 3}, "3 channels"),
    ],
)
def test_an_invalid_texture_is_rejected(texture: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelFileError, match=message):
        kernel("tex2D<float>(image, x, y)", **texture)


class Resources:
    """Fake of cupy.cuda.texture that records its calls."""

    def __init__(self) -> None:
        self.created: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def make(*values: Any, **named: Any) -> Any:
            self.created[name] = (values, named)
            return SimpleNamespace(ptr=77)

        return make


def test_a_texture_on_a_gpu_uses_the_memory_of_its_array() -> None:
    textures = Resources()
    cuda = SimpleNamespace(
        texture=textures,
        MemoryPointer=lambda memory, at: (memory, at),
        UnownedMemory=lambda address, size, owner: (address, size),
    )
    cupy = SimpleNamespace(cuda=cuda, ndarray=lambda shape, dtype, memory: (shape, dtype, memory))
    image = Operand("image", "input", F32, (6, 40))
    texture = texture_object(cupy, LinearTexture("t", image, filter="linear", mode="wrap", normalized=True), 1024)
    assert texture.ptr == 77
    (kind,), resource = textures.created["ResourceDescriptor"]
    assert (kind, resource["width"], resource["height"], resource["pitchInBytes"]) == (3, 40, 6, 160)
    assert textures.created["ChannelFormatDescriptor"][0] == (32, 0, 0, 0, 2)
    assert textures.created["TextureDescriptor"][1] == {
        "addressModes": (0, 0), "filterMode": 1, "readMode": 0, "normalizedCoords": 1
    }  # fmt: skip
    row = Operand("row", "input", SCALAR_DTYPES["u8"], (96, 4))
    texture_object(cupy, LinearTexture("t", row, normalized_read=True, channels=4), 1024)
    (kind,), resource = textures.created["ResourceDescriptor"]
    assert (kind, resource["sizeInBytes"]) == (2, 384)
    assert textures.created["ChannelFormatDescriptor"][0] == (8, 8, 8, 8, 1)
    with pytest.raises(ValueError, match="rows of 156 bytes"):
        texture_object(cupy, LinearTexture("t", Operand("image", "input", F32, (6, 39))), 1024)
    with pytest.raises(ValueError, match="a multiple of 512"):
        texture_object(cupy, LinearTexture("t", image), 1040)
