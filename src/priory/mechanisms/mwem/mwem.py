"""MWEM: again and again pick the answer that the model gets most wrong, measure it, and correct the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.steps.total import counted, released_total
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.model.structural_zeros import without_zeros
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.journal import Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.scores import AbsoluteError
from priory.queries.domain import Clique, Domain
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.estimated import uniform


class Update(Protocol):
    """How measurements become a model; free, and the same on a rerun from the release."""

    name: ClassVar[str]

    @property
    def is_average(self) -> bool:
        """Whether `final` needs the models of all rounds, and not the last alone."""

    def allowed(self, domain: Domain, measured: Sequence[Clique], cliques: Sequence[Clique]) -> NDArray[np.bool_]:
        """Which of `cliques` could be measured after `measured` and still be modelled.

        Raises:
            SizeError: none; with the forecast.
        """

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

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Pick and measure, a round at a time."""
        workload = self.workload.checked(curator.domain)
        rounds = len(curator.domain) if self.rounds is None else self.rounds
        if rounds < 1:
            raise OptionError("rounds", f"at least one; got {rounds}")
        self._allowed(curator.domain, [])
        count = counted(curator, budget)
        models = [Model(without_zeros(Uniform(curator.domain), curator.impossible), {}, count.total)]
        measured: list[Measurement] = []
        shares = zip(*[iter(count.rest.split([1] * 2 * rounds))] * 2, strict=True)
        for number, (picking, measuring) in enumerate(shares, start=1):
            curator.report_progress(number, rounds)
            [pick] = curator.choose(
                workload.queries,
                models[-1].answers(workload.queries),
                AbsoluteError(),
                picking,
                allowed=self._allowed(curator.domain, measured),
            )
            query = workload.queries[pick.query].row(pick.cell or 0)
            measured += measure(curator, [query], measuring)
            models = self._with(models, curator.domain, measured, count.total)
        release = Release(curator.domain, (count.measurement, *measured), curator.statement(self.update.name))
        return release.with_model(self.update.final(models))

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early, with the model after its last whole round."""
        return release.with_model(self.model(release))

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
