"""Options that name the files of user kernels, for databases that contain problems of these kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from autosched.cli.options import triton
from autosched.cli.terminal.errors import bad_input

Kernels = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel", metavar="FILE", help="Kernel file that problems in the database belong to; may be repeated."
    ),
]
Programs = Annotated[
    list[str] | None,
    typer.Option(
        "--program",
        metavar="FILE[:NAME]",
        help="Tile program that problems in the database belong to; may be repeated.",
    ),
]
TritonKernels = Annotated[
    list[str] | None,
    typer.Option(
        "--triton",
        metavar="FILE:FUNCTION",
        help="Triton kernel that problems in the database belong to; may be repeated.",
    ),
]


def register_stored(
    kernels: Sequence[str] | None,
    programs: Sequence[str] | None,
    triton_kernels: Sequence[str] | None,
    database: str | None = None,
) -> None:
    """Register the user kernels whose problems a database holds.

    Args:
        kernels: Kernel files.
        programs: Tile programs, FILE[:NAME].
        triton_kernels: Triton functions, FILE:FUNCTION.
        database: Database whose trials provide parameter values for Triton kernels that declare none.

    Raises:
        InputError: A file cannot be used.
    """
    with bad_input():
        if programs:
            from autosched.programs.loading import register_at

            for source in programs:
                register_at(source)
        if kernels:
            from autosched.user_kernels.user_kernel import KernelSpec

            for file in kernels:
                KernelSpec.from_file(file).register()
        for source in triton_kernels or ():
            triton.registered(source, database)
