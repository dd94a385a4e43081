"""Records: a file that only grows, record by record; each is on the disk when `append` returns, and checks itself.

The file begins with a line that names the format. A record is its length (8 bytes, big-endian), the SHA-256 of the
record before it and its own payload, and the payload. After the last record there may be zeros: room that is kept so
that a disk that fills up still takes what is paid for. A record that was cut off by a crash does not fit its checksum
and ends the file for readers.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from priory.data.writing import sync_folder
from priory.errors import OptionError, ReleaseError

MAGIC, VERSION = b"priory partial release ", 1
_LINE = MAGIC + b"%d\n" % VERSION
_LENGTH, _DIGEST = 8, 32
OVERHEAD = _LENGTH + _DIGEST
# What is kept free in the file beyond the next record: a small answer or a message of the file system needs far less.
RESERVE = 1 << 16
# Longer lines than this name no format.
_LONGEST_LINE = 64


class RecordFile:
    """The writer's side of the file `path`."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self._end = 0
        self._room = 0
        self._digest = bytes(_DIGEST)

    @classmethod
    def create(cls, path: Path) -> "RecordFile":
        """Make the file, with its first line and room for a small record, durably; an `OSError` leaves no trace."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
        file = cls(path, handle)
        try:
            file._extend(len(_LINE) + RESERVE)
            file._write(_LINE)
            sync_folder(path.parent)
        except BaseException:
            file.remove()
            raise
        return file

    def make_room(self, size: int) -> None:
        """Keep `size` bytes for the payload of the next record, and a reserve after it as long as there is space."""
        needed = self._end + OVERHEAD + size
        if needed + RESERVE <= self._room:
            return
        try:
            self._extend(needed + RESERVE)
        except OSError:
            # A full disk is what the reserve is for.
            if needed > self._room:
                raise

    def append(self, payload: bytes) -> None:
        """Write a record; it is on the disk when this returns."""
        digest = hashlib.sha256(self._digest + payload).digest()
        self._write(len(payload).to_bytes(_LENGTH, "big") + digest + payload)
        self._digest = digest

    def close(self) -> None:
        """Let go of the file, which stays."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def remove(self) -> None:
        """Let go of the file and delete it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        os.lseek(self._handle, self._end, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        os.fsync(self._handle)
        self._end += len(data)

    def _extend(self, size: int) -> None:
        """Fill the file with zeros up to `size`: written ones take their place on the disk on every system."""
        os.lseek(self._handle, self._room, os.SEEK_SET)
        missing = size - self._room
        while missing > 0:
            missing -= os.write(self._handle, bytes(min(missing, 1 << 20)))
        os.fsync(self._handle)
        self._room = size


def is_record_file(path: str | Path) -> bool:
    """Whether a file begins as these do; False where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def read_records(path: str | Path) -> list[bytes]:
    """The payloads of all whole records, in order; a `ReleaseError` if this is another kind of file, or a newer one."""
    try:
        with Path(path).open("rb") as file:
            _check_line(file.readline(_LONGEST_LINE), path)
            return list(_whole_records(file, os.fstat(file.fileno()).st_size - file.tell()))
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror}") from None


def _whole_records(file: BinaryIO, left: int) -> Iterator[bytes]:
    """Records as long as they fit their checksums; `left` is how many bytes there are."""
    digest = bytes(_DIGEST)
    while left > OVERHEAD:
        size = int.from_bytes(file.read(_LENGTH), "big")
        expected = file.read(_DIGEST)
        if not 0 < size <= left - OVERHEAD:
            return
        payload = file.read(size)
        digest = hashlib.sha256(digest + payload).digest()
        if digest != expected:
            return
        yield payload
        left -= OVERHEAD + size


def _check_line(line: bytes, path: str | Path) -> None:
    version = line.removeprefix(MAGIC).strip()
    if not line.startswith(MAGIC) or not version.isdigit():
        raise ReleaseError(f"{path} is not the partial file of a run")
    if int(version) != VERSION:
        raise ReleaseError(f"{path} has format version {int(version)}; this priory reads {VERSION}: upgrade priory")


def check_place(
    path: Path, size_in_bytes: int, option: str = "output", *, taken: str = "remove it or choose another name"
) -> None:
    """Refuse a place that is taken or where a file of about this size cannot be written; only trying tells."""
    try:
        is_there = _is_there(path)
        if not is_there:
            _try_folder(path.parent)
            free = shutil.disk_usage(path.parent).free
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        reason = "its folder does not exist" if isinstance(error, FileNotFoundError) else reason
        raise OptionError(option, f"{path} cannot be written: {reason}") from None
    if is_there:
        raise OptionError(option, f"{path} exists; {taken}")
    if free < size_in_bytes:
        said = f"{path} needs about {size_in_bytes:,} bytes and {free:,} are free there; make room, or go elsewhere"
        raise OptionError(option, said)


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _try_folder(folder: Path) -> None:
    """Write a small file, give it another name and remove it, as a release is written."""
    names = [folder / f".{secrets.token_hex(8)}" for _ in range(2)]
    try:
        handle = os.open(names[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, b"0")
            os.fsync(handle)
        finally:
            os.close(handle)
        names[0].replace(names[1])
    finally:
        for name in names:
            name.unlink(missing_ok=True)
