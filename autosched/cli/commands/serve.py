"""``autosched serve PROGRAM``: run a program whose unmodified Triton kernels use configurations from a database."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from autosched.cli.options.problem import real_number
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.triton.persistence import DEFAULT_TIMEOUT
from autosched.triton.persistence.startup import DATABASE, FOLDER, TIMEOUT
from measurements.files.data_folder import database_or_default


def serve(
    program: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [ARGUMENTS]", help="Command to run, such as python serve.py.")
    ],
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="DB",
            help="Database file or SQLAlchemy URL.  [default: AUTOSCHED_DB, else in your data folder]",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            parser=real_number,
            metavar="S",
            help="Maximum time to wait while another process tunes the same kernel.",
        ),
    ] = DEFAULT_TIMEOUT,
) -> NoReturn:
    """Run a program; kernels with @triton.autotune take their configurations from a database.

    Kernels that are not in the database are tuned by Triton as usual, and the results are stored. This applies to all
    Python processes of the program. The command exits with the program's status. Options go before PROGRAM.
    """
    from measurements.store.store import Store

    if not hasattr(os, "fork"):
        raise InputError("serve needs Linux, where Triton runs")
    if not timeout >= 0:
        raise InputError("--timeout must be at least 0 s")
    with bad_input():
        database = database_or_default(db)
    Store.open(database).close()
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        DATABASE: database if "://" in database else str(Path(database).resolve()),
        TIMEOUT: str(timeout),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    sys.stdout.flush()
    signal.signal(
        signal.SIGPIPE, signal.SIG_DFL
    )  # Python ignores SIGPIPE; restore the default, because the program inherits it
    try:
        os.execvpe(program[0], program, environment)
    except OSError as error:
        raise InputError(f"{program[0][:100]} cannot be run ({error.strerror}): check the path") from None
