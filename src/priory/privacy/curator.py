"""Curator: the only object that holds private counts; it works out the sensitivity, pays, and only then looks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.sources.raw import Probed, Reading
from priory.data.sources.source import ROW_LIMIT, Source
from priory.errors import DataError, DomainError, OptionError
from priory.privacy.budget import Budget
from priory.privacy.choice import Choice, ChoiceKind, choice_within
from priory.privacy.encoding import query_digest
from priory.privacy.functionals import FUNCTIONALS, Functional, NoisyNumber
from priory.privacy.journal import Answered, Forgetful, Journal, Numbered, Paid, Picked, PublicTotal
from priory.privacy.ledger import Event, Reservation
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Floats, Integers, Noise, NoiseKind, noise_within
from priory.privacy.partition import persons_sensitivity, threshold_within
from priory.privacy.progress import Progress, Step, silent
from priory.privacy.randomness import Randomness, is_private, source_of
from priory.privacy.scores import SCORES, Neighbours, Pick, Score
from priory.privacy.session import Session
from priory.privacy.statement import Statement
from priory.privacy.truths import Key, Truths, key_of, largest_entry
from priory.queries.domain import Clique, checked_cliques
from priory.queries.parts import PARTS, Numbers
from priory.queries.query import Query
from priory.queries.sensitivity import Sensitivity, entry_range, sensitivity


class Curator(Session):
    """A reservation and a source together: the session that is live.

    No method takes or returns a private value; a printed curator shows none.

    Attributes:
        reservation: what pays.
    """

    def __init__(
        self,
        reservation: Reservation,
        source: Source,
        *,
        randomness: Randomness | str | None = None,
        progress: Progress = silent,
        impossible: Sequence[tuple[Clique, NDArray[np.bool_]]] = (),
        journal: Journal | None = None,
    ) -> None:
        self.reservation = reservation
        self.domain = source.domain
        self.impossible = tuple(impossible)
        self.row_limit = source.row_limit
        self._largest_entry = largest_entry(source.row_limit)
        # A model's answers may be about a few more rows than are declared, because its total has noise.
        self._scored_rows = max(source.row_limit, ROW_LIMIT)
        self._source = source
        self._truths = Truths(source)
        self._randomness = source_of(randomness)
        self._progress = progress
        self._journal: Journal = Forgetful() if journal is None else journal
        self._public_total: int | None = None
        self._checked: set[Key] = set()

    def __repr__(self) -> str:
        return f"Curator({self.reservation!r}, {len(self.domain)} attributes)"

    def __reduce__(self) -> str:
        raise TypeError("a curator holds private counts and is never written to a file")

    @property
    def budget(self) -> Budget:
        return self.reservation.budget

    @property
    def left(self) -> Fraction:
        """What it may still spend, in the budget's currency."""
        return self.reservation.left

    @property
    def public_total(self) -> int | None:
        """A `DataError` where it is more than the source declares; nothing was spent on it."""
        if not self.has_public_total:
            return None
        if self._public_total is None:
            total = int(self._truths.of([Query.marginal(self.domain, ())])[0])
            if total >= self.row_limit:
                raise DataError(f"the table has more rows than its source declares, {self.row_limit:,}; declare more")
            self._public_total = total
            self._journal.write(PublicTotal(total))
        return self._public_total

    def statement(self, mechanism: str) -> Statement:
        drawn_by = self._randomness
        return Statement.of(self.reservation, mechanism, is_private=is_private(drawn_by), randomness=drawn_by.name)

    def report_progress(self, number: int, of: int | None = None, note: str = "") -> None:
        self._progress(Step(number, of, self.reservation.spent, self.budget, note))

    def check(self, budget: Budget) -> None:
        self._check_share(budget)
        self.reservation.check_left(budget.amount)

    def answer(
        self, queries: Sequence[Query], shares: Sequence[Budget], *, noise: NoiseKind | None = None
    ) -> tuple[Measurement, ...]:
        # A sequence of another class could give other queries after the check.
        queries, shares = tuple(queries), tuple(shares)
        if len(shares) != len(queries):
            raise OptionError("shares", f"{len(shares)} were given for {len(queries)} queries")
        self._check_queries(queries)
        for share in shares:
            self._check_share(share)
        sizes = [sensitivity(query, self.relation, self.budget.max_rows) for query in queries]
        asked = zip(queries, sizes, shares, strict=True)
        priced = [self._priced_noise(_described(query), size, share, noise) for query, size, share in asked]
        self._journal.make_room(queries)
        self._charge([event for _, event in priced])
        noises = [bought for bought, _ in priced]
        noisy = self._noisy(self._truths.of(queries), noises)
        answered = zip(queries, noisy, noises, strict=True)
        measurements = tuple(Measurement(query, values, bought.stddev, bought) for query, values, bought in answered)
        self._journal.write(Answered(measurements))
        return measurements

    def choose(
        self,
        queries: Sequence[Query],
        estimates: Sequence[Numbers],
        score: Score,
        share: Budget,
        *,
        allowed: NDArray[np.bool_] | None = None,
        draws: int = 1,
        kind: ChoiceKind | None = None,
    ) -> tuple[Pick, ...]:
        queries = tuple(queries)
        self._check_queries(queries)
        self._check_share(share)
        if type(score) not in SCORES:
            raise OptionError("score", f"the list of scores is closed: {', '.join(kind.__name__ for kind in SCORES)}")
        # Arrays of a derived class could look at what they are subtracted from.
        estimates = [np.asarray(estimate) for estimate in estimates]
        score.check(queries, estimates, self._scored_rows)
        if draws < 1:
            raise OptionError("draws", f"at least one; got {draws}")
        places = _allowed_places(score, queries, allowed)
        event, choice = self._priced_choice(queries, score, share, draws, kind)
        self._journal.make_room((), draws)
        self._charge([event])
        asked = [*queries, Query.marginal(self.domain, ())] if score.needs_rows else queries
        scores = score.scores(queries, self._truths.of(asked), estimates, self._scored_rows)
        candidates = scores if places is None else scores[places]
        picked = self._randomness.picks(candidates, choice, draws)
        picks = tuple(score.pick(queries, i if places is None else int(places[i])) for i in picked)
        self._journal.write(Picked(picks, share.amount, tuple(query_digest(queries[pick.query]) for pick in picks)))
        return picks

    def number(self, functional: Functional, share: Budget) -> NoisyNumber:
        if type(functional) not in FUNCTIONALS:
            closed = ", ".join(kind.__name__ for kind in FUNCTIONALS)
            raise OptionError("functional", f"the list of functionals is closed: {closed}")
        self._check_queries(functional.queries)
        self._check_share(share)
        neighbours = Neighbours(self.relation, self.budget.max_rows, None)
        functional.check(neighbours)
        steps = functional.sensitivity(neighbours)
        noise, event = self._priced_noise(functional.kind, Sensitivity(steps, steps**2), share, None)
        self._journal.make_room((), 1)
        self._charge([event])
        truth = np.array([functional.value(self._truths.of(functional.queries))], dtype=np.int64)
        scale = 2.0**-functional.bits
        number = NoisyNumber(scale * float(self._noisy([truth], [noise])[0][0]), scale * noise.stddev, noise)
        self._journal.write(Numbered(number))
        return number

    def values(self, column: str, reading: Reading, share: Budget, additive: Fraction) -> "NoisyValues":
        """Pay, then tell which values of a raw column enough persons have, and about how many.

        Args:
            column: which column.
            reading: whether values are told apart as texts or as numbers.
            share: what the noise costs.
            additive: δ′, the probability that a value of any one person is told.

        Raises:
            BudgetError: it is more than is left. Nothing was looked at.
            OptionError: the budget is pure, which cannot pay for a threshold. Nothing was looked at.
        """
        source = self._source
        if type(source) is not Probed or column not in source.table.columns or reading not in ("text", "number"):
            raise OptionError("column", "values are selected of the columns of a raw table, as text or number")
        self._check_share(share)
        size = persons_sensitivity(self.relation, self.budget.max_rows)
        noise, event = self._priced_noise(f"values of ({column}) as {reading}", size, share, "gaussian")
        threshold = threshold_within(noise, additive / self.budget.max_rows)
        self._journal.make_room((), 1)
        self._charge([replace(event, additive=additive)])
        kept = self._randomness.kept(source.table.values(column, reading), noise, threshold)
        # In an order that the rows have no part in.
        return NoisyValues({value: kept[value] * noise.step for value in sorted(kept)}, threshold * noise.step, noise)

    def _charge(self, events: Sequence[Event]) -> None:
        """Pay in the ledger, then note it in the journal: what is looked at afterwards is covered by both."""
        self.reservation.charge(events)
        self._journal.write(Paid(self.reservation.spent))

    def _check_queries(self, queries: Sequence[Query]) -> None:
        """Everything that could go wrong with them later, for later something is paid."""
        # A workload is asked about in every round, and checked in the first.
        new = [key for key in dict.fromkeys(map(key_of, queries)) if key not in self._checked]
        for *_, query in new:
            self._check_query(query)
        checked_cliques(self.domain, list(dict.fromkeys(query.clique for *_, query in new)))
        self._checked.update(new)

    def _check_query(self, query: Query) -> None:
        if type(query) is not Query:
            raise OptionError("queries", f"each is a Query and nothing derived from it; got {type(query).__name__}")
        if self.domain.project(self.domain.checked(query.clique)) != query.domain:
            raise DomainError(f"a query over {query.clique} has sizes {query.domain.shape} unlike the data's")
        if any(type(part) not in PARTS for part in query.parts):
            # Another part could answer something else than the matrix that its sensitivity is worked out from.
            raise OptionError("queries", "a custom part must be a Matrix")
        for part, size in zip(query.parts, query.domain.shape, strict=True):
            # A query that was put together without `Query.product` has not been checked: a code of −1 counts twice.
            part.check(size)
        if not query.is_integer:
            raise OptionError("queries", "noise is added to integers; use query.on_lattice(bits) for real entries")
        largest = max(map(abs, entry_range(query)))
        if largest > self._largest_entry:
            about = f"with an entry of {float(largest):.3g}, answers about the {self.row_limit:,} rows that the source"
            hint = "use a lattice of fewer bits, or declare fewer rows"
            raise OptionError("queries", f"{about} declares do not fit 62 bits; {hint}")

    def _check_share(self, share: Budget) -> None:
        mine = self.budget
        if share.amount <= 0:
            raise OptionError("share", f"something above 0 must be paid; got {share}")
        if (share.currency, share.relation, share.max_rows) != (mine.currency, mine.relation, mine.max_rows):
            said = f"{share} is no part of this run's budget, {mine}; use budget.split or budget.part"
            raise OptionError("share", said)

    def _check_kind(self, kind: str) -> None:
        if kind not in self._randomness.kinds:
            said = f"{self._randomness.name} cannot draw {kind}; take priory's samplers, or pay in rho"
            raise OptionError("randomness", said)

    def _priced_noise(self, what: str, size: Sensitivity, share: Budget, kind: NoiseKind | None) -> tuple[Noise, Event]:
        """The least noise that `share` buys, and what is paid for it."""
        noise = noise_within(share, size, kind)
        self._check_kind(noise.kind)
        paid = _paid(noise.cost(size, share.currency), share)
        return noise, Event(noise.kind, what, paid, share.currency, sensitivity=size, scale=noise.scale)

    def _priced_choice(
        self, queries: Sequence[Query], score: Score, share: Budget, draws: int, kind: ChoiceKind | None
    ) -> tuple[Event, Choice]:
        """The sharpest choice that `share` buys, and what is paid for it."""
        total = self.public_total if score.knows_total else None
        moved = score.sensitivity(queries, Neighbours(self.relation, self.budget.max_rows, total), self._scored_rows)
        choice = choice_within(share.part(Fraction(1, draws)), moved, kind)
        self._check_kind(choice.kind)
        cost = choice.cost(moved, share.currency)
        paid = _paid(None if cost is None else draws * cost, share)
        what = f"{score.kind} of {len(queries)} queries, {draws} picked"
        event = Event(choice.kind, what, paid, share.currency, moved=moved, scale=choice.scale, draws=draws)
        return event, choice

    def _noisy(self, truths: Sequence[Integers], noises: Sequence[Noise]) -> list[Integers | Floats]:
        """Noisy answers in counts; equal noise is drawn at once."""
        noisy: dict[int, Integers | Floats] = {}
        for noise in dict.fromkeys(noises):
            places = [i for i, other in enumerate(noises) if other == noise]
            together = np.concatenate([truths[i].ravel() for i in places])
            drawn = self._randomness.noisy(together, noise)
            ends = np.cumsum([truths[i].size for i in places])
            for i, piece in zip(places, np.split(drawn, ends[:-1]), strict=True):
                noisy[i] = noise.in_counts(piece.reshape(truths[i].shape))
        return [noisy[i] for i in range(len(noises))]


