"""Read folders of tuned configurations, and check the files before anything is compiled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from autosched.integrations.config_files.file_names import FORMATS, FileName, Format, NotAConfigFile, parse_file_name
from measurements.files.bounded import read_json
from measurements.files.text import one_line

SIDECAR = ".autosched.json"  # suffix of the sidecar file, which stores facts that the format cannot represent
LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas")
# Minimum tile sizes of Triton's matmuls. Smaller tiles are padded to these rows and columns.
_TILES = {"BLOCK_SIZE_M": 1, "BLOCK_SIZE_N": 1, "BLOCK_SIZE_K": 16}
_NEEDED = (*_TILES, "GROUP_SIZE_M")
_FOLDER_VERSION = re.compile(r"triton_(\d+)_(\d+)_(\d+)$")
_MOST_BYTES = 2**20
_MOST_ELEMENTS = 2**20  # maximum number of elements of a Triton tensor (TRITON_MAX_TENSOR_NUMEL)

Config = tuple[tuple[str, int], ...]  # parameters of a configuration as sorted (name, value) pairs


@dataclass(frozen=True)
class BatchConfig:
    """The configuration for batches of ``size`` rows. ``fault`` is the reason if it is invalid, else ""."""

    size: int
    config: Config
    fault: str = ""

    def __getitem__(self, name: str) -> int:
        return dict(self.config)[name]


@dataclass(frozen=True)
class ConfigFile:
    """A file of configurations. ``triton`` is the version of Triton that tuned it, or "" if unknown.

    ``faults`` lists faults of the file itself rather than of an entry; ``notes`` lists harmless facts.
    """

    path: Path
    name: FileName
    entries: tuple[BatchConfig, ...]
    triton: str = ""
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class NoConfigs(ValueError):
    """A folder contains no configuration file. The message is one line with the remedy."""


def read_folder(folder: Path, format: Format) -> tuple[list[ConfigFile], list[str]]:
    """Read all files of a folder and its subfolders, in the order of their paths.

    Args:
        folder: The folder.
        format: Package that the files belong to.

    Returns:
        The files, and a line for each skipped file.

    Raises:
        NoConfigs: The folder contains no configuration file.
    """
    if not folder.exists():
        raise NoConfigs(f"{folder}: no such folder")
    paths = (
        [folder] if folder.is_file() else [p for p in sorted(folder.rglob("*.json")) if not p.name.endswith(SIDECAR)]
    )
    files, skipped = [], []
    for path in paths:
        try:
            files.append(read_file(path))
        except NotAConfigFile as error:
            skipped.append(one_line(str(error)))
    if not files:
        raise NoConfigs(
            f"{folder} has no file with a name like E=8,N=7168,device_name=NVIDIA_H200.json: pass the folder `configs` "
            f"of {'vLLM' if format == 'vllm' else 'SGLang'}, or a folder of your own"
        )
    return _with_rivals(files, format), skipped


def fits(folder: Path, format: Format) -> bool:
    """Return True if all files of a folder may have this format. Files that fit no known format are ignored.

    Raises:
        NoConfigs: The folder contains no configuration file.
    """
    candidates = [_formats(file) for file in read_folder(folder, format)[0]]
    return all(format in formats for formats in candidates if formats)


def _formats(file: ConfigFile) -> set[Format]:
    """Return the formats that a file may have, judged by its name and by where it records Triton's version."""
    versioned = bool(_folder_version(file.path))
    formats = {format for format in FORMATS if file.name.rest or file.path.name == _expected_name(file.name, format)}
    if versioned or file.name.down:
        formats.discard("vllm")  # only SGLang has a subfolder per version of Triton, and two files for one layer
    if file.triton and not versioned:
        formats.discard("sglang")  # only vLLM's files may contain triton_version
    return formats


def _folder_version(path: Path) -> str:
    """Return Triton's version from the name of the file's folder; "" if the name has none."""
    match = _FOLDER_VERSION.search(path.absolute().parent.name)
    return ".".join(match.groups()) if match else ""


