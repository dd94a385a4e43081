"""Law: what errors and times of default fits follow from public facts alone, fitted to fits of real tables.

A rehearsal knows how a fit works, and a made-up table how uneven and dependent tables are on average. A law of three
powers, fitted to measured fits, was closer to the errors of tables that neither had seen; docs/studies/forecasts.md has
both. So laws say how large errors are, and rehearsals which pairs have the larger ones.
"""

import itertools
import math
from dataclasses import dataclass
from statistics import fmean

from priory.privacy.budget import Budget
from priory.privacy.even_noise import even_stddev
from priory.queries.domain import Domain

# Of many levels most are rare: an attribute of k counts as one of k/(1 + k/6). With 4 or 9 instead of 6 the laws are as
# near to tables that they were not fitted to.
RARE = 6.0


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a fit.

    Attributes:
        rows: how many records the table has.
        columns: how many attributes.
        levels: the mean logarithm of their numbers of levels, many of which count as few.
        cells: how many cells each pair has; an attribute alone its levels.
        stddev: the standard deviation of the counts of all pairs, if these share the budget evenly.
        places: how many rows times marginals a fit goes over, where the mechanism knows before; else 1.
    """

    rows: float
    columns: int
    levels: float
    cells: tuple[int, ...]
    stddev: float
    places: float = 1.0

    @classmethod
    def of(cls, domain: Domain, rows: float, budget: Budget, places: float = 1.0) -> "Facts":
        """The facts of a fit of all columns."""
        levels = fmean(math.log(size / (1 + size / RARE)) for size in domain.shape)
        cells = tuple(a * b for a, b in itertools.combinations(domain.shape, 2)) or domain.shape
        stddev = even_stddev(budget, max(1, math.comb(len(domain), 2)))
        return cls(max(1.0, float(rows)), len(domain), levels, cells, stddev, max(1.0, places))

    @property
    def noise(self) -> float:
        """The error of one cell if all pairs were measured and nothing else: half its mean absolute noise."""
        return self.stddev / math.sqrt(2 * math.pi) / self.rows


@dataclass(frozen=True)
class Law:
    """A product of powers: of n/σ, of n, of the columns, of the places, and of the levels in the geometric mean."""

    constant: float
    precision: float
    rows: float = 0.0
    columns: float = 0.0
    levels: float = 0.0
    places: float = 0.0

    def log(self, facts: Facts) -> float:
        """The logarithm of the product."""
        return (
            self.constant
            + self.precision * math.log(facts.rows / facts.stddev)
            + self.rows * math.log(facts.rows)
            + self.columns * math.log(facts.columns)
            + self.levels * facts.levels
            + self.places * math.log(facts.places)
        )


@dataclass(frozen=True)
class Accuracy:
    """How near forecasts were to fits of tables that constants were not fitted to; see the study.

    Attributes:
        fits: how many there were.
        near_errors: how many of them had a mean error within a factor of 1.3 of the forecast.
        near_times: how many took a time within a factor of 2 of the forecast.
    """

    fits: int
    near_errors: int
    near_times: int

    def __str__(self) -> str:
        errors = f"errors were within a factor of 1.3 of the forecast in {self.near_errors}"
        return f"In {self.fits} fits of other tables {errors}, times within a factor of 2 in {self.near_times}."


@dataclass(frozen=True)
class Laws:
    """The laws of one mechanism with its usual settings.

    Attributes:
        errors: the odds of the mean error over pairs, e/(1 − e), where pairs have many cells.
        part_of_noise: where a pair has few, its error is that part of the noise of its cells.
        accuracy: how near forecasts by these laws were.
        times: processor seconds, on the machine of the study; None where rehearsals of some columns say more.
    """

    errors: Law
    part_of_noise: float
    accuracy: Accuracy
    times: Law | None = None

    def error(self, facts: Facts) -> float:
        """The mean error over pairs, a total variation distance."""
        usual, of_a_cell = 1 / (1 + math.exp(-self.errors.log(facts))), self.part_of_noise * facts.noise
        return fmean(min(usual, of_a_cell * cells) for cells in facts.cells)


# Fitted by `python -m experiments forecast_laws`.
LAWS = {
    "weighing": Laws(
        errors=Law(-1.65, precision=-0.46, rows=-0.14, levels=2.21),
        part_of_noise=0.66,
        accuracy=Accuracy(37, 25, 36),
        times=Law(-9.65, precision=0.22, rows=-0.08, places=0.65),
    ),
    "aim": Laws(
        errors=Law(-0.82, precision=-0.44, rows=-0.15, columns=-0.16, levels=2.01),
        part_of_noise=0.65,
        accuracy=Accuracy(11, 8, 10),
    ),
}
# Of forecasts with public rows, for which there are no laws.
WITH_PUBLIC_ROWS = {"weighing": Accuracy(15, 8, 14)}
