"""Choose the configuration of Inductor's Triton matmul without timing, from recorded winners or by the time model.

To use it, import ``choices`` from ``autosched.integrations.inductor``, and set
``torch._inductor.config.inductor_choices_class = choices("best.db", device="h100")``. All code that depends on
Inductor's names is in this file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch._inductor.lookup_table import LookupTableChoices

from autosched.version import VERSION
from cost_models.analytic import predict
from cost_models.triton_matmul import TritonConfig, counts
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial, canonical_json
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

# operator name in trials of Inductor's template, whose problems include the strides of a call
OPERATOR = "inductor_mm"
TEMPLATES = {"mm": "triton::mm", "addmm": "triton::mm", "bmm": "triton::bmm"}
_DTYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
_GROUP_M = 8
_MOST_SUMS = 256  # maximum number of accumulators per thread; more accumulators would spill
# Powers of two, as in Inductor's own lists. Configurations that do not fit on a device are skipped.
_SPACE = {
    "block_m": (16, 32, 64, 128, 256), "block_n": (16, 32, 64, 128, 256), "block_k": (16, 32, 64, 128),
    "stages": (2, 3, 4, 5), "warps": (2, 4, 8),
}  # fmt: skip


@dataclass(frozen=True)
class MatmulChoice:
    """The chosen configuration of a matmul, with the origin of the choice and the time in seconds.

    The origin is "recorded" (measured before, with these versions of torch and Triton) or "model" (ESTIMATED).
    """

    op: str
    problem: str
    config: TritonConfig | None
    origin: str
    seconds: float | None = None
    note: str = ""

    def __str__(self) -> str:
        """Describe the choice in one line."""
        if self.config is None:
            return f"{self.op} {self.problem}: left to Inductor ({self.note})"
        c = self.config
        time = (
            ""
            if self.seconds is None
            else f", {self.seconds * 1e6:.2f} us {'ESTIMATED' if self.origin == 'model' else 'MEASURED'}"
        )
        shape = f"{c.block_m}x{c.block_n}x{c.block_k}, {c.stages} stages, {c.warps} warps"
        return f"{self.op} {self.problem}: {shape} ({self.origin}{time}){f'; {self.note}' if self.note else ''}"


def choices(
    database: str | Path | None = None,
    *,
    device: str | Device,
    on_choice: Callable[[MatmulChoice], None] = lambda choice: None,
    record: bool = False,
) -> Callable[[], Any]:
    """Return a factory for Inductor's option ``inductor_choices_class``.

    For each mm, addmm and bmm of f16, bf16 or f32 on the GPU ``device``, Inductor gets one configuration of its Triton
    template. If ``database`` has a winner for these sizes, strides and versions of torch and Triton, Inductor gets this
    winner. Otherwise it gets the time model's first choice. Inductor then times nothing, and all processes and ranks
    choose the same configuration.

    Args:
        database: A path or an SQLAlchemy URL; None to use only the time model's choices.
        device: Name or row of the GPU.
        on_choice: Function that is called once with each choice.
        record: If True, Inductor times the configurations of problems that are not in ``database``. The winners are
            stored with the provenance "measured". Run the program once in this mode, with max_autotune on the GPU.

    Returns:
        The factory.

    Raises:
        ValueError: An unknown device, or ``record`` without a database.
        StoreError: The database cannot be read.
    """
    row = device if isinstance(device, Device) else device_row(device)
    if record and database is None:
        raise ValueError("record needs a database to store winners")
    if database is not None:
        Store.open(database, create=record).close()
    shared = _Shared(None if database is None else str(database), row, on_choice, record)
    return lambda: _LookupChoices(shared)


class _Shared:
    """State of one ``choices`` call.

    Inductor creates one ``_LookupChoices`` for each query of its cache key. All of these objects share this state.
    """

    def __init__(
        self, database: str | None, device: Device, on_choice: Callable[[MatmulChoice], None], record: bool
    ) -> None:
        self.database, self.device, self.on_choice, self.record = database, device, on_choice, record
        self.answers: dict[str, MatmulChoice] = {}
        self.recorded = {} if database is None else _recorded(database, device)

    @property
    def identity(self) -> str:
        known = sorted((key, dataclasses.astuple(config)) for key, (config, _) in self.recorded.items())
        text = json.dumps([VERSION, self.device.name, self.record, known])
        return hashlib.sha256(text.encode()).hexdigest()


class _LookupChoices(LookupTableChoices):  # type: ignore[misc]
    def __init__(self, shared: _Shared) -> None:
        super().__init__()
        self._shared = shared

    def uuid(self) -> str:
        """Return a key for Inductor's caches that depends on the choices, because other choices generate other code."""
        return f"autosched-{self._shared.identity}"

    def lookup_template_configs(
        self,
        kernel_inputs: Any,
        op_name: str,
        template_uids: list[str],
        template_hash_map: dict[str, str | None] | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """Return one configuration of one template, or an empty dict to let Inductor choose."""
        template = TEMPLATES.get(op_name)
        if template is None or template not in template_uids:
            return {}
        key, problem, why = _problem(kernel_inputs, op_name)
        choice = self._choose(op_name, key, problem, why)
        if choice.config is None:
            return {}
        c, k = choice.config, kernel_inputs.shapes_symbolic()[-1][-2]
        static = isinstance(k, int) or (getattr(k, "is_integer", False) and not getattr(k, "free_symbols", True))
        config = {
            "BLOCK_M": c.block_m, "BLOCK_N": c.block_n, "BLOCK_K": c.block_k, "GROUP_M": _GROUP_M,
            "num_stages": c.stages, "num_warps": c.warps,
            # If k is known to be a multiple of BLOCK_K, loads need no mask.
            "EVEN_K": bool(static and int(k) % c.block_k == 0),
        }  # fmt: skip
        return {template: [config]}

    def override_best_choice(self, best_choice: Any, timings: Mapping[Any, float]) -> Any:
        """Record the times that Inductor has measured for a problem."""
        if self._shared.record:
            _keep(self._shared, best_choice, timings)
        return best_choice

    def _choose(self, op: str, key: str, problem: Matmul | None, why: str) -> MatmulChoice:
        shared = self._shared
        known = shared.answers.get(key)
        if known is not None:
            return known
        text = key if problem is None else f"m={problem.m} n={problem.n} k={problem.k} {problem.a}"
        if problem is None:
            choice = MatmulChoice(op, text, None, "", note=why)
        elif key in shared.recorded:
            config, seconds = shared.recorded[key]
            choice = MatmulChoice(op, text, config, "recorded", seconds)
        elif shared.record:
            choice = MatmulChoice(op, text, None, "", note="Inductor times this problem, and the winner is recorded")
        else:
            config, seconds = first_choice(problem, shared.device)
            choice = MatmulChoice(
                op,
                text,
                config,
                "model",
                seconds,
                f"none of the {len(shared.recorded)} recorded winners is for this problem",
            )
        if not shared.record or choice.config is not None:
            shared.answers[key] = choice
        shared.on_choice(choice)
        return choice


@cache
def first_choice(problem: Matmul, device: Device) -> tuple[TritonConfig, float]:
    """Return the configuration that the time model expects to be the fastest, and its ESTIMATED seconds.

    Among configurations with equal estimates, the smallest block is chosen, so that the choice is deterministic.
    """
    element = problem.input_dtype.bytes
    widest = [16 if line * element % 16 == 0 else element for line in _lines(problem)]
    best: tuple[float, tuple[int, ...], TritonConfig] | None = None
    for values in product(*_SPACE.values()):
        config = TritonConfig(**dict(zip(_SPACE, values, strict=True)))
        if not _fits(config, element, device):
            continue
        seconds = predict(counts(problem, device, (widest[0], widest[1]), config), device)
        if seconds is not None and (best is None or (seconds, values) < best[:2]):
            best = (seconds, values, config)
    assert best is not None  # never empty, because the smallest block fits on every device
    return best[2], best[0]


def _lines(problem: Matmul) -> tuple[int, int]:
    """Return the number of elements in a contiguous row or column of a and of b."""
    a = problem.k if problem.order_a == "row" else problem.m
    return a, problem.n if problem.order_b == "row" else problem.k


def _fits(config: TritonConfig, element: int, device: Device) -> bool:
    shared = (config.block_m + config.block_n) * config.block_k * element * config.stages
    sums = config.block_m * config.block_n / (32 * config.warps)
    return shared <= device.shared_per_block and 4 <= sums <= _MOST_SUMS


def _problem(kernel_inputs: Any, op: str) -> tuple[str, Matmul | None, str]:
    """Return a key, the problem (None if it is not supported), and the reason if it is not supported."""
    shapes, strides = kernel_inputs.shapes_hinted()[-2:], kernel_inputs.strides_hinted()[-2:]
    dtypes = kernel_inputs.dtypes()[-2:]
    return _described(op, shapes, strides, dtypes)


def _described(
    op: str, shapes: Sequence[Sequence[int]], strides: Sequence[Sequence[int]], dtypes: Sequence[Any]
) -> tuple[str, Matmul | None, str]:
    kinds = [str(d).removeprefix("torch.") for d in dtypes]
    facts = {
        "operator": OPERATOR, "op": op, "shapes": [list(map(int, s)) for s in shapes],
        "strides": [list(map(int, s)) for s in strides], "dtypes": kinds,
    }  # fmt: skip
    key = canonical_json(facts)
    name = _DTYPES.get(dtypes[0])
    if name is None or dtypes[0] != dtypes[1]:
        return key, None, f"the model does not support products of {' and '.join(kinds)}"
    orders = ["row" if s[-1] == 1 else "col" if s[-2] == 1 else "" for s in strides]
    if "" in orders:
        return key, None, "neither dimension of an operand is contiguous"
    m, k, n = int(shapes[0][-2]), int(shapes[0][-1]), int(shapes[1][-1])
    batch = int(shapes[0][0]) if len(shapes[0]) == 3 else 1
    precision = "tf32" if name != "f32" or torch.backends.cuda.matmul.allow_tf32 else "ieee"
    try:
        problem = Matmul(
            m=m,
            n=n,
            k=k,
            batch=batch,
            a=name,
            b=name,
            out=name,
            order_a=orders[0],
            order_b=orders[1],
            precision=precision,
        )
    except ValueError as error:
        return key, None, str(error)
    return key, problem, ""


def _versions() -> str:
    import triton

    return f"torch {torch.__version__}, triton {triton.__version__}"


def _recorded(database: str, device: Device) -> dict[str, tuple[TritonConfig, float]]:
    """Return the configurations and times recorded with the installed versions of torch and Triton, by problem."""
    winners = {}
    with Store.open(database, create=False) as store:
        for summary in store.problems(OPERATOR):
            trial = store.best_of(summary) if summary.device == device.name else None
            if trial is None or trial.toolchain != _versions() or trial.seconds is None:
                continue
            values = trial.schedule.values
            config = TritonConfig(**{f.name: int(values[f.name]) for f in dataclasses.fields(TritonConfig)})
            winners[trial.problem_key] = config, trial.seconds
    return winners


def _keep(shared: _Shared, best: Any, timings: Mapping[Any, float]) -> None:
    """Store the fastest Triton configuration timed for a problem; times of the library are ignored."""
    timed = {choice: ms for choice, ms in timings.items() if _config_of(choice) is not None and 0 < ms < float("inf")}
    nodes = [node for node in best.input_nodes if len(node.get_size()) >= 2][-2:]
    if not timed or len(nodes) != 2 or any(node.get_device().type != "cuda" for node in nodes):
        return  # store nothing, because times without a GPU are not measurements
    fastest = min(timed, key=lambda choice: timed[choice])
    config = _config_of(fastest)
    assert config is not None
    op = "bmm" if len(nodes[0].get_size()) == 3 else "addmm" if len(best.input_nodes) == 3 else "mm"
    key, problem, _ = _described(
        op, [n.get_size() for n in nodes], [n.get_stride() for n in nodes], [n.get_dtype() for n in nodes]
    )
    if problem is None or shared.database is None:
        return
    record_winner(shared.database, shared.device, key, config, timed[fastest] * 1e-3)
    shared.recorded[key] = config, timed[fastest] * 1e-3


def _config_of(choice: Any) -> TritonConfig | None:
    """Return the configuration of a candidate of Inductor's Triton matmul templates; None for other candidates."""
    log_info = getattr(choice, "log_info", None)
    if not log_info or "tile_shape" not in log_info:
        return None
    m, k, n = (int(extent) for extent in str(log_info["tile_shape"]).strip("()").split(","))
    return TritonConfig(m, n, k, int(log_info["num_stages"]), int(log_info["num_warps"]))


def record_winner(database: str | Path, device: Device, key: str, config: TritonConfig, seconds: float) -> Trial:
    """Store a measured winner for a problem of Inductor.

    Args:
        database: A path or an SQLAlchemy URL.
        device: The GPU that the winner was measured on.
        key: The problem: operator, sizes, strides and types.
        config: The winner.
        seconds: Time of the winner.

    Returns:
        The stored trial.

    Raises:
        StoreError: The database rejects the trial.
    """
    trial = Trial(
        problem_key=key,
        schedule=Schedule("inductor", tuple(dataclasses.asdict(config).items())),
        device=device.name,
        fingerprint=canonical_json({"device": device.name, "sm": device.arch}),
        template_version=torch.__version__,
        space_version="",
        kernel_digest=None,
        measurement=Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([seconds])),
        toolchain=_versions(),
        driver="",
        autosched_version=VERSION,
        created=datetime.now(UTC),
        sampler="inductor",
        seed=0,
    )
    with Store.open(database) as store:
        return store.append(trial)
