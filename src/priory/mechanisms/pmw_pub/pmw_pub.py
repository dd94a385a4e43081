"""PMW^Pub: private multiplicative weights over the rows of public data; over the whole domain it is MWEM."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.estimate.papers.multiplicative_weights import exponents, stepped
from priory.measure import measure
from priory.mechanisms.pmw_pub.row_weights import RowWeights, cell_query, every_cell
from priory.mechanisms.steps.public_rows import check_public_rows
from priory.mechanisms.steps.total import counted
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.rows import Places
from priory.privacy.budget import Budget
from priory.privacy.choice import ChoiceKind, choice_within
from priory.privacy.measurement import Measurement
from priory.privacy.scores import AbsoluteError, Pick
from priory.privacy.session import Session, asking
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.workloads import default_workload

# Without a given number of rounds the first costs this part: what it shows decides how many more there are.
PROBE_SHARE = 0.1
MOST_ROUNDS = 300


@dataclass(frozen=True, eq=False)
class MeasuredCell:
    """A cell that was measured."""

    rows: Places  # which rows are in it
    share: float  # its part of the total, as measured; the mean where it was measured more than once
    variance: float  # of that

    def and_again(self, share: float, variance: float) -> "MeasuredCell":
        """With another measurement of the same cell, both weighted by their precision."""
        precision = 1 / self.variance + 1 / variance if min(self.variance, variance) > 0 else math.inf
        if math.isinf(precision):
            return self if self.variance <= variance else replace(self, share=share, variance=variance)
        mean = (self.share / self.variance + share / variance) / precision
        return replace(self, share=mean, variance=1 / precision)

    def miss(self, weights: RowWeights) -> float:
        """How far the weights are below what was measured."""
        return self.share - weights.share(self.rows)


@dataclass(frozen=True, eq=False)
class Iterates:
    """Where the rounds have come to; all of it is private."""

    last: RowWeights  # the weights after the last round
    sum: Array  # the sum of the weights before each round
    cells: dict[Pick, MeasuredCell]  # what was measured, by query and cell
    measurements: tuple[Measurement, ...]  # the noisy answers, one a round

    @property
    def average(self) -> Array:
        """The mean of the weights before each round, the paper's output; those of the start where there was none."""
        return self.sum / len(self.measurements) if self.measurements else self.last.weights

    def cells_with(self, pick: Pick, measurement: Measurement, total: float) -> dict[Pick, MeasuredCell]:
        """The measured cells with one more measurement."""
        share = min(max(float(measurement.values.sum()) / total, 0.0), 1.0)
        variance = measurement.variance / total**2
        if pick in self.cells:
            return {**self.cells, pick: self.cells[pick].and_again(share, variance)}
        return {**self.cells, pick: MeasuredCell(self.last.rows_in(pick.query, pick.cell or 0), share, variance)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PMWPub:
    """Choose the workload's worst cell, measure it, reweigh the rows; again [Liu et al. 2021, Algorithm 1].

    Past measurements are used again in every round (their §5.3), each against the weights of the moment.

    Attributes:
        public: the rows to start from; without any, every cell of the domain alike, which is MWEM.
        workload: marginals; see `default_workload` for the default.
        rounds: T; by default from what the first round shows.
        iterate: which weights are released.
        shares: what a round spends on choosing and on measuring.
        choice: how to choose; by default the exponential mechanism, or permute-and-flip where the budget is pure.
        reuse: whether past measurements are used again.
        sweeps: how often, in a round.
        least: how many standard deviations of its noise a cell must be off for a step; 0 in the paper.
        unsupported: whether cells that no row is in can be chosen, as in the paper: they cannot be improved.
        seed: for the order of past measurements.
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    rounds: int | None = None
    iterate: Literal["last", "average"] = "last"
    shares: tuple[int, int] = (1, 1)
    choice: ChoiceKind | None = None
    reuse: bool = True
    sweeps: int = 1
    least: float = 0.0
    unsupported: bool = False
    seed: int = 0

    @property
    def choice_share(self) -> Fraction:
        return Fraction(self.shares[0], sum(self.shares))

    def run(self, session: Session, budget: Budget) -> Release:
        """Spend at most `budget`: no more than the first round where that finds nothing to improve."""
        weights = self.start(session.domain)
        session.check(budget)
        count = counted(session, budget)
        iterates = self.iterates(session, count.rest, weights, count.total)
        release = Release(session.domain, (count.measurement, *iterates.measurements), session.statement("pmw-pub"))
        base = iterates.last.public_rows(release.domain, None if self.iterate == "last" else iterates.average)
        return release.with_model(Model.of(base, {}, count.total))

    def start(self, domain: Domain) -> RowWeights:
        """The weights before the first round; validates all options before spending."""
        if self.rounds is not None and not 0 <= self.rounds <= 10 * MOST_ROUNDS:
            raise OptionError("rounds", f"from 0 to {10 * MOST_ROUNDS}; got {self.rounds}")
        check_public_rows(self.public, domain)
        workload = default_workload(domain) if self.workload is None else self.workload
        queries = workload.checked(domain).queries
        return RowWeights.of(queries, every_cell(domain, len(queries)) if self.public is None else self.public)

    def iterates(self, session: Session, budget: Budget, weights: RowWeights, total: float) -> Iterates:
        """The rounds themselves."""
        iterates = Iterates(weights, np.zeros(len(weights.logs)), {}, ())
        rounds, rest = self.rounds, budget
        with asking():
            if rounds is None:
                probe, rest = budget.split((PROBE_SHARE, 1 - PROBE_SHARE))
                iterates = self._round(session, probe, iterates, total)
                rounds = self._informative(iterates, rest, total)
            for share in rest.split([1] * rounds) if rounds else ():
                iterates = self._round(session, share, iterates, total)
        return iterates

    def _informative(self, iterates: Iterates, budget: Budget, total: float) -> int:
        """How many rounds still choose better than chance, judged by the first one, without a look at the data.

        A choice is better than chance where the scores' spread over their noise exceeds the logarithm of the number of
        candidates; the spread is what the first round measured, less what its noise alone would show.
        """
        [cell] = iterates.cells.values()
        before = float((iterates.sum[cell.rows]).sum())
        error = abs(cell.share - before) - math.sqrt(cell.variance)
        candidates = int(iterates.last.supported.sum())
        scale = float(choice_within(budget.split(self.shares)[0], Fraction(1), self.choice).scale)
        spread = max(error, 0.0) * total / (scale * math.log(max(candidates, 2)))
        return min(int(spread if budget.is_pure else spread**2), MOST_ROUNDS)

    def _round(self, session: Session, share: Budget, iterates: Iterates, total: float) -> Iterates:
        """One round: choose a cell, measure it, step towards it and towards the past ones that are as far off."""
        choosing, measuring = share.split(self.shares)
        queries = iterates.last.queries
        answers = iterates.last.answers(total)
        allowed = self._allowed(iterates)
        [pick] = session.choose(queries, answers, AbsoluteError(), choosing, allowed=allowed, kind=self.choice)
        [measurement] = measure(session, [cell_query(queries[pick.query], pick.cell or 0)], measuring)
        measurements = (*iterates.measurements, measurement)
        cells = iterates.cells_with(pick, measurement, total)
        rng = np.random.default_rng((self.seed, len(measurements)))
        moved = self._stepped(iterates.last, cells, pick, rng)
        return Iterates(moved, iterates.sum + iterates.last.weights, cells, measurements)

    def _allowed(self, iterates: Iterates) -> NDArray[np.bool_]:
        """Cells that some row is in and that were not measured yet."""
        allowed = iterates.last.supported | self.unsupported
        fresh = allowed.copy()
        fresh[[iterates.last.starts[pick.query] + (pick.cell or 0) for pick in iterates.cells]] = False
        return fresh if fresh.any() else allowed

    def _stepped(
        self, weights: RowWeights, cells: dict[Pick, MeasuredCell], pick: Pick, rng: np.random.Generator
    ) -> RowWeights:
        bar = abs(cells[pick].miss(weights)) / 2
        past = [cell for cell in cells.values() if abs(cell.miss(weights)) >= bar] if self.reuse else [cells[pick]]
        past = [cell for cell in past if abs(cell.miss(weights)) >= self.least * math.sqrt(cell.variance)]
        for _ in range(self.sweeps):
            for i in rng.permutation(len(past)):
                step = exponents(past[i].share, weights.share(past[i].rows), total=1.0)
                weights = replace(weights, logs=stepped(weights.logs, step, past[i].rows))
        return weights
