"""First model: the graphical model of noisy measurements, and rows drawn from it."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from priory.data.schema import Schema
from priory.errors import DataError, DomainError
from priory.estimate.dirichlet import single_attributes
from priory.estimate.estimator import estimate
from priory.estimate.measured import evidence, noisy, public_total
from priory.estimate.rows.weigh import LEAST_STDDEV, POSTERIOR, WEIGHED, weighed
from priory.estimate.rows.work import Work
from priory.model.bases import Base, PublicRows, Uniform
from priory.model.fitting import fitting, structure
from priory.model.model import Model
from priory.model.structural_zeros import rules_out, structural_zeros, without_zeros
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain

# The first model of measurements that nobody chose for one is no larger: each of its hundreds of answers goes over it.
MOST_BEGUN = 100_000


def estimated(measurements: Sequence[Measurement], base: Base) -> Model:
    """The graphical model of a release's measurements."""
    # Whether the solver ran to its end is in the model's diagnostics; a release is not lost for it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimate(evidence(measurements), base.domain, base=base, total=public_total(measurements))


def of_single_attributes(measurements: Sequence[Measurement], base: Base) -> Model:
    """The model of independent attributes from measurements of each by itself, however noisy they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return single_attributes(evidence(measurements), base, public_total(measurements))


def first_model(
    begin: Sequence[Measurement], candidates: Sequence[Measurement], base: Base, most_cells: float
) -> tuple[Model, list[Measurement]]:
    """The model of what it begins with and of the first candidates with which it stays small; and the other ones."""
    tree = structure(base.domain, [m.query.clique for m in begin])
    cliques = [m.query.clique for m in candidates]
    inside = set(fitting(tree, cliques, most=len(cliques), most_cells=most_cells))
    model = estimated([*begin, *(m for m in candidates if m.query.clique in inside)], base)
    return model, [m for m in candidates if m.query.clique not in inside]


def drawn_rows(model: Model, count: int, seed: int = 0) -> PublicRows:
    """So many rows of a model, or every cell where there are no more of them."""
    if model.domain.size > count:
        return PublicRows(model.sample(count, seed=seed), model.domain)
    with np.errstate(divide="ignore"):
        return PublicRows.of_cells(model.domain, np.log(model.project(model.domain).values))


def sampled(model: Model, count: int) -> Model:
    """The model as rows drawn from it."""
    return Model.of(drawn_rows(model, count), {}, model.total)


def modelled(measurements: Sequence[Measurement], base: Base, work: Work | None = None) -> Model:
    """The graphical model of all measurements where it is small or needs no tree; else weighed rows."""
    work = Work() if work is None else work
    tree = structure(base.domain, [m.query.clique for m in measurements])
    if starts_from_public_data(base) or tree.size_in_cells <= work.cells:
        return estimated(measurements, base)
    single = [m for m in measurements if len(m.query.clique) < 2]
    # Without any one-way marginal the smallest one begins.
    begin = single or [min(measurements, key=lambda m: m.query.rows)]
    others = sorted((m for m in measurements if m not in begin), key=lambda m: m.query.rows)
    first, rest = first_model(begin, others, base, MOST_BEGUN)
    rows = drawn_rows(first, work.rows_for(first.total, len(rest)))
    return weighed(noisy(rest, LEAST_STDDEV), rows, first.total) if rest else first


def constrained(model: Model, measurements: Sequence[Measurement], schema: Schema) -> Model:
    """The model without the cells that the schema rules out, estimated anew where its estimate can be repeated."""
    zeros = structural_zeros(schema.domain, schema.impossible())
    if not zeros or rules_out(model, zeros):
        return model
    diagnostics = model.diagnostics
    # Weighed rows are their own base: estimated from them again, the answers would count twice.
    is_weighed = diagnostics is not None and diagnostics.stop in (POSTERIOR, WEIGHED)
    can_repeat = diagnostics is not None and diagnostics.schedule and not is_weighed
    try:
        base = without_zeros(model.base, schema.impossible())
        if can_repeat:
            return estimated(measurements, base)
        return replace(Model.of(base, model.potentials, model.total), diagnostics=diagnostics)
    except (DataError, DomainError):
        # Nothing of a few rows may be left; what was measured is still worth something.
        return estimated(measurements, uniform(schema.domain, schema))


def uniform(domain: Domain, schema: Schema | None) -> Base:
    """Every cell alike but structural zeros."""
    return Uniform(domain) if schema is None else without_zeros(Uniform(domain), schema.impossible())


def starts_from_public_data(base: Base) -> bool:
    """Whether a base, or what a model was tilted from, is anything else than every cell alike."""
    while isinstance(base, Model):
        base = base.base
    return base.is_informative
