"""Curator: the only object that holds private counts; it works out the sensitivity, pays, and only then looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from priory.data.source import Source, checked_cliques
from priory.domain import Clique
from priory.errors import BudgetError, DomainError, OptionError
from priory.privacy.budget import Budget, short
from priory.privacy.choice import ChoiceKind, choice_within
from priory.privacy.functionals import Functional, LargestCell, MixtureError, NoisyNumber
from priory.privacy.journal import Answered, Forgetful, Journal, Numbered, Paid, Picked, PublicTotal
from priory.privacy.ledger import Event, Reservation
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Integers, Noise, NoiseKind, noise_within
from priory.privacy.progress import Progress, Step, silent
from priory.privacy.randomness import OperatingSystem, Randomness
from priory.privacy.scores import AbsoluteError, Dependence, L1Error, Neighbours, Payoff, Pick, Score
from priory.privacy.statement import Statement
from priory.queries.parts import (
    Identity,
    Matrix,
    Mean,
    Moments,
    Numbers,
    Point,
    Prefix,
    Range,
    Recode,
    Set,
    Total,
)
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity, entry_range, sensitivity

PARTS = (Identity, Total, Point, Set, Range, Prefix, Recode, Mean, Moments, Matrix)
SCORES = (AbsoluteError, L1Error, Dependence, Payoff)
FUNCTIONALS = (LargestCell, MixtureError)
# Answers must fit 62 bits for tables of up to 2^32 rows.
LARGEST_ENTRY = 2**30
# Answers that were looked at are kept, to be scored again, up to this many cells.
MOST_KEPT = 2**28


class Curator:
    """A reservation and a source together.

    No method takes or returns a private value; a printed curator shows none.

    Attributes:
        reservation: what pays.
        domain: the attributes, which are public.
        impossible: cells of some cliques that no row can be in, as the schema says: public, and no reason to look.
    """

    def __init__(
        self,
        reservation: Reservation,
        source: Source,
        *,
        randomness: Randomness | None = None,
        progress: Progress = silent,
        impossible: Sequence[tuple[Clique, NDArray[np.bool_]]] = (),
        journal: Journal | None = None,
    ) -> None:
        self.reservation = reservation
        self.domain = source.domain
        self.impossible = tuple(impossible)
        self._source = source
        self._randomness: Randomness = OperatingSystem() if randomness is None else randomness
        self._progress = progress
        self._journal: Journal = Forgetful() if journal is None else journal
        self._public_total: int | None = None
        self._kept: dict[Query, Integers] = {}
        self._checked: set[Query] = set()

    def __repr__(self) -> str:
        return f"Curator({self.reservation!r}, {len(self.domain)} attributes)"

    def __reduce__(self) -> str:
        raise TypeError("a curator holds private counts and is never written to a file")

    @property
    def budget(self) -> Budget:
        """What the whole run may spend."""
        return self.reservation.budget

    @property
    def left(self) -> Fraction:
        """What it may still spend, in the budget's currency."""
        return self.reservation.left

    @property
    def relation(self) -> Relation:
        """Which tables are neighbours."""
        return Relation.of(self.budget.relation)

    @property
    def public_total(self) -> int | None:
        """The number of rows where that is public: under replace-one with one row a person; else None."""
        if self.relation is not Relation.REPLACE_ONE or self.budget.max_rows > 1:
            return None
        if self._public_total is None:
            self._public_total = int(self._truths([Query.marginal(self.domain, ())])[0])
            self._journal.write(PublicTotal(self._public_total))
        return self._public_total

    def statement(self, mechanism: str) -> Statement:
        """What is promised about a release made with this curator."""
        # Only the operating system's counts as private, whatever another source says of itself.
        return Statement.of(self.reservation, mechanism, is_private=type(self._randomness) is OperatingSystem)

    def tell(self, number: int, of: int | None = None, note: str = "") -> None:
        """Say that round `number` begins, of how many where that is known, to whoever waits; what was paid is added."""
        self._progress(Step(number, of, self.reservation.spent, self.budget, note))

    def check(self, budget: Budget) -> None:
        """Refuse a budget that is more than is left, for mechanisms that may end before they have spent it.

        Raises:
            BudgetError: it is. Nothing was looked at.
        """
        self._check_share(budget)
        if budget.amount > self.left:
            letter = budget.currency.letter
            raise BudgetError(
                f"{letter} = {short(budget.amount)} is asked for and {letter} = {short(self.left)} is left. "
                "Nothing was looked at",
                asked=budget.amount,
                left=self.left,
            )

    def answer(
        self, queries: Sequence[Query], shares: Sequence[Budget], *, noise: NoiseKind | None = None
    ) -> tuple[Measurement, ...]:
        """Pay a share for each query, then answer them with the least noise that it buys.

        Raises:
            BudgetError: the shares are more than is left. Nothing was looked at.
        """
        if len(shares) != len(queries):
            raise OptionError("shares", f"{len(shares)} were given for {len(queries)} queries")
        self._check_queries(queries)
        for share in shares:
            self._check_share(share)
        requests = [self._request(query, share, noise) for query, share in zip(queries, shares, strict=True)]
        self._journal.make_room(queries)
        self._charge([request.event for request in requests])
        noisy = self._noisy(self._truths(queries), [request.noise for request in requests])
        measurements = tuple(
            Measurement(request.query, values, request.noise.stddev, request.noise)
            for request, values in zip(requests, noisy, strict=True)
        )
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
        """Pay, then pick candidates with high scores, `draws` of them independently; none of the scores is shown.

        Args:
            queries: what the candidates ask.
            estimates: the model's answers to each query, in rows; public.
            score: what they are compared by.
            share: what all the draws cost together.
            allowed: which candidates may be picked, one for each score; from public knowledge only.
            draws: how many to pick, each out of all.
            kind: how to pick; unless told, the sharper way for the currency.

        Raises:
            BudgetError: the share is more than is left. Nothing was looked at.
        """
        self._check_queries(queries)
        self._check_share(share)
        if type(score) not in SCORES:
            raise OptionError("score", f"the list of scores is closed: {', '.join(kind.__name__ for kind in SCORES)}")
        score.check(queries, estimates)
        if draws < 1:
            raise OptionError("draws", f"at least one; got {draws}")
        places = _allowed_places(score, queries, allowed)
        sensitivity_in_steps = score.sensitivity(queries, self._neighbours(score))
        choice = choice_within(share.part(Fraction(1, draws)), sensitivity_in_steps, kind)
        what = f"{score.kind} of {len(queries)} queries, {draws} picked"
        self._journal.make_room((), draws)
        self._charge([Event(choice.kind, what, share.amount if sensitivity_in_steps else Fraction(0))])
        scores = score.scores(queries, self._scored_truths(queries, score), estimates)
        candidates = scores if places is None else scores[places]
        picked = self._randomness.picks(candidates, choice, draws)
        picks = tuple(score.pick(queries, i if places is None else int(places[i])) for i in picked)
        self._journal.write(Picked(picks, share.amount))
        return picks

    def number(self, functional: Functional, share: Budget) -> NoisyNumber:
        """Pay, then release one number about the whole table, with noise.

        Raises:
            BudgetError: the share is more than is left. Nothing was looked at.
        """
        if type(functional) not in FUNCTIONALS:
            closed = ", ".join(kind.__name__ for kind in FUNCTIONALS)
            raise OptionError("functional", f"the list of functionals is closed: {closed}")
        self._check_queries(functional.queries)
        self._check_share(share)
        neighbours = Neighbours(self.relation, self.budget.max_rows, None)
        functional.check(neighbours)
        steps = functional.sensitivity(neighbours)
        noise = noise_within(share, Sensitivity(steps, steps**2))
        self._journal.make_room((), 1)
        self._charge([Event(noise.kind, functional.kind, share.amount if steps else Fraction(0))])
        truth = np.array([functional.value(self._truths(functional.queries))], dtype=np.int64)
        scale = 2.0**-functional.bits
        number = NoisyNumber(scale * int(self._noisy([truth], [noise])[0][0]), scale * noise.stddev, noise)
        self._journal.write(Numbered(number))
        return number

    def _charge(self, events: Sequence[Event]) -> None:
        """Pay in the ledger, then note it in the journal: what is looked at afterwards is covered by both."""
        self.reservation.charge(events)
        self._journal.write(Paid(self.reservation.spent))

    def _neighbours(self, score: Score) -> Neighbours:
        total = self.public_total if isinstance(score, Dependence) else None
        return Neighbours(self.relation, self.budget.max_rows, total)

    def _check_queries(self, queries: Sequence[Query]) -> None:
        """Everything that could go wrong with them later, for later something is paid."""
        # A workload is asked about in every round, and checked in the first.
        new = [query for query in dict.fromkeys(queries) if query not in self._checked]
        for query in new:
            self._check_query(query)
        checked_cliques(self.domain, list(dict.fromkeys(query.clique for query in new)))
        self._checked.update(new)

    def _check_query(self, query: Query) -> None:
        if type(query) is not Query:
            raise OptionError(
                "queries", f"a query is a Query and nothing derived from it; got a {type(query).__name__}"
            )
        if self.domain.project(self.domain.checked(query.clique)) != query.domain:
            raise DomainError(f"a query over {query.clique} has sizes {query.domain.shape} unlike the data's")
        if any(type(part) not in PARTS for part in query.parts):
            # Another part could answer something else than the matrix that its sensitivity is worked out from.
            raise OptionError("queries", "a part of one's own must be a Matrix")
        for part, size in zip(query.parts, query.domain.shape, strict=True):
            # A query that was put together without `Query.product` has not been checked: a code of −1 counts twice.
            part.check(size)
        if not query.is_integer:
            raise OptionError("queries", "noise is added to integers; use query.on_lattice(bits) for real entries")
        if max(map(abs, entry_range(query))) > LARGEST_ENTRY:
            raise OptionError("queries", "an entry is above 2^30; use a lattice of fewer bits")

    def _check_share(self, share: Budget) -> None:
        mine = self.budget
        if share.amount <= 0:
            raise OptionError("share", f"something above 0 must be paid; got {share}")
        if (share.is_pure, share.relation, share.max_rows) != (mine.is_pure, mine.relation, mine.max_rows):
            raise OptionError(
                "share", f"{share} is no part of this run's budget, {mine}; use budget.split or budget.part"
            )

    def _request(self, query: Query, share: Budget, kind: NoiseKind | None) -> "_Request":
        size = sensitivity(query, share.relation, share.max_rows)
        noise = noise_within(share, size, kind)
        cost = noise.cost(size, is_pure=share.is_pure)
        if cost is None or cost > share.amount:
            raise AssertionError("noise costs more than the share that bought it")
        # The share is charged rather than the cost, which is smaller by a rounding: shares add up to the whole.
        event = Event(noise.kind, _described(query), share.amount if cost else Fraction(0))
        return _Request(query, noise, event)

    def _scored_truths(self, queries: Sequence[Query], score: Score) -> list[Integers]:
        if isinstance(score, Payoff):
            return self._truths([*queries, Query.marginal(self.domain, ())])
        return self._truths(queries)

    def _truths(self, queries: Sequence[Query]) -> list[Integers]:
        """The true answers: private, paid for by the caller."""
        missing = [query for query in dict.fromkeys(queries) if query not in self._kept]
        if not missing:
            return [self._kept[query] for query in queries]
        fresh: dict[Query, Integers] = {}
        cliques = list(dict.fromkeys(query.clique for query in missing))
        tables = dict(zip(cliques, self._source.count(cliques), strict=True))
        for query in missing:
            fresh[query] = query(tables[query.clique].values.astype(np.int64, copy=False))
        if sum(values.size for values in (*self._kept.values(), *fresh.values())) <= MOST_KEPT:
            self._kept.update(fresh)
        return [fresh[query] if query in fresh else self._kept[query] for query in queries]

    def _noisy(self, truths: Sequence[Integers], noises: Sequence[Noise]) -> list[Integers]:
        """Noise on every answer; equal noise is drawn at once."""
        noisy: dict[int, Integers] = {}
        for noise in dict.fromkeys(noises):
            places = [i for i, other in enumerate(noises) if other == noise]
            together = np.concatenate([truths[i].ravel() for i in places])
            drawn = self._randomness.noisy(together, noise)
            ends = np.cumsum([truths[i].size for i in places])
            for i, piece in zip(places, np.split(drawn, ends[:-1]), strict=True):
                noisy[i] = piece.reshape(truths[i].shape)
        return [noisy[i] for i in range(len(noises))]


@dataclass(frozen=True)
class _Request:
    query: Query
    noise: Noise
    event: Event


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
