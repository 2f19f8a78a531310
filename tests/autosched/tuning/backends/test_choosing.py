import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from autosched.tuning import tune as tuner
from autosched.tuning.backends import AnalyticEstimator, BackendError, BackendOptions, Gpus, choose, choosing
from autosched.tuning.backends import gpus as probing
from autosched.verify.launch_counting import CountedLaunch
from autosched.verify.machine_counting import counted_in
from benchmarks.gpu import simulated_gpu
from cost_models.analytic import predict
from cost_models.launch_time import CompiledResources, launch_time
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import NvrtcMissing
from measurements.runners.base import Candidate
from measurements.runners.cuda.runner import CudaRunner
from measurements.trials.measurement import Provenance, Resources
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.devices import Device, UnknownDevice, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.matmul.counts import counts
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.template import TemplateSet

H200, A100 = device("h200"), device("a100")
NO_GPU = "no NVIDIA driver is installed"


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "cuda_count", lambda: 0)
    monkeypatch.setattr(probing, "cuda_available", lambda gpu: (False, NO_GPU))


@pytest.fixture
def an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "cuda_available", lambda gpu: (True, "NVIDIA H200 answers"))
    monkeypatch.setattr(probing, "cuda_device", lambda gpu: H200)


@pytest.fixture
def two_h200_and_an_a100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "cuda_count", lambda: 3)
    monkeypatch.setattr(probing, "cuda_available", lambda gpu: (True, "it answers"))
    monkeypatch.setattr(probing, "cuda_device", lambda gpu: (H200, H200, A100)[gpu])


@pytest.fixture
def an_unknown_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(gpu: int) -> Device:
        raise UnknownDevice("no device row has the compute capability of Brand New")

    monkeypatch.setattr(probing, "cuda_available", lambda gpu: (True, "Brand New answers"))
    monkeypatch.setattr(probing, "cuda_device", refuse)


def chosen(backend: str = "auto", requested: str | Device | None = None) -> tuple[str, str, str]:
    with choose(None, BackendOptions(backend=backend, device=requested, workers=1)) as choice:
        assert choice.line == choice.runner.describe()
        word = choice.runner.provenance.upper()
        assert choice.headline.startswith(f"times are {word}") and len(choice.headline) < 100
        assert choice.runner.provenance is (Provenance.MEASURED if choice.name == "cuda" else Provenance.ESTIMATED)
        return choice.name, choice.device.name, choice.line


@pytest.mark.usefixtures("no_gpu")
class TestWithoutGpu:
    def test_auto_estimates_for_h200_and_reports_why(self) -> None:
        name, target, line = chosen()
        assert (name, target) == ("estimate", "h200")
        assert NO_GPU in line and "ESTIMATED" in line

    def test_a_named_device(self) -> None:
        assert chosen(requested="A100")[:2] == ("estimate", "a100")
        assert chosen(requested=A100)[:2] == ("estimate", "a100")

    def test_cuda_reports_the_missing_component(self) -> None:
        with pytest.raises(BackendError, match=f"{NO_GPU}.*use --backend estimate"):
            choose(None, BackendOptions(backend="cuda"))


@pytest.mark.usefixtures("an_h200")
class TestWithGpu:
    def test_auto_measures_on_the_gpu(self) -> None:
        name, target, line = chosen()
        assert (name, target) == ("cuda", "h200")
        assert "backend cuda" in line

    def test_the_gpu_may_be_selected_by_name(self) -> None:
        assert chosen("cuda", "H200")[:2] == ("cuda", "h200")

    def test_another_device_is_only_estimated(self) -> None:
        name, target, line = chosen(requested="a100")
        assert (name, target) == ("estimate", "a100")
        assert "GPU is h200, not a100" in line
        with pytest.raises(BackendError, match="GPU is h200, not a100"):
            choose(None, BackendOptions(backend="cuda", device="a100"))

    def test_estimate_when_requested(self) -> None:
        name, _, line = chosen("estimate")
        assert name == "estimate"
        assert "requested" in line

    def test_a_slice_of_a_gpu_is_itself_and_not_the_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import dataclasses

        gpu_slice = dataclasses.replace(H200, sm_count=66)
        monkeypatch.setattr(probing, "cuda_device", lambda gpu: gpu_slice)
        with choose(None, BackendOptions(backend="cuda", device="h200", workers=1)) as choice:
            assert isinstance(choice.runner, CudaRunner)
            assert choice.device.sm_count == 66


