"""Where problems of a database come from that are a user's own: every command that reads databases takes these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from autosched.cli.options import triton
from autosched.cli.terminal.errors import bad_input

Kernels = Annotated[
    list[str] | None,
    typer.Option("--kernel", metavar="FILE", help="A kernel file whose kernel the database holds; may be repeated."),
]
Programs = Annotated[
    list[str] | None,
    typer.Option("--program", metavar="FILE[:NAME]", help="A tile program that the database holds; may be repeated."),
]
TritonKernels = Annotated[
    list[str] | None,
    typer.Option("--triton", metavar="FILE:FUNCTION", help="A Triton kernel that the database holds; may be repeated."),
]


def register_stored(
    kernels: Sequence[str] | None,
    programs: Sequence[str] | None,
    triton_kernels: Sequence[str] | None,
    database: str | None = None,
) -> None:
    """Make known what a database holds problems of. Raises InputError.

    Args:
        kernels: Kernel files.
        programs: Tile programs, FILE[:NAME].
        triton_kernels: Triton functions, FILE:FUNCTION.
        database: Has the values of a Triton kernel that lists none itself.
    """
    with bad_input():
        if programs:
            from autosched.programs.loading import register_place

            for place in programs:
                register_place(place)
        if kernels:
            from autosched.user_kernels.user_kernel import KernelSpec

            for file in kernels:
                KernelSpec.from_file(file).register()
        for place in triton_kernels or ():
            triton.registered(place, database)
