"""Memory of answers: counted before it is taken, and rows answer where it would be too much."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.answer import tables
from priory.answer.basis import Basis
from priory.answer.drawn_rows import ROWS, DrawnRows
from priory.answer.redrawing import Redrawing
from priory.data.schema import Schema
from priory.errors import SizeError
from priory.model.bases import Uniform
from priory.model.diagnostics import Diagnostics
from priory.model.engine import factored
from priory.model.engine.factored import summed_product
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Matrix, Point, Prefix
from priory.queries.query import Query

MEASURED = [("s", "t"), *((own, far) for own in "abc" for far in "st")]


def star(ends: int, middle: int, seed: int = 0) -> tuple[Model, list[Measurement]]:
    """Three attributes that hang together through two others alone, with each pair of them measured."""
    domain = Domain.of({"a": ends, "b": ends, "c": ends, "s": middle, "t": middle})
    rng = np.random.default_rng(seed)
    potentials = {clique: rng.normal(0, 0.5, domain.project(clique).shape) for clique in MEASURED}
    model = replace(Model.of(Uniform(domain), potentials, 1e6), diagnostics=Diagnostics("Dual", "converged", ""))
    queries = [Query.marginal(domain, clique) for clique in MEASURED]
    return model, [Measurement.of(query, model.answer(query), 5.0) for query in queries]


def basis(model: Model, measurements: list[Measurement], level: float | None = 0.9) -> Basis:
    sizes = dict(zip(model.domain.attributes, model.domain.shape, strict=True))
    return Basis(Schema.coded(sizes), Redrawing(model, measurements), level)


def test_a_triple_that_would_take_twenty_gigabytes_is_answered_from_drawn_rows_within_the_bound() -> None:
    model, measurements = star(200, 250)
    with pytest.raises(SizeError) as refused:
        model.project(("a", "b", "c"))
    assert 8 * refused.value.cells > 20e9
    asked = basis(model, measurements)
    tracemalloc.start()
    # Three values of c, so that the table of answers itself is small.
    found = tables.marginal(asked, ["a", "b", "c"], where={"c": [0, 1, 2]})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < factored.BYTES
    answers = found.to_dict()
    assert set(answers["source"]) == {"drawn"}
    # Of a cell in which no row was drawn, the interval still says that one might have been.
    assert min(np.subtract(answers["high"], answers["estimate"])) > model.total / ROWS


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(2, 5), st.integers(12, 20))
def test_what_is_counted_is_no_less_than_what_is_taken(seed: int, count: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    axes = [tuple(sorted(rng.choice(5, rng.integers(1, 4), replace=False).tolist())) for _ in range(count)]
    arrays = [rng.random([size] * len(own)) for own in axes]
    present = sorted({v for own in axes for v in own})
    keep = tuple(v for v in present if rng.random() < 0.4)
    tabled = list(zip(axes, arrays, strict=True))
    summed_product(tabled, keep)
    sizes = dict.fromkeys(present, size)
    counted = 8 * _most(tabled, keep, sizes)
    tracemalloc.start()
    summed_product(tabled, keep)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Small objects of the interpreter and buffers of loops are not counted; tables of four attributes have a megabyte.
    assert peak <= counted + 300_000


def _most(tabled: list[tuple[tuple[int, ...], np.ndarray]], keep: tuple[int, ...], sizes: dict[int, int]) -> int:
    from opt_einsum import contract_path, get_symbol

    if len(tabled) == 1:
        return int(np.prod([sizes[v] for v in keep]))
    terms = ["".join(get_symbol(v) for v in own) for own in (*(own for own, _ in tabled), keep)]
    shapes = [array.shape for _, array in tabled]
    path, _ = contract_path(f"{','.join(terms[:-1])}->{terms[-1]}", *shapes, shapes=True, optimize="greedy")
    return factored._most_cells(sizes, [own for own, _ in tabled], keep, path)


QUERIES = [
    {"a": Prefix(), "c": Matrix(np.array([[0.5, 1.0, 0.25, 0.0]]))},
    {"a": Point(2), "b": Point(0)},
    {"b": Matrix(np.array([[0.5, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0]])), "t": Prefix()},
]


@pytest.mark.statistical
@pytest.mark.parametrize("parts", QUERIES)
def test_answers_of_drawn_rows_lie_as_far_from_the_models_as_they_say(parts: dict[str, Matrix]) -> None:
    model, _ = star(4, 3)
    query = Query.product(model.domain, parts)
    rows = DrawnRows(model)
    found = rows.answer(query)
    off = (found - model.answer(query)) / rows.stddev(query, found)
    # No answer of a few dozen lies five standard deviations off by chance; those of one row are counted as two.
    assert np.abs(off).max() < 5
    expected = model.total * np.sqrt(0.25 / ROWS)
    assert rows.stddev(query, found).max() < 5 * expected


@pytest.mark.statistical
def test_answers_from_rows_are_like_those_worked_out_with_wider_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    model, measurements = star(4, 3)
    exact = tables.marginal(basis(model, measurements), ["a", "b"]).to_dict()
    assert set(exact["source"]) == {"inferred"}
    monkeypatch.setattr("priory.answer.redrawing.Redrawing._answer", lambda *_: None)

    def too_much(*_: object) -> list[np.ndarray]:
        raise SizeError("too much", cells=1, limit=0)

    monkeypatch.setattr(Model, "answers", too_much)
    drawn = tables.marginal(basis(model, measurements), ["a", "b"]).to_dict()
    assert set(drawn["source"]) == {"drawn"}
    widths = [np.subtract(each["high"], each["low"]) for each in (exact, drawn)]
    # Each estimate has a deviation of about √(10⁶·62,500/2·10⁵), some 540 records; five of those.
    np.testing.assert_allclose(drawn["estimate"], exact["estimate"], atol=2800)
    assert np.mean(widths[1]) > np.mean(widths[0])
