"""Structural zeros: cells that no row can have, and bases without them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from priory.errors import DataError, DomainError
from priory.model.bases import Base
from priory.model.model import Model
from priory.model.tilted import merged
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor

Impossible = Sequence[tuple[Clique, NDArray[np.bool_]]]


def without_zeros(base: Base, impossible: Impossible) -> Base:
    """The base without structural zeros, cells of cliques that no row can have; a `DataError` where nothing is left."""
    zeros = structural_zeros(base.domain, impossible)
    if not zeros or rules_out(base, zeros):
        return base
    try:
        return Model.of(base, zeros)
    except DomainError:
        said = "every row that could be is ruled out by the schema's constraints; correct one of them"
        raise DataError(said) from None


def structural_zeros(domain: Domain, impossible: Impossible) -> dict[Clique, Factor]:
    """Potentials of −∞ at structural zeros, and of 0 elsewhere."""
    zeros: dict[Clique, Factor] = {}
    for clique, mask in impossible:
        if mask.any():
            zeros = merged(zeros, {clique: Factor(domain.project(clique), np.where(mask, -np.inf, 0.0))})
    return zeros


def rules_out(base: Base, zeros: dict[Clique, Factor]) -> bool:
    """Whether a base has these structural zeros already, in a layer of its own."""
    while isinstance(base, Model):
        if all(
            clique in base.potentials
            and (np.isneginf(base.potentials[clique].values) >= np.isneginf(zero.values)).all()
            for clique, zero in zeros.items()
        ):
            return True
        base = base.base
    return False
