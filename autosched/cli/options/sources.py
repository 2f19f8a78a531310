"""Options that name the users' kernels behind a database's problems, for every command that reads databases."""

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
    """Register the users' kernels whose problems a database holds.

    Args:
        kernels: Kernel files.
        programs: Tile programs, FILE[:NAME].
        triton_kernels: Triton functions, FILE:FUNCTION.
        database: Database with the parameter values of Triton kernels that declare none.

    Raises:
        InputError: A file cannot be used.
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
