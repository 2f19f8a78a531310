"""Sizes and types of a mixture-of-experts layer, from a model's ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.integrations.config_files.file_names import FileName
from autosched.tuning.expert_products import ExpertProduct
from measurements.files.bounded import read_json
from measurements.files.text import one_line
from search_spaces.hardware.block_scaling import BLOCK_FORMATS
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtype_names import canonical
from search_spaces.operators.matmul import Matmul

# Keys in the config.json files of public models, by field of the layer.
_MOST_BYTES = 1 << 24  # maximum bytes of a config.json
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "top_k")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_INTERMEDIATE = ("moe_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size", "intermediate_size")
# Batch sizes for which vLLM's tuner tunes.
BATCH_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
_BYTES = {"": 2, "float16": 2, "bf16": 2, "bfloat16": 2, "fp8_w8a8": 1, "int8_w8a8": 1, "int8_w8a16": 1}


# Weight types with a scale per 16 or 32 elements, keyed by their names in config.json.
_BLOCK_SCALED = {
    "mxfp4": "mxfp4",
    "gpt_oss_mxfp4": "mxfp4",
    "mxfp4-pack-quantized": "mxfp4",
    "nvfp4": "nvfp4",
    "nvfp4-pack-quantized": "nvfp4",
}


class ModelError(ValueError):
    """The file does not describe a supported MoE layer. The message is one line with the remedy."""


@dataclass(frozen=True)
class Layer:
    """An MoE layer. ``intermediate`` is the size on one rank (``N`` in file names). ``dtype`` is "" for bf16."""

    experts: int
    hidden: int
    intermediate: int
    top_k: int
    dtype: str = ""
    block_shape: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("experts", "hidden", "intermediate", "top_k"):
            if getattr(self, name) < 1:
                raise ModelError(f"{name} of a layer must be at least 1, not {getattr(self, name)}")
        if self.top_k > self.experts:
            raise ModelError(f"a token cannot choose {self.top_k} of {self.experts} experts: use a smaller --top-k")

    @property
    def weight_bytes(self) -> int:
        """Bytes of an element of a weight."""
        return _BYTES.get(self.dtype, 2)

    @property
    def row_bytes(self) -> int:
        """Bytes of an element of the activations, which are multiplied by the weights."""
        return 2 if self.dtype == "int8_w8a16" else self.weight_bytes

    @property
    def matmuls(self) -> tuple[tuple[int, int], ...]:
        """Columns and depth of the layer's two matmuls: gate and up projection combined, then down projection."""
        return (2 * self.intermediate, self.hidden), (self.hidden, self.intermediate)

    @property
    def block_type(self) -> str:
        """Block-scaled type of the experts, as the matmul operator names it, such as "nvf4"; "" for other types."""
        name = canonical(self.dtype)
        return name if name in BLOCK_FORMATS else ""

    def expert_rows(self, tokens: int) -> int:
        """Return the number of rows per expert, at least 1, if the tokens of a batch are spread evenly."""
        return max(1, -(-tokens * self.top_k // self.experts))

    def file_name(self, device_name: str) -> FileName:
        """Return the file name of the layer for a GPU."""
        return FileName(self.experts, self.intermediate, 0, device_name, self.dtype, self.block_shape)


def layer_of_model(path: Path, *, ranks: int = 1, dtype: str = "") -> Layer:
    """Return the layer of a model's ``config.json``.

    Args:
        path: The ``config.json``.
        ranks: Number of GPUs that share each expert (tensor parallel).
        dtype: Type of the weights; overrides the file's quantization.

    Returns:
        The layer on one of the ranks.

    Raises:
        ModelError: The file does not describe such a layer.
    """
    try:
        document = read_json(path, _MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(document, dict):
        raise ModelError(f"{path} is not the config.json of a model: it must contain an object")
    inner = document.get("text_config")
    model = {**document, **inner} if isinstance(inner, dict) else document
    sizes = {name: _size(path, model, keys) for name, keys in _KEYS.items()}
    if ranks < 1 or sizes["intermediate"] % ranks:
        raise ModelError(f"{ranks} ranks do not divide the intermediate size {sizes['intermediate']}")
    kind, block = _quantization(model)
    return Layer(
        sizes["experts"],
        sizes["hidden"],
        sizes["intermediate"] // ranks,
        sizes["top_k"],
        dtype or kind,
        block if not dtype or dtype == kind else None,
    )


_KEYS = {"experts": _EXPERTS, "top_k": _TOP_K, "hidden": _HIDDEN, "intermediate": _INTERMEDIATE}


def _size(path: Path, model: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    for key in keys:
        value = model.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise ModelError(f"{path} has none of {', '.join(keys)}: use the config.json of a mixture-of-experts model")


def _quantization(model: Mapping[str, Any]) -> tuple[str, tuple[int, int] | None]:
    """Return the quantization as file names spell it, or the model's spelling if file names have none."""
    settings = model.get("quantization_config")
    if not isinstance(settings, dict):
        return "", None
    method, block = str(settings.get("quant_method", "")), settings.get("weight_block_size")
    if method == "fp8":
        return "fp8_w8a8", (int(block[0]), int(block[1])) if isinstance(block, list) and len(block) == 2 else None
    if method == "experts_int8":
        return "int8_w8a16", None
    named = (method, str(settings.get("quant_algo", "")).lower(), str(settings.get("format", "")).lower())
    if named[:2] == ("modelopt", "fp8"):
        return "fp8_w8a8", None
    return next((_BLOCK_SCALED[word] for word in named if word in _BLOCK_SCALED), method), None


def refuse_without_kernel(layer: Layer, device: Device) -> None:
    """Raise ModelError for a layer of a type for which vLLM and SGLang read no configuration files."""
    if layer.dtype in _BYTES:
        return
    known = ", ".join(dtype for dtype in _BYTES if dtype)
    remedy = f"pass --dtype if the weights are served as another type ({known})"
    if layer.block_type:
        raise ModelError(
            f"servers do not read tile sizes of {layer.dtype.upper()} experts from files: tune the matrix products of "
            f"an expert on {device.name} with --db best.db instead of --out, or {remedy}"
        )
    raise ModelError(
        f"no kernel is known for experts of type {one_line(layer.dtype)[:40]}, on {device.name} ({device.arch}) or any "
        f"other device: {remedy}"
    )


def expert_products(layer: Layer, tokens: Sequence[int]) -> list[ExpertProduct]:
    """Return the matrix products of an expert of a block-scaled layer, by batch size.

    Batches with the same number of rows per expert share an entry. Scales have cuBLAS's layout.

    Args:
        layer: A block-scaled layer.
        tokens: Batch sizes.

    Returns:
        Products of the gate and up projection, and of the down projection.

    Raises:
        ModelError: The matmul operator does not support such a product.
    """
    batches: dict[int, list[int]] = {}
    for count in sorted(set(tokens)):
        batches.setdefault(layer.expert_rows(count), []).append(count)
    products = []
    for rows, served in batches.items():
        for part, (n, k) in zip(("gate and up", "down"), layer.matmuls, strict=True):
            try:
                problem = Matmul(rows, n, k, a=layer.block_type, scale_order="tiled")
            except ValueError as error:
                raise ModelError(
                    f"the product {part} of an expert cannot be computed: {one_line(str(error))}"
                ) from error
            products.append(ExpertProduct(tuple(served), part, problem))
    return products
