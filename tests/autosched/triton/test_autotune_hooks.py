"""For kernels with ``@triton.autotune``, the time model prunes configurations, and times are stored in a database."""

# mypy: ignore-errors
from __future__ import annotations

import json

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_tuned_kernels as kernels  # noqa: E402

from autosched.triton import autotune_hooks, emulated, recording  # noqa: E402
from autosched.triton.tuning.function import TritonFunction  # noqa: E402
from autosched.triton.tuning.listened import read  # noqa: E402
from autosched.triton.tuning.loading import load  # noqa: E402
from measurements.store.store import Store  # noqa: E402
from measurements.trials.measurement import Provenance  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]


def stock(database, **more):
    hooks = autotune_hooks(lambda: autotuner, database=database)
    autotuner = triton.autotune(kernels.CONFIGS, key=["n"], do_bench=hooks.do_bench, **more)(kernels.double)
    return hooks, autotuner


def launched(kernel, n=4096):
    with emulated("h100") as session:
        x, o = torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
        kernel[kernels.blocks(n)](o, x, n)
        assert torch.equal(o, 2 * x)
    return session.launches, kernel.best_config


def test_times_are_kept_and_found_again(tmp_path):
    database = tmp_path / "best.db"
    first, config = launched(stock(database)[1])
    assert len(first) == 2 * len(kernels.CONFIGS) + 1, "each configuration is called twice, then the best once"
    _, again = stock(database)
    second, same = launched(again)
    assert len(second) == 1 and same == config, "no configuration is timed again"
    with Store.open(database) as store:
        (summary,) = store.problems("triton:double")
        assert summary.provenance is Provenance.ESTIMATED and summary.ok == len(kernels.CONFIGS)
        best = store.best(store.problem(summary), "h100")
    assert best.schedule["BLOCK"] == config.kwargs["BLOCK"] and best.schedule["num_warps"] == config.num_warps
    third, _ = launched(stock(database)[1], 1000)
    assert len(third) > 1, "another problem"


def test_the_model_prunes(tmp_path):
    hooks = autotune_hooks(lambda: autotuner, database=tmp_path / "best.db")
    pruned = {"perf_model": hooks.perf_model, "top_k": 1}
    autotuner = triton.autotune(kernels.CONFIGS, key=["n"], prune_configs_by=pruned)(kernels.double)
    launches, config = launched(autotuner, 2**16)
    assert len({dict(launch.constants)["BLOCK"] for launch in launches}) == 1, "only the model's best remains"
    times = modelled(hooks, 2**16)
    assert config.kwargs["BLOCK"] == min(times, key=times.get)
    times = modelled(hooks, 2**20)
    assert times[32] > 1.2 * times[512], "32,768 blocks of one warp are slow"


def modelled(hooks, n):
    arguments = {"o": torch.empty(n), "x": torch.ones(n), "n": n, "grid": kernels.blocks(n), "warmup": False}
    with emulated("h100"):
        return {c.kwargs["BLOCK"]: hooks.perf_model(**arguments, **c.all_kwargs()) for c in kernels.CONFIGS}


def test_configurations_that_do_not_fit_are_ranked_last():
    hooks = autotune_hooks(lambda: kernels.double, device="h100")
    x = torch.empty(64)
    launch = dict(o=x, x=x, n=64, grid=(1,), BLOCK=64)
    assert 0 < hooks.perf_model(**launch, num_warps=2) < 1 and hooks.perf_model(**launch, num_warps=64) == float("inf")


@pytest.mark.skipif(not hasattr(triton.knobs.autotuning, "listener"), reason="Triton has a listener from 3.9 on")
def test_recorded_launches_are_tuned(tmp_path, capsys):
    from autosched.cli.app import run

    (tmp_path / "doubling.py").write_text(
        "import torch, triton\nimport triton.language as tl\n\n"
        "@triton.autotune([triton.Config({'BLOCK': b}, num_warps=1) for b in (32, 64)], key=['N'])\n"
        "@triton.jit\n"
        "def twice(o, x, N, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(o + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)\n\n"
        "def arguments(n=64):\n"
        "    grid = lambda meta: (triton.cdiv(n, meta['BLOCK']),)\n"
        "    on = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "    return {'grid': grid, 'o': torch.empty(n, device=on), 'x': torch.randn(n, device=on), 'N': n}\n"
    )
    path, log = str(tmp_path / "doubling.py"), tmp_path / "heard.jsonl"
    twice, arguments = load(f"{path}:twice", "--triton"), load(f"{path}:arguments", "--args")
    earlier = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton.knobs.autotuning, "listener", lambda **event: earlier.append(event["key"]))
        for sizes in ((96,), (96, 160)):  # two programs, each with its own kernel to tune
            twice.cache.clear()
            with emulated("h100"), recording(log):
                for n in sizes:
                    call = arguments(n)
                    twice[call.pop("grid")](**call)
    assert [key[0] for key in earlier] == [96, 96, 160], "an existing listener is also called"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(len(line["milliseconds"]) == 2 and line["best"]["BLOCK"] in (32, 64) for line in lines)
    assert read(log, TritonFunction.of(twice)) == [{"N": 96}, {"N": 160}], "launches that two programs tuned come first"

    db = str(tmp_path / "best.db")
    command = ["tune", "--triton", f"{path}:twice", "--args", f"{path}:arguments", "--from", str(log), "--db", db]
    capsys.readouterr()
    assert run([*command, "--device", "h100", "--trials", "2", "--workers", "0", "--no-verify"]) == 0
    assert "twice: n = 96" in capsys.readouterr().out
    with Store.open(db) as store:
        assert sorted(int(store.problem(s).scalars["N"]) for s in store.problems("triton:twice")) == [96, 160]
    for wrong in ("", "{", '{"key": 1}', '{"function": "other", "key": [1]}'):
        log.write_text(wrong)
        assert run([*command, "--device", "h100"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
