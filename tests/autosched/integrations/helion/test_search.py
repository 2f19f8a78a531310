"""Through Helion's public hooks, autosched provides an autotuner, seeds and a remote cache, all without a GPU."""

# mypy: ignore-errors
from __future__ import annotations

from pathlib import Path

import pytest
from needs import needs_compiler, needs_helion

from measurements.store.store import Store
from measurements.trials.measurement import Provenance, Status
from search_spaces.hardware.devices import device

pytestmark = [
    needs_compiler,
    needs_helion,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
H100 = device("h100")


def test_times_of_a_simulated_gpu_are_estimates(tmp_path: Path) -> None:
    """The program runs on a simulated GPU, and the simulated times are recorded as estimates."""
    import torch
    from helion_kernels import doubled, kernel_of

    from autosched.integrations.helion import autotuner
    from autosched.triton import emulated

    database = tmp_path / "best.db"
    kernel = kernel_of(doubled, autotuner_fn=autotuner(database, trials=2, seed=3))
    with emulated("h100"):
        x = torch.randn(64, 32, device="cuda")
        torch.testing.assert_close(kernel(x), x * 2)
    with Store.open(database, create=False) as store:
        assert {(r.device, r.provenance) for r in store.trials()} == {("h100", Provenance.ESTIMATED)}


def test_a_call_is_tuned_by_our_sampler_and_then_known(tmp_path: Path) -> None:
    import torch
    from helion_kernels import doubled, kernel_of

    from autosched.integrations.helion import autotuner
    from autosched.integrations.helion.emulating import emulating
    from autosched.integrations.helion.space import ConfigSpace

    database = tmp_path / "best.db"
    kernel = kernel_of(doubled, autotuner_fn=autotuner(database, device="h100", trials=4, seed=3))
    x = torch.randn(64, 32)
    with emulating(H100):
        torch.testing.assert_close(kernel(x), x * 2)
    with Store.open(database, create=False) as store:
        trials = store.trials()
        assert len(trials) == 4 and {r.provenance for r in trials} == {Provenance.ESTIMATED}
        assert {r.operator for r in trials} == {"helion:doubled"} and {r.device for r in trials} == {"h100"}
        assert len({r.schedule for r in trials}) == 4

        again = kernel_of(doubled, autotuner_fn=autotuner(database, device="h100", trials=4))
        with emulating(H100):
            best = again.bind((x,)).autotune((x,), force=False)
            assert len(store.trials()) == 4, "the stored winner is used"
            fastest = min((r for r in trials if r.ok), key=lambda r: r.seconds)
            assert ConfigSpace.of(again.bind((x,))).config(fastest.schedule) == best
            again.bind((x,)).autotune((x,), force=True)
        assert len(store.trials()) == 8 and len({r.schedule for r in store.trials()}) == 8, "the search continues"


def test_wrong_results_do_not_win(tmp_path: Path) -> None:
    """In ``last_writer`` the last tile overwrites other tiles' sums, so results are correct only with a single tile."""
    import torch
    from helion_kernels import kernel_of, last_writer

    from autosched.integrations.helion import autotuner
    from autosched.integrations.helion.emulating import emulating

    database = tmp_path / "best.db"
    x = torch.arange(1.0, 33.0)
    kernel = kernel_of(last_writer, autotuner_fn=autotuner(database, device="h100", trials=12))
    with emulating(H100):
        bound = kernel.bind((x,))
        best = bound.autotune((x,), force=True)
        assert bound.compile_config(best)(x) == bound.compile_config(bound.config_spec.default_config())(x)
    with Store.open(database, create=False) as store:
        statuses = {r.status for r in store.trials()}
        refused = [r.measurement.reason for r in store.trials() if r.status is Status.WRONG_RESULT]
    assert Status.OK in statuses and all(refused)


def test_seeds_are_the_fastest_that_passed(tmp_path: Path) -> None:
    import helion
    import torch
    from helion_kernels import doubled, kernel_of

    from autosched.integrations.helion import seeds

    kernel = kernel_of(doubled)
    x = torch.randn(64, 32)
    configs = seeds(kernel, (x,), device="h100", count=2, trials=4, database=tmp_path / "best.db")
    first, second = configs
    assert isinstance(first, helion.Config) and isinstance(second, helion.Config) and first != second
    seeded = kernel_of(doubled, autotune_seed_configs=configs)
    assert seeded.settings.autotune_seed_configs == configs


def test_every_schedule_is_a_configuration_and_back() -> None:
    import torch
    from helion_kernels import doubled, kernel_of

    from autosched.integrations.helion.emulating import emulating
    from autosched.integrations.helion.space import ConfigSpace

    x = torch.randn(64, 32)
    with emulating(H100):
        domain = ConfigSpace.of(kernel_of(doubled).bind((x,)))
        for schedule in domain.space.sample(20, seed=1):
            config = domain.config(schedule)
            again = domain.schedule(config)
            assert again is not None and domain.config(again) == config


def test_the_remote_cache_is_a_database(tmp_path: Path, monkeypatch) -> None:
    from autosched.integrations.helion import DatabaseBackend

    monkeypatch.setenv("AUTOSCHED_DB", str(tmp_path / "shared" / "best.db"))
    backend = DatabaseBackend()
    assert backend.get("key") is None and list(backend.list()) == []
    backend.put("key", '{"config":"old"}')
    backend.put("other", '{"config": "of another", "key": {"fields": {"hardware": "NVIDIA H100"}}}')
    backend.put("key", '{"config":"new"}')
    assert DatabaseBackend().get("key") == '{"config":"new"}'
    assert DatabaseBackend().get("none") is None
    assert [text[:16] for text in backend.list()] == ['{"config":"new"}', '{"config":"of an']
    assert len(list(backend.list(1))) == 1


def test_helion_reads_and_writes_that_cache(tmp_path: Path, monkeypatch) -> None:
    import helion
    import torch
    from helion.autotuner import FiniteSearch, RemoteAutotuneCache
    from helion.autotuner.base_cache import LooseAutotuneCacheKey
    from helion_kernels import doubled, kernel_of

    from autosched.integrations.helion import DatabaseBackend
    from autosched.integrations.helion.emulating import emulating
    from autosched.integrations.helion.estimates import EstimateProvider

    monkeypatch.setenv("AUTOSCHED_DB", str(tmp_path / "best.db"))
    monkeypatch.setenv("HELION_CACHE_DIR", str(tmp_path / "local"))
    monkeypatch.setenv("HELION_REMOTE_CACHE_BACKEND", "autosched.integrations.helion.DatabaseBackend")
    # Without a GPU, Helion cannot compute the cache key of a call.
    key = LooseAutotuneCacheKey("", (), (), "source", "NVIDIA H100", "13.0", "triton")
    monkeypatch.setattr(RemoteAutotuneCache, "_generate_key", lambda self: key)
    x = torch.randn(64, 32)

    def search(bound, args, **_):
        configs = [helion.Config(block_sizes=[size], num_warps=1, num_stages=1) for size in (8, 16)]

        def provider(**options):
            return EstimateProvider(**options, device=H100)

        inner = FiniteSearch(bound, args, configs, benchmark_provider_cls=provider)
        return RemoteAutotuneCache(inner, autotuner_factory=lambda: inner)

    kernel = kernel_of(doubled, autotuner_fn=search)
    with emulating(H100):
        best = kernel.bind((x,)).autotune((x,), force=False)
    assert len(list(DatabaseBackend().list())) == 1
    monkeypatch.setenv("HELION_CACHE_DIR", str(tmp_path / "elsewhere"))
    with emulating(H100):
        assert kernel_of(doubled, autotuner_fn=search).bind((x,)).autotune((x,), force=False) == best


@pytest.mark.parametrize(("options", "why"), [({"device": "h1000"}, "h1000"), ({"sampler": "none"}, "sampler")])
def test_invalid_input_is_rejected_before_anything_is_tuned(options, why) -> None:
    from autosched.integrations.helion import autotuner

    with pytest.raises(ValueError, match=why):
        autotuner(**options)
