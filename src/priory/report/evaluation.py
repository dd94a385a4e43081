"""Evaluation: how good a release is, judged by the private table itself, for use inside the house only.

This reads private rows and pays nothing, so nothing here is covered by any promise. Nothing of it goes into a release
or a report.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.answer.metrics import total_variation
from priory.answer.where import modelled
from priory.data.kinds import ModelledColumn
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from priory.data.table import text_table
from priory.errors import DomainError, ReleaseError
from priory.privacy.ledger import Ledger
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.work import stage

STAMP = "NOT PRIVATE: worked out from the private rows, which nobody paid for. Keep it inside the house."
# How many pairs are compared, and triples where no workload is given, spread evenly over all there are.
MOST_PAIRS, MOST_TRIPLES, MOST_CELLS = 300, 100, 1_000_000
# Rows that are learned from and tested on at most; groups of a column that can be learned.
MOST_ROWS, MOST_CLASSES = 50_000, 20
# Where a model learned from the true rows is hardly better than guessing, there is nothing to compare with.
LEAST_SKILL = 0.02
SHOWN = 10


@dataclass(frozen=True)
class Learned:
    """A test of learning: a classifier trained on synthetic rows and one trained on true rows, on true rows unseen."""

    target: str  # the column to be told from all others
    synthetic: float  # balanced accuracy after synthetic rows
    true: float  # the same after true rows
    guessing: float  # the same of guessing


@dataclass(frozen=True)
class Evaluation:
    """A release beside the true table. NOT PRIVATE.

    Attributes:
        columns: 1 − the total variation distance of each column.
        pairs: 1 − the total variation distance of each pair that was compared.
        workload: 1 − the error of the workload's answers, as a share of twice their size.
        learning: the test of learning, or why there is none.
    """

    columns: dict[str, float]
    pairs: dict[Clique, float]
    workload: float
    learning: Learned | str

    @property
    def parts(self) -> dict[str, float]:
        """What the score is the mean of: each from 0 to 1."""
        parts = {
            "column shapes": _mean(self.columns.values()),
            "pair trends": _mean(self.pairs.values()),
            "workload": self.workload,
        }
        if isinstance(self.learning, Learned):
            skill = (self.learning.synthetic - self.learning.guessing) / (self.learning.true - self.learning.guessing)
            parts["learning"] = float(np.clip(skill, 0, 1))
        return {name: value for name, value in parts.items() if np.isfinite(value)}

    @property
    def score(self) -> float:
        """From 0 to 100: the mean of the parts, in percent; NaN where there are no rows to compare with."""
        return 100 * _mean(self.parts.values())

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, with the stamp first."""
        learning = self.learning if isinstance(self.learning, str) else vars(self.learning)
        return {
            "stamp": STAMP,
            "score": round(self.score, 2) if self.parts else None,
            "parts": self.parts,
            "columns": self.columns,
            "pairs": [[*names, value] for names, value in self.pairs.items()],
            "learning": learning,
        }

    def __str__(self) -> str:
        said = (
            f"no test of learning: {self.learning}"
            if isinstance(self.learning, str)
            else f"learning {self.learning.target!r}: balanced accuracy {self.learning.synthetic:.3f} after synthetic "
            f"rows, {self.learning.true:.3f} after true ones, {self.learning.guessing:.3f} by guessing"
        )
        score = f"score: {self.score:.1f} of 100" if self.parts else "score: none, as there are no rows to compare with"
        columns: dict[Clique, float] = {(name,): value for name, value in self.columns.items()}
        worst = [each for some in (columns, self.pairs) for each in sorted(some.items(), key=itemgetter(1))[:SHOWN]]
        parts = text_table(["part", "of 100"], [[name, f"{100 * value:.1f}"] for name, value in self.parts.items()])
        listed = text_table(
            ["worst columns and pairs", "of 100"], [[" × ".join(n), f"{100 * v:.1f}"] for n, v in worst]
        )
        return "\n".join([STAMP, "", score, "", parts, "", said, "", listed, "", STAMP])

    __repr__ = __str__


def evaluate(
    release: Release,
    data: object,
    *,
    workload: Workload | None = None,
    target: str | None = None,
    ledger: Ledger | str | Path | None = None,
    unit: str | None = None,
    seed: int = 0,
) -> Evaluation:
    """Judge a release by the private table that it was made of. NOT PRIVATE: for use inside the house only.

    Args:
        release: the release.
        data: the private table: a path, a frame, a DuckDB relation or a source. It is read, and nothing is paid.
        workload: the queries that matter; by default up to 100 sets of three columns.
        target: the column that the test of learning is about; by default the last one with 2 to 20 values.
        ledger: the book of the release, so that the same rows of each person count.
        unit: the column that says which person a row is about; by default the ledger's, or without one the schema's.
        seed: of the synthetic rows and of the classifiers.

    Raises:
        ReleaseError: the release has no schema.
        DataError: the table cannot be read.
        DomainError: the table, or the workload, has other attributes.
    """
    learned = _target(release, target)
    workload = _triples(release) if workload is None else workload.checked(release.domain)
    source = private_source(release, data, ledger, unit)
    columns = _similarities(release, source, [(name,) for name in release.domain])
    with stage(0.1, 0.4, "comparing pairs"):
        pairs = _similarities(release, source, spread(release, 2, MOST_PAIRS))
    with stage(0.4, 0.6, "comparing the workload"):
        answered = _answered_well(release, source, workload)
    with stage(0.6, 1.0, "learning"):
        skill = _learned(release, source, learned, seed)
    return Evaluation({name: value for (name,), value in columns.items()}, pairs, answered, skill)


