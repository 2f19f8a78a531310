"""The runner's guarantees hold on a real Ray cluster of two simulated nodes, even if nodes are lost."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import VARIABLE
from faults import FOLDER_VARIABLE, HERE, fault_kernel
from needs import needs_ray

from measurements.compiler.pool import CompileCache
from measurements.runners.base import Candidate, Streaming
from measurements.runners.cuda.runner import CudaOptions
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.runners.fleet import cluster as fleet_cluster
from measurements.runners.fleet.actors import FleetOptions
from measurements.runners.fleet.cluster import Fleet, FleetError
from measurements.runners.fleet.compilers import FleetCompilers
from measurements.runners.fleet.runner import FleetRunner
from measurements.trials.measurement import Status
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

pytestmark = [
    needs_ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PROBLEM = Matmul(m=16, n=16, k=16)
FATES = {
    "time_1000": Status.OK,
    "wrong": Status.WRONG_RESULT,
    "poison": Status.LAUNCH_ERROR,
    "hang": Status.TIMEOUT,
    "segfault": Status.CRASHED,
    "half": Status.CRASHED,
    "once_3000": Status.OK,
    "time_2000": Status.OK,
}


def candidate(name: str) -> Candidate:
    return Candidate(PROBLEM, Schedule("matmul", (("name", name),)), fault_kernel(name, PROBLEM))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a cluster of one node with two simulated GPUs. Tests add nodes."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
    ray_cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "num_gpus": 2, "include_dashboard": False},
    )
    ray.init(address=ray_cluster.address, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield ray_cluster
    ray.shutdown()
    ray_cluster.shutdown()


def options(folder: Path, seconds: float = 1.0) -> FleetOptions:
    return FleetOptions(
        cuda=CudaOptions(limits=TimeLimits(candidate=seconds, health=20.0, retry_pauses=(0.1, 0.1))),
        worker_module="faults",
        worker_env={FOLDER_VARIABLE: str(folder)},
        compiler_module="instant_compiler",
        cache=str(folder / "theirs"),
        path=(HERE,),
        describe="fake_fleet:fake_gpu",
    )


def add_node(cluster: Any, gpus: int, kind: str = "h200") -> Any:
    return cluster.add_node(num_cpus=1, num_gpus=gpus, include_dashboard=False, env_vars={VARIABLE: kind})


def runner(fleet: Fleet, folder: Path, name: str | None = None) -> FleetRunner:
    return FleetRunner(fleet, fleet.device(name), FleetCompilers(fleet, CompileCache(folder / "ours")))


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.05)


def test_candidates_are_measured_and_lost_nodes_are_tolerated(cluster: Any, tmp_path: Path) -> None:
    fleet = Fleet(cluster.address, options(tmp_path), compilers=1)
    try:
        fleet_runner = runner(fleet, tmp_path)
        assert isinstance(fleet_runner, Streaming)
        wait_for(lambda: fleet_runner.gpus == 2)  # a search may begin with one GPU, so wait for both
        assert fleet_runner.fingerprint()["device"] == "h200"
        results = dict(fleet_runner.measure([candidate(name) for name in FATES]))
        assert [results[i].status for i in range(len(FATES))] == list(FATES.values())
        assert "SIGSEGV" in results[4].reason
        timing = results[7].timing
        assert timing is not None and timing.median == pytest.approx(2e-6)

        entrants = fleet_runner.compare([candidate("time_1000"), candidate("time_2000")], rounds=4, library=False)
        assert [e.status for e in entrants] == [Status.OK, Status.OK]
        assert len(entrants[0].seconds) == len(entrants[1].seconds) == 4

        node = add_node(cluster, 2)
        until = time.monotonic() + 90
        while fleet_runner.gpus < 4 and time.monotonic() < until:
            time.sleep(0.1)
        assert fleet_runner.gpus == 4, "GPUs of a node added later are used"
        names = [f"slow_60_{1000 + n}" for n in range(48)]
        threading.Timer(0.5, lambda: cluster.remove_node(node, allow_graceful=False)).start()
        results = dict(fleet_runner.measure([candidate(name) for name in names]))
        medians = [m.timing.median for m in (results[n] for n in range(48)) if m.timing is not None]
        assert medians == pytest.approx([(1000 + n) * 1e-9 for n in range(48)])
        dispatcher = fleet.gpus(fleet_runner.device)
        assert dispatcher.lost == 2 and dispatcher.resubmitted >= 2
    finally:
        fleet.close()


@pytest.mark.nightly
def test_a_mixed_fleet_and_arrays_that_workers_lack(cluster: Any, tmp_path: Path) -> None:
    add_node(cluster, 1, "a100")
    messages: list[str] = []
    lacking = dataclasses.replace(options(tmp_path), worker_module="lacking_worker", path=(HERE, str(tmp_path)))
    (tmp_path / "lacking_worker.py").write_text(
        "from faults import FaultyGpu\nfrom measurements.workers.worker import serve\n"
        "class Lacking(FaultyGpu):\n"
        "    def handle(self, request):\n"
        "        if request['op'] == 'prepare' and 'reference' not in request['arrays']:\n"
        "            return {'missing': ['inputs', 'reference', 'tolerance'], 'why': 'cupy lacks them'}\n"
        "        return super().handle(request)\n"
        "if __name__ == '__main__':\n    serve(Lacking().handle)\n"
    )
    fleet = Fleet(cluster.address, lacking, compilers=1, on_message=messages.append)
    try:
        until = time.monotonic() + 60
        while fleet.kinds != {"h200": 2, "a100": 1} and time.monotonic() < until:
            time.sleep(0.1)
        assert fleet.kinds == {"h200": 2, "a100": 1}
        with pytest.raises(FleetError, match=r"h200, a100|a100, h200"):
            fleet.device(None)
        with pytest.raises(FleetError, match="has no b200"):
            fleet.device("b200")
        for name in ("h200", "a100"):
            fleet_runner = runner(fleet, tmp_path, name)
            assert fleet_runner.device == device(name)
            results = dict(fleet_runner.measure([candidate("time_1000"), candidate("time_2000")]))
            assert [results[i].status for i in range(2)] == [Status.OK, Status.OK], results
        assert messages == []
    finally:
        fleet.close()


@pytest.mark.nightly
def test_tune_searches_on_the_cluster(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import autosched
    from autosched.tuning.backends import cluster as of_clusters
    from benchmarks.gpu.simulated_gpu import LOG, MODULE, SECONDS

    def fake_options(cuda: CudaOptions) -> FleetOptions:
        environment = {SECONDS: "0.01", LOG: str(tmp_path / "log")}
        paths = (HERE, str(Path(HERE).parents[2]))
        return dataclasses.replace(
            options(tmp_path), cuda=cuda, worker_module=MODULE, worker_env=environment, path=paths
        )

    monkeypatch.setattr(of_clusters, "FleetOptions", fake_options)
    monkeypatch.setattr(fleet_cluster, "FURTHER_ARRIVALS", 60.0)  # long enough for both GPUs to join on a busy machine
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))  # the fake compilers write here
    problem = autosched.Softmax(rows=64, columns=512)
    result = autosched.tune(problem, trials=12, database=tmp_path / "best.db", ray=cluster.address, workers=1)
    assert result.device == device("h200") and result.provenance.value == "measured" and result.stopped == ""
    assert len(result.trials) == 12 and result.best is not None and result.best.ok
    assert "2 x h200 of the Ray cluster" in " ".join(result.lines)
    assert result.remeasured is not None and len(result.entrants) >= 2

    from autosched.cli.app import run
    from autosched.cli.commands.tuning import tune_suite

    suite = tmp_path / "layers.toml"
    suite.write_text("".join(f'[[problem]]\noperator = "softmax"\nrows = {n}\ncolumns = 256\n' for n in (8, 16)))
    fleets: list[Any] = []

    def counted(*positional: Any, **options: Any) -> Fleet:
        fleets.append(of_clusters.cluster(*positional, **options))
        return fleets[-1]

    monkeypatch.setattr(tune_suite, "cluster", counted)
    called = tmp_path / "shapes.csv"
    with autosched.log_calls(called) as log:
        for n in (8, 16):
            log.add(autosched.Softmax(rows=n, columns=128))
    for positional in (["--suite", str(suite)], ["--from", str(called)]):
        fleets.clear()
        arguments = ["tune", *positional, "--db", str(tmp_path / "suite.db"), "--ray", cluster.address]
        capsys.readouterr()
        assert run([*arguments, "--trials", "8", "--workers", "1", "--json"]) == 0
        output = json.loads(capsys.readouterr().out)
        assert [p["best"]["provenance"] for p in output["problems"]] == ["measured"] * 2
        assert sum(p["trials"] for p in output["problems"]) == 8
        assert len(fleets) == 1, "one set of actors for all problems"


def test_a_missing_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nand more")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(
        FleetError, match=r"there is no Ray cluster at auto \(Could not find any running Ray instance\.\)"
    ):
        Fleet("auto")
