"""Options: what a schema file says of one column, for its kind to read."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from priory.data.dialect import USUAL, Dialect
from priory.data.kinds import bins
from priory.data.kinds.declared import Nulls
from priory.data.yaml_reader import Value
from priory.errors import SchemaError

COMMON = ("kind", "nullable", "nulls", "other")


class ColumnOptions:
    """The options of one column, read by the words people write.

    Attributes:
        name: the column.
        key: where the column is declared.
        values: the options by their words.
        reading: what is said of the whole file, for options that a column leaves out.
    """

    def __init__(self, name: str, key: Value, values: Mapping[str, Value], reading: Dialect = USUAL) -> None:
        self.name = name
        self.key = key
        self.values = values
        self.reading = reading

    def nulls(self) -> Nulls:
        """What is said of missing cells."""
        nullable = "nullable" in self.values and self.values["nullable"].boolean("nullable", self.name)
        return {"nullable": nullable, "nulls": self.texts("nulls")}

    @property
    def other(self) -> Any:  # noqa: ANN401 - the column's constructor checks it
        """The value that stands for bad cells, if there is one."""
        return self.values["other"].scalar("other", self.name) if "other" in self.values else None

    def required(self, key: str, example: str) -> Value:
        """An option that the column cannot do without."""
        if key not in self.values:
            raise self.key.error(f"the column needs {key}:, as in {example}", self.name)
        return self.values[key]

    def scalars(self, value: Value, what: str, one: str) -> list[Any]:
        """The values of a list."""
        return [item.scalar(one, self.name) for item in value.items(what, self.name)]

    def scalars_of(self, words: Sequence[str]) -> dict[str, Any]:
        """The options that are given by single values, from the column or else from what is said of the whole file."""
        given = {word: self.values[word].scalar(word, self.name) for word in words if word in self.values}
        return {word: getattr(self.reading, word) for word in words if hasattr(self.reading, word)} | given

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of spellings, each as it is written."""
        if key not in self.values:
            return default
        return tuple(item.written(f"one of {key}", self.name) for item in self.values[key].items(key, self.name))

    def bounds(self, example: str) -> tuple[Any, Any]:
        """The two bounds."""
        value = self.required("bounds", example)
        bounds = self.scalars(value, "bounds", "a bound")
        if len(bounds) != 2:
            raise value.error(f"bounds are two values, as in {example}; got {len(bounds)}", self.name)
        return bounds[0], bounds[1]

    def binning(self, words: Sequence[str]) -> tuple[str, Value]:
        """How the bins are given: ("count", number), or one of `words` and what follows it."""
        value = self.values["bins"]
        if not isinstance(value.data, Mapping):
            return "count", value
        given = value.options(words, "bins", self.name)
        if len(given) != 1:
            raise value.error(f"bins take one of {', '.join(words)}", self.name)
        return next(iter(given.items()))

    def count(self, value: Value) -> int:
        """The number of bins."""
        return cast(int, value.scalar("the number of bins", self.name))

    def ended(self, edges: Sequence[float], high: float, end: float) -> Sequence[float]:
        """The edges as given, or with a last one at the upper bound moved to where the last bin ends."""
        if len(edges) - 1 > bins.MOST_BINS:
            raise SchemaError(
                f"{len(edges) - 1:,} bins are more than the {bins.MOST_BINS:,} allowed; give fewer edges",
                column=self.name,
            )
        return [*edges[:-1], end] if edges and edges[-1] == high else edges
