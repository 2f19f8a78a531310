"""Kernels that keep ``@triton.autotune``: our model prunes their configurations, our database remembers their times."""

# mypy: ignore-errors
from __future__ import annotations

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_tuned_kernels as kernels  # noqa: E402

from autosched.triton import autotune_hooks, emulated  # noqa: E402
from measurements.records.measurement import Provenance  # noqa: E402
from measurements.store.store import Store  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]


def stock(database, **more):
    hooks = autotune_hooks(lambda: made, database=database)
    made = triton.autotune(kernels.CONFIGS, key=["n"], do_bench=hooks.do_bench, **more)(kernels.double)
    return hooks, made


def launched(kernel, n=4096):
    with emulated("h100") as session:
        x, o = torch.randn(n), torch.empty(n)
        kernel[kernels.blocks(n)](o, x, n)
        assert torch.equal(o, 2 * x)
    return session.launches, kernel.best_config


def test_times_are_kept_and_found_again(tmp_path):
    database = tmp_path / "best.db"
    first, config = launched(stock(database)[1])
    assert len(first) == 2 * len(kernels.CONFIGS) + 1, "each is called twice, then the best"
    _, again = stock(database)
    second, same = launched(again)
    assert len(second) == 1 and same == config, "nothing is timed again"
    with Store.open(database) as store:
        (summary,) = store.problems("triton:double")
        assert summary.provenance is Provenance.ESTIMATED and summary.ok == len(kernels.CONFIGS)
        best = store.best(store.problem(summary), "h100")
    assert best.schedule["BLOCK"] == config.kwargs["BLOCK"] and best.schedule["num_warps"] == config.num_warps
    third, _ = launched(stock(database)[1], 1000)
    assert len(third) > 1, "another problem"


def test_the_model_prunes(tmp_path):
    hooks = autotune_hooks(lambda: made, database=tmp_path / "best.db")
    pruned = {"perf_model": hooks.perf_model, "top_k": 1}
    made = triton.autotune(kernels.CONFIGS, key=["n"], prune_configs_by=pruned)(kernels.double)
    launches, config = launched(made, 2**16)
    assert len(launches) == 1, "only the best by the model is left, and it is not timed"
    times = modelled(hooks, 2**16)
    assert config.kwargs["BLOCK"] == min(times, key=times.get)
    times = modelled(hooks, 2**20)
    assert times[32] > 1.2 * times[512], "32,768 blocks of one warp"


def modelled(hooks, n):
    given = {"o": torch.empty(n), "x": torch.ones(n), "n": n, "grid": kernels.blocks(n), "warmup": False}
    with emulated("h100"):
        return {c.kwargs["BLOCK"]: hooks.perf_model(**given, **c.all_kwargs()) for c in kernels.CONFIGS}


def test_what_does_not_fit_is_last():
    hooks = autotune_hooks(lambda: kernels.double, device="h100")
    x = torch.empty(64)
    given = dict(o=x, x=x, n=64, grid=(1,), BLOCK=64)
    assert 0 < hooks.perf_model(**given, num_warps=2) < 1 and hooks.perf_model(**given, num_warps=64) == float("inf")
