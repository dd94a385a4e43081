"""Fitted: measurements and the model they led to, for mechanisms that estimate, ask again and estimate anew."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from priory.estimate.estimator import estimate
from priory.estimate.first_model import estimated
from priory.estimate.measured import evidence, public_total
from priory.estimate.nudge import nudged
from priory.mechanisms.steps.drift import drifted_columns, said_of
from priory.mechanisms.steps.public_rows import starting_base
from priory.model.bases import Base, PublicRows, Uniform
from priory.model.model import Model
from priory.model.structural_zeros import without_zeros
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.release import Release


def refitted(release: Release, public: PublicRows | None) -> Release:
    """The release with the estimate that `Fitted` makes of its measurements from these public rows, made anew."""
    impossible = () if release.schema is None else release.schema.impossible()
    base = without_zeros(starting_base(release.domain, public), impossible)
    return release.with_model(estimated(release.measurements, base))


def noted(model: Model, sentence: str) -> Model:
    """The model with one more note, where it says how it was estimated."""
    if model.diagnostics is None:
        return model
    return replace(model, diagnostics=replace(model.diagnostics, notes=(*model.diagnostics.notes, sentence)))


def _drifted(model: Model, public: PublicRows | None, measurements: Sequence[Measurement]) -> tuple[str, ...]:
    return () if public is None else tuple(drifted_columns(public, evidence(measurements), model.total))


@dataclass(frozen=True, eq=False)
class Fitted:
    """The state of a run that estimates after each measurement."""

    base: Base  # what the model starts from
    measurements: tuple[Measurement, ...]  # what was answered so far
    model: Model  # the estimate from them
    settled: int = 0  # from how many of them everything was estimated anew; later ones were taken in by their clique
    gone: tuple[str, ...] = ()  # columns that have drifted away from public rows, which were therefore left out

    @classmethod
    def start(cls, session: Session, base: Base) -> "Fitted":
        """The state before anything is paid: the base has no structural zeros, a public number of rows is in."""
        base = without_zeros(base, session.impossible)
        return cls(base, session.public_count, Model(base, {}, max(1.0, session.public_total or 1.0)))

    def without_drifted(self, session: Session, public: PublicRows) -> "Fitted":
        """Estimated anew without public rows, where by the noisy answers some of their columns have drifted."""
        gone = _drifted(self.model, public, self.measurements)
        if not gone:
            return self
        start = Fitted.start(session, Uniform(self.base.domain))
        return replace(start, measurements=(), gone=gone).with_measured(self.measurements)

    @property
    def cliques(self) -> list[Clique]:
        """What was measured."""
        return [m.query.clique for m in self.measurements]

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

    def settled_anew(self) -> "Fitted":
        """With everything estimated anew, where that is not so already."""
        return self if self.settled == len(self.measurements) else self.with_measured(())

    def nudged(self, measurement: Measurement, marginal: Array) -> "tuple[Fitted, Array]":
        """With one more measurement taken in roughly, and what the model then says of its clique, in records.

        Args:
            measurement: what was answered.
            marginal: what the model says of its clique, in records.
        """
        together = (*self.measurements, measurement)
        model, after = nudged(self.model, evidence(together), marginal)
        return replace(self, measurements=together, model=model), after

    def released(self, session: Session, mechanism: str) -> Release:
        """The measurements and the model as a release, with the statement of what was spent."""
        statement = session.statement(mechanism)
        model = noted(self.model, said_of(self.gone)) if self.gone else self.model
        return Release(self.base.domain, self.measurements, statement, estimate=model)
