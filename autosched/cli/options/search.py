"""Options that every search has: ``tune`` of a problem, of a suite, of a Triton kernel."""

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
    str, typer.Option("--backend", parser=one_of(BACKENDS), metavar="|".join(BACKENDS), help="Where times come from.")
]
SamplerOption = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        parser=one_of(samplers()),
        metavar="|".join(samplers()),
        help=f"What proposes schedules (default {DEFAULT}).",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the sampler.")]
SecondsOption = Annotated[
    float | None,
    typer.Option("--seconds", metavar="S", help="Propose nothing more after S seconds (default: no limit)."),
]
NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Without a GPU: do not emulate each new best before it is called best.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True)
class SearchControls:
    """What every search has: its device, its sampler, and when it ends."""

    device: DeviceOption = None
    sampler: SamplerOption = None
    seed: SeedOption = 0
    seconds: SecondsOption = None
    no_verify: NoVerifyOption = False


def trials_or_all(trials: int | None, sampler: str | None) -> int | None:
    """Return the trials of a search: by default as many as a brute force needs, or None for the search to decide."""
    return MOST_TRIALS if trials is None and sampler == BRUTE_FORCE else trials


def check_limits(trials: int | None, seed: int, workers: int | None, *, least_workers: int = 1) -> None:
    """Raise InputError for a number that is too small or too large."""
    if trials is not None:
        within("--trials", trials, 1, MOST_TRIALS)
    within("--seed", seed, 0, MOST_SEED)
    if workers is not None:
        within("--workers", workers, least_workers, MOST_WORKERS)
