"""Row limits: tables of more rows than 32 bits count."""

import pytest

for library in ("pandas", "pyarrow"):
    pytest.importorskip(library)

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.opening import open_source
from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.measure import measure
from priory.model.rows import Membership
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor
from priory.queries.query import Query
from priory.release import load

XY = Schema.coded({"x": 3, "y": 3})


PAIR = Domain.of({"x": 2, "y": 2})


@dataclass(frozen=True)
class Huge:
    """A source that declares and counts more rows than 32 bits hold."""

    counts: np.ndarray
    row_limit: int
    domain: Domain = PAIR

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        whole = Factor(self.domain, self.counts)
        return [Factor(self.domain.project(clique), whole.project(clique).values) for clique in cliques]


def test_counts_beyond_32_bits_are_answered_to_the_row() -> None:
    counts = np.array([[2**40 + 1, 2**33], [7, 2**41 - 3]])
    budget = Budget.zcdp(50)
    with Ledger.in_memory(budget).reserve(budget, "huge") as reservation:
        curator = Curator(reservation, Huge(counts, 2**43))
        measured = measure(curator, [Query.marginal(curator.domain, ("x", "y"))], budget)
        found = measured[0].values.reshape(2, 2)
    # Noise of a standard deviation of 0.1 is not 0 less often than once in 10^20 draws.
    np.testing.assert_array_equal(found, counts)
    model = estimate(measured, curator.domain)
    np.testing.assert_allclose(model.project(("x", "y")).values, counts, rtol=1e-6, atol=1e7)


@pytest.mark.parametrize("mechanism", ["independent", "mst", "aim"])
def test_a_release_of_more_rows_than_32_bits_hold_answers_them(mechanism: str, tmp_path: Path) -> None:
    schema = Schema.coded({"x": 2, "y": 2})
    counts = np.array([[2**39 + 1, 2**33], [7, 2**38 - 3]])
    fit(Huge(counts, 2**40), schema, rho=50, mechanism=mechanism, output=tmp_path / "huge.priory")
    release = load(tmp_path / "huge.priory")
    for clique in (("x",), ("y",)) if mechanism == "independent" else (("x",), ("x", "y")):
        answered = release.marginal(*clique).to_dict()
        truth = Factor(PAIR, counts).project(clique).values.ravel()
        np.testing.assert_allclose(answered["estimate"], truth, rtol=1e-6, atol=1e6)
        assert all(low <= high for low, high in zip(answered["low"], answered["high"], strict=True))
    total = release.marginal().to_dict()["estimate"][0]
    assert abs(total - counts.sum()) < 1e6
    assert len(release.sample(10, seed=0)) == 10


def test_a_row_limit_is_declared_by_whoever_opens_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,1\n")
    for data in (tmp_path / "t.csv", {"x": [1], "y": [1]}, duckdb.sql("SELECT 1 AS x, 1 AS y")):
        assert open_source(data, XY).row_limit == 2**32
        assert open_source(data, XY, row_limit=2**40).row_limit == 2**40
    assert open_in_duckdb(tmp_path / "t.csv", XY, None, row_limit=5).row_limit == 5


@pytest.mark.parametrize("row_limit", [0, -1, 2**62 + 1, 1.5, True])
def test_more_rows_than_can_be_counted_are_refused_before_anything_is_paid(row_limit: Any) -> None:
    book = Ledger.in_memory(Budget.zcdp(1), dataset=XY.name, schema=XY.dump())
    table = {"x": [1], "y": [1]}
    for data, declared in ((table, row_limit), (Huge(np.zeros((3, 3), dtype=np.int64), row_limit, XY.domain), None)):
        with pytest.raises(OptionError) as caught:
            fit(data, XY, rho=1, ledger=book, mechanism="independent", row_limit=declared)
        assert caught.value.argument == "row_limit"
        assert book.left() == 1
    with pytest.raises(OptionError, match="its own"):
        fit(Huge(np.zeros((3, 3), dtype=np.int64), 5, XY.domain), XY, rho=1, row_limit=5)


def test_rows_beyond_32_bits_have_places_of_64() -> None:
    wide, narrow = (Membership.of([(np.array([1, 0, 1]), 2)], rows).matrix for rows in (2**40, 3))
    assert (wide.indices.dtype, narrow.indices.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(wide.indices, narrow.indices)