def private_source(
    release: Release, data: object, ledger: Ledger | str | Path | None = None, unit: str | None = None
) -> Source:
    """The rows of the private table that counted for a release, for the curator's own eyes."""
    if release.schema is None:
        raise ReleaseError("the release has no schema, so that no table can be compared with it")
    book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        book.check(schema=release.schema.dump(), person=book.terms.person)
    source = open_source(
        data,
        release.schema,
        unit=unit or (release.schema.person if book is None else book.terms.person),
        max_rows=release.statement.budget.max_rows,
        # Without the book nobody knows which rows of a person counted; any others will do for comparing.
        key=bytes(32) if book is None else book.secret,
    )
    if source.domain != release.domain:
        raise DomainError("the table's attributes are not the release's")
    return source


def spread(release: Release, ways: int, most: int) -> list[Clique]:
    """At most so many sets of columns, evenly from the first to the last, without those of very many cells."""
    every = itertools.combinations(release.domain, ways)
    cliques = [clique for clique in every if release.domain.size_of(clique) <= MOST_CELLS]
    places = np.linspace(0, len(cliques) - 1, min(most, len(cliques))).round().astype(int)
    return [cliques[i] for i in places.tolist()]


def distance(found: Array, truth: Array) -> float:
    """The total variation distance of counts; NaN where a side is empty."""
    found = np.maximum(found, 0.0)
    return total_variation(found, truth) if found.sum() > 0 and truth.sum() > 0 else float("nan")


def _triples(release: Release) -> Workload:
    ways = min(3, len(release.domain))
    return Workload.of(Query.marginal(release.domain, clique) for clique in spread(release, ways, MOST_TRIPLES))


def _similarities(release: Release, source: Source, cliques: Sequence[Clique]) -> dict[Clique, float]:
    return {
        clique: 1 - distance(release.model.project(clique).values, truth.values)
        for clique, truth in zip(cliques, source.count(cliques), strict=True)
    }


def _answered_well(release: Release, source: Source, workload: Workload) -> float:
    """The weighted mean over queries of 1 − ‖ŷ − y‖₁ / 2‖y‖₁, each at least 0; queries without a true answer aside."""
    values, weights = [], []
    found = release.model.answers(workload.queries)
    for query, weight, answer in zip(workload.queries, workload.weights, found, strict=True):
        [truth] = source.count([query.clique])
        wanted = query(truth.values)
        size = float(np.abs(wanted).sum())
        if size:
            values.append(max(0.0, 1 - float(np.abs(answer - wanted).sum()) / (2 * size)))
            weights.append(weight)
    return float(np.average(values, weights=weights)) if values else float("nan")


def _target(release: Release, name: str | None) -> ModelledColumn | None:
    if name is None:
        able = [each for each in release.columns.modelled if 2 <= each.size <= MOST_CLASSES]
        return able[-1] if able else None
    return modelled(release.columns, name, "target")


def _learned(release: Release, source: Source, target: ModelledColumn | None, seed: int) -> Learned | str:
    """Train on synthetic and on true rows, test on true rows that neither saw."""
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.metrics import balanced_accuracy_score
    except ImportError:
        return "scikit-learn is not installed: pip install 'priory[evaluate]'"
    codes = getattr(source, "codes", None)
    if target is None or len(release.domain) < 2:
        return f"no column has 2 to {MOST_CLASSES} values; name one as the target"
    if codes is None:
        return "the table is too large to be held in memory"
    rng = np.random.default_rng(seed)
    rows = np.stack(codes, axis=1)
    rows = rows[rng.permutation(len(rows))[: 2 * MOST_ROWS]]
    train, test = np.array_split(rows, 2)
    place = release.domain.axis[target.name]
    synthetic = release.model.sample(len(train), seed=seed)

    def accuracy(known: NDArray[Any]) -> float:
        labels, features = known[:, place], np.delete(known, place, axis=1)
        if len(np.unique(labels)) < 2:
            return 1 / max(1, len(np.unique(test[:, place])))
        learner = RandomForestClassifier(50, min_samples_leaf=3, random_state=seed).fit(features, labels)
        return float(balanced_accuracy_score(test[:, place], learner.predict(np.delete(test, place, axis=1))))

    classes = len(np.unique(test[:, place]))
    if len(train) < 2 or classes < 2:
        return f"the rows are too few, or all alike in {target.name!r}"
    found = Learned(target.name, accuracy(synthetic), accuracy(train), 1 / classes)
    if found.true - found.guessing < LEAST_SKILL:
        return f"nothing can be learned about {target.name!r}, even from the true rows; name another target"
    return found


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")
