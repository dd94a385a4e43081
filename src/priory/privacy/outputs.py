"""Outputs: the files that a run is paid to make, tried before it pays, and the partial file of each."""

import os
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from priory.data.writing import sync_folder, written_whole
from priory.errors import DataError, OptionError, ReleaseError
from priory.privacy.record_file import RESERVE, check_place

SUFFIX = ".partial"


def partial_path(output: str | Path) -> Path:
    """Where a run keeps what it was answered until its output is written: beside the output.

    >>> partial_path("people.priory").name
    'people.priory.partial'
    """
    output = Path(output)
    return output.with_name(output.name + SUFFIX)


def tried(outputs: Mapping[str, str | Path | None], size_in_bytes: int, *, left: str) -> dict[str, Path]:
    """The partial file of each output that is given, once it is tried that all of them can be written.

    Outputs are named by their options; an `OptionError` leaves no trace. `left` says what to do with the partial file
    of a run that ended early.
    """
    given = {option: Path(path) for option, path in outputs.items() if path is not None}
    partials = {option: partial_path(path) for option, path in given.items()}
    for option, path in given.items():
        check_place(path, size_in_bytes, option)
        check_place(
            partials[option], size_in_bytes, option, taken=f"it is of a run that ended early, or goes on; {left}"
        )
    check_apart({**given, **{f"partial {option}": path for option, path in partials.items()}})
    return partials


def check_apart(places: Mapping[str, Path]) -> None:
    """Refuse two outputs that are one file; some systems do not tell upper from lower case, or how accents are made."""
    names: dict[str, str] = {}
    for option, path in places.items():
        name = unicodedata.normalize("NFC", str(path.resolve())).casefold()
        if (other := names.setdefault(name, option)) != option:
            raise OptionError(other, f"{path} is also what {option} is written to; give each file a name of its own")


class PartialText:
    """A text that grows while a run goes on, in the partial file of an output, with room for what is still to come.

    The room is blank: spaces and line ends at the end of the file. A disk that is full takes the next text in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._used = 0  # bytes of the text
        self._size = 0  # and of the file

    @classmethod
    def create(cls, path: Path, text: str, room: int, option: str) -> "PartialText":
        """Make the file with room for so many bytes more, durably; an `OptionError` leaves no trace."""
        file = cls(path)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            try:
                file.save(text)
                file.make_room(room)
                sync_folder(path.parent)
            except BaseException:
                file.remove()
                raise
        except (OSError, DataError, ReleaseError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise OptionError(option, f"{path} cannot be written: {said}") from None
        return file

    def make_room(self, size: int) -> None:
        """Keep room for `size` bytes more than the text has, as long as there is space a reserve, too.

        Raises:
            ReleaseError: the disk is full.
        """
        needed = self._used + size
        if needed + RESERVE <= self._size:
            return
        try:
            self._write(_blank(needed + RESERVE - self._size), self._size)
        except OSError as error:
            # A full disk is what the reserve is for.
            if needed > self._size:
                raise ReleaseError(f"{self.path} cannot grow: {error.strerror}; nothing more was looked at") from None

    def save(self, text: str) -> None:
        """Put `text` in the place of what is there, whole or not at all; where the disk is full, in the room for it.

        Raises:
            DataError: the disk is full, and there is not so much room.
        """
        data = text.encode()
        padded = data + _blank(self._size - len(data))
        try:
            with written_whole(self.path) as draft:
                draft.write_bytes(padded)
        except DataError:
            if len(padded) > self._size:
                raise
            try:
                self._write(padded, 0)
            except OSError as error:
                raise DataError(f"{self.path} cannot be written: {error.strerror}") from None
        self._used, self._size = len(data), len(padded)

    def leave(self) -> Path:
        """Leave the file without its room, and say where it is."""
        with suppress(OSError):
            os.truncate(self.path, self._used)
        return self.path

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def finish(self, text: str, output: Path) -> None:
        """Make the file the output, with this text: it takes no more of the disk."""
        self.save(text)
        self.leave().replace(output)
        sync_folder(output.parent)

    def _write(self, data: bytes, start: int) -> None:
        with self.path.open("r+b") as file:
            file.seek(start)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._size = max(self._size, start + len(data))


def _blank(size: int) -> bytes:
    """So many bytes that say nothing in YAML and JSON: for people, one long line."""
    return b" " * (size - 1) + b"\n" if size > 0 else b""
