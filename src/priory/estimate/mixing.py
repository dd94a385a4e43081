"""Mixing: public rows and rows drawn from a bought model, both weighted by the same answers, in one model.

How much of the mass the public rows get is decided by estimates of the error, all of them from noisy answers and public
rows:

- On the measured answers the error of a mixture w·P + (1 − w)·D is a parabola in w: Stein's estimate of it is
  Σ((y − wP − (1 − w)D)/σ)² − 1, and twice the degrees of freedom, w times those of P and (1 − w) times those of D.
- On triples that were not measured, P has the sampling error V of as many records as the public rows are worth, and D
  lies at a squared distance g from P, which is the sum of V and of its own error where the two are independent.

The product of the two is least. docs/studies/public-data.md says what other rules did.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.estimate.evidence import Evidence
from priory.estimate.prior_strength import POSTERIOR
from priory.model.bases import PublicRows
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array

# Shares of the public rows that are compared.
_SHARES = np.linspace(0.0, 1.0, 21)
# Shares below the first or above the second gain too little for what a wrong estimate of them can cost.
_LEAST, _MOST = 0.25, 0.9
# Triples that are compared, at most, and of how many cells.
_TRIPLES, _MOST_CELLS = 200, 20_000
# The degrees of freedom of a first model and of weights for its rows overlap: so much of their sum counts.
_OVERLAP = 0.8
# What part of the squared distance between the two on triples is at most taken for the error of public rows.
_MOST_SAMPLING = 0.6
# Public rows are refuted where they surely, by so many standard errors, are off measured answers by such a part of the
# noise, squared. With four columns of the town moved, at ε = 0.1, they are off by 0.5 to 1; one region of Adult is off
# by 0.1 to 0.3, surely by 0.2, and still closer to small cells than what can be bought.
_SURE, _REFUTED = 2.0, 0.3
# Errors of sparse cells add up more than independent ones would: about as if they had this correlation.
_CORRELATION = 0.5


@dataclass(frozen=True, eq=False)
class Mixing:
    """Two models of the same answers, both of weighted rows without potentials."""

    public: Model  # that of public rows
    bought: Model  # that of rows drawn from a model
    measurements: Sequence[Measurement]  # the answers
    records: float  # how many records the public rows are worth
    has_triples: bool  # whether the answers are about all triples

    @property
    def model(self) -> Model:
        """The mixture, or one of the two."""
        share = self.share
        if share in (0.0, 1.0):
            return self.public if share else self.bought
        each = [(share, self.public), (1 - share, self.bought)]
        weights = np.concatenate([part * _rows(model).shares for part, model in each])
        rows = PublicRows(np.concatenate([_rows(model).codes for _, model in each]), self.public.domain, weights)
        return replace(Model.of(rows, {}, self.public.total), diagnostics=self._diagnostics(share))

    @cached_property
    def share(self) -> float:
        """What part of the mass the public rows get."""
        inferred = (lambda _: 1.0) if self.has_triples else self._error_of_triples()
        costs = [math.log(self._careful_error(w)) + math.log(inferred(w)) for w in _SHARES]
        best = float(_SHARES[int(np.argmin(costs))])
        return 0.0 if best < _LEAST else 1.0 if best > _MOST else best

    def error(self, share: float) -> float:
        """Stein's estimate of the sum of squared errors of the measured answers, in units of their noise."""
        public, bought = self._residuals
        residuals = share * public + (1 - share) * bought
        return float(residuals @ residuals) - len(residuals) + 2 * self._degrees_of_freedom(share)

    def _careful_error(self, share: float) -> float:
        """The same, not below its own standard error, and with that of the gain over public rows alone."""
        public, bought = self._residuals
        moved = (1 - share) ** 2 * float(np.sum((public - bought) ** 2))
        degrees = max(0.0, self._degrees_of_freedom(share) - self._degrees_of_freedom(1.0))
        deviation = math.sqrt(1 + 4 * moved + 8 * degrees) if share < 1 else 0.0
        return max(self.error(share), 0.0) + deviation + math.sqrt(2 * len(public))

    def _degrees_of_freedom(self, share: float) -> float:
        return share * _degrees_of_freedom(self.public) + (1 - share) * _OVERLAP * _degrees_of_freedom(self.bought)

    @cached_property
    def _residuals(self) -> tuple[Array, Array]:
        """(y − F)/σ for the answers F of either model."""
        evidence = Evidence.of(self.public.domain, self.measurements)
        zeros = np.zeros(evidence.layout.size)
        public, bought = (
            -evidence.excess(model.total * model.bind(evidence.layout.cliques)(zeros)[1])
            for model in (self.public, self.bought)
        )
        return public, bought

    def _error_of_triples(self) -> Callable[[float], float]:
        """The estimated squared error of triples that were not measured, for a share of the public rows."""
        sampling = distance = 0.0
        for triple in _some_triples(self.public.domain):
            public, bought = (model.project(triple).values / model.total for model in (self.public, self.bought))
            # Weights that fit pairs leave the part of the sampling error that no pair shows.
            hidden = math.prod(1 - 1 / size for size in public.shape)
            sampling += hidden * float(np.sum(public * (1 - public))) / self.records
            distance += float(np.sum((public - bought) ** 2))
        if not distance:
            return lambda _: 1.0
        # Where weighted public rows are far off even what was measured, they are so on triples.
        sampling = min(max(sampling, self._part_of_public() * distance), _MOST_SAMPLING * distance)
        own = distance - sampling
        both = 2 * _CORRELATION * math.sqrt(sampling * own)
        return lambda w: w**2 * sampling + (1 - w) ** 2 * own + w * (1 - w) * both

    def _part_of_public(self) -> float:
        """The part of the squared distance between the two on measured answers that is surely due to public rows."""
        size = len(self._residuals[0])
        errors = [max(self.error(share), 0.0) for share in (1.0, 0.0)]
        sure = [_SURE * math.sqrt(2 * size + 4 * error) for error in errors]
        public, bought = errors[0] - sure[0], errors[1] + sure[1]
        return public / (public + bought) if public > _REFUTED * size else 0.0

    def _diagnostics(self, share: float) -> Diagnostics | None:
        found = self.public.diagnostics
        if found is None:
            return None
        return replace(
            found,
            stop=POSTERIOR,
            reason=f"Public rows have {share:.0%} of the weight and drawn rows the rest, as the noisy answers say.",
            estimated_error=math.sqrt(max(self.error(share), 0.0) / len(self._residuals[0])),
            degrees_of_freedom=self._degrees_of_freedom(share),
        )


def _rows(model: Model) -> PublicRows:
    if not isinstance(model.base, PublicRows) or model.potentials:
        raise TypeError(f"a model of weighted rows is needed, not {model!r}")
    return model.base


def _degrees_of_freedom(model: Model) -> float:
    degrees = math.nan if model.diagnostics is None else model.diagnostics.degrees_of_freedom
    return 0.0 if math.isnan(degrees) else degrees


def _some_triples(domain: Domain) -> list[Clique]:
    """Triples that are not too large, at most so many, always the same ones."""
    triples = [each for each in itertools.combinations(domain, 3) if domain.size_of(each) <= _MOST_CELLS]
    chosen = np.random.default_rng(0).permutation(len(triples))[:_TRIPLES]
    return [triples[i] for i in sorted(chosen)]
