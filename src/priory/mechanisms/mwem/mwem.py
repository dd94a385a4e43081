"""MWEM: again and again pick the answer that the model gets most wrong, measure it, and correct the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError, SizeError
from priory.estimate.estimator import estimate
from priory.estimate.first_model import uniform
from priory.estimate.measured import evidence, public_total
from priory.estimate.problem import Solver
from priory.measure import measure
from priory.mechanisms.steps.total import counted, released_total
from priory.model.bases import Uniform
from priory.model.engine.plan import MEMORY_IN_BYTES, plan
from priory.model.model import Model
from priory.model.structural_zeros import without_zeros
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.scores import AbsoluteError
from priory.privacy.session import Session, asking
from priory.queries.domain import Clique, Domain
from priory.queries.workload import Workload
from priory.release import Release

Stop = Literal["fission", "converged"]


class Update(Protocol):
    """How measurements become a model; free, and the same on a rerun from the release."""

    name: ClassVar[str]

    @property
    def is_average(self) -> bool:
        """Whether `final` needs the models of all rounds, and not the last alone."""

    def allowed(self, domain: Domain, measured: Sequence[Clique], cliques: Sequence[Clique]) -> NDArray[np.bool_]:
        """Which of `cliques` a model could take beside `measured`; if none, a `SizeError` with the forecast."""

    def model(self, domain: Domain, measurements: Sequence[Measurement], total: float, before: Model | None) -> Model:
        """The model after `measurements`, of which all but the last are in the model `before`."""

    def final(self, models: Sequence[Model]) -> Model:
        """What is handed out, of the models of all rounds."""


@dataclass(frozen=True)
class MWEM:
    """Multiplicative weights and the exponential mechanism [Hardt, Ligett & McSherry 2012].

    Every round spends equal halves on picking an answer of the workload and on measuring it.

    Attributes:
        workload: what is to be answered.
        update: how the model is corrected.
        rounds: how many; by default as many as there are attributes.
    """

    workload: Workload
    update: Update
    rounds: int | None = None
    choice_share: ClassVar[Fraction] = Fraction(1, 2)

    def run(self, session: Session, budget: Budget) -> Release:
        """Pick and measure, a round at a time."""
        workload = self.workload.checked(session.domain)
        rounds = len(session.domain) if self.rounds is None else self.rounds
        if rounds < 1:
            raise OptionError("rounds", f"at least one; got {rounds}")
        self._allowed(session.domain, [])
        count = counted(session, budget)
        models = [Model(without_zeros(Uniform(session.domain), session.impossible), {}, count.total)]
        measured: list[Measurement] = []
        shares = zip(*[iter(count.rest.split([1] * 2 * rounds))] * 2, strict=True)
        with asking():
            for number, (picking, measuring) in enumerate(shares, start=1):
                session.report_progress(number, rounds)
                answers, allowed = models[-1].answers(workload.queries), self._allowed(session.domain, measured)
                [pick] = session.choose(workload.queries, answers, AbsoluteError(), picking, allowed=allowed)
                query = workload.queries[pick.query].row(pick.cell or 0)
                measured += measure(session, [query], measuring)
                models = self._with(models, session.domain, measured, count.total)
        release = Release(session.domain, (count.measurement, *measured), session.statement(self.update.name))
        return release.with_model(self.update.final(models))

    def model(self, release: Release) -> Model:
        """The model of a release of this mechanism, worked out again from its measurements."""
        total = released_total(release.measurements)
        _, *measured = release.measurements
        models = [Model(uniform(release.domain, release.schema), {}, total)]
        for last in range(1, len(measured) + 1):
            models = self._with(models, release.domain, measured[:last], total)
        return self.update.final(models)

    def _with(self, models: list[Model], domain: Domain, measured: Sequence[Measurement], total: float) -> list[Model]:
        """The models so far and that of one more measurement; the last one alone, unless their average is released."""
        model = self.update.model(domain, measured, total, models[-1])
        return [*models, model] if self.update.is_average else [model]

    def _allowed(self, domain: Domain, measured: Sequence[Measurement]) -> NDArray[np.bool_]:
        """One for each answer of the workload."""
        cliques = self.workload.cliques
        fits = self.update.allowed(domain, [m.query.clique for m in measured], cliques)
        by_clique = dict(zip(cliques, fits.tolist(), strict=True))
        return np.repeat([by_clique[q.clique] for q in self.workload], [q.rows for q in self.workload])


def graphical_model(release: Release, *, solver: Solver | None = None, stop: Stop = "fission") -> Model:
    """The graphical model of a release's measurements; the number of rows is public or estimated from them."""
    total = public_total(release.measurements)
    return estimate(evidence(release.measurements), release.domain, total=total, solver=solver, stop=stop)


@dataclass(frozen=True, kw_only=True)
class Graphical:
    """The update of MWEM+PGM: a graphical model of all measurements so far [Private-PGM, §4.3].

    Attributes:
        solver: how it is estimated.
        stop: when the estimate stops.
        memory_in_bytes: what the model may need; answers that would make it larger are not picked.
    """

    solver: Solver | None = None
    stop: Stop = "fission"
    memory_in_bytes: int = MEMORY_IN_BYTES
    is_average: ClassVar[bool] = False
    name: ClassVar[str] = "mwem+pgm"

    def allowed(self, domain: Domain, measured: Sequence[Clique], cliques: Sequence[Clique]) -> NDArray[np.bool_]:
        if plan(domain, [*measured, *cliques], memory_in_bytes=2**62).memory_in_bytes <= self.memory_in_bytes:
            return np.ones(len(cliques), dtype=np.bool_)
        sizes = [plan(domain, [*measured, clique], memory_in_bytes=2**62).memory_in_bytes for clique in cliques]
        if min(sizes) > self.memory_in_bytes:
            least, most = min(sizes), self.memory_in_bytes
            said = f"every clique of the workload needs a model of at least {least:.3g} bytes; {most:.3g} are allowed"
            raise SizeError(said, cells=least // 8, limit=most // 8, cliques=list(cliques[:8]))
        return np.array(sizes) <= self.memory_in_bytes

    def model(self, domain: Domain, measurements: Sequence[Measurement], total: float, before: Model | None) -> Model:
        base, asked = None if before is None else before.base, evidence(measurements)
        return estimate(asked, domain, base=base, total=total, solver=self.solver, stop=self.stop, warm=before)

    def final(self, models: Sequence[Model]) -> Model:
        return models[-1]
