"""Approach: how the fits of one budget are rehearsed: which mechanism does the work, and on which parts of a table."""

from dataclasses import dataclass

from priory.app.forecast.law import LAWS, Facts, Laws
from priory.app.forecast.tables import Played
from priory.app.forecast.trial import Trials
from priory.app.registry import Registered, registered
from priory.mechanisms.steps.effort import at_effort
from priory.mechanisms.weighing import Weighing
from priory.privacy.budget import Budget
from priory.queries.domain import Domain

# Fewer columns are not rehearsed, where there are more.
FEWEST_COLUMNS = 5
# Nor are fewer rows; a part of the rows is a fifth of the next larger one.
FEWEST_ROWS, FEWER_ROWS = 300, 5


@dataclass(frozen=True, eq=False)
class Approach:
    """How fits are tried.

    Attributes:
        trials: how one is made.
        sizes: how many columns, or how many rows, are tried, one after the other; the last is all of them.
        laws: what is known of fits of this mechanism, if anything is.
        is_by_rows: whether sizes are numbers of rows: where fits of few columns say nothing of many, but a law does.
    """

    trials: Trials
    sizes: tuple[int, ...]
    laws: Laws | None
    is_by_rows: bool = False

    @classmethod
    def of(cls, trials: Trials, domain: Domain, rows: int, *, is_custom: bool, has_public: bool = False) -> "Approach":
        """Parts of the rows where a law says how times grow with them, else of the columns.

        Nothing is known of a recipe with settings of its own, which may be about all columns, nor of public rows.
        """
        laws = None if is_custom or has_public else LAWS.get(trials.entry.name)
        if is_custom:
            return cls(trials, (len(domain),), laws)
        if laws is not None and laws.times is not None:
            return cls(trials, _parts(rows, FEWER_ROWS, FEWEST_ROWS), laws, is_by_rows=True)
        return cls(trials, _parts(len(domain), 2, FEWEST_COLUMNS), laws)

    def some(self, played: Played, size: int) -> Played:
        """A part of a table."""
        return played.some_rows(size) if self.is_by_rows else played.some(size)

    def facts(self, domain: Domain, rows: int, budget: Budget) -> dict[int, Facts]:
        """What laws are about, for each size; where these are numbers of columns, for all columns alone.

        There are none for a pure ε, whose noise grows with the marginals themselves: no law was fitted to that.
        """
        if self.laws is None or budget.is_pure:
            return {}
        sizes = self.sizes if self.is_by_rows else (rows,)
        found = [Facts.of(domain, size, budget, self._places(domain, size, budget)) for size in sizes]
        return dict(zip(self.sizes[-len(found) :], found, strict=True))

    def _places(self, domain: Domain, rows: int, budget: Budget) -> float:
        recipe = at_effort(self.trials.entry.build(domain), self.trials.effort)
        return recipe.places(domain, budget, rows) if isinstance(recipe, Weighing) else 1.0


def does_the_work(entry: Registered, domain: Domain, budget: Budget) -> Registered:
    """The mechanism that a fit comes down to: "weighing" leaves a pure ε and very wide tables to "aim"."""
    recipe = entry.build(domain)
    if isinstance(recipe, Weighing) and recipe.is_left_to_aim(domain, budget):
        return registered("aim")
    return entry


def _parts(whole: int, factor: int, fewest: int) -> tuple[int, ...]:
    """Parts of a number, each so many times smaller than the next, as long as they are not too few."""
    sizes = [whole]
    while sizes[0] // factor >= fewest:
        sizes.insert(0, sizes[0] // factor)
    return tuple(sizes)
