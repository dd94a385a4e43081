"""Public check: a small paid look at whether public data can stand for a private table."""

from pathlib import Path
from typing import Literal

from priory.app.fit import fit
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources.same import refuse_same
from priory.mechanisms.best_mixture import BestMixture
from priory.mechanisms.pmw_pub.row_weights import MOST_CODES
from priory.model.bases import PublicRows
from priory.privacy.budget import Number
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import Randomness
from priory.queries.sensitivity import Relation
from priory.release.parts import PublicCheck
from priory.select.workloads import countable_workload

# Workloads with more cells than this would take minutes to count.
MOST_CELLS = 1 << 24


def public_fitness(
    data: object,
    schema: Schema | str | Path,
    public: object,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    kind: Literal["floor", "exact"] = "floor",
    ledger: Ledger | str | Path | None = None,
    relation: str | Relation | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    engine: str | None = None,
    randomness: Randomness | None = None,
) -> PublicCheck:
    """How much error is left however the public rows are reweighed, with noise, before more is spent on them.

    It is a release like any other: paid for first, from the ledger where one is given. `kind` is "floor", a bound from
    below that is usually close, or "exact", which needs a public number of rows. The other arguments, and what is
    raised when, are those of `fit`.
    """
    refuse_same(data, public)
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    rows = PublicRows(public_codes(schema, public), schema.domain)
    workload = countable_workload(schema.domain, most_cells=MOST_CELLS, most_marginals=MOST_CODES // len(rows.codes))
    release = fit(
        data,
        schema,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=BestMixture(public=rows, workload=workload, kind=kind),
        ledger=ledger,
        relation=relation,
        unit=unit,
        max_rows=max_rows,
        engine=engine,
        randomness=randomness,
    )
    if release.public_check is None:
        raise TypeError("the mechanism releases nothing else")
    return release.public_check
