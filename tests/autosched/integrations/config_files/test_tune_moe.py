"""Configurations that the model chooses without a GPU are stored in a database, written to files and read again."""

# mypy: ignore-errors
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main
from autosched.integrations.config_files.defaults import default_config
from autosched.integrations.config_files.layer import (
    Layer,
    ModelError,
    expert_products,
    layer_of_model,
    refuse_without_kernel,
)
from autosched.integrations.config_files.tuning import layer_counts
from autosched.integrations.config_files.tuning.layer_counts import as_config, estimated_seconds, tuner_space
from autosched.integrations.config_files.tuning.tune_layer import NoUsableConfig, first_choices, tune_layer
from cost_models.launch_time import LaunchTable
from measurements.store.store import Store
from measurements.trials.gain import ratio_of_medians, word_of
from measurements.trials.measurement import Timing
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.costs.ptx_costs import by_pipe, tensor_flops
from search_spaces.hardware.devices import device

MIXTRAL = Layer(8, 4096, 14336, 2)
MODEL = {"hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2}


def model_file(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in (MODEL | changes).items() if v is not None}))
    return path


def test_the_layer_of_a_model(tmp_path: Path) -> None:
    assert layer_of_model(model_file(tmp_path)) == MIXTRAL
    shared = layer_of_model(model_file(tmp_path), ranks=4, dtype="fp8_w8a8")
    assert (shared.intermediate, shared.dtype, shared.block_shape) == (3584, "fp8_w8a8", None)
    quantized = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    deep = model_file(
        tmp_path,
        num_local_experts=None,
        n_routed_experts=256,
        moe_intermediate_size=2048,
        quantization_config=quantized,
    )
    assert layer_of_model(deep) == Layer(256, 4096, 2048, 2, "fp8_w8a8", (128, 128))
    inner = tmp_path / "outer.json"
    inner.write_text(json.dumps({"text_config": MODEL}))
    assert layer_of_model(inner) == MIXTRAL


@pytest.mark.parametrize(
    ("changes", "ranks", "words"),
    [
        ({"num_local_experts": None}, 1, "num_local_experts"),
        ({"num_experts_per_tok": 9}, 1, "9 of 8 experts"),
        ({}, 3, "3 ranks"),
    ],
)
def test_models_without_an_moe_layer_are_rejected(
    tmp_path: Path, changes: dict[str, object], ranks: int, words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        layer_of_model(model_file(tmp_path, **changes), ranks=ranks)


@pytest.mark.parametrize("name", ["a100", "h100", "rtx4090", "b200"])
def test_the_time_model_is_of_the_device(name: str) -> None:
    row, space = device(name), tuner_space(MIXTRAL)
    assert len(space) == 1920
    few, many = (estimated_seconds(space, MIXTRAL, rows, row) for rows in (1, 4096))
    fits = np.isfinite(few)
    assert np.array_equal(fits, np.isfinite(many)) and 0 < fits.sum() < len(space)
    assert (many[fits] > few[fits]).all()
    weights = sum(n * k for n, k in MIXTRAL.matmuls) * 2
    assert few[fits].min() > 2 * weights / row.dram_bandwidth, "at least the time to load the weights of two experts"
    flops = 2 * 4096 * 2 * sum(n * k for n, k in MIXTRAL.matmuls)
    assert many[fits].min() > flops / row.tensor_peak("bf16")
    best = space[int(np.argmin(many))]
    assert best["BLOCK_SIZE_M"] >= 64 and space[int(np.argmin(few))]["BLOCK_SIZE_M"] == 16


def test_first_choices_differ_in_time() -> None:
    choices = first_choices(MIXTRAL, 64, device("h200"), 6)
    times = [seconds for _, seconds in choices]
    assert len(choices) == 6 and times == sorted(set(times))
    scaled = Layer(8, 4096, 1024, 2, "fp8_w8a8", (128, 128))
    assert all(128 % config["BLOCK_SIZE_K"] == 0 for config, _ in first_choices(scaled, 64, device("h200"), 50))


DEFAULT = dict(default_config(MIXTRAL, 64, "vllm"))


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_w8a8"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": 7}, "7"),
    ],
)
def test_types_without_a_kernel_are_rejected(tmp_path, monkeypatch, capsys, settings, dtype: str) -> None:
    """A layer of such a type must not be treated as a layer of 16-bit floats: the file would be for another layer."""
    monkeypatch.chdir(tmp_path)
    path = model_file(tmp_path, quantization_config=settings)
    assert layer_of_model(path).dtype == dtype and layer_of_model(path, dtype="bf16").dtype == "bf16"
    for name in ("b200", "rtx5090"):
        if dtype == "fp8_w8a8":
            refuse_without_kernel(layer_of_model(path), device(name))
            continue
        assert main(["tune", "--moe", "config.json", "--device", name, "--out", "x"]) == 2
        stderr = capsys.readouterr().err
        assert "--dtype" in stderr and name in stderr and stderr.count("\n") == 1 and not Path("x").exists()


