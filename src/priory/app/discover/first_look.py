"""First look: what kind a column is, from noisy counts of what its cells can be read as. No private data are needed."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from priory.data.kinds.numbers import PLAIN, NumberFormat
from priory.data.probes import PAIRS, Spellings
from priory.data.schema.open import OpenColumn
from priory.privacy.measurement import Measurement

# A kind is chosen where this share of the cells that are there can be read as it.
ENOUGH = 0.9
# A cell of a probe counts as seen above what noise alone reaches with this probability. A table of fifty columns has
# about 35,000 such cells, so that in one table of 300 there is a cell that nobody is in.
_CHANCE = 1e-7
# Beside what was seen, a count of so many standard deviations is taken for rows: too wide bounds cost little.
_LIKELY = 2.0
SPELLINGS = Spellings()


def audible(noisy: Measurement) -> float:
    """The count that noise alone hardly ever reaches."""
    noise = noisy.noise
    if noise is not None and noise.family == "laplace":
        return float(noise.scale) * math.log(1 / (2 * _CHANCE))
    return 5.2 * stddev_of(noisy)


def stddev_of(noisy: Measurement) -> float:
    """The standard deviation of each of its counts, which have the same noise."""
    return float(np.max(noisy.stddev))


@dataclass(frozen=True)
class FirstLook:
    """What was seen of a column, above the noise.

    Attributes:
        column: what is declared of it.
        counts: about how many rows are in each cell of the probe, where that is above the noise.
        stddev: of each count.
        likely: counts that are less sure, of intervals beside those that were seen.
        format: how texts spell numbers.
    """

    column: OpenColumn
    counts: dict[tuple[str, str, int], float] = field(repr=False)
    stddev: float
    likely: dict[tuple[str, str, int], float] = field(default_factory=dict, repr=False)
    format: NumberFormat = PLAIN

    @classmethod
    def of(cls, column: OpenColumn, noisy: Measurement, form: NumberFormat) -> "FirstLook":
        """What a noisy marginal of the column by `Spellings` shows."""
        least, stddev = audible(noisy), stddev_of(noisy)
        counts = dict(zip(SPELLINGS.cells, map(float, noisy.values.tolist()), strict=True))
        return cls(
            column,
            {cell: count for cell, count in counts.items() if count > least},
            stddev,
            {cell: count for cell, count in counts.items() if count > _LIKELY * stddev},
            form,
        )

    def total(self, family: str, spelling: str | None = None) -> float:
        """About how many rows are of a family, and a spelling."""
        cells = self.counts.items()
        return sum(n for (kind, word, _), n in cells if kind == family and spelling in (None, word))

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return sum(self.counts.values())

    @property
    def present(self) -> float:
        """About how many cells are not missing."""
        return self.rows - self.missing

    @property
    def missing(self) -> float:
        """About how many cells are missing; what is declared as a level is not."""
        return sum(self.total("null", word) for word in ("", *self.nulls))

    @property
    def nulls(self) -> tuple[str, ...]:
        """The texts that mean missing: those declared, else those that were seen."""
        if self.column.nulls:
            return self.column.nulls
        return tuple(word for family, word, _ in self.counts if family == "null" and word)

    @property
    def kind(self) -> str:
        """The word of the kind: as declared, else what enough cells can be read as, by default a category."""
        if self.column.kind is not None:
            return self.column.kind
        enough = ENOUGH * self.present
        if self.present == 0:
            return "text"
        if self.total("number") >= enough:
            return "real" if self.total("number", "fraction") else "integer"
        if self.date_format is not None and self.total("date") >= enough:
            return "datetime" if self.date_format == "datetime" else "date"
        return "boolean" if self.words is not None and self.total("boolean") >= enough else "category"

    @property
    def date_format(self) -> str | None:
        """How most dates are spelled; None where there are none, or where days and months cannot be told apart."""
        found = Counter({word: n for word in _DATES if (n := self.total("date", word))})
        if not found:
            return None
        if found["m/d/Y"] and found["d/m/Y"]:
            return None
        [(most, _)] = found.most_common(1)
        if most != "either":
            return most
        return "d/m/Y" if found["d/m/Y"] else "m/d/Y"

    @property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The words for true and for false that were seen, if they are one pair in some spellings."""
        seen = [word for family, word, _ in self.counts if family == "boolean"]
        for yes, no in PAIRS:
            true = tuple(word for word in seen if word.lower() == yes)
            false = tuple(word for word in seen if word.lower() == no)
            if seen and len(true) + len(false) == len(seen):
                return true or (yes,), false or (no,)
        return None

    def intervals(self, family: str) -> dict[int, float]:
        """The intervals of numbers or dates that were seen, and those next to them that are likely, with their rows."""
        seen, likely = self._by_interval(family, self.counts), self._by_interval(family, self.likely)
        for step in (-1, 1):
            i = (min(seen) if step < 0 else max(seen)) + step if seen else -1
            while i in likely:
                seen[i] = likely[i]
                i += step
        return dict(sorted(seen.items()))

    @staticmethod
    def _by_interval(family: str, counts: dict[tuple[str, str, int], float]) -> dict[int, float]:
        rows: dict[int, float] = {}
        for (kind, _, i), count in counts.items():
            if kind == family:
                rows[i] = rows.get(i, 0.0) + count
        return rows


_DATES = ("date", "datetime", "d.m.Y", "d-m-Y", "m/d/Y", "d/m/Y", "either")
