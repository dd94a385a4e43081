"""Folder: the files that the studio may touch, all of them below one folder."""

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from priory.data.sources.containers import SUFFIXES
from priory.errors import DataError

# What is kept for the studio itself.
KEPT = ".priory-studio"
MOST_FILES, DEEPEST = 500, 3


@dataclass(frozen=True)
class TableFile:
    """A file that may hold a table."""

    name: str  # below the folder, with "/" between folders
    size_in_bytes: int

    @property
    def size(self) -> str:
        """Its size for people.

        >>> TableFile("a.csv", 999).size, TableFile("a.csv", 451_596).size, TableFile("a.csv", 2_340_000_000).size
        ('999 bytes', '452 kB', '2,340 MB')
        """
        if self.size_in_bytes < 1000:
            return f"{self.size_in_bytes} bytes"
        is_small = self.size_in_bytes < 1_000_000
        return f"{self.size_in_bytes / (1e3 if is_small else 1e6):,.0f} {'kB' if is_small else 'MB'}"


@dataclass(frozen=True)
class Folder:
    """The folder of a project."""

    root: Path  # without symbolic links

    @classmethod
    def of(cls, path: str | Path) -> "Folder":
        """The folder at `path`; a `DataError` if there is none."""
        try:
            root = Path(path).resolve(strict=True)
        except (OSError, RuntimeError):
            raise DataError(f"{path} does not exist; make the folder first") from None
        if not root.is_dir():
            raise DataError(f"{path} is no folder; give the folder that holds the table")
        if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
            raise DataError(f"{path} cannot be written to; the studio keeps schema, ledger and releases there")
        return cls(root)

    @property
    def kept(self) -> Path:
        """Where the studio keeps its own files; made where it is missing, for its owner alone."""
        kept = self.root / KEPT
        if kept.is_symlink():
            raise DataError(f"{KEPT} leads out of the folder; remove it")
        kept.mkdir(mode=0o700, exist_ok=True)
        # A copy of a project has the modes that the copying gave it. Where they are somebody else's to give, or the
        # disk has none, secrets are not written: see `write_secret`.
        with suppress(PermissionError):
            kept.chmod(0o700)
        return kept

    def path(self, name: str) -> Path:
        """The path of a file below the folder, which may not be there yet.

        Raises:
            DataError: the name leads out of the folder, by itself or by a symbolic link, or is no name.
        """
        parts = name.split("/")
        if "\0" in name or "\\" in name or any(not part or part.startswith(".") for part in parts):
            raise DataError(f"{name!r} is no name of a file in the folder")
        path = self.root / name
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError):
            raise DataError(f"{name!r} is no name of a file in the folder") from None
        if not resolved.is_relative_to(self.root) or resolved == self.root or Path(name).is_absolute():
            raise DataError(f"{name!r} is not in the folder; move or copy the file there")
        return path

    def file(self, name: str) -> Path:
        """The path of a file that is there; a `DataError` as of `path`, or where there is none."""
        path = self.path(name)
        if not path.is_file():
            raise DataError(f"there is no file {name!r} in the folder")
        return path

    def tables(self) -> list[TableFile]:
        """The files that may hold a table, by name; of very many, the first."""
        found: list[TableFile] = []
        for place, folders, files in os.walk(self.root):
            here = Path(place)
            depth = len(here.relative_to(self.root).parts)
            folders[:] = sorted(each for each in folders if depth + 1 < DEEPEST and not each.startswith("."))
            for file in sorted(files):
                if len(found) == MOST_FILES:
                    return found
                if file.lower().endswith((*SUFFIXES, ".zip")) and not file.startswith("."):
                    found += self._table((here / file).relative_to(self.root).as_posix())
        return found

    def _table(self, name: str) -> list[TableFile]:
        try:
            return [TableFile(name, self.file(name).stat().st_size)]
        except (DataError, OSError):
            return []  # a link that leads out of the folder, or to nothing

    def free_name(self, stem: str, suffix: str, taken: Collection[str] = ()) -> str:
        """A name that no file in the folder has, and is not `taken`: the stem itself, or with a number after it."""
        number = 1
        while True:
            name = f"{stem}{'' if number == 1 else f'-{number}'}{suffix}"
            paths = (self.root / each for each in (name, f"{name}.partial"))
            if name not in taken and not any(os.path.lexists(path) for path in paths):
                return name
            number += 1

    def shown(self, text: str) -> str:
        """A text without the folder's own path: files in it are named as below it."""
        for root in {str(self.root), os.path.realpath(self.root)}:
            text = text.replace(root + os.sep, "").replace(root, "the folder")
        return text
