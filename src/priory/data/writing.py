"""Writing: files that appear whole or not at all."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from priory.data.dialect import Dialect
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
    draft = path.with_name(f".{os.urandom(8).hex()}")
    try:
        yield draft
        _sync(draft, os.O_RDWR)
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


def write_secret(path: Path, text: str) -> None:
    """Write what nobody else on this machine may read, from the first byte on.

    Raises:
        DataError: the file cannot be written, or its disk would let others read it.
    """
    with written_whole(path) as draft:
        draft.touch(mode=0o600, exist_ok=False)
        if os.name != "nt" and draft.stat().st_mode & 0o077:
            raise DataError(f"{path} could be read by other users: its disk keeps no permissions; take another folder")
        draft.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def text_file(draft: Path, path: str | Path, reading: Dialect) -> Iterator[IO[str]]:
    """The draft of a text file, packed where the name of `path` ends in .gz, in the encoding of the schema."""
    with draft.open("wb") as raw, _packed(raw, path) as stream:
        file = io.TextIOWrapper(stream, encoding=reading.encoding, newline="")
        try:
            yield file
            file.flush()
        except UnicodeEncodeError:
            reason = f"a name or level is not in {reading.encoding}; use utf-8 under reading:"
            raise DataError(f"{path} cannot be written: {reason}") from None
        file.detach()


@contextmanager
def _packed(raw: IO[bytes], path: str | Path) -> Iterator[IO[bytes]]:
    if not str(path).lower().endswith(".gz"):
        yield raw
        return
    import gzip

    # Without the time of day, so that the same rows make the same file.
    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as stream:
        yield cast(IO[bytes], stream)


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
