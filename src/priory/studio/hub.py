"""Hub: everything that the pages of one project share."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from priory.data.kinds import ModelledColumn
from priory.data.public import Misfit, misfit
from priory.data.survey import Seen, survey_file
from priory.data.writing import written_whole
from priory.errors import DataError, PrioryError
from priory.privacy.ledger import Ledger
from priory.privacy.statement import Statement
from priory.release import Release, load
from priory.studio.folder import Folder
from priory.studio.forecasts import Forecasts
from priory.studio.jobs import PRIORY, Jobs
from priory.studio.project import NAME, Settings, SettingsFile
from priory.studio.schema_store import Columns, Drafts, parsed
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
        self.forecasts = Forecasts(folder, command)
        self._file = SettingsFile(folder.root / NAME)
        self.drafts = Drafts(folder.kept / "columns.json")
        self._schema: tuple[str, str, Columns] | None = None  # the text that was read last, and what it says
        self._survey: tuple[object, dict[str, Seen]] | None = None
        self._fits: tuple[Mapping[str, Seen], Columns, dict[str, Misfit]] | None = None
        self._releases: dict[tuple[str, int, int], Release] = {}
        self._statements: dict[tuple[str, int, int], Statement] = {}
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

    def schema(self) -> Columns | None:
        """The schema, whole or with columns that are still open; None where there is none.

        Raises:
            SchemaError: the file is wrong.
        """
        text, name = self.schema_text(), self.settings.schema
        if text is None:
            return None
        known = self._schema
        if known is None or known[:2] != (text, name):
            known = self._schema = (text, name, parsed(text, name))
        return known[2]

    def write_schema(self, text: str) -> None:
        """Write the schema file."""
        with written_whole(self.schema_path()) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")

    def is_bound(self) -> bool:
        """Whether the ledger is bound to a schema: another one, or an edit of it, would be refused by every run."""
        book = self.ledger()
        return book is not None and bool(book.terms.schema)

    def public_path(self) -> Path | None:
        """The public table; None where there is none.

        Raises:
            DataError: it is not there, or is the private one, by whatever name.
        """
        settings = self.settings
        if not settings.public:
            return None
        path = self.folder.file(settings.public)
        try:
            is_private = bool(settings.private) and path.samefile(self.folder.path(settings.private))
        except OSError:
            is_private = False
        if is_private:
            raise DataError("the public table is the private one: levels and bounds would be read from private cells")
        return path

    def surveyed(self) -> Mapping[str, Seen]:
        """The distinct cells of the public table, by column; empty where there is none, or it cannot be read."""
        path, schema = self.public_path(), self.schema()
        if path is None or schema is None:
            return {}
        facts = path.stat()
        names = tuple(column.name for column in schema.columns)
        key = (path, facts.st_mtime_ns, facts.st_size, schema.reading, names)
        with self._lock:
            if self._survey is None or self._survey[0] != key:
                self._survey = key, {seen.name: seen for seen in survey_file(path, schema.reading, names)}
            return self._survey[1]

    def misfits(self) -> Mapping[str, Misfit]:
        """How the public table fits each modelled column that it has; empty where there is no public table."""
        schema, seen = self.schema(), self.surveyed()
        if schema is None or not seen:
            return {}
        with self._lock:
            if self._fits is None or self._fits[0] is not seen or self._fits[1] != schema:
                columns = [column for column in schema.columns if isinstance(column, ModelledColumn)]
                found = {each.name: misfit(each, seen[each.name]) for each in columns if each.name in seen}
                self._fits = seen, schema, found
            return self._fits[2]

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

    def statement(self, name: str) -> Statement:
        """The privacy statement of a release in the folder."""
        facts = self._release_path(name).stat()
        key = (name, facts.st_mtime_ns, facts.st_size)
        if key not in self._statements:
            self._statements[key] = self.release(name).statement
        return self._statements[key]

    def _release_path(self, name: str) -> Path:
        if not name.endswith(RELEASE_SUFFIX):
            raise DataError(f"{name!r} is no release")
        return self.folder.file(name)

    def release(self, name: str) -> Release:
        """A release in the folder, kept in memory until others are asked for."""
        path = self._release_path(name)
        facts = path.stat()
        key = (name, facts.st_mtime_ns, facts.st_size)
        with self._lock:
            release = self._releases.pop(key, None) or load(path)
            self._releases[key] = release
            while len(self._releases) > MOST_RELEASES:
                self._releases.pop(next(iter(self._releases)))
        return release
