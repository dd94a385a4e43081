"""Fitness: a small paid look at whether public data can stand for a private table."""

import json
from pathlib import Path
from typing import Literal

from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.domain import Domain
from priory.mechanisms.best_mixture import BestMixture, PublicCheck
from priory.app.fit import fit
from priory.mechanisms.pmw_pub.row_weights import MOST_CODES
from priory.model.bases import PublicRows
from priory.privacy.budget import Number
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import Randomness
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload

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
    randomness: Randomness | None = None,
) -> PublicCheck:
    """How much error is left however the public rows are reweighed, with noise, before more is spent on them.

    It is a release like any other: paid for first, from the ledger where one is given. The other arguments are those of
    `fit`.

    Args:
        data: the private table.
        schema: what its columns are.
        public: the public table.
        epsilon: the price, with `delta`; pure without it.
        delta: see `epsilon`.
        rho: or the price in zCDP.
        kind: "floor", a bound from below that is usually close, or "exact", which needs a public number of rows.
        ledger: the book that pays.
        relation: which tables are neighbours.
        unit: the column that says which person a row is about.
        max_rows: with `unit`, how many rows of one person count.
        randomness: for tests only.

    Raises:
        BudgetError: it costs more than is left. Nothing was looked at.
        DataError: the public table does not fit the schema, or has no rows. Nothing was spent.
    """
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    rows = PublicRows(public_codes(schema, public), schema.domain)
    release = fit(
        data,
        schema,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=BestMixture(public=rows, workload=_workload(schema.domain, len(rows.codes)), kind=kind),
        ledger=ledger,
        relation=relation,
        unit=unit,
        max_rows=max_rows,
        randomness=randomness,
    )
    return PublicCheck(**json.loads(release.sections["public_check"]["public_check.json"]))


def _workload(domain: Domain, rows: int) -> Workload:
    """All marginals of three attributes, or of two or one where those are too many."""
    for k in range(min(3, len(domain)), 1, -1):
        # The number of cells of all k-way marginals is the k-th elementary symmetric function of the sizes.
        cells, count = [1] + [0] * k, [1] + [0] * k
        for size in domain.shape:
            for j in range(k, 0, -1):
                cells[j] += size * cells[j - 1]
                count[j] += count[j - 1]
        if cells[k] <= MOST_CELLS and rows * count[k] <= MOST_CODES:
            return Workload.marginals(domain, k)
    return Workload.marginals(domain, 1)
