"""Session: what a mechanism asks of, live or replayed from the transcript of a run that ended early.

A live one, the `Curator`, pays and looks. A replayed one compares each question with the one that was answered, and
ends where the answers end, so that a mechanism is resumed by running it again.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from priory.data.sources.source import ROW_LIMIT
from priory.errors import ReleaseError
from priory.privacy.budget import Budget
from priory.privacy.choice import ChoiceKind
from priory.privacy.encoding import query_digest
from priory.privacy.functionals import Functional, NoisyNumber
from priory.privacy.journal import Answered, Numbered, Paid, Picked, PublicTotal, Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Noise, NoiseKind, noise_within
from priory.privacy.scores import Neighbours, Pick, Score
from priory.privacy.statement import Statement
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Numbers
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity, sensitivity
from priory.version import __version__

ALONE = "to model its noisy answers alone, use recover(…, alone=True) or priory estimate --alone"
_Result = TypeVar("_Result", Answered, Picked, Numbered)


class Ended(Exception):
    """The answers of a replayed session end here; see `asking`."""


def asking() -> suppress:
    """The part of a mechanism that asks: where the answers of a replay end, the code after it goes on.

    What is assigned before and in it is what was known by then, of which the release is made. Whatever asks again
    after the end is ended again.

    >>> fitted = "nothing"
    >>> with asking():
    ...     fitted = "one-way marginals"
    ...     raise Ended
    >>> fitted
    'one-way marginals'
    """
    return suppress(Ended)


class Session(Protocol):
    """Answers a mechanism's questions.

    Attributes:
        domain: the attributes, which are public.
        row_limit: how many rows the source declares, which is public: answers have room for as many.
        impossible: cells of some cliques that no row can be in, as the schema says: public, and no reason to look.
    """

    domain: Domain
    row_limit: int
    impossible: tuple[tuple[Clique, NDArray[np.bool_]], ...]

    @property
    def budget(self) -> Budget:
        """What the whole run may spend."""

    @property
    def public_total(self) -> int | None:
        """The number of rows where that is public: under replace-one with one row a person; else None."""

    @property
    def relation(self) -> Relation:
        """Which tables are neighbours."""
        return Relation(self.budget.relation)

    @property
    def has_public_total(self) -> bool:
        """Whether the number of rows is public."""
        return self.relation is Relation.REPLACE_ONE and self.budget.max_rows == 1

    @property
    def public_count(self) -> tuple[Measurement, ...]:
        """The number of rows as a measurement without noise, where it is public."""
        total = self.public_total
        return () if total is None else (Measurement.of(Query.marginal(self.domain, ()), np.array(total), 0.0),)

    def statement(self, mechanism: str) -> Statement:
        """What is promised about a release made in this session."""

    def report_progress(self, number: int, of: int | None = None, note: str = "") -> None:
        """Report that round `number` begins, of how many where that is known, with what was paid so far."""

    def check(self, budget: Budget) -> None:
        """Refuse a budget that is more than is left, for mechanisms that may end before they have spent it."""

    def answer(
        self, queries: Sequence[Query], shares: Sequence[Budget], *, noise: NoiseKind | None = None
    ) -> tuple[Measurement, ...]:
        """Pay a share for each query, then answer them with the least noise that it buys.

        Where the shares are more than is left, it is a `BudgetError`, and nothing was looked at.
        """

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
            kind: how to pick; by default the sharper way for the currency.

        Raises:
            BudgetError: the share is more than is left. Nothing was looked at.
        """

    def number(self, functional: Functional, share: Budget) -> NoisyNumber:
        """Pay, then release one number about the whole table, with noise.

        Where the share is more than is left, it is a `BudgetError`, and nothing was looked at.
        """


