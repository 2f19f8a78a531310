"""A tuned configuration is compared with the package's default; the result is stored, written and read again."""

# mypy: ignore-errors
from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.integrations.config_files.defaults import default_config
from autosched.integrations.config_files.files import SIDECAR, read_file
from autosched.integrations.config_files.layer import BATCH_SIZES, Layer, ModelError
from autosched.integrations.config_files.tuning.against_default import (
    ESTIMATE_NOISE,
    ROUNDS,
    TimedConfig,
    compare,
    compare_alternately,
)
from autosched.integrations.config_files.tuning.sidecar import LayerChoice, TunedLayer, read_tuned, write_tuned
from autosched.integrations.config_files.tuning.trials import trials_of, tuned_layers
from measurements.store.store import Store
from measurements.trials.measurement import Timing
from search_spaces.hardware.devices import device

LAYER = Layer(8, 4096, 14336, 2)
DEFAULT = default_config(LAYER, 64, "vllm")
TUNED = tuple(sorted((dict(DEFAULT) | {"BLOCK_SIZE_N": 128, "num_stages": 5}).items()))
VERIFIED = {"status": "ok", "error_over_bound": 0.5, "registers": 40, "shared_bytes": 1024}


def estimate(config, seconds: float | None, **verification: object) -> TimedConfig:
    return TimedConfig(config, None if seconds is None else Timing.estimate(seconds), verification or VERIFIED)


def tuned_layer(comparison, provenance: str = "estimated") -> TunedLayer:
    return TunedLayer(LAYER, device("h200"), (LayerChoice.of(64, comparison, provenance),), "3.9.0", "ours")


@pytest.mark.parametrize("format", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "layer",
    [
        LAYER,
        Layer(128, 2048, 768, 8),
        Layer(8, 4096, 14336, 2, "fp8_w8a8"),
        Layer(256, 7168, 2048, 8, "fp8_w8a8", (128, 128)),
        Layer(8, 4096, 14336, 2, "int8_w8a8"),
    ],
)
def test_defaults_are_configurations(tmp_path: Path, format: str, layer: Layer) -> None:
    """Every default configuration is valid in a file. BLOCK_SIZE_K is equal to the block size of the scales."""
    configs = {str(rows): dict(default_config(layer, rows, format)) for rows in BATCH_SIZES}
    path = tmp_path / layer.file_name("NVIDIA_H200").text(format)
    path.write_text(json.dumps(configs))
    file = read_file(path)
    assert not file.faults and [entry.size for entry in file.entries] == list(BATCH_SIZES)
    assert not any(entry.fault for entry in file.entries)
    if layer.block_shape:
        assert {entry["BLOCK_SIZE_K"] for entry in file.entries} == {128}


def test_defaults_of_some_batches() -> None:
    def values(layer: Layer, rows: int, format: str) -> tuple[int | None, ...]:
        config = dict(default_config(layer, rows, format))
        names = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
        return tuple(config.get(name) for name in names)

    scaled = Layer(8, 4096, 14336, 2, "fp8_w8a8", (128, 128))
    assert values(LAYER, 1, "vllm") == (16, 64, 128, 1, 4, 4)
    assert values(LAYER, 4096, "vllm") == (128, 128, 64, 16, 8, 3)
    assert values(LAYER, 1024, "vllm")[3] == 1, "128 tokens for each expert are not more than 128"
    assert values(replace(LAYER, dtype="fp8_w8a8"), 4096, "vllm")[2] == 128
    assert values(scaled, 16, "vllm") == (16, 128, 128, 1, 4, 3)
    assert values(scaled, 65, "vllm") == (64, 128, 128, 32, 4, 3)
    assert values(LAYER, 8, "sglang") == (16, 32, 64, 1, None, None)
    assert values(LAYER, 9, "sglang") == (64, 64, 32, 8, None, None)
    assert values(replace(LAYER, dtype="fp8_w8a8"), 9, "sglang") == (128, 256, 128, 32, 8, 4)
    assert values(scaled, 1, "sglang") == (64, 128, 128, 32, 4, 3)
    assert default_config(Layer(8, 4096, 14336, 2, "int8_w8a16", (1, 128)), 1, "vllm") is None


@pytest.mark.parametrize("format", ["vllm", "sglang"])
def test_the_noise_of_estimates_depends_on_the_format(format: str) -> None:
    noise = 1 + ESTIMATE_NOISE[format]
    for gain, word in ((0.9, "default"), (1.009, "default"), (noise - 0.01, "noise"), (noise + 0.01, "tuned")):
        comparison = compare(estimate(DEFAULT, gain), estimate(TUNED, 1.0), format)
        assert comparison.word == word and comparison.chosen.config == (TUNED if word == "tuned" else DEFAULT)
        assert comparison.interval[0] <= comparison.ratio <= comparison.interval[1]


def test_the_noise_of_estimates_equals_the_published_table() -> None:
    """The noise of estimates that the code assumes for a package equals the value in the benchmark's table."""
    page = (Path(__file__).parents[4] / "benchmarks" / "results" / "moe_winners.md").read_text()
    rows = re.findall(r"^\| (vLLM|SGLang) \| \d+ \|.*\| ([\d.]+)% \|$", page, re.MULTILINE)
    assert {name.lower(): float(percent) / 100 for name, percent in rows} == pytest.approx(ESTIMATE_NOISE)


def test_omitted_options_have_tritons_defaults() -> None:
    short = tuple((name, value) for name, value in DEFAULT if not name.startswith("num_"))
    spelled = (*short, ("num_stages", 3), ("num_warps", 4))
    assert compare(estimate(short, 2.0), estimate(spelled, 1.0), "sglang").word == "default"


