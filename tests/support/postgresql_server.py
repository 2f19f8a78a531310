"""Run an installed PostgreSQL server for tests, and stop it after them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def binaries() -> Path | None:
    """Return the folder with the programs of the newest installed server."""
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parent.parent.name))
    folder = paths[-1].parent if paths else None
    return folder or (Path(path).parent if (path := shutil.which("initdb")) else None)


@contextmanager
def server() -> Iterator[str]:
    """Yield a URL pattern: ``pattern.format(name)`` is the URL of a database.

    Skips the test if no server is installed.
    """
    folder_of_binaries = binaries()
    if folder_of_binaries is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    pytest.importorskip("psycopg", exc_type=ImportError)
    user = (
        pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    )  # PostgreSQL refuses to run as root
    folder = Path(
        tempfile.mkdtemp(prefix="autosched-pg-", dir="/tmp")
    )  # in /tmp, since the path of a socket has at most 107 characters
    os.chown(folder, user.pw_uid, user.pw_gid)

    def execute(*command: str) -> None:
        done = subprocess.run(
            [str(folder_of_binaries / command[0]), *command[1:]],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=(),
            cwd=folder,
            env={"HOME": str(folder), "LC_ALL": "C", "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"

    data = str(folder / "data")
    try:
        execute("initdb", "-D", data, "-U", "autosched", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=40"
        execute("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql+psycopg://autosched@/{{}}?host={folder}"
        finally:
            execute("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