class Replayed(Session):
    """A session that answers what a run was answered until it ended, if it is asked the same.

    Each answer must be to the query that is asked, with the noise that its share buys; each pick must be among the
    candidates and have cost the share; each payment must be what that costs. Otherwise it is a `ReleaseError`. Picks
    are found by what they ask, so that a list of candidates may be in another order on another machine.
    """

    def __init__(
        self,
        transcript: Transcript,
        statement: Statement,
        domain: Domain,
        *,
        impossible: Sequence[tuple[Clique, NDArray[np.bool_]]] = (),
        row_limit: int = ROW_LIMIT,
    ) -> None:
        if statement.version != __version__:
            said = f"the run was made with priory {statement.version}, and this is {__version__}"
            raise ReleaseError(f"{said}, which may ask otherwise; resume it with that version, or {ALONE}")
        self.domain = domain
        self.row_limit = row_limit
        self.impossible = tuple(impossible)
        self._statement = statement
        self._public_total = transcript.public_total
        self._entries = iter([entry for entry in transcript.entries if not isinstance(entry, PublicTotal)])
        self._number = 0
        self._spent = Fraction(0)

    @property
    def budget(self) -> Budget:
        return self._statement.budget

    @property
    def public_total(self) -> int | None:
        if not self.has_public_total:
            return None
        if self._public_total is None:
            raise Ended
        return self._public_total

    def statement(self, mechanism: str) -> Statement:
        return replace(self._statement, mechanism=mechanism)

    def report_progress(self, number: int, of: int | None = None, note: str = "") -> None:
        """Nobody waits for it."""

    def check(self, budget: Budget) -> None:
        """The run was let pass."""

    def answer(
        self, queries: Sequence[Query], shares: Sequence[Budget], *, noise: NoiseKind | None = None
    ) -> tuple[Measurement, ...]:
        sizes = [sensitivity(query, self.relation, self.budget.max_rows) for query in queries]
        noises = [noise_within(share, size, noise) for share, size in zip(shares, sizes, strict=True)]
        answered = self._next(Answered, _cost(noises, shares)).measurements
        if [(m.query, m.noise) for m in answered] != list(zip(queries, noises, strict=True)):
            self._refuse()
        return tuple(Measurement(m.query, m.values, m.noise.stddev, m.noise) for m in answered if m.noise is not None)

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
        moved = score.sensitivity(queries, self._neighbours, max(self.row_limit, ROW_LIMIT))
        picked = self._next(Picked, share.amount if moved else Fraction(0))
        if picked.share != share.amount or not len(picked.picks) == len(picked.queries) == draws:
            self._refuse()
        found = zip(picked.picks, picked.queries, strict=True)
        return tuple(self._candidate(pick, digest, queries, score, allowed) for pick, digest in found)

    def number(self, functional: Functional, share: Budget) -> NoisyNumber:
        steps = functional.sensitivity(self._neighbours)
        noise = noise_within(share, Sensitivity(steps, steps**2))
        number = self._next(Numbered, _cost([noise], [share])).number
        if number.noise != noise:
            self._refuse()
        return replace(number, stddev=2.0**-functional.bits * noise.stddev)

    def check_finished(self) -> None:
        """Refuse a transcript in which more was asked."""
        self._number += 1
        if next(self._entries, None) is not None:
            self._refuse()

    @property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.relation, self.budget.max_rows, None)

    def _next(self, kind: type[_Result], cost: Fraction) -> _Result:
        """The next result, which must be of this kind, and have been paid by so much."""
        paid, result = next(self._entries, None), next(self._entries, None)
        self._number += 1
        self._spent += cost
        if paid is None:
            raise Ended
        if not isinstance(paid, Paid) or paid.spent != self._spent:
            self._refuse()
        # A batch that was paid and lost.
        if result is None:
            raise Ended
        if not isinstance(result, kind):
            self._refuse()
        return result

    def _candidate(
        self, pick: Pick, digest: str, queries: Sequence[Query], score: Score, allowed: NDArray[np.bool_] | None
    ) -> Pick:
        """The pick among these candidates."""
        numbers = [number for number in (pick.query, *range(len(queries))) if 0 <= number < len(queries)]
        number = next((number for number in numbers if query_digest(queries[number]) == digest), None)
        if number is None:
            self._refuse()
        pick = replace(pick, query=number)
        place = score.place(queries, pick)
        is_one = 0 <= place < score.candidates(queries) and score.pick(queries, place) == pick
        if not is_one or (allowed is not None and not allowed[place]):
            self._refuse()
        return pick

    def _refuse(self) -> NoReturn:
        said = f"result {self._number} of the run does not answer what the mechanism asks there"
        how = "its file was changed, or it had another mechanism or other settings"
        raise ReleaseError(f"{said}: {how}; give the mechanism as it was, or {ALONE}")


def _cost(noises: Sequence[Noise], shares: Sequence[Budget]) -> Fraction:
    """What the curator charges for it; what tells nothing needs no noise, and is free."""
    each = zip(noises, shares, strict=True)
    return sum((share.amount for noise, share in each if noise.scale), Fraction(0))
