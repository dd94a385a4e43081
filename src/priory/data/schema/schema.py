"""Schema: what is publicly declared about a table, before any row is read."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from priory.data.dialect import USUAL, Dialect
from priory.data.kinds import Category, Column, ModelledColumn, PublicValue
from priory.data.kinds.declared import repeated
from priory.data.schema.constraints import Constraint, one_of, within_cells
from priory.data.table import html_facts, html_table, text_table
from priory.data.visible import visible
from priory.data.writing import written_whole
from priory.data.yaml_reader import suggestion
from priory.errors import SchemaError
from priory.queries.domain import Clique, Domain

# Codes of all columns: a column alone may have almost as many.
MOST_CODES, MOST_GROUPS = 1_000_000, 100_000


def within_codes(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns, one after the other, as long as they do not have too many codes together."""
    codes, taken = 0, list[Column]()
    for column in columns:
        codes += column.size if isinstance(column, ModelledColumn) else 0
        if codes > MOST_CODES:
            hint = "declare some columns as id or text, or make their bins wider"
            raise SchemaError(f"all columns together have more than {MOST_CODES:,} levels and bins; {hint}")
        taken.append(column)
    return tuple(taken)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Groups of rows that get a result each, by their public values."""

    by: tuple[str, ...]  # the columns whose values make the groups
    # the values of each group, or None for all combinations of declared levels
    values: tuple[tuple[PublicValue, ...], ...] | None

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse groups that do not fit the columns."""
        if not self.by or len(set(self.by)) < len(self.by):
            raise SchemaError("groups need by: with at least one column, each named once")
        listed = self._listed_codes(columns)
        count = math.prod(map(len, listed)) if self.values is None else len(self.values)
        if not 0 < count <= MOST_GROUPS:
            raise SchemaError(f"there are {count:,} groups; there must be 1 to {MOST_GROUPS:,}: list fewer values")
        codes = self.codes(columns)
        if len(set(codes)) < len(codes):
            raise SchemaError("a group is listed twice; keep one")

    def codes(self, columns: Sequence[Column]) -> list[tuple[int, ...]]:
        """The codes of each group."""
        if self.values is None:
            return list(itertools.product(*self._listed_codes(columns)))
        size = len(self.by)
        for row in self.values:
            if len(row) != size:
                raise SchemaError(f"a group needs {size} values, one for each of {list(self.by)}; got {len(row)}")
        return [tuple(map(_code, self._columns(columns), row)) for row in self.values]

    def _columns(self, columns: Sequence[Column]) -> list[ModelledColumn]:
        for column in (_found(columns, name) for name in self.by):
            if not isinstance(column, ModelledColumn):
                raise SchemaError("groups are made by categories, ordinals or booleans", column=column.name)
        return modelled_of(_found(columns, name) for name in self.by)

    def _listed_codes(self, columns: Sequence[Column]) -> list[tuple[int, ...]]:
        """The codes of each column's declared values; without `values`, they make the groups."""
        codes = [column.group_codes for column in self._columns(columns)]
        for name, each in zip(self.by, codes, strict=True):
            if self.values is None and each is None:
                raise SchemaError("groups are made by categories, ordinals or booleans", column=name)
        return [each or () for each in codes]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The columns of a table, its person column, its groups and its constraints.

    Nothing in it is ever read from private rows.

    Attributes:
        name: what the data set is called.
        columns: the declared columns, in order.
        person: the id column whose values are persons, if rows of one person belong together.
        groups: groups of rows that get a result each.
        constraints: combinations of values that cannot be.
        reading: how files spell the cells.
        discovered: what it cost to learn the schema from private rows, as the fields of a budget; empty where it was
            declared.
    """

    name: str
    columns: tuple[Column, ...]
    person: str | None = None
    groups: tuple[Group, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    reading: Dialect = USUAL
    discovered: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        columns: Iterable[Column],
        *,
        name: str,
        person: str | None = None,
        groups: Iterable[Group] = (),
        constraints: Iterable[Constraint] = (),
        reading: Dialect = USUAL,
        discovered: Iterable[tuple[str, str]] = (),
    ) -> "Schema":
        """Build a schema, checking that its parts fit together."""
        columns, groups = within_codes(columns), tuple(groups)
        if (twice := repeated(column.name for column in columns)) is not None:
            raise SchemaError("the column is declared twice; keep one", column=twice)
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a schema's name is a text that is not empty; got {name!r}")
        if person is not None:
            check_person(person, columns)
        schema = cls(
            name=name,
            columns=columns,
            person=person,
            groups=groups,
            reading=reading,
            discovered=tuple(discovered),
        )
        if not schema.modelled:
            raise SchemaError("no column is modelled; declare at least one that is not id or text")
        for group in groups:
            group.check(columns)
        return replace(schema, constraints=within_cells(constraints, schema._by_name))

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from its YAML file."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise SchemaError(f"the file cannot be read: {error.strerror}", path=str(path)) from None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise SchemaError("the file is not UTF-8; save it as UTF-8", line=line, path=str(path)) from None
        return cls.parse(text, path=str(path))

    @classmethod
    def parse(cls, text: str, *, path: str | None = None) -> "Schema":
        """Read a schema from YAML text; `path` is for errors."""
        from priory.data.schema import file

        return file.parse(text, path)

    @classmethod
    def coded(cls, sizes: Mapping[str, int], *, name: str = "coded") -> "Schema":
        """A schema for a table of integer codes: levels 0 … n−1 for each column.

        A cell that is none of them goes to the last code, which is declared as `other`.
        """
        domain = Domain.of(sizes)
        pairs = zip(domain, domain.shape, strict=True)
        return cls.of([Category.of(column, range(size), other=size - 1) for column, size in pairs], name=name)

    @classmethod
    def from_public(cls, data: object, *, name: str) -> "Schema":
        """A schema that fits a public table: a data frame, or the path of a file.

        Never give it private rows: levels and bounds are read from the cells.
        """
        from priory.data.drafting import draft_schema

        return draft_schema(data, name=name).schema

    def dump(self) -> str:
        """The schema as YAML text."""
        from priory.data.schema import file

        return file.dump(self)

    def save(self, path: str | Path) -> None:
        """Write the schema to a YAML file."""
        with written_whole(path) as draft:
            draft.write_text(self.dump(), encoding="utf-8", newline="\n")

    @property
    def modelled(self) -> tuple[ModelledColumn, ...]:
        """The columns that become attributes, in order."""
        return tuple(modelled_of(self.columns))

    @cached_property
    def domain(self) -> Domain:
        """The names and sizes of the modelled columns."""
        return Domain.of({column.name: column.size for column in self.modelled})

    def shaped(self, totals: Mapping[str, NDArray[np.float64]]) -> "Schema":
        """The same schema with values inside the bins of some columns as the released rows of each code suggest."""
        columns = {column.name: column.shaped(totals[column.name]) for column in self.modelled if column.name in totals}
        return replace(self, columns=tuple(columns.get(column.name, column) for column in self.columns))

    def column(self, name: str) -> Column:
        """The column of that name."""
        return _found(self.columns, name)

    def impossible(self) -> list[tuple[Clique, NDArray[np.bool_]]]:
        """The structural zeros: for each constrained clique, which of its cells no row can have."""
        zeros = []
        for constraint in self.constraints:
            for clique, mask in zip(constraint.cliques, constraint.masks(self._by_name), strict=True):
                ordered = self.domain.clique(clique)
                zeros.append((ordered, mask.transpose([clique.index(name) for name in ordered])))
        return zeros

    @property
    def _by_name(self) -> dict[str, ModelledColumn]:
        return {column.name: column for column in self.modelled}

    def __str__(self) -> str:
        header, rows = self._rows()
        lines = [f"{visible(self.name)}: {len(self.columns)} columns, {len(self.modelled)} modelled"]
        lines += [f"person: {visible(self.person)}"] if self.person is not None else []
        lines += [text_table(header, rows, right=[False, False, True, False, False, False])]
        lines += [visible(f"groups by {', '.join(group.by)}") for group in self.groups]
        return "\n".join([*lines, *([f"{len(self.constraints)} constraints"] if self.constraints else [])])

    def _repr_html_(self) -> str:
        facts = {
            "columns": f"{len(self.columns)}, of which {len(self.modelled)} are modelled",
            "person": self.person or "none: rows are protected",
            "groups": "; ".join(f"by {', '.join(group.by)}" for group in self.groups) or "none",
            "constraints": str(len(self.constraints)),
        }
        return html_facts(f"Schema of {self.name}", facts) + html_table(*self._rows())

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        header = ["column", "kind", "codes", "values", "other", "nullable"]
        return header, [_described(column) for column in self.columns]


def check_person(person: str, columns: Sequence[Column]) -> None:
    """Refuse a person column that is not a declared id."""
    if _found(columns, person).kind != "id":
        raise SchemaError("the person column must be of kind id", column=person)


def _found(columns: Sequence[Column], name: str) -> Column:
    for column in columns:
        if column.name == name:
            return column
    near = suggestion(name, [column.name for column in columns])
    raise SchemaError(f"no such column is declared; {near}", column=name)


def modelled_of(columns: Iterable[Column]) -> list[ModelledColumn]:
    """The columns that become attributes."""
    return [column for column in columns if isinstance(column, ModelledColumn)]


def _code(column: ModelledColumn, value: PublicValue) -> int:
    """The code that stands for nothing but `value`."""
    codes = np.flatnonzero(one_of(column, (value,)))
    if len(codes) != 1:
        raise column.error(f"no bin or level is just {value!r}")
    return int(codes[0])


def _described(column: Column) -> list[str]:
    if not isinstance(column, ModelledColumn):
        return [column.name, column.kind, "", "not modelled", "", ""]
    labels = column.place_labels
    shown = ", ".join(labels if len(labels) <= 4 else [*labels[:2], "…", labels[-1]])
    other = "" if column.other_place is None else labels[column.other_place]
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return [column.name, column.kind, str(column.size), shown, other, "yes" if column.nullable else "no"]
