"""Graphical: the estimate of each recipe as a graphical model, from the same measurements as its own estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import SizeError
from priory.estimate.estimator import estimate
from priory.estimate.measured import evidence, public_total
from priory.estimate.problem import Solver
from priory.model.engine.plan import MEMORY_IN_BYTES, plan
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.release import Release

Stop = Literal["fission", "converged"]


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
            raise SizeError(
                f"every clique of the workload needs a model of at least {min(sizes):.3g} bytes; "
                f"{self.memory_in_bytes:.3g} are allowed",
                cells=min(sizes) // 8,
                limit=self.memory_in_bytes // 8,
                cliques=list(cliques[:8]),
            )
        return np.array(sizes) <= self.memory_in_bytes

    def model(self, domain: Domain, measurements: Sequence[Measurement], total: float, before: Model | None) -> Model:
        base, asked = None if before is None else before.base, evidence(measurements)
        return estimate(asked, domain, base=base, total=total, solver=self.solver, stop=self.stop, warm=before)

    def final(self, models: Sequence[Model]) -> Model:
        return models[-1]
