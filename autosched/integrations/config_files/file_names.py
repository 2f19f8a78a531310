"""Names of tuned-configuration files. A name identifies the layer and the GPU that the configurations are for.

``E=8,N=7168,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json`` is for a layer of 8 experts
with an intermediate size of 7168. A name with ``K=`` instead of ``E=`` is for a block-scaled matmul.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from search_spaces.hardware.devices import Device, all_devices

Format = Literal["vllm", "sglang"]
FORMATS: tuple[Format, ...] = ("vllm", "sglang")
_PAIR = re.compile(r"(\w+)=((?:\[[^\]]*\])|[^,]*)(?:,|$)")
# Device names in file names, if they differ from the names that the driver reports. The device table has only one row
# per product, either SXM or PCIe.
_OTHER_NAMES = {
    "NVIDIA_H100": "h100",
    "NVIDIA_H100_80GB": "h100",
    "NVIDIA_A100-PCIe-40GB": "a100_40gb_pcie",
    "NVIDIA_B300": "b300",
}


class NotAConfigFile(ValueError):
    """The file name does not identify a layer. The message is one line."""


@dataclass(frozen=True)
class FileName:
    """Parsed name of a file. ``experts`` is 0 for a plain matmul.

    ``n`` is the intermediate size of a layer on one rank, or the number of columns of a matmul. ``k`` is the depth of a
    matmul, or 0 if the name does not contain it. ``dtype`` is "" for 16-bit floats. ``rest`` has the key-value pairs
    with unknown keys.
    """

    experts: int
    n: int
    k: int
    device_name: str
    dtype: str = ""
    block_shape: tuple[int, int] | None = None
    per_channel: bool = False
    down: bool = False
    rest: tuple[tuple[str, str], ...] = ()

    @property
    def is_moe(self) -> bool:
        """True for a mixture-of-experts layer."""
        return self.experts > 0

    @cached_property
    def device(self) -> Device | None:
        """Row of the device in the device table; None if there is no row, as for other vendors' devices."""
        return row_of_file_device(self.device_name)

    def text(self, format: Format = "vllm") -> str:
        """Return the file name as the format spells it: SGLang writes a space in ``block_shape``."""
        sizes = f"E={self.experts},N={self.n}" if self.is_moe else f"N={self.n},K={self.k}"
        parts = [sizes, f"device_name={self.device_name}"]
        if self.dtype:
            parts.append(f"dtype={self.dtype}")
        if self.block_shape:
            blank = " " if format == "sglang" else ""
            parts.append(f"block_shape=[{self.block_shape[0]},{blank}{self.block_shape[1]}]")
        if self.per_channel:
            parts.append("per_channel_quant=True")
        parts += [f"{name}={value}" for name, value in self.rest]
        return ",".join(parts) + ("_down" if self.down else "") + ".json"


def parse_file_name(name: str) -> FileName:
    """Parse a file name. Raises NotAConfigFile."""
    stem, dot, suffix = name.rpartition(".")
    if not dot or suffix != "json":
        raise NotAConfigFile(f"{name}: not a .json file")
    down = stem.endswith("_down")
    stem = stem.removesuffix("_down")
    pairs = _PAIR.findall(stem)
    if ",".join(f"{k}={v}" for k, v in pairs) != stem:
        raise NotAConfigFile(f"{name}: expected a name like E=8,N=7168,device_name=NAME,dtype=TYPE.json")
    values = dict(pairs)
    if len(values) != len(pairs):
        raise NotAConfigFile(f"{name}: duplicate key")
    sizes = {key: _size(name, key, values.pop(key, "0")) for key in ("E", "N", "K")}
    device = values.pop("device_name", "")
    if not device or not sizes["N"] or bool(sizes["E"]) == bool(sizes["K"]):
        raise NotAConfigFile(f"{name}: a name needs device_name=, N=, and either E= (experts) or K= (a matmul)")
    shape = values.pop("block_shape", "")
    block = tuple(_size(name, "block_shape", part.strip()) for part in shape.strip("[]").split(",")) if shape else None
    if block is not None and len(block) != 2:
        raise NotAConfigFile(f"{name}: block_shape={shape} must be a pair like [128,128]")
    return FileName(
        sizes["E"],
        sizes["N"],
        sizes["K"],
        device,
        values.pop("dtype", ""),
        block,
        values.pop("per_channel_quant", "") == "True",
        down,
        tuple(values.items()),
    )


def row_of_file_device(name: str) -> Device | None:
    """Return the row of the device table for the ``device_name`` in a file's name; None for an unknown device.

    This name is the driver's name of the GPU, with underscores instead of spaces.
    """
    name_of_row = _OTHER_NAMES.get(name)
    for row in all_devices():
        if row.name == name_of_row or any(driver.replace(" ", "_") == name for driver in row.driver_names):
            return row
    return None


def file_device_of_row(device: Device, format: Format) -> str:
    """Return the device's name in file names. vLLM uses one name for all H200 variants. Raises ValueError."""
    if not device.driver_names:
        raise ValueError(f"{device.name}: no file name is possible, because the driver's name of this GPU is unknown")
    name = device.driver_names[0].replace(" ", "_")
    return "NVIDIA_H200" if format == "vllm" and "H200" in name.split("_") else name


def _size(name: str, key: str, text: str) -> int:
    if not text.isdigit():
        raise NotAConfigFile(f"{name}: {key}={text} is not a size")
    return int(text)
