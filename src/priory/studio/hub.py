"""Hub: everything that the pages of one project share."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from priory.data.schema import Schema
from priory.data.schema.open import OpenSchema
from priory.errors import DataError, PrioryError
from priory.privacy.ledger import Ledger
from priory.release import Release, load
from priory.studio.folder import Folder
from priory.studio.jobs import PRIORY, Jobs
from priory.studio.project import NAME, Settings, SettingsFile
from priory.studio.security import Keys

RELEASE_SUFFIX = ".priory"
# How many releases are kept in memory.
MOST_RELEASES = 3


@dataclass(frozen=True)
class ReleaseFile:
    """A release in the folder."""

    name: str
    path: Path
    made: str  # when, in UTC


class Studio:
    """A project that is open."""

    def __init__(self, folder: Folder, command: Sequence[str] = PRIORY) -> None:
        self.folder = folder
        self.keys = Keys()
        self.jobs = Jobs(folder, command)
        self._file = SettingsFile(folder.root / NAME)
        self._releases: dict[tuple[str, int, int], Release] = {}
        self._lock = threading.Lock()

    @property
    def settings(self) -> Settings:
        """What was decided so far."""
        return self._file.read()

    def change(self, **typed: str) -> Settings:
        """Write some settings anew."""
        return self._file.change(**typed)

    def schema_path(self) -> Path:
        """Where the schema is, or is to be."""
        return self.folder.path(self.settings.schema)

    def schema_text(self) -> str | None:
        """The text of the schema file; None where there is none."""
        path = self.schema_path()
        try:
            return path.read_text(encoding="utf-8-sig") if path.is_file() else None
        except (OSError, UnicodeDecodeError):
            raise DataError(f"{self.settings.schema} cannot be read as UTF-8 text") from None

    def schema(self) -> Schema | OpenSchema | None:
        """The schema, whole or with columns that are still open; None where there is none.

        Raises:
            SchemaError: the file is wrong.
        """
        text = self.schema_text()
        if text is None:
            return None
        try:
            return Schema.parse(text, path=self.settings.schema)
        except PrioryError:
            try:
                opened = OpenSchema.parse(text, path=self.settings.schema)
            except PrioryError:
                opened = None
            if opened is None or not opened.open:
                raise
            return opened

    def ledger(self) -> Ledger | None:
        """The book; None where it is still to be made."""
        path = self.folder.path(self.settings.ledger)
        return Ledger.open(path) if path.is_file() else None

    def releases(self) -> list[ReleaseFile]:
        """The releases in the folder, the newest first."""
        found = []
        for path in self.folder.root.glob(f"*{RELEASE_SUFFIX}"):
            try:
                made = self.folder.file(path.name).stat().st_mtime
            except (PrioryError, OSError):
                continue  # a link that leads out of the folder
            found.append((made, path))
        return [
            ReleaseFile(path.name, path, datetime.fromtimestamp(made, UTC).isoformat(sep=" ", timespec="seconds")[:19])
            for made, path in sorted(found, reverse=True)
        ]

    def release(self, name: str) -> Release:
        """A release in the folder, kept in memory until others are asked for."""
        if not name.endswith(RELEASE_SUFFIX):
            raise DataError(f"{name!r} is no release")
        path = self.folder.file(name)
        facts = path.stat()
        key = (name, facts.st_mtime_ns, facts.st_size)
        with self._lock:
            release = self._releases.pop(key, None) or load(path)
            self._releases[key] = release
            while len(self._releases) > MOST_RELEASES:
                self._releases.pop(next(iter(self._releases)))
        return release
