"""Quality: which columns and pairs of a release are above the noise, worked out without any private row."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.answer.association import cramers_v, pair_tables
from priory.answer.basis import Basis, ScaledQuery
from priory.answer.intervals import noise_left
from priory.answer.redrawing import Redrawing
from priory.data.cells import Cells
from priory.data.kinds import ModelledColumn
from priory.data.table import Table
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.queries.query import Query

ABOVE, DOMINATED = "above the noise", "dominated by noise"
INFERRED, UNMEASURED = "inferred", "not measured"
# A cell is clear of the noise at so many standard errors, and a column where this share of its rows is in such cells.
CLEAR, LEAST_CLEAR = 2.0, 0.5
# A pair is above the noise where noise alone would look as dependent as this rarely.
CHANCE = 1e-3
# How many pairs that were measured are judged, and how many of the others are named; V of more pairs takes long.
MOST_MEASURED, MOST_OTHERS, MOST_COMPARED = 300, 10, 1000
MOST_CELLS = 1_000_000
# The mean absolute value of a normal variable of standard deviation 1.
_MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
# How many names a sentence has, and how many digits a judgement is worth.
_NAMED, _DIGITS = 6, 4


@dataclass(frozen=True)
class Judged:
    """What is known of the quality of a column or a pair."""

    names: Clique  # the column, or the two
    verdict: str  # one of the words above
    strength: float | None = None  # Cramér's V of a pair in the model
    error: float | None = None  # which share of the rows to expect in a wrong cell: a total variation distance
    clear: float | None = None  # which share of the rows is in cells clear of the noise


@dataclass(frozen=True)
class Quality:
    """The judgements of a release's columns and pairs."""

    columns: tuple[Judged, ...]
    pairs: tuple[Judged, ...]  # the measured ones, the strongest first, and the strongest of the others
    alone: tuple[str, ...]  # the columns that nothing ties to any other

    @property
    def notes(self) -> tuple[str, ...]:
        """The same in a few sentences."""
        columns = _counted(self.columns)
        sentences = [f"{columns[ABOVE]:,} of {len(self.columns):,} columns are above the noise"]
        measured = [pair for pair in self.pairs if pair.verdict in (ABOVE, DOMINATED)]
        if measured:
            pairs = _counted(measured)
            sentences[0] += f", and {pairs[ABOVE]:,} of {len(measured):,} measured pairs"
        noisy = [" × ".join(each.names) for each in (*self.columns, *measured) if each.verdict == DOMINATED]
        if noisy:
            sentences.append(f"dominated by noise: {_few(noisy)}")
        missing = [each.names[0] for each in self.columns if each.verdict == UNMEASURED]
        if missing:
            sentences.append(f"not measured: {_few(missing)}")
        if self.alone:
            sentences.append(
                f"nothing ties these to another column, they are independent by assumption: {_few(self.alone)}"
            )
        return tuple(sentences)

    def table(self) -> Table:
        """A row for each column and pair, with the sentences as notes."""
        judged = (*self.columns, *self.pairs)
        return Table(
            {
                "column": Cells.objects(each.names[0] for each in judged),
                "with": _texts([each.names[1] if len(each.names) > 1 else None for each in judged]),
                "strength": _numbers([each.strength for each in judged]),
                "error": _numbers([each.error for each in judged]),
                "clear": _numbers([each.clear for each in judged]),
                "verdict": Cells.objects(each.verdict for each in judged),
            },
            self.notes,
        )


def quality(basis: Basis, redrawing: Redrawing, *, redraw: bool = False) -> Quality:
    """Judge columns and pairs by the noise of what was measured; with `redraw`, by redrawn noise, which is slower."""
    domain, evidence = redrawing.domain, redrawing.measurements
    columns, pairs = basis.schema.modelled, _measured_pairs(evidence)
    queries = [Query.marginal(domain, (column.name,)) for column in columns]
    queries += [Query.marginal(domain, pair) for pair in pairs]
    noise = [_noise(query, evidence) for query in queries]
    errors = _redrawn(basis, queries) if redraw else noise
    judged = [
        _judged(query, answer, sd, error, evidence)
        for query, answer, sd, error in zip(queries, redrawing.model.answers(queries), noise, errors, strict=True)
    ]
    measured = sorted(judged[len(columns) :], key=lambda each: -(each.strength or 0.0))
    others = _others(redrawing, columns, set(pairs))
    return Quality(tuple(judged[: len(columns)]), (*measured, *others), tuple(redrawing.ties.alone()))


def _judged(
    query: Query, answer: Array, noise: Array | None, errors: Array | None, evidence: Sequence[Measurement]
) -> Judged:
    strength = cramers_v(answer) if len(query.clique) == 2 else None
    if noise is None:
        return Judged(query.clique, UNMEASURED, strength)
    total = max(1.0, float(np.maximum(answer, 0.0).sum()))
    clear = float(answer[answer >= CLEAR * noise].sum() / total)
    above = clear >= LEAST_CLEAR if strength is None else is_dependent(query, answer, noise, evidence)
    error = None if errors is None else min(1.0, 0.5 * _MEAN_ABSOLUTE * float(errors.sum()) / total)
    return Judged(query.clique, ABOVE if above else DOMINATED, strength, error, min(1.0, clear))