@pytest.mark.usefixtures("two_h200_and_an_a100")
class TestSeveralGpus:
    @pytest.mark.parametrize(
        ("gpus", "named"), [(None, "on h200"), ([1], "on h200"), ([1, 0], "on 2 x h200"), ([2], "on a100")]
    )
    def test_named_gpus_measure_or_the_first_by_default(self, gpus: Gpus | None, named: str) -> None:
        with choose(None, BackendOptions(backend="cuda", workers=1, gpus=gpus)) as choice:
            assert named + " " in choice.line
            assert choice.gpus == len(gpus or [0])

    def test_all_selects_all_gpus_of_one_kind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probing, "cuda_count", lambda: 2)
        with choose(None, BackendOptions(backend="cuda", workers=1, gpus="all")) as choice:
            assert "on 2 x h200" in choice.line

    @pytest.mark.parametrize(
        ("gpus", "refusal"),
        [
            ([3], "unknown GPU 3: this machine has 3, numbered from 0"),
            ([0, -1], "gpus must be a whole number of at least 0, not -1"),
            (["a"], "gpus must be a whole number of at least 0, not 'a'"),
            (0, r'gpus must be "all" or a list of numbers, such as \[0, 1\], got 0'),
            ("01", 'gpus must be "all" or a list of numbers'),
            ([0, 1, 0], "gpus must contain at least one GPU and no GPU twice, got 0, 1, 0"),
            ([], "no GPU twice, got none"),
            ("all", r"GPU 0 \(h200, 132 SMs\) and GPU 2 \(a100, 108 SMs\) are different models"),
        ],
    )
    @pytest.mark.parametrize("backend", ["auto", "cuda"])
    def test_invalid_backend_options_are_rejected(self, backend: str, gpus: Gpus, refusal: str) -> None:
        with pytest.raises(ValueError, match=refusal):
            choose(None, BackendOptions(backend=backend, workers=1, gpus=gpus))

    def test_several_gpus_require_measurements(self) -> None:
        with pytest.raises(BackendError, match=r"\(backend estimate was requested\)"):
            choose(None, BackendOptions(backend="estimate", gpus=[0]))
        with pytest.raises(BackendError, match=r"GPU is h200, not a100"):
            choose(None, BackendOptions(backend="auto", device="a100", gpus=[0, 1]))

    def test_a_gpu_that_does_not_respond_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probing, "cuda_available", lambda gpu: (gpu == 0, f"GPU {gpu} does not answer: busy"))
        with pytest.raises(BackendError, match="GPU 1 does not answer: busy"):
            choose(None, BackendOptions(backend="auto", gpus=[0, 1]))

    def test_both_gpus_measure(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        log = tmp_path / "log"
        environment = {simulated_gpu.SECONDS: "0.4", simulated_gpu.LOG: str(log)}
        simulated = partial(CudaRunner, worker_module=simulated_gpu.MODULE, worker_env=environment)
        monkeypatch.setattr(choosing, "CudaRunner", simulated)
        result = tuner.tune(
            Matmul(m=64, n=64, k=64),
            trials=6,
            database=tmp_path / "a.db",
            backend="cuda",
            sampler="random",
            workers=1,
            gpus=[0, 1],
        )
        assert result.ok == 6 and result.provenance is Provenance.MEASURED and not result.stopped
        assert {line.split()[2] for line in log.read_text().splitlines()} == {"0", "1"}


@pytest.mark.usefixtures("an_unknown_gpu")
class TestUnknownGpu:
    def test_auto_estimates_on_an_unknown_gpu_and_reports_why(self) -> None:
        name, target, line = chosen()
        assert (name, target) == ("estimate", "h200")
        assert "no device row has" in line

    def test_cuda_does_not(self) -> None:
        with pytest.raises(BackendError, match="no device row has"):
            choose(None, BackendOptions(backend="cuda"))


@pytest.mark.usefixtures("no_gpu")
class TestRefusals:
    def test_unknown_names_and_numbers_are_rejected(self) -> None:
        with pytest.raises(
            BackendError, match="unknown backend 'opencl': use one of auto, cuda, estimate, ray, replay"
        ):
            choose(None, BackendOptions(backend="opencl"))
        with pytest.raises(BackendError, match="nothing to replay"):
            choose(None, BackendOptions(backend="replay"))
        with pytest.raises(BackendError, match=f"timing policy .*{NO_GPU}"):
            choose(None, BackendOptions(warm_cache=True))
        with pytest.raises(UnknownDevice, match="h200_nvx"):
            choose(None, BackendOptions(device="h200_nvx"))
        with pytest.raises(ValueError, match="workers must be a whole number of at least 1, not 0"):
            choose(None, BackendOptions(workers=0))

    def test_without_nvrtc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(**_: object) -> None:
            raise NvrtcMissing("not there")

        monkeypatch.setattr(choosing, "CompilePool", refuse)
        with pytest.raises(BackendError, match="NVRTC was not found"):
            choose(None, BackendOptions())


class TestEstimate:
    PROBLEM = Matmul(m=96, n=80, k=64)
    ESTIMATE = AnalyticEstimator(H200, TemplateSet([MATMUL]))

    @pytest.fixture
    def candidate(self) -> Iterator[Candidate]:
        schedule = MATMUL.space(self.PROBLEM, H200).sample(1, 3)[0]
        yield Candidate(
            self.PROBLEM,
            schedule,
            GeneratedKernel(entry="k", source="", arguments=(), grid=(1, 1, 1), block=(32, 1, 1)),
        )

    def test_the_estimate_uses_the_compiled_registers_and_spills(self, candidate: Candidate) -> None:
        work = counts(self.PROBLEM, MATMUL.config(self.PROBLEM, candidate.schedule, H200), H200)
        allotted = Resources(40, 24, 16, 0, 0, 0)
        assert self.ESTIMATE(candidate, allotted) == predict(work, H200, registers=40, spill_bytes=40)

    def test_a_template_without_counts_is_estimated_from_emulated_counts(
        self, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        silent, resources = TemplateSet([dataclasses.replace(MATMUL, counts=None)]), Resources(40, 0, 0, 0, 0, 0)
        executed = LaunchCounts(64, 128, 1, 10, (("fma.rn.f32", 1e4),), 1e4, *[100.0] * 7, 0.0, 1e6, 0, 10**6)
        monkeypatch.setattr("autosched.tuning.backends.estimators.counted", lambda *_: (CountedLaunch(executed),))
        seconds = launch_time(executed, H200, CompiledResources(40)).seconds
        assert AnalyticEstimator(H200, silent)(candidate, resources) == seconds
        monkeypatch.setattr("autosched.tuning.backends.estimators.counted", lambda *_: None)
        assert AnalyticEstimator(H200, silent)(candidate, resources) is None

    def test_a_compiled_program_is_estimated_from_machine_code_counts(
        self, candidate: Candidate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        silent, resources = TemplateSet([dataclasses.replace(MATMUL, counts=None)]), Resources(40, 0, 0, 0, 0, 0)
        in_ptx = LaunchCounts(64, 128, 1, 10, (("fma.rn.f32", 1e4),), 1e4, *[100.0] * 7, 0.0, 1e6, 0, 10**6)
        in_code = dataclasses.replace(in_ptx, spilled_words=1e4)
        program = Compiled(tmp_path / "k.cubin", "0", "k", resources, 0.1, "", "sm_90a", "nvrtc", False)
        monkeypatch.setattr("autosched.tuning.backends.estimators.counted", lambda *_: (CountedLaunch(in_ptx),))
        monkeypatch.setattr("autosched.tuning.backends.estimators.in_program", lambda *_: [in_code])
        estimate = AnalyticEstimator(H200, silent)
        assert estimate(candidate, resources) == launch_time(in_ptx, H200, CompiledResources(40)).seconds
        assert estimate(candidate, resources, program) == launch_time(in_code, H200, CompiledResources(40)).seconds
        assert estimate.name.endswith(f"({counted_in()})") and "(" not in self.ESTIMATE.name

    def test_spills_make_it_slower(self, candidate: Candidate) -> None:
        calm, spilled = Resources(40, 0, 0, 0, 0, 0), Resources(40, 4000, 4000, 0, 0, 0)
        assert self.ESTIMATE(candidate, spilled) > self.ESTIMATE(candidate, calm)
