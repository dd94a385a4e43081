"""Fitted: measurements and the model they led to, for mechanisms that estimate, ask again and estimate anew."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.domain import Domain
from priory.errors import DomainError
from priory.estimate.estimator import estimate
from priory.mechanisms.steps.neighbourhood import neighbourhood
from priory.mechanisms.steps.total import public_count
from priory.model.bases import Base, PublicRows, Uniform
from priory.model.model import Model
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.release import Release
from priory.release.estimated import estimated, evidence, possible, public_total

# The share of a public prior that lies on rows one value away from the public ones, so that it can be left.
OUTSIDE = 0.01


def prior(domain: Domain, public: PublicRows | None) -> Base:
    """What a model starts from: public rows and rows close to them, or every cell alike.

    Raises:
        DomainError: the public rows are of another domain.
    """
    if public is None:
        return Uniform(domain)
    if public.domain != domain:
        raise DomainError(f"the public rows have {public.domain}, the private table {domain}")
    # Which rows are close is public: any fixed seed will do.
    return neighbourhood(public, OUTSIDE, np.random.default_rng(0))


def refitted(release: Release, public: PublicRows | None) -> Release:
    """The release with the estimate that `Fitted` makes of its measurements, made anew.

    Args:
        release: the measurements, as many as there are.
        public: the rows that the run started from, if any.
    """
    impossible = () if release.schema is None else release.schema.impossible()
    base = possible(prior(release.domain, public), impossible)
    return release.with_model(estimated(release.measurements, base))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Where a run has come to.

    Attributes:
        base: what the model starts from.
        measurements: what was answered so far.
        model: the estimate from them.
    """

    base: Base
    measurements: tuple[Measurement, ...]
    model: Model

    @classmethod
    def start(cls, curator: Curator, base: Base) -> "Fitted":
        """Before anything is paid: the base less what cannot be, and the number of rows where that is public."""
        known = public_count(curator)
        base = possible(base, curator.impossible)
        return cls(base, known, Model(base, {}, public_total(known) or 1.0))

    def and_measured(self, measurements: Sequence[Measurement]) -> "Fitted":
        """Estimated anew with further measurements, from where the last estimate ended."""
        together = (*self.measurements, *measurements)
        # Whether the solver ran to its end is in the model's diagnostics; adaptive runs go on from what there is.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = estimate(
                evidence(together),
                self.base.domain,
                base=self.base,
                total=public_total(together),
                warm=self.model if self.model.diagnostics else None,
            )
        return replace(self, measurements=together, model=model)

    def released(self, curator: Curator, mechanism: str) -> Release:
        """All of it, with the statement of what was spent."""
        release = Release(self.base.domain, self.measurements, curator.statement(mechanism))
        return release.with_model(self.model)
