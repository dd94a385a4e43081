"""Fitted: measurements and the model they led to, for mechanisms that estimate, ask again and estimate anew."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from priory.estimate.estimator import estimate
from priory.estimate.measured import evidence, public_total
from priory.estimate.nudge import nudged
from priory.factor import Array
from priory.mechanisms.steps.public_rows import starting_base
from priory.mechanisms.steps.total import public_count
from priory.model.bases import Base, PublicRows
from priory.model.model import Model
from priory.model.structural_zeros import without_zeros
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.release import Release
from priory.release.estimated import estimated


def refitted(release: Release, public: PublicRows | None) -> Release:
    """The release with the estimate that `Fitted` makes of its measurements, made anew.

    Args:
        release: the measurements, as many as there are.
        public: the rows that the run started from, if any.
    """
    impossible = () if release.schema is None else release.schema.impossible()
    base = without_zeros(starting_base(release.domain, public), impossible)
    return release.with_model(estimated(release.measurements, base))


@dataclass(frozen=True, eq=False)
class Fitted:
    """The state of a run that estimates after each measurement.

    Attributes:
        base: what the model starts from.
        measurements: what was answered so far.
        model: the estimate from them.
        settled: from how many of them everything was estimated anew; later ones were taken in by their clique alone.
    """

    base: Base
    measurements: tuple[Measurement, ...]
    model: Model
    settled: int = 0

    @classmethod
    def start(cls, curator: Curator, base: Base) -> "Fitted":
        """The state before anything is paid: the base has no structural zeros, a public number of rows is in."""
        public = public_count(curator)
        base = without_zeros(base, curator.impossible)
        return cls(base, public, Model(base, {}, public_total(public) or 1.0))

    def with_measured(self, measurements: Sequence[Measurement]) -> "Fitted":
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
        return replace(self, measurements=together, model=model, settled=len(together))

    def nudged(self, measurement: Measurement, marginal: Array) -> "tuple[Fitted, Array]":
        """With one more measurement taken in roughly, and what the model then says of its clique, in records.

        Args:
            measurement: what was answered.
            marginal: what the model says of its clique, in records.
        """
        together = (*self.measurements, measurement)
        model, after = nudged(self.model, evidence(together), marginal)
        return replace(self, measurements=together, model=model), after

    def released(self, curator: Curator, mechanism: str) -> Release:
        """The measurements and the model as a release, with the statement of what was spent."""
        statement = curator.statement(mechanism)
        return Release(self.base.domain, self.measurements, statement, estimate=self.model)
