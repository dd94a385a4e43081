"""Release: measurements, model, schema and the privacy statement, as one file."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from priory import hooks
from priory.answer import association, quantiles, tables
from priory.answer.basis import Basis
from priory.answer.grid import Names
from priory.answer.quality import Quality, quality
from priory.answer.questions import Question, finished
from priory.answer.redrawing import Redrawing
from priory.answer.where import Given
from priory.bounded import json_of
from priory.data.schema import Schema
from priory.data.table import Table, html_facts
from priory.errors import PrioryError, ReleaseError
from priory.estimate.first_model import constrained, modelled, uniform
from priory.estimate.measured import evidence, smallest
from priory.model.model import Model
from priory.model.sampling import Seed, checked_count
from priory.privacy import encoding
from priory.privacy.measurement import Measurement
from priory.privacy.statement import Statement
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import archive, kept, rows
from priory.release.parts import PARTS, PublicCheck, Round

_REQUIRED = frozenset({"statement", "domain", "measurements"})
_KNOWN = _REQUIRED | {"schema"}
LEVEL, DRAWS = 0.9, 50
# Answers by which errors are judged, at most: noise is drawn again for each of them, fifty times.
MOST_JUDGED = 1_000_000


@dataclass(frozen=True, eq=False)
class Release:
    """What a mechanism hands out; nothing in it needs protection any more.

    Attributes:
        domain: the attributes and their sizes.
        measurements: the noisy answers.
        statement: what is promised.
        schema: what the codes mean, where there is a schema.
        sections: further parts of the file, by name, each a mapping of file names to bytes. Sections that this
            version does not know are carried along unread.
        estimate: the model that the measurements led to, or None before one was made.
        public_check: what a look at public rows found, where that was asked.
        rounds: DualQuery's game, where it made the release.
        digest: of the file that it was read from; nothing where it was read from none, or was changed since.
    """

    domain: Domain
    measurements: tuple[Measurement, ...]
    statement: Statement
    schema: Schema | None = None
    sections: Mapping[str, archive.Files] = field(default_factory=dict)
    estimate: Model | None = None
    public_check: PublicCheck | None = None
    rounds: tuple[Round, ...] = ()
    digest: str = ""

    def __post_init__(self) -> None:
        # However a release comes to be, what it cost to learn its schema is in its statement.
        object.__setattr__(self, "statement", self.statement.about(self.schema))

    def with_schema(self, schema: Schema) -> "Release":
        """The same release with the schema that its codes come from."""
        if schema.domain != self.domain:
            raise ReleaseError("the schema's attributes are not the release's")
        return replace(self, schema=schema)

    def with_model(self, model: Model) -> "Release":
        """The same release with the model that its measurements led to."""
        return replace(self, estimate=model, digest="")

    def with_estimate(self) -> "Release":
        """The same release with a model that obeys the constraints of its schema.

        A mechanism's own model is kept; where it made none, one is estimated from the measurements.
        """
        if self.estimate is None:
            return self.with_model(self.model)
        if self.schema is None:
            return self
        return self.with_model(constrained(self.estimate, self.measurements, self.schema))

    @cached_property
    def model(self) -> Model:
        """The release's own model, or one estimated from the measurements where it has none."""
        if self.estimate is not None:
            return self.estimate
        return modelled(self.measurements, uniform(self.domain, self.schema))

    def marginal(
        self, *columns: str | Iterable[str], where: Given = None, level: float | None = LEVEL, draws: int = DRAWS
    ) -> Table:
        """How many rows there are of each combination of the columns' values.

        Args:
            columns: names, one by one or in a list; none for the number of all rows.
            where: which rows count: a text such as "age >= 30 and sex = 'F'", or a mapping of columns to values.
            level: the share of answers whose interval should hold the truth; None for answers without intervals.
            draws: how often the noise is drawn again to find the intervals.

        Returns:
            The columns, and for each combination `estimate`, `low`, `high` and `source`: "measured", "inferred" from
            measurements of other combinations of columns, or "prior" where no measurement speaks of a column.

        Raises:
            OptionError: a column or level is unknown, or nothing can satisfy the condition; the nearest is named.
            SizeError: there are too many combinations.
        """
        return self._answered(tables.marginal(self.basis(level, draws), _named(columns), where), level)

    def count(self, where: Given = None, *, by: Names = (), level: float | None = LEVEL, draws: int = DRAWS) -> Table:
        """How many rows satisfy a condition, in each group; see `marginal`."""
        return self._answered(tables.marginal(self.basis(level, draws), by, where), level)

    def sum(
        self, column: str, *, by: Names = (), where: Given = None, level: float | None = LEVEL, draws: int = DRAWS
    ) -> Table:
        """The sum of a column of numbers in each group; missing values add nothing."""
        return self._answered(tables.total(self.basis(level, draws), column, by, where), level)

    def mean(
        self, column: str, *, by: Names = (), where: Given = None, level: float | None = LEVEL, draws: int = DRAWS
    ) -> Table:
        """The mean of a column of numbers, dates or truth values in each group, missing values left out.

        Values inside a bin are taken to lie as the neighbouring bins suggest; the interval holds what bins may hide.
        """
        return self._answered(tables.mean(self.basis(level, draws), column, by, where), level)

    def quantile(
        self,
        column: str,
        at: float | Iterable[float] = 0.5,
        *,
        by: Names = (),
        where: Given = None,
        level: float | None = LEVEL,
        draws: int = DRAWS,
    ) -> Table:
        """The value that a share `at` of the rows of each group lies below, missing values left out.

        With several shares, there is a column `at`, and the answers to each share follow one another.
        """
        basis = self.basis(level, draws)
        if isinstance(at, Iterable):
            return self._answered(quantiles.quantiles(basis, column, tuple(at), by, where), level)
        return self._answered(quantiles.quantile(basis, column, at, by, where), level)

    def median(
        self, column: str, *, by: Names = (), where: Given = None, level: float | None = LEVEL, draws: int = DRAWS
    ) -> Table:
        """The value that half of the rows of each group lie below, missing values left out."""
        return self._answered(quantiles.quantile(self.basis(level, draws), column, 0.5, by, where), level)

    def cdf(
        self, column: str, *, by: Names = (), where: Given = None, level: float | None = LEVEL, draws: int = DRAWS
    ) -> Table:
        """Which share of the rows of each group has at most each value of an ordered column."""
        return self._answered(tables.cdf(self.basis(level, draws), column, by, where), level)

    def share(
        self, column: str, *, given: Names = (), where: Given = None, level: float | None = LEVEL, draws: int = DRAWS
    ) -> Table:
        """P(column | given): which share of the rows of each group has each of the column's values."""
        return self._answered(tables.share(self.basis(level, draws), column, given, where), level)

    def answer(self, query: Query | Workload, *, level: float | None = LEVEL, draws: int = DRAWS) -> Table:
        """Answers to a product query, or to all queries of a workload; see `marginal`."""
        return self._answered(tables.answer(self.basis(level, draws), query), level)

    def ask(self, question: Question) -> Table:
        """The answers to a question of the command line."""
        return self._answered(question.asked(self.basis(question.level)), question.level)

    def correlation(self, *columns: str | Iterable[str]) -> Table:
        """Pearson's correlation and Cramér's V of each pair of the columns, or of all, the strongest pairs first.

        A correlation is that of the values, missing ones left out; it is null where a column has no numbers. Cramér's V
        says how much one column tells about the other, from 0 to 1, whatever their kinds.
        """
        return self._stamped(association.correlation(self._shaped, self.redrawing(), _named(columns)))

    def quality(self, *, redraw: bool = False) -> Table:
        """Which columns and pairs are above the noise, and which are dominated by it; no private row is read.

        Args:
            redraw: whether the expected errors come from redrawing the noise, as intervals do: closer, and slower. By
                default they are those of the noisy counts themselves, which the estimate improves on.

        Returns:
            A row for each column and each measured pair, and for the strongest other pairs: `strength` (Cramér's V),
            `error` (the share of rows to expect in a wrong cell), `clear` (the share of rows in cells at least twice as
            large as their standard error) and `verdict`. The notes sum it up.
        """
        return self._stamped(self.judged(redraw=redraw).table())

    def judged(self, *, redraw: bool = False) -> Quality:
        """The judgements that `quality` shows."""
        return quality(self.basis(), self.redrawing(), redraw=redraw)

    def sample(self, n: int | None = None, *, where: Given = None, seed: Seed = None) -> Table:
        """Synthetic rows in the user's own terms: the schema's columns in its order, without ids and texts.

        No row breaks a constraint of the schema. Numbers and dates are drawn inside their bins, more of them
        towards the fuller of the neighbouring bins.

        Args:
            n: how many; as many as the model says there are by default.
            where: which rows are wanted, as for `marginal`; bins are taken whole.
            seed: to draw the same rows again. Rows are not private noise: a seed is safe.

        Raises:
            OptionError: `n` is negative, or nothing can satisfy the condition.
        """
        return Table.joined(list(self.batches(n, where=where, seed=seed)))

    def batches(
        self, n: int | None = None, *, where: Given = None, seed: Seed = None, size: int = rows.BATCH
    ) -> Iterator[Table]:
        """The rows of `sample` in tables of at most `size`, for more than fits in memory; at least one table."""
        wanted = max(0, round(self.model.total)) if n is None else checked_count(n)
        drawn = rows.batches(self.model, self._shaped, wanted, where=where, seed=seed, size=size)
        return (self._stamped(batch) for batch in drawn)

    def _answered(self, table: Table, level: float | None) -> Table:
        """A table of answers, without the ends of intervals where no level was asked for."""
        return finished(table, level, self.stamp)

    def _stamped(self, table: Table) -> Table:
        """The table as it is, or with the statement's stamp where it was made with the randomness of tests."""
        return table if self.stamp is None else replace(table, notes=(*table.notes, self.stamp))

    @property
    def stamp(self) -> str | None:
        """What stands below each answer of a release that was made with the randomness of tests; None for others."""
        return None if self.statement.is_private else self.statement.lines[0]

    @cached_property
    def columns(self) -> Schema:
        """What the codes mean: the schema, or codes as they are where there is none."""
        if self.schema is not None:
            return self.schema
        return Schema.coded(dict(zip(self.domain.attributes, self.domain.shape, strict=True)))

    def basis(self, level: float | None = LEVEL, draws: int = DRAWS) -> Basis:
        """What answers rest on, for the functions of `priory.answer`."""
        return Basis(self._shaped, self.redrawing(draws), level)

    def redrawing(self, draws: int = DRAWS) -> Redrawing:
        """The model and what its measurements tell of its errors, by so many redraws of the noise."""
        if draws not in self._redrawings:
            known, keep = partial(kept.read, self.digest), partial(kept.write, self.digest)
            self._redrawings[draws] = Redrawing(self.model, self.evidence, draws, known, keep)
        return self._redrawings[draws]

    @cached_property
    def _shaped(self) -> Schema:
        """The columns with values inside bins as the model's totals suggest, for answers and rows alike."""
        names = [column.name for column in self.columns.modelled if column.is_coarse]
        totals = self.model.answers([Query.marginal(self.domain, (name,)) for name in names])
        return self.columns.shaped(dict(zip(names, totals, strict=True)))

    @cached_property
    def _redrawings(self) -> dict[int, Redrawing]:
        """Redraws that were made already, for the next question."""
        return {}

    @cached_property
    def evidence(self) -> tuple[Measurement, ...]:
        """The measurements that errors of answers are judged by, as an estimate takes them: all but very large ones."""
        return tuple(smallest(evidence(self.measurements), MOST_JUDGED))

    def save(self, path: str | Path) -> None:
        """Write the release file."""
        archive.write_archive(path, self.files(), _REQUIRED)

    def files(self) -> dict[str, archive.Files]:
        """What `save` writes: the bytes of the files of each section."""
        described, arrays = encoding.encode_measurements(self.measurements)
        domain = {"attributes": list(self.domain.attributes), "shape": list(self.domain.shape)}
        files: dict[str, archive.Files] = {
            "statement": {"statement.json": archive.json_bytes(encoding.encode_statement(self.statement))},
            "domain": {"domain.json": archive.json_bytes(domain)},
            "measurements": {"measurements.json": archive.json_bytes(described), **arrays},
            **self.sections,
        }
        if self.schema is not None:
            files["schema"] = {"schema.yaml": self.schema.dump().encode()}
        parts = {name: (part, getattr(self, part.field)) for name, part in PARTS.items()}
        return files | {name: part.encode(value) for name, (part, value) in parts.items() if value}

    def plot(self, *columns: str) -> Any:  # noqa: ANN401 - altair has no types
        """A chart of altair, for a notebook or for its `save`: of a column, of two, or of how all go together.

        Raises:
            OptionError: a column is unknown, or there are more than two.
            MissingExtra: the libraries that draw are not installed: `pip install 'priory[report]'`.
        """
        return hooks.plot(self, columns)

    def report(self, path: str | Path) -> None:
        """Write one HTML file to look at, made from this release alone; it opens offline and runs no script.

        A `MissingExtra` where the libraries that draw are not installed: `pip install 'priory[report]'`.
        """
        # Reports are made of releases, so that their room is above this one, and no room imports one above it.
        hooks.write_report(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "Release":
        """Read a release file; a `ReleaseError` if it is missing, damaged, changed, or too new for this version."""
        sections = archive.read_archive(path, _KNOWN)
        try:
            return _decoded(sections)
        except ReleaseError:
            raise
        except (PrioryError, KeyError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError):
            raise ReleaseError(f"{path} is damaged: its parts do not fit together") from None

    def __str__(self) -> str:
        return f"{len(self.measurements)} measurements of {len(self.domain)} attributes\n{self.statement}"

    def _repr_html_(self) -> str:
        stamp = "" if self.statement.is_private else "NOT PRIVATE: "
        parts = [line.partition(": ") for line in self.statement.lines]
        facts = {name: fact for name, _, fact in parts}
        facts["measurements"] = f"{len(self.measurements):,} of {len(self.domain):,} attributes"
        return html_facts(f"{stamp}Release of {self.statement.dataset}", facts)

    def __repr__(self) -> str:
        stamp = "" if self.statement.is_private else ", NOT PRIVATE"
        return f"Release({self.statement.mechanism!r}, {self.statement.promise}{stamp})"


def load(path: str | Path) -> Release:
    """Read a release file; see `Release.load`."""
    return Release.load(path)


def _named(columns: Iterable[str | Iterable[str]]) -> list[str]:
    """Names that were given one by one or in lists, as one list."""
    each = ([some] if isinstance(some, str) or not isinstance(some, Iterable) else some for some in columns)
    return list(itertools.chain.from_iterable(each))


def _decoded(sections: Mapping[str, archive.Files]) -> Release:
    sizes = json_of(sections["domain"]["domain.json"])
    domain = Domain.of(dict(zip(sizes["attributes"], sizes["shape"], strict=True)))
    measured = sections["measurements"]
    release = Release(
        domain=domain,
        measurements=encoding.decode_measurements(json_of(measured["measurements.json"]), measured, domain),
        statement=encoding.decode_statement(json_of(sections["statement"]["statement.json"])),
        digest=kept.digest_of(sections),
        sections={name: files for name, files in sections.items() if name not in _KNOWN | PARTS.keys()},
        **{part.field: part.decode(sections[name]) for name, part in PARTS.items() if name in sections},
    )
    if "schema" not in sections:
        return release
    return release.with_schema(Schema.parse(sections["schema"]["schema.yaml"].decode()))
