"""Nudge: one more measurement taken into a model by its own clique alone, without a call of the oracle.

Tilted by potentials on a clique C and on cliques inside it, a model has the marginal of C tilted by them, exactly. So
the multipliers of a new answer about C, and of older ones about parts of C, are found on that one table; those of all
other answers stay. What these then lose by it is small, and made good by the next estimate of everything.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from priory.estimate.dual import Dual
from priory.estimate.evidence import Evidence
from priory.estimate.path import fitted_to_the_noise
from priory.estimate.setting import Setting, Warm, signs_of_size
from priory.estimate.total import TotalEstimate
from priory.model.bases import Cells
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# Steps of an estimate that is made good later may be coarse.
_SOLVER = Dual(cooling=10**0.25)


def nudged(model: Model, measurements: Sequence[Measurement], marginal: Array) -> tuple[Model, Array]:
    """The model with the last of `measurements` taken in, and what it then says of its clique, in records.

    Args:
        model: an estimate from all measurements but the last.
        measurements: what it was estimated from, and a new one.
        marginal: what the model says of the clique of the new one, in records.
    """
    diagnostics = model.diagnostics
    assert diagnostics is not None  # noqa: S101  the caller looked
    clique = measurements[-1].query.clique
    inside = [i for i, m in enumerate(measurements) if set(m.query.clique) <= set(clique)]
    domain = model.domain.project(clique)
    evidence = Evidence.of(domain, [measurements[i] for i in inside])
    known = tuple(diagnostics.multipliers[i] for i in inside[:-1])
    # How the older ones follow their answers involves all tables: here they start from no movement at all.
    warm = Warm(multipliers=tuple((query, alpha, alpha) for query, alpha, _ in known))
    signs, total = _signs(measurements, inside), TotalEstimate.known(model.total)
    # The table less what the multipliers have moved it by already: at these multipliers it is what it is.
    base = Cells(domain, marginal / model.total, evidence.layout, evidence.adjoint(warm.vectors(evidence)[0]))
    fit = fitted_to_the_noise(Setting(base, evidence, total, "l2", _SOLVER, warm, signs))
    multipliers = [*diagnostics.multipliers, (evidence.queries[-1], np.empty(0), np.empty(0))]
    for i, query, span in zip(inside, evidence.queries, evidence.spans, strict=True):
        alpha, perturbed = fit.multipliers[0][span], fit.multipliers[1][span]
        _, before, moved = multipliers[i] if i < len(diagnostics.multipliers) else (query, alpha, alpha)
        multipliers[i] = (query, alpha, perturbed + (moved - before))
    tables = fit.layout.unpack(fit.state.theta)
    after = fit.layout.unpack(fit.state.marginals)[clique].values
    changed = replace(diagnostics, multipliers=tuple(multipliers))
    return replace(model, potentials={**model.potentials, **tables}, diagnostics=changed), after


def _signs(measurements: Sequence[Measurement], inside: Sequence[int]) -> Array:
    """The signs that an estimate of everything has for these measurements."""
    ends = np.cumsum([0, *(m.query.rows for m in measurements)])
    every = signs_of_size(int(ends[-1]))
    return np.concatenate([every[ends[i] : ends[i + 1]] for i in inside])
