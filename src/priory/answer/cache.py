"""Cache: where files are kept that follow from releases alone, for the next time somebody asks.

They lie in the user's own folder for caches: nothing is written beside a release, which may lie where nobody may write.
Without such a folder, or with PRIORY_CACHE set to nothing, nothing is kept.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from priory.version import __version__

try:
    # The digest alone; `hashlib` loads the whole of OpenSSL first.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

# Changes with what is kept: files of other versions are not read.
_VERSION = 2


def folder(kind: str) -> Path | None:
    """Where the user keeps caches of this kind; None where there is no such place."""
    given = os.environ.get("PRIORY_CACHE")
    if given is not None:
        return Path(given) / kind if given else None
    usual = {"win32": "~/AppData/Local", "darwin": "~/Library/Caches"}.get(sys.platform, "~/.cache")
    with suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or usual).expanduser() / "priory" / kind
    return None


def answers_file(release: Path) -> Path | None:
    """The file of kept tables of a release file, named after the digest of all its bytes; None where there is none."""
    where = folder("answers")
    if where is None:
        return None
    try:
        data = release.read_bytes()
    except OSError:
        return None
    digest = blake2b(f"answers {_VERSION} {__version__}\n".encode(), digest_size=32)
    digest.update(data)
    return where / f"{digest.hexdigest()}.kept"


def remove_oldest(where: Path, most: int) -> None:
    """Leave the newest files of a folder, at most so many."""
    files = sorted((file for file in where.iterdir() if not file.name.startswith(".")), key=_age)
    for file in files[: max(0, len(files) - most)]:
        file.unlink(missing_ok=True)


def _age(file: Path) -> float:
    return file.stat().st_mtime