@pytest.mark.parametrize(
    ("gain", "jitter", "word"),
    [
        (1.2, 0.02, "tuned"),
        (1.03, 0.001, "tuned"),
        (1.03, 0.3, "noise"),
        (1.0, 0.001, "default"),
        (0.8, 0.02, "default"),
    ],
)
def test_the_noise_of_measured_times_comes_from_rounds(gain: float, jitter: float, word: str) -> None:
    """In the second half of the rounds, both configurations take twice as long. Such a common slowdown is not noise."""
    calls = itertools.count()
    measured = []

    def measure(config) -> float:
        iteration = next(calls) // 2
        measured.append(config)
        wobble = 1 + jitter * (-1) ** iteration * (config == TUNED)
        return (2.0 if iteration >= ROUNDS // 2 else 1.0) * wobble * (gain if config == DEFAULT else 1.0)

    comparison = compare_alternately(estimate(DEFAULT, None), estimate(TUNED, None), measure)
    assert comparison.word == word
    assert measured.count(DEFAULT) == measured.count(TUNED) == ROUNDS
    assert measured[:4] == [DEFAULT, TUNED, TUNED, DEFAULT]


def test_stored_times_without_repeats_show_no_gain() -> None:
    once = [TimedConfig(config, Timing(s, s, s, 1)) for config, s in ((DEFAULT, 2.0), (TUNED, 1.0))]
    assert compare(*once, "vllm").word == "noise"
    often = [TimedConfig(c.config, Timing(s, s * 0.99, s * 1.01, 10)) for c, s in zip(once, (2.0, 1.0), strict=True)]
    assert compare(*often, "vllm").word == "tuned"


@pytest.mark.parametrize(("gain", "word"), [(1.5, "tuned"), (1.05, "noise"), (0.9, "default"), (None, "tuned")])
def test_files_and_databases_store_the_comparison(tmp_path: Path, gain: float | None, word: str) -> None:
    refused = {} if gain else {"status": "out_of_resources", "reason": "147,456 bytes"}
    layer = tuned_layer(compare(estimate(DEFAULT, gain, **refused), estimate(TUNED, 1.0), "vllm"))
    path = write_tuned(tmp_path / "first", "vllm", layer)
    beside = json.loads(path.with_name(path.stem + SIDECAR).read_text())["entries"]["64"]["comparison"]
    assert (beside["word"], beside["default"]["seconds"]) == (word, gain)
    read = read_tuned(read_file(path), None)
    assert read.choices == layer.choices
    with Store.open(tmp_path / "best.db") as store:
        store.extend(list(trials_of(replace(read, triton="3.9.0"))))
        (stored,) = tuned_layers(store, "vllm")
    again = write_tuned(tmp_path / "again", "vllm", stored)
    assert again.read_bytes() == path.read_bytes()
    assert stored.choices[0].comparison.word == word


def test_measured_times_are_compared_again_by_their_quartiles(tmp_path: Path) -> None:
    def measure(config) -> float:
        return next(wobbles) * (1.3 if config == DEFAULT else 1.0)

    wobbles = itertools.cycle((1.0, 1.01, 0.99))
    layer = tuned_layer(compare_alternately(estimate(DEFAULT, None), estimate(TUNED, None), measure), "measured")
    with Store.open(tmp_path / "best.db") as store:
        store.extend(list(trials_of(tuned_layer(compare(estimate(DEFAULT, 1.0), estimate(TUNED, 2.0), "vllm")))))
        store.extend(list(trials_of(layer)))
        (stored,) = tuned_layers(store, "vllm")
    (choice,) = stored.choices
    assert (choice.provenance, choice.config, choice.comparison.word) == ("measured", TUNED, "tuned")
    assert choice.comparison.default.timing == layer.choices[0].comparison.default.timing
    assert choice.comparison.tuned.timing.count == ROUNDS


def test_an_export_for_the_other_program_has_its_own_default(tmp_path: Path) -> None:
    layer = tuned_layer(compare(estimate(DEFAULT, 1.5), estimate(TUNED, 1.0), "vllm"))
    with Store.open(tmp_path / "best.db") as store:
        store.extend(list(trials_of(layer)))
        (stored,) = tuned_layers(store, "sglang")
    assert stored.choices[0].comparison.default.config == default_config(LAYER, 64, "sglang")


def test_foreign_files_are_not_modified(tmp_path: Path) -> None:
    """Other tools' configurations were tuned on a GPU, so estimates neither replace them nor are compared with them."""
    foreign = TunedLayer(LAYER, device("h200"), (LayerChoice(64, TUNED, None),), "3.9.0")
    with Store.open(tmp_path / "best.db") as store:
        store.extend(list(trials_of(foreign)))
        (stored,) = tuned_layers(store, "vllm")
    (choice,) = stored.choices
    assert choice.config == TUNED and choice.comparison is None
    assert stored.document()["entries"][0]["word"] is None


def test_a_damaged_comparison_is_rejected(tmp_path: Path) -> None:
    path = write_tuned(tmp_path, "vllm", tuned_layer(compare(estimate(DEFAULT, 1.5), estimate(TUNED, 1.0), "vllm")))
    sidecar = path.with_name(path.stem + SIDECAR)
    document = json.loads(sidecar.read_text())
    for damage in ({"ratio": -1}, {"interval": None}, {"default": {}}, {"tuned": 3}):
        document["entries"]["64"]["comparison"] |= damage
        sidecar.write_text(json.dumps(document))
        with pytest.raises(ModelError, match="is damaged"):
            read_tuned(read_file(path), None)