EXPERTS = {"hidden_size": 256, "intermediate_size": 192, "num_local_experts": 8, "num_experts_per_tok": 2}


@pytest.mark.parametrize(("dtype", "ours"), [("nvfp4", "nvf4"), ("mxfp4", "mxf4"), ("mxfp8", "mxf8"), ("nvf4", "nvf4")])
def test_the_products_of_an_expert(dtype: str, ours: str) -> None:
    layer = Layer(32, 2880, 1440, 4, dtype)
    products = expert_products(layer, [1, 8, 9, 512])
    assert [(each.tokens, each.part) for each in products[::2]] == [
        ((1, 8), "gate and up"), ((9,), "gate and up"), ((512,), "gate and up")
    ]  # fmt: skip
    assert {(each.problem.a, each.problem.scale_order) for each in products} == {(ours, "tiled")}
    assert [(p.m, p.n, p.k) for p in (each.problem for each in products[-2:])] == [(64, 2880, 2880), (64, 2880, 1440)]


def test_products_of_block_scaled_experts_are_tuned_into_a_database(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    path = model_file(tmp_path, **EXPERTS, quantization_config={"quant_method": "mxfp4"})
    command = ["tune", "--moe", path.name, "--db", "best.db", "--rows", "64", "--candidates", "2"]
    for more in (["--device", "h100"], ["--device", "b200", "--dtype", "fp8_w8a8"]):
        assert main([*command, *more]) == 2
        stderr = capsys.readouterr().err
        assert stderr.count("\n") == 1 and not Path("best.db").exists()
    assert main([*command, "--device", "b200", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["device"], document["provenance"]) == ("b200", "estimated")
    assert [each["part"] for each in document["products"]] == ["gate and up", "down"]
    for each in document["products"]:
        assert each["word"] in ("default", "tuned", "noise") and each["best"]["status"] == "ok"
        assert (each["ratio"] == 1.0) == (each["default_seconds"] == each["tuned_seconds"])
        with Store.open("best.db") as store:
            assert store.best(problem_from_json(each["problem"]), "b200") is not None
    assert main([*command, "--device", "b200"]) == 0
    assert "default / tuned / noise" in capsys.readouterr().out


@pytest.mark.parametrize(("default", "word"), [(0.9, "default"), (1.005, "default"), (1.05, "noise"), (1.2, "tuned")])
def test_a_gain_is_compared_with_the_noise(default: float, word: str) -> None:
    ratio, interval = ratio_of_medians(Timing.estimate(default), Timing.estimate(1.0), 0.064)
    assert word_of(ratio, interval) == word


class Judged:
    """Fake verification pool that returns prepared results.

    ``verdicts`` and ``seconds`` have one item per candidate, in order. ``default`` and ``default_seconds`` are for the
    default configuration, which is much slower.
    """

    workers = 1

    def __init__(
        self,
        *verdicts: dict[str, object],
        seconds: tuple[float | None, ...] = (1.0, 2.0, 3.0, 4.0),
        default: dict[str, object] | None = None,
        default_seconds: float | None = 10.0,
    ) -> None:
        self.verdicts, self.seconds = list(verdicts), seconds
        self.default, self.default_seconds = default or {}, default_seconds
        self.seen: list[dict[str, int]] = []

    def counted(self, layer, rows, config, row):
        return self.default_seconds if config == DEFAULT else self.seconds[self.seen.index(config)]

    def verified(self, name, config, row):
        sound = {"status": "ok", "reason": "", "kernel": "ours", "triton": "3.9.0"}
        if config == DEFAULT:
            return sound | self.default, 0.0
        if config not in self.seen:
            self.seen.append(config)
        verdict = self.verdicts[min(self.seen.index(config), len(self.verdicts) - 1)]
        return sound | verdict, 0.0


def tuned(pool: Judged, **options: object):
    return tune_layer(MIXTRAL, device("h200"), "vllm", pool, rows=[64], **options)


def test_the_first_sound_candidate_is_chosen() -> None:
    ranked = first_choices(MIXTRAL, 64, device("h200"), 4)
    pool = Judged({"status": "device_limit", "reason": "much"}, {"local_bytes": 16}, {})
    (choice,) = tuned(pool).choices
    assert dict(choice.config) == ranked[2][0] and choice.provenance == "estimated"
    (choice,) = tuned(Judged({"local_bytes": 16}, default={"local_bytes": 16})).choices
    assert dict(choice.config) == ranked[0][0] and choice.verification["local_bytes"] == 16, (
        "if all candidates spill, one of them is chosen"
    )
    (choice,) = tuned(Judged({"local_bytes": 16})).choices
    assert dict(choice.config) == DEFAULT, "all candidates spill, so the default is chosen"
    for status in ("wrong_result", "unverified"):
        with pytest.raises(NoUsableConfig, match="64 rows: much"):
            tuned(Judged({"status": status, "reason": "much"}))
    (choice,) = tuned(Judged({"status": "unverified", "reason": "lacks", "registers": 40})).choices
    assert choice.verification["status"] == "unverified", (
        "the configuration fits and is chosen, but recorded as unverified"
    )


def test_counts_of_the_compiled_kernels_rank_candidates_again() -> None:
    ranked = first_choices(MIXTRAL, 64, device("h200"), 4)
    (choice,) = tuned(Judged({}, seconds=(4.0, 2.0, 1.0, 3.0))).choices
    assert (dict(choice.config), choice.seconds) == (ranked[2][0], 1.0)
    wrong = {"status": "wrong_result", "reason": "no"}
    (choice,) = tuned(Judged({}, {}, wrong, {}, seconds=(4.0, 2.0, 1.0, 3.0))).choices
    assert (dict(choice.config), choice.seconds) == (ranked[1][0], 2.0)
    (choice,) = tuned(Judged({}, {"local_bytes": 8}, {}, seconds=(4.0, 1.0, 2.0, 3.0))).choices
    assert dict(choice.config) == ranked[2][0], "spilling candidates are last"
    (choice,) = tuned(Judged({}, seconds=(4.0, None, 1.0, 3.0))).choices
    assert (dict(choice.config), choice.seconds) == (ranked[0][0], 4.0), (
        "estimates from different sources are not compared"
    )
    (by_sizes,) = estimated_seconds([DEFAULT], MIXTRAL, 64, device("h200")).tolist()
    (choice,) = tuned(Judged({}, default_seconds=None)).choices
    assert choice.comparison.tuned.seconds == ranked[0][1] and choice.comparison.default.seconds == by_sizes


def test_measured_times_decide_over_estimates() -> None:
    ranked = first_choices(MIXTRAL, 64, device("h200"), 4)
    seconds = {as_config(config): time for (config, _), time in zip(ranked, (4.0, 2.0, 1.0, 3.0), strict=True)}
    seconds[as_config(DEFAULT)] = 5.0
    pool = Judged({}, {}, {"status": "wrong_result", "reason": "no"}, {})
    (choice,) = tuned(pool, measure=lambda layer, rows, config: seconds[as_config(config)]).choices
    assert dict(choice.config) == ranked[1][0] and choice.seconds == 2.0 and choice.provenance == "measured"
    assert choice.comparison.word == "tuned" and choice.comparison.ratio == pytest.approx(2.5)
    seconds[as_config(DEFAULT)] = 1.9
    (choice,) = tuned(pool, measure=lambda layer, rows, config: seconds[as_config(config)]).choices
    assert dict(choice.config) == DEFAULT and choice.comparison.word == "default"


@pytest.mark.parametrize(
    ("default_seconds", "word"),
    [(0.5, "default"), (1.0, "default"), (1.005, "default"), (1.05, "noise"), (1.2, "tuned")],
)
def test_a_gain_within_noise_keeps_the_default(default_seconds: float, word: str) -> None:
    (choice,) = tuned(Judged({}, default_seconds=default_seconds)).choices
    assert choice.comparison.word == word
    assert (dict(choice.config) == DEFAULT) == (word != "tuned")
    assert choice.seconds == (1.0 if word == "tuned" else default_seconds)


def test_a_default_that_cannot_run_is_replaced() -> None:
    refused = {"status": "device_limit", "reason": "147,456 bytes"}
    layer = tuned(Judged({}, default=refused, default_seconds=0.1))
    (choice,) = layer.choices
    assert layer.document()["entries"][0]["default_refused"] == "147,456 bytes"
    assert (choice.comparison.word, choice.comparison.ratio, choice.seconds) == ("tuned", None, 1.0)
    assert choice.comparison.default.verification["reason"] == "147,456 bytes"
    (choice,) = tuned(Judged({}, default=refused), measure=lambda layer, rows, config: 3.0).choices
    assert (choice.comparison.word, choice.seconds, choice.comparison.tuned.timing.count) == ("tuned", 3.0, 1)
    unclear = {"status": "unverified", "reason": "time"}
    (choice,) = tuned(Judged({}, default=unclear)).choices
    assert choice.comparison.ratio is not None, "an unverified default is still compared"


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [Layer(4, 64, 48, 2), Layer(3, 128, 64, 1, "fp8_w8a8", (64, 64))])
def test_the_gpu_measures_the_layer_at_full_size(layer: Layer) -> None:
    """On an emulated GPU with modelled times, the launches of a layer have the layer's full sizes and succeed."""
    from autosched.integrations.config_files.tuning.measure import gpu_measure
    from autosched.triton import emulated

    config = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 2, "num_warps": 2}
    with emulated("h100") as session:
        seconds = gpu_measure("vllm")(layer, 5, config)
    assert 0 < seconds < 1 and session.ok
    grids = [launch.grid[0] for launch in session.launches]
    assert len(set(grids[: len(grids) // 2])) == 1 and grids[0] * 32 >= 2 * layer.intermediate
    for n, _ in layer.matmuls:
        written = {dict(launch.written)["c_ptr"] for launch in session.launches}
        assert 2 * n * 5 * layer.top_k in written, "launches must cover every row of the output"


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("forked_workers")
def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Each worker imports torch, which takes seconds.
    monkeypatch.setattr("autosched.integrations.config_files.tuning.pool.usable_cores", lambda: 1)
    monkeypatch.chdir(tmp_path)
    model = str(model_file(tmp_path, num_local_experts=4, intermediate_size=256, hidden_size=128))
    arguments = ["tune", "--moe", model, "--device", "h200", "--out", "configs", "--rows", "1", "--candidates", "2"]
    assert main([*arguments, "--db", "best.db", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    path = Path("configs", "E=4,N=256,device_name=NVIDIA_H200.json")
    assert document["file"] == str(path) and document["provenance"] == "estimated"
    (entry,) = document["entries"]
    assert entry["verification"]["status"] == "ok" and entry["seconds"] > 0
    assert entry["word"] in ("default", "tuned", "noise") and entry["default_seconds"] > 0
    assert entry["seconds"] == entry["tuned_seconds" if entry["word"] == "tuned" else "default_seconds"]
    assert json.loads(path.read_text())["1"] == entry["config"]
    sidecar = path.with_name("E=4,N=256,device_name=NVIDIA_H200.autosched.json")
    beside = json.loads(sidecar.read_text())
    assert (beside["hidden_size"], beside["top_k"], beside["device"]) == (128, 2, "h200")

    assert main(["export", "--format", "vllm", "--db", "best.db", "--out", "again"]) == 0
    assert Path("again", path.name).read_bytes() == path.read_bytes()
    assert Path("again", sidecar.name).read_bytes() == sidecar.read_bytes()
    capsys.readouterr()
    assert main(["export", "--format", "vllm", "--db", "best.db", "--out", "again", "--json"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert exported["files"] == [str(Path("again", path.name))]
    assert exported["layers"][0]["entries"][0]["word"] == entry["word"]
    assert main(["import", "configs", "--format", "vllm", "--db", "other.db"]) == 0
    assert main(["export", "--format", "sglang", "--db", "other.db", "--out", "third"]) == 0
    (third,) = Path("third").rglob("E=*H200.json")
    other = json.loads(third.with_name(third.stem + ".autosched.json").read_text())["entries"]["1"]["comparison"]
    assert third.parent.name.startswith("triton_")
    assert other["default"]["config"] == dict(default_config(Layer(4, 128, 256, 2), 1, "sglang"))
    assert json.loads(third.read_text())["1"] == other["tuned" if other["word"] == "tuned" else "default"]["config"]
    capsys.readouterr()

    sidecar.unlink()
    assert main(["import", "configs", "--format", "vllm", "--db", "more.db"]) == 2
    assert "--model" in capsys.readouterr().err
    assert main(["import", "configs", "--format", "vllm", "--db", "more.db", "--model", model]) == 0
    assert "1 configuration of 1 file" in capsys.readouterr().out
    sidecar.write_text('{"autosched_sidecar": 1, "hidden_size": "x", "top_k": 1}')
    assert main(["import", "configs", "--format", "vllm", "--db", "more.db"]) == 2
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--moe", "config.json"], "needs --out"),
        (["--moe", "nowhere.json", "--out", "x"], "cannot be read"),
        (["--moe", "config.json", "--out", "x", "--format", "tgi"], "write vllm or sglang"),
        (["--moe", "config.json", "--out", "x", "--candidates", "0"], "--candidates"),
        (["--moe", "config.json", "--out", "x", "--device", "gb10", "--measure"], "needs the GPU that the file is for"),
    ],
)
def test_untunable_input_is_rejected_in_one_line(
    tmp_path, monkeypatch, capsys, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    model_file(tmp_path)
    assert main(["tune", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1 and not Path("x").exists()


@needs_compiler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "dtype", "block", "tile", "warps"),
    [
        ("h100", "", None, (16, 64, 64), 4),
        ("h100", "", None, (64, 128, 64), 4),
        ("h100", "fp8_w8a8", None, (64, 64, 128), 4),
        ("a100", "", None, (64, 64, 64), 8),
        ("b200", "", None, (128, 128, 64), 4),
        ("b200", "fp8_w8a8", None, (64, 128, 128), 4),
    ],
)
def test_counts_by_sizes_agree_with_the_compiled_kernel(monkeypatch, name, dtype, block, tile, warps) -> None:
    """Instructions and bytes counted from a layer's sizes are close to the emulator's counts of the compiled code."""
    from autosched.integrations.config_files.installed import kernel_for
    from autosched.integrations.config_files.launches import parameters_of, true_launch
    from autosched.integrations.config_files.tuning.derived_counts import derived_table
    from autosched.triton import LaunchPlan, emulated, session
    from autosched.triton.estimate import compiled_resources, triton_counts, triton_times

    counted = []
    monkeypatch.setattr(
        session, "estimated_seconds", lambda launch, runs, cubin, row: counted.append((launch, runs, cubin)) or 1.0
    )
    row, layer = device(name), Layer(2, 512, 256, 1, dtype, block)
    config = dict(zip(("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K"), tile, strict=True))
    config |= {"GROUP_SIZE_M": 1, "num_warps": warps, "num_stages": 3}
    tokens, rows = (64, 64), 128
    kernel = kernel_for("vllm", moe=True).function
    monkeypatch.setattr(layer_counts, "tokens_of_experts", lambda *_: tokens)
    with emulated(name, plan=LaunchPlan(blocks=1), fake_cuda=False):
        grid, arguments = true_launch(
            parameters_of(kernel), layer.file_name("x"), config, tokens, 1, layer.matmuls[0], "cpu"
        )
        kernel[grid](**arguments)
    ((launch, runs, cubin),) = counted
    compiled_table = LaunchTable.of(triton_counts(launch, runs), compiled_resources(cubin))
    ours = layer_counts.launch_table(layer_counts.ConfigColumns.of([config]), layer, rows, *layer.matmuls[0], row)
    for exact in ("blocks", "threads", "unique_sectors", "store_sectors"):
        assert getattr(ours, exact) == pytest.approx(getattr(compiled_table, exact), rel=0.03), exact
    for about in ("chain_cycles", "shared_wavefronts", "wavefronts", "shared_bytes", "dram_bytes"):
        assert 0.7 < getattr(ours, about)[0] / getattr(compiled_table, about)[0] < 1.4, about
    by_size, by_emulator = by_pipe(ours.executed), by_pipe(compiled_table.executed)
    assert sum(by_size.values()) == pytest.approx(sum(by_emulator.values()), rel=0.35)
    flops = [
        sum(float(t[0]) * tensor_flops(o)[0] for o, t in table.executed.items()) for table in (ours, compiled_table)
    ]
    assert flops[0] == pytest.approx(flops[1], rel=0.01)
    derived = derived_table("vllm", layer, rows, config, layer.matmuls[0], row)
    times = [float(triton_times(table, row).seconds[0]) for table in (ours, compiled_table, derived)]
    assert times[0] == pytest.approx(times[1], rel=0.35)
    assert times[2] == pytest.approx(times[1], rel=0.05), "the counts of one block represent all blocks"