def _noise(query: Query, evidence: Sequence[Measurement]) -> Array | None:
    """The standard error of a marginal's cells if all that was measured of them is averaged; None where nothing was."""
    precision = np.zeros(query.shape)
    for each in evidence:
        # A few numbers about the columns, such as a mean, do not tell their cells apart.
        if set(query.clique) <= set(each.query.clique) and each.query.rows >= query.rows:
            precision = precision + 1 / noise_left(query, each) ** 2
    return np.asarray(1 / np.sqrt(precision)) if precision.any() else None


def _redrawn(basis: Basis, queries: Sequence[Query]) -> list[Array | None]:
    """The standard error of answers as redraws of the noise show it, with what they do not show."""
    found = []
    for drawn in basis.drawn([ScaledQuery(query) for query in queries]):
        spread = np.mean((drawn.repeats - drawn.estimate) ** 2, axis=0) if len(drawn.repeats) else 0.0
        error = np.sqrt(spread + drawn.hidden**2)
        found.append(None if np.isnan(error).any() else error)
    return found


def is_dependent(query: Query, answer: Array, noise: Array, evidence: Sequence[Measurement]) -> bool:
    """Whether noisy counts of a pair depart from independence by more than noise would.

    D = y − rcᵀ/n = (I − p1ᵀ) y (I − 1qᵀ) for counts y with row and column shares p and q. Of independent columns D is
    that map of the noise alone, and ΣD²/σ² is about a multiple of a χ² variable with the same mean and variance.
    """
    from scipy.special import gammaincc

    counts = _noisy_counts(query, evidence)
    y, sd = (answer, noise) if counts is None else counts
    variance = float(np.mean(sd**2))
    n = max(1.0, float(y.sum()))
    shares = [np.clip(y.sum(axis=axis) / n, 0.0, 1.0) for axis in (1, 0)]
    square = float(((y - np.outer(y.sum(axis=1), y.sum(axis=0)) / n) ** 2).sum()) / variance
    maps = [np.eye(len(share)) - share[:, None] for share in shares]
    mean = math.prod(float((each**2).sum()) for each in maps)
    spread = math.prod(float(((each @ each.T) ** 2).sum()) for each in maps)
    return bool(gammaincc(mean**2 / spread / 2, square * mean / spread / 2) < CHANCE) if spread > 0 else False


def _noisy_counts(query: Query, evidence: Sequence[Measurement]) -> tuple[Array, Array] | None:
    """The least noisy counts of a marginal's cells, and their standard deviation; None where no marginal has them."""
    able = [m for m in evidence if m.query.is_marginal and set(query.clique) <= set(m.query.clique)]
    if not able:
        return None
    best = min(able, key=lambda m: float(np.mean(noise_left(query, m))))
    others = tuple(i for i, name in enumerate(best.query.clique) if name not in query.clique)
    return np.asarray(best.values.sum(axis=others), dtype=np.float64), noise_left(query, best)


def _measured_pairs(evidence: Sequence[Measurement]) -> list[Clique]:
    pairs: dict[Clique, None] = {}
    for each in evidence:
        for pair in itertools.combinations(each.query.clique, 2):
            if each.query.domain.size_of(pair) <= MOST_CELLS:
                pairs[pair] = None
    return list(pairs)[:MOST_MEASURED]


def _others(redrawing: Redrawing, columns: Sequence[ModelledColumn], measured: set[Clique]) -> list[Judged]:
    """The strongest pairs that were not measured but are tied together; none where there are too many to look at."""
    ties = redrawing.ties
    pairs = [
        pair
        for pair in itertools.combinations(columns, 2)
        if redrawing.domain.clique(each.name for each in pair) not in measured and ties.hold(each.name for each in pair)
    ]
    if len(pairs) > MOST_COMPARED:
        return []
    found = [
        Judged((one.name, other.name), INFERRED, cramers_v(table))
        for (one, other), table in zip(pairs, pair_tables(redrawing.model, pairs), strict=True)
    ]
    return sorted(found, key=lambda each: -(each.strength or 0.0))[:MOST_OTHERS]


def _counted(judged: Sequence[Judged]) -> dict[str, int]:
    return {verdict: sum(each.verdict == verdict for each in judged) for verdict in (ABOVE, DOMINATED)}


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _numbers(values: Sequence[float | None]) -> Cells:
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return Cells(np.round(np.nan_to_num(array), _DIGITS), np.isnan(array))


def _texts(values: Sequence[str | None]) -> Cells:
    return Cells(
        np.array([value or "" for value in values], dtype=object),
        np.array([value is None for value in values], dtype=bool),
    )