@dataclass(frozen=True)
class NoisyValues:
    """The values of a column that enough persons have."""

    persons: dict[Any, Fraction]  # about how many persons have each
    threshold: Fraction  # the number, noise included, from which a value is told
    noise: Noise


def _paid(cost: Fraction | None, share: Budget) -> Fraction:
    """What is charged for something bought with `share`: the share, for it costs no more."""
    # It is less by a rounding at most; shares add up to the whole, and costs would not. What tells nothing is free.
    if cost is None or cost > share.amount:
        raise AssertionError("it costs more than the share that bought it")
    return share.amount if cost else Fraction(0)


def _described(query: Query) -> str:
    """What is asked, in public words."""
    parts = (f"{name}: {part!r}" for name, part in zip(query.clique, query.parts, strict=True))
    names = ", ".join(query.clique) if query.is_marginal else ", ".join(parts)
    return f"marginal of ({names})" if query.is_marginal else f"product of ({names})"


def _allowed_places(
    score: Score, queries: Sequence[Query], allowed: NDArray[np.bool_] | None
) -> NDArray[np.int64] | None:
    if allowed is None:
        return None
    candidates = score.candidates(queries)
    if allowed.shape != (candidates,) or allowed.dtype != np.bool_ or not allowed.any():
        raise OptionError("allowed", f"one true or false for each of {candidates} candidates, not all false")
    return np.flatnonzero(allowed).astype(np.int64)
