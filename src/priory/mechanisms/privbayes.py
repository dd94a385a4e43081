"""PrivBayes: a Bayesian network chosen privately, its families measured, and rows drawn along it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.steps.total import counted, released_total
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.sampling import Seed
from priory.model.tilted import row_cells
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace, noise_within
from priory.privacy.scores import Dependence
from priory.privacy.session import Session, asking
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity
from priory.release import Release
from priory.select.parent_sets import parent_sets

# A family has no more cells than this, however large the budget.
LARGEST_FAMILY = 10**6

Family = tuple[str, Clique]


@dataclass(frozen=True, kw_only=True)
class PrivBayes:
    """PrivBayes with the L1 score [Zhang, Cormode, Procopiuc, Srivastava & Xiao 2017].

    Half of the budget picks the parents of each attribute, half measures the families in equal shares. The release
    holds the families in the order of the network: each brings one new attribute, the child.

    Attributes:
        usefulness: θ: the average count of a family's cells is at least θ times their average noise.
        structure: the share of the budget that picks parents.
        candidates: how many families are compared at most in a step; beyond that parent sets are drawn by `seed`.
        estimator: "network", rows drawn along the network as published, or "graphical", a graphical model of the noisy
            families.
        seed: for the first attribute, parent sets and the rows drawn; it protects nobody.
    """

    usefulness: float = 4.0
    structure: Fraction = Fraction(1, 2)
    candidates: int = 1000
    estimator: Literal["network", "graphical"] = "network"
    seed: int = 0

    @property
    def choice_share(self) -> Fraction:
        return Fraction(self.structure)

    def run(self, session: Session, budget: Budget) -> Release:
        """Pick a network, then measure its families."""
        if not self.usefulness > 0 or self.candidates < 1 or not 0 < self.structure < 1:
            raise OptionError("PrivBayes", f"usefulness and candidates are above 0, structure is a share; got {self}")
        if self.estimator not in ("network", "graphical"):
            raise OptionError("estimator", f"'network' or 'graphical'; got {self.estimator!r}")
        count = counted(session, budget)
        learning, measuring = count.rest.split([self.structure, 1 - self.structure])
        most_cells = useful_cells(count.total, measuring.part(Fraction(1, len(session.domain))), self.usefulness)
        measurements: list[Measurement] = []
        with asking():
            families, spent = self._network(session, learning, most_cells)
            queries = [Query.marginal(session.domain, (child, *parents)) for child, parents in families]
            # What was not needed to pick parents, because nothing could have any, makes the families less noisy.
            measurements = measure(session, queries, measuring.worth(count.rest.amount - spent))
        name = "privbayes" if self.estimator == "network" else "privbayes+pgm"
        release = Release(session.domain, (count.measurement, *measurements), session.statement(name))
        # A graphical model is what any release gets by default, and one without families has no network to draw along.
        is_drawn = self.estimator == "network" and bool(measurements)
        return release.with_model(network_model(release, seed=self.seed)) if is_drawn else release

    def _network(self, session: Session, learning: Budget, most_cells: float) -> tuple[list[Family], Fraction]:
        """The families in order, and what picking them cost."""
        domain, rng = session.domain, np.random.default_rng(self.seed)
        first = domain.attributes[int(rng.integers(len(domain)))]
        families: list[Family] = [(first, ())]
        spent = Fraction(0)
        for share in learning.split([1] * (len(domain) - 1)) if len(domain) > 1 else ():
            options = self._options(domain, [child for child, _ in families], most_cells, rng)
            if any(parents for _, parents in options):
                queries = [Query.marginal(domain, (child, *parents)) for child, parents in options]
                [pick] = session.choose(queries, [], Dependence(tuple(child for child, _ in options)), share)
                families.append(options[pick.query])
                spent += share.amount
            else:
                families.append(options[0])
        return families, spent

    def _options(
        self, domain: Domain, chosen: Sequence[str], most_cells: float, rng: np.random.Generator
    ) -> list[Family]:
        """Every new attribute with every largest set of parents that is still useful, or as many as are compared."""
        children = [name for name in domain if name not in chosen]
        each = max(1, self.candidates // len(children))
        sets = {child: parent_sets(domain.project(chosen), most_cells / domain[child], each, rng) for child in children}
        return [(child, parents) for child, every in sets.items() for parents in every]


def useful_cells(total: float, share: Budget, usefulness: float) -> float:
    """How many cells a family may have: total/(θ·average noise), which is nε₂/(2dθ) for Laplace and replace-one."""
    anything = Query.marginal(Domain.of({"child": 2}), "child")
    noise = noise_within(share, sensitivity(anything, share.relation, share.max_rows))
    average = float(noise.scale) * (1.0 if isinstance(noise, Laplace) else math.sqrt(2 / math.pi))
    return min(total / (usefulness * average), LARGEST_FAMILY)


def network_model(release: Release, *, seed: Seed = None) -> Model:
    """As many rows as the release says there are, drawn along its network from clipped conditionals [PrivBayes]."""
    total = released_total(release.measurements)
    families = [m for m in release.measurements if m.query.clique]
    rows = network_rows(release.domain, families, max(1, round(total)), np.random.default_rng(seed))
    return Model(PublicRows(rows, release.domain), {}, total)


def network_rows(
    domain: Domain, families: Sequence[Measurement], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`n` rows, an attribute at a time: each family has one that is not drawn yet, given those that are."""
    rows = np.zeros((n, len(domain)), dtype=np.int64)
    drawn: set[str] = set()
    for measurement in families:
        clique = measurement.query.clique
        [child] = [name for name in clique if name not in drawn]
        parents = tuple(name for name in clique if name != child)
        axis = measurement.query.domain.axis[child]
        chances = conditional(np.moveaxis(np.asarray(measurement.values, dtype=np.float64), axis, -1))
        group = row_cells(rows, domain, parents)
        # Cumulative chances of group g, moved up by g, are one ascending list over all groups.
        steps = chances.reshape(-1, domain[child]).cumsum(axis=1)
        steps[:, -1] = 1.0
        ladder = (steps + np.arange(len(steps))[:, None]).ravel()
        position = np.searchsorted(ladder, group + rng.random(n), side="right")
        rows[:, domain.axis[child]] = np.minimum(position - group * domain[child], domain[child] - 1)
        drawn.add(child)
    return rows


def conditional(counts: Array) -> Array:
    """Chances along the last axis: negative counts are 0, and where nothing is left all values are alike."""
    clipped = np.maximum(counts, 0.0)
    mass = clipped.sum(axis=-1, keepdims=True)
    uniform = np.full(counts.shape, 1 / counts.shape[-1])
    return np.asarray(np.divide(clipped, mass, out=uniform, where=mass > 0))