def read_file(path: Path) -> ConfigFile:
    """Read a file; errors in its content are ``faults``. Raises NotAConfigFile for an invalid name."""
    name = parse_file_name(path.name)
    version = _folder_version(path)
    faults: list[str] = []
    pairs: list[tuple[str, Any]] = []
    try:
        document = read_json(path, _MOST_BYTES, object_pairs_hook=list, parse_constant=_refused)
        if not isinstance(document, list) or not all(isinstance(pair, tuple) for pair in document):
            raise ValueError("not an object")
        pairs = document
    except (OSError, ValueError) as error:
        faults.append(f"the file cannot be read as JSON: {one_line(str(error))[:200]}")
    entries: list[BatchConfig] = []
    seen: dict[int, str] = {}
    for key, value in pairs:
        if key == "triton_version":
            version = str(value)
        elif not re.fullmatch(r"0*[1-9][0-9]{0,8}", key):
            faults.append(f"{key[:60]!r} is not a batch size")
        elif int(key) in seen:
            faults.append(f"batch size {int(key)} occurs twice, as {seen[int(key)]!r} and {key!r}")
        else:
            seen[int(key)] = key
            entries.append(_entry(int(key), value, name))
    if not entries and not faults:
        faults.append("the file contains no configuration")
    return ConfigFile(path, name, tuple(sorted(entries, key=lambda e: e.size)), version, tuple(faults))


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _entry(size: int, value: Any, name: FileName) -> BatchConfig:
    if not isinstance(value, list) or not all(isinstance(pair, tuple) for pair in value):
        return BatchConfig(size, (), "the entry is not an object with BLOCK_SIZE_M and other parameters")
    config: dict[str, int] = {}
    for key, number in value:
        if key in config:
            return BatchConfig(size, (), f"{key} occurs twice")
        if isinstance(number, bool):
            number = int(number)
        if not isinstance(number, int):
            return BatchConfig(size, (), f"{key} is {json.dumps(number)[:60]}, not an integer")
        config[str(key)] = number
    return BatchConfig(size, tuple(sorted(config.items())), _fault(config, name))


def _fault(config: Mapping[str, int], name: FileName) -> str:
    """Return the reason why a configuration cannot be launched on any device, or ""."""
    missing = [key for key in _NEEDED if key not in config]
    if missing:
        return f"{' and '.join(missing)} is missing"
    for key, least in _TILES.items():
        if config[key] < least or config[key] & (config[key] - 1):
            return f"{key} is {config[key]}, which is not a power of two" + f" of at least {least}" * (least > 1)
    if config["GROUP_SIZE_M"] < 1:
        return f"GROUP_SIZE_M is {config['GROUP_SIZE_M']}"
    for one, other in combinations(_TILES, 2):
        if config[one] * config[other] > _MOST_ELEMENTS:
            return (
                f"{one} {config[one]} and {other} {config[other]} give a tile of more than {_MOST_ELEMENTS:,} elements"
            )
    warps = config.get("num_warps", 4)
    if warps < 1 or warps > 32 or warps & (warps - 1):
        return f"num_warps is {warps}, but must be a power of two from 1 to 32"
    if not 0 <= config.get("num_stages", 3) <= 32:
        return f"num_stages is {config['num_stages']}"
    if name.block_shape and name.device is not None:
        depth = name.block_shape[1]
        least = min(config["BLOCK_SIZE_K"], depth)
        if depth % least:
            return f"BLOCK_SIZE_K {config['BLOCK_SIZE_K']} does not divide the {depth} elements that share a scale"
    return ""


def _with_rivals(files: Sequence[ConfigFile], format: Format) -> list[ConfigFile]:
    """Add faults and notes to those of each file, and return the files.

    A file has a fault if it contradicts another file of the same layer, or if programs never use it. Notes concern
    SGLang's pairs of files.
    """
    from dataclasses import replace

    names: dict[tuple[Path, str], list[ConfigFile]] = {}
    for file in files:
        names.setdefault((file.path.parent, _expected_name(file.name, format)), []).append(file)
    done = []
    for file in files:
        expected_name = _expected_name(file.name, format)
        rivals = [f for f in names[file.path.parent, expected_name] if f is not file]
        faults = list(file.faults)
        faults += [
            f"{rival.path.name} is for the same layer, but has other values: remove one of the files"
            for rival in rivals
            if _values(rival) != _values(file)
        ]
        if file.path.name != expected_name and not file.name.rest:
            faults.append(f"programs never use this file, because they look for {expected_name}")
        notes: list[str] = []
        if format == "sglang" and file.name.down:
            notes += _pair_notes(file, names.get((file.path.parent, expected_name.replace("_down.json", ".json")), []))
        done.append(replace(file, faults=tuple(faults), notes=tuple(notes)))
    return done


def _expected_name(name: FileName, format: Format) -> str:
    from dataclasses import replace

    if format == "vllm" and "H200" in name.device_name.split("_"):
        name = replace(name, device_name="NVIDIA_H200")
    return name.text(format)


def _values(file: ConfigFile) -> dict[int, Config]:
    return {entry.size: entry.config for entry in file.entries}


def _pair_notes(down: ConfigFile, ups: Sequence[ConfigFile]) -> Iterator[str]:
    """Yield a note for each batch size with two values of BLOCK_SIZE_M: SGLang only uses the first matmul's value."""
    for up in ups:
        first = _values(up)
        for entry in down.entries:
            other = dict(first.get(entry.size, ()))
            if other and entry.config and other.get("BLOCK_SIZE_M") != dict(entry.config).get("BLOCK_SIZE_M"):
                yield (
                    f"batch size {entry.size}: BLOCK_SIZE_M is {dict(entry.config).get('BLOCK_SIZE_M')} here and "
                    f"{other.get('BLOCK_SIZE_M')} in {up.path.name}, whose value SGLang uses for both files"
                )
