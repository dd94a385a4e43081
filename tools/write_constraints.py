"""Write constraints: the versions installed beside this interpreter, as the ones everything was tested with."""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
HEADING = """\
# The versions all tests have passed with; `make` installs these. They bind nobody who installs priory.
# Made by `make newest` and `make constraints`; do not edit.
"""
PINNED = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")


def pinned(frozen: Iterable[str]) -> list[str]:
    """The lines `name==version`, sorted; whatever comes from a folder or an address is left out."""
    return sorted((line for line in frozen if PINNED.fullmatch(line)), key=str.lower)


def main() -> None:
    """Write `constraints.txt`."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "freeze", "--exclude", "priory"]
    frozen = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    lines = pinned(frozen.stdout.splitlines())
    CONSTRAINTS.write_text(HEADING + "\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    print(f"{len(lines)} versions in {CONSTRAINTS.name}")


if __name__ == "__main__":
    main()
