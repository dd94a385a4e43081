"""Hub: everything that the pages of one project share."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from priory.data.kinds import ModelledColumn
from priory.data.public import Misfit, misfit
from priory.data.sources.same import refuse_same
from priory.data.survey import Seen, survey_file
from priory.data.writing import written_whole
from priory.errors import DataError, PrioryError, ReleaseError
from priory.privacy.ledger import Ledger
from priory.privacy.statement import Statement
from priory.studio.folder import Folder
from priory.studio.forecasts import Forecasts
from priory.studio.jobs import PRIORY, Jobs
from priory.studio.later import Coming, Later, started, waited
from priory.studio.locking import alone
from priory.studio.project import NAME, Settings, SettingsFile
from priory.studio.schema_store import Columns, Drafts, parsed
from priory.studio.security import Keys

if TYPE_CHECKING:
    from priory.release import Release

RELEASE_SUFFIX = ".priory"
# How many releases are kept in memory.
MOST_RELEASES = 3
# A file, when it was written and its size: other contents have another one.
Stamp = tuple[Path, int, int]


@dataclass(frozen=True)
class ReleaseFile:
    """A release in the folder."""

    name: str
    path: Path
    made: str  # when, in UTC
    stamp: "Stamp"


class Studio:
    """A project that is open."""

    def __init__(self, folder: Folder, command: Sequence[str] = PRIORY) -> None:
        self.folder = folder
        self.keys = Keys()
        self.jobs = Jobs(folder, command)
        self.forecasts = Forecasts(folder)
        self._file = SettingsFile(folder.root / NAME, folder.kept / "settings.lock")
        self.drafts = Drafts(folder.kept / "columns.json")
        self._schema: tuple[str, str, Columns] | None = None  # the text that was read last, and what it says
        self._drafted: Later[str] = Later()
        self._warm: Later[None] = Later()
        self._adopting: Future[None] | None = None  # writes the drafted schema
        self._survey: Later[dict[str, Seen]] = Later()
        self._fits: Later[dict[str, Misfit]] = Later()
        self._fit: dict[str, tuple[ModelledColumn, Seen, Misfit]] = {}
        self._releases: dict[Stamp, Future[Release]] = {}
        self._statements: Later[dict[str, Statement | ReleaseError]] = Later()
        self._read: dict[Stamp, Statement | ReleaseError] = {}
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

    def editing(self) -> AbstractContextManager[None]:
        """For who reads the schema, changes it and writes it: nobody else writes it meanwhile."""
        return alone(self.folder.kept / "schema.lock")

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
        if settings.private:
            refuse_same(self.folder.path(settings.private), path)
        return path

    def surveyed(self, seconds: float | None = None) -> Mapping[str, Seen]:
        """The distinct cells of the public table, by column; empty where there is none.

        Raises:
            Coming: it has not been read after so many seconds; by default it is waited for.
            DataError: it cannot be read.
        """
        path, schema = self.public_path(), self.schema()
        if path is None or schema is None:
            return {}
        names, reading = tuple(column.name for column in schema.columns), schema.reading
        return self._survey.value(
            (_stamp(path), reading, names),
            lambda: {seen.name: seen for seen in survey_file(path, reading, names)},
            seconds,
        )

    def misfits(self, seconds: float | None = None) -> Mapping[str, Misfit]:
        """How the public table fits each modelled column that it has; raises as `surveyed` does."""
        schema, seen = self.schema(), self.surveyed(seconds)
        if schema is None or not seen:
            return {}
        columns = [each for each in schema.columns if isinstance(each, ModelledColumn) and each.name in seen]
        key = (seen, columns)
        return self._fits.value(
            key, lambda: {each.name: self._misfit(each, seen[each.name]) for each in columns}, seconds
        )

    def _misfit(self, column: ModelledColumn, seen: Seen) -> Misfit:
        """How one column fits; it is not worked out again where only others were edited."""
        known = self._fit.get(column.name)
        if known is None or known[0] != column or known[1] is not seen:
            known = self._fit[column.name] = (column, seen, misfit(column, seen))
        return known[2]

    def drafted(self, seconds: float | None = None) -> str:
        """The schema as it is drafted from the public table, as the text of a file; raises as `surveyed` does."""
        from priory.data.drafting import draft_schema

        path, name = self.public_path(), self.settings.name or "table"
        if path is None:
            raise DataError("there is no public table: choose one in the first step")
        return self._drafted.value((_stamp(path), name), lambda: draft_schema(path, name=name).dump(), seconds)

    def adopt_draft(self, seconds: float) -> None:
        """Have the drafted schema written as soon as it is there, unless somebody writes another one before.

        Raises:
            Coming: it is not there after so many seconds; it is written all the same.
            DataError: the public table cannot be read.
        """
        before = self.schema_text()

        def write() -> None:
            text = self.drafted()
            with self.editing():
                if self.schema_text() == before and not self.is_bound():
                    self.write_schema(text)
                    self.drafts.clear()

        self._adopting = started(write)
        waited(self._adopting, seconds)

    def draft_state(self) -> tuple[bool, str]:
        """Whether a schema is being drafted; and why the last draft came to nothing, or ""."""
        if self._adopting is None or not self._adopting.done():
            return self._adopting is not None, ""
        error = self._adopting.exception()
        return False, str(error) if isinstance(error, PrioryError) else ""

    def ledger(self) -> Ledger | None:
        """The book; None where it is still to be made."""
        path = self.folder.path(self.settings.ledger)
        return Ledger.open(path) if path.is_file() else None

    def releases(self) -> list[ReleaseFile]:
        """The releases in the folder, the newest first."""
        found = []
        for path in self.folder.root.glob(f"*{RELEASE_SUFFIX}"):
            try:
                stamp = _stamp(self.folder.file(path.name))
            except (PrioryError, OSError):
                continue  # a link that leads out of the folder, or it was removed just now
            made = datetime.fromtimestamp(stamp[1] / 1e9, UTC).isoformat(sep=" ", timespec="seconds")[:19]
            found.append(ReleaseFile(path.name, path, made, stamp))
        return sorted(found, key=lambda each: (each.stamp[1], each.name), reverse=True)

    def statements(self, seconds: float | None = None) -> dict[str, "Statement | ReleaseError"]:
        """What each release in the folder promises, or why it cannot be read, by the name of its file.

        Raises:
            Coming: they have not been read after so many seconds; by default they are waited for.
        """
        stamps = [each.stamp for each in self.releases()]
        return self._statements.value(stamps, lambda: {each[0].name: self._statement(each) for each in stamps}, seconds)

    def _statement(self, stamp: Stamp) -> "Statement | ReleaseError":
        if stamp not in self._read:
            try:
                self._read[stamp] = _loaded(stamp[0]).statement
            except ReleaseError as error:
                self._read[stamp] = error
        return self._read[stamp]

    def warm(self, name: str) -> None:
        """Have what the pages of a release need worked out in the background."""

        def work() -> None:
            from priory.studio import warming

            warming.begin(self.release(name))

        with suppress(Coming, PrioryError, OSError):
            self._warm.value(_stamp(self._release_path(name)), work, 0)

    def _release_path(self, name: str) -> Path:
        if not name.endswith(RELEASE_SUFFIX):
            raise DataError(f"{name!r} is no release")
        return self.folder.file(name)

    def release(self, name: str, seconds: float | None = None) -> "Release":
        """A release in the folder, kept in memory until others are asked for.

        Raises:
            Coming: it has not been read after so many seconds; by default it is waited for.
            ReleaseError: it cannot be read.
        """
        path = self._release_path(name)
        key = _stamp(path)
        with self._lock:
            future = self._releases.pop(key, None) or started(lambda: _loaded(path))
            self._releases[key] = future
            while len(self._releases) > MOST_RELEASES:
                self._releases.pop(next(iter(self._releases)))
        return waited(future, seconds)


def _loaded(path: Path) -> "Release":
    from priory.release import load

    return load(path)


def _stamp(path: Path) -> Stamp:
    """What a file was like when it was last written."""
    facts = path.stat()
    return path, facts.st_mtime_ns, facts.st_size
