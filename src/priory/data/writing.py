"""Writing: files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from priory.errors import DataError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place when the block ends well; a failure leaves what was there.

    What was written is on the disk before it gets its name, and the name is before this ends.

    Raises:
        DataError: the file cannot be written.
    """
    path = Path(path)
    # Not longer than the name itself may be: a name of 255 bytes is a good one.
    draft = path.with_name(f".{secrets.token_hex(8)}")
    try:
        yield draft
        _sync(draft, os.O_RDWR)
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can open folders (Windows cannot, and needs not)."""
    try:
        _sync(folder, os.O_RDONLY)
    except PermissionError:
        return


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
