"""Kept: what the measurements of a release tell of its errors, kept for the next time somebody asks it.

It is found from the release alone, so that it needs no more protection than that, and it is the same whatever is asked.
The file has the name of the digest of what it was found from, in the user's own folder for caches: nothing is written
beside the release, which may lie where nobody may write. Without such a folder, or with PRIORY_CACHE set to nothing, it
is found anew by each process.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress

from priory.answer import cache
from priory.answer.errors import Errors
from priory.data.writing import written_whole
from priory.errors import DataError

# Changes with what is found: files of other versions are not read.
_VERSION = 3
# The oldest files go when there are more than so many, of about a kilobyte each.
_MOST_FILES = 1000


def digest_of(sections: Mapping[str, Mapping[str, bytes]]) -> str:
    """The digest of the parts of a release file that errors are found from."""
    digest = hashlib.sha256(f"errors {_VERSION}".encode())
    for section in ("domain", "measurements", "model"):
        for name, data in sorted(sections.get(section, {}).items()):
            digest.update(f"\n{section}/{name} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


def read(digest: str) -> Errors | None:
    """What is kept of the release with this digest; None where nothing is, or nothing that can be read."""
    folder = cache.folder("errors")
    if not digest or folder is None:
        return None
    try:
        return Errors.of_plain(json.loads((folder / f"{digest}.json").read_text()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write(digest: str, errors: Errors) -> None:
    """Keep what was found; where that is not possible, it is not kept."""
    folder = cache.folder("errors")
    if not digest or folder is None:
        return
    with suppress(OSError, DataError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with written_whole(folder / f"{digest}.json") as draft:
            draft.write_text(json.dumps(errors.plain()))
        cache.remove_oldest(folder, _MOST_FILES)
