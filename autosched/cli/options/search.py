"""Search options that ``tune`` accepts for a problem, a suite and a Triton kernel."""

from dataclasses import dataclass
from typing import Annotated

import typer

from autosched.cli.options.devices import DeviceOption
from autosched.cli.options.problem import one_of, whole_number
from autosched.cli.terminal.errors import MOST_SEED, MOST_TRIALS, MOST_WORKERS, within
from autosched.samplers import BRUTE_FORCE, DEFAULT, samplers
from autosched.tuning.backends import BACKENDS

DEFAULT_TRIALS = 64

BackendOption = Annotated[
    str,
    typer.Option(
        "--backend", parser=one_of(BACKENDS), metavar="|".join(BACKENDS), help="Source of the candidates' times."
    ),
]
SamplerOption = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        parser=one_of(samplers()),
        metavar="|".join(samplers()),
        help=f"Search method that proposes schedules (default {DEFAULT}).",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the sampler.")]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--seconds", metavar="S", help="Time limit in seconds; trials in flight are completed (default: no limit)."
    ),
]
NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Without a GPU: do not verify each new best schedule in the emulator.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True)
class SearchControls:
    """Device, sampler and limits of a search."""

    device: DeviceOption = None
    sampler: SamplerOption = None
    seed: SeedOption = 0
    seconds: SecondsOption = None
    no_verify: NoVerifyOption = False


def trials_or_all(trials: int | None, sampler: str | None) -> int | None:
    """Return the number of trials. Default: all for a brute-force search, otherwise None (the search decides)."""
    return MOST_TRIALS if trials is None and sampler == BRUTE_FORCE else trials


def check_limits(trials: int | None, seed: int, workers: int | None, *, least_workers: int = 1) -> None:
    """Check the limits of a search.

    Raises:
        InputError: A number is too small or too large.
    """
    if trials is not None:
        within("--trials", trials, 1, MOST_TRIALS)
    within("--seed", seed, 0, MOST_SEED)
    if workers is not None:
        within("--workers", workers, least_workers, MOST_WORKERS)
