"""Options that every search has: ``tune`` of a problem, of a suite, of a Triton kernel."""

from typing import Annotated

import typer

from autosched.cli.options.problem import one_of, whole_number
from autosched.samplers import samplers
from autosched.tuning.backends import BACKENDS

BackendOption = Annotated[
    str, typer.Option("--backend", parser=one_of(BACKENDS), metavar="|".join(BACKENDS), help="Where times come from.")
]
SamplerOption = Annotated[
    str,
    typer.Option("--sampler", parser=one_of(samplers()), metavar="|".join(samplers()), help="What proposes schedules."),
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
