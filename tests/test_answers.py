from pathlib import Path
from typing import Any

import numpy as np
import pytest

import priory as pr
from priory.answer.where import Where
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.table import Table
from priory.errors import DomainError, OptionError, SizeError
from priory.privacy.randomness import Replay
from priory.queries.factor import Array
from priory.queries.parts import Identity, Mean, Prefix, Range
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 10, 25, 40, 99]}, nullable: true}
  sex: {kind: category, levels: [F, M], other: M}
  born: {kind: date, bounds: [2000-01-01, 2003-12-31], bins: {every: year}, nullable: true}
  pay band: {kind: ordinal, levels: [low, mid, high], nullable: true}
  children: {kind: integer, bounds: [0, 3], other: 0}
  smoker: {kind: boolean, other: false}
"""
)
CONDITIONS = [
    None,
    "sex = 'F'",
    "age >= 30 and smoker",
    "sex = 'F' or smoker or born >= 2002",
    "children in (1, 2) and age is not null",
    "age between 12 and 27 or \"pay band\" = 'high' and not smoker",
]


def rows(n: int = 400, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    ages: list[Any] = rng.integers(0, 100, n).tolist()
    return {
        "age": [None if i % 17 == 0 else age for i, age in enumerate(ages)],
        "sex": rng.choice(["F", "M"], n).tolist(),
        "born": [f"{year}-05-05" for year in rng.integers(2000, 2004, n)],
        "pay band": [None if i % 11 == 0 else band for i, band in enumerate(rng.choice(["low", "mid", "high"], n))],
        "children": rng.integers(0, 4, n).tolist(),
        "smoker": rng.choice([True, False], n, p=[0.3, 0.7]).tolist(),
    }


@pytest.fixture(scope="module")
def release() -> Release:
    return fit(rows(), SCHEMA, epsilon=2, delta=1e-6, mechanism="mwem+pgm", randomness=Replay(seed=0))


@pytest.fixture(scope="module")
def joint(release: Release) -> Array:
    return release.model.project(release.domain.attributes).values


@pytest.fixture(scope="module")
def shaped(release: Release) -> Schema:
    """The schema with the shapes of its bins, as answers take them."""
    return release.basis().schema


def weights(where: str | None, domain: Schema) -> Array:
    """How much of each cell of the whole table a condition takes, cell by cell."""
    found = Where.of(where, domain)
    columns = domain.modelled
    table = np.zeros([column.size for column in columns])
    for box in found.boxes:
        here = np.ones(table.shape)
        for axis, column in enumerate(columns):
            if column.name in box:
                shape = [-1 if i == axis else 1 for i in range(len(columns))]
                here = here * box[column.name].weights(column).reshape(shape)
        table += here
    return table


def by_hand(joint: Array, where: str | None, kept: list[str], schema: Schema = SCHEMA) -> Array:
    names = [column.name for column in SCHEMA.modelled]
    summed = (joint * weights(where, schema)).sum(axis=tuple(i for i, name in enumerate(names) if name not in kept))
    order = [name for name in names if name in kept]
    return np.asarray(summed.transpose([order.index(name) for name in kept]))


def column(table: Table, name: str) -> list[Any]:
    return table.to_dict()[name]


def check_ends(table: Table) -> None:
    for low, estimate, high in zip(*(column(table, name) for name in ("low", "estimate", "high")), strict=True):
        assert low is None or low <= estimate <= high


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("names", [[], ["sex"], ["smoker", "age"]])
def test_a_marginal_is_what_the_whole_table_of_the_model_says(
    release: Release, joint: Array, shaped: Schema, names: list[str], where: str | None
) -> None:
    table = release.marginal(*names, where=where, draws=3)
    wanted = by_hand(joint, where, names, shaped)
    kept = [np.flatnonzero(by_hand(weights(where, SCHEMA), None, [name])) for name in names]
    np.testing.assert_allclose(
        column(table, "estimate"), wanted[np.ix_(*kept)].ravel() if names else [wanted], rtol=1e-8
    )
    assert table.names == (*names, "estimate", "low", "high", "source")
    check_ends(table)
    assert all(low is None or low >= 0 for low in column(table, "low"))


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("by", [[], ["smoker", "sex"]])
def test_means_sums_and_shares_are_what_the_whole_table_of_the_model_says(
    release: Release, joint: Array, shaped: Schema, by: list[str], where: str | None
) -> None:
    counts = by_hand(joint, where, [*by, "children"], shaped).reshape(-1, 4)
    mass = counts.sum(axis=1)
    some = mass > 0
    for table, wanted in (
        (release.sum("children", by=by, where=where, draws=3), counts @ np.arange(4)),
        (release.mean("children", by=by, where=where, draws=3), counts[some] @ np.arange(4) / mass[some]),
    ):
        found = np.array([each for each in column(table, "estimate") if each is not None])
        np.testing.assert_allclose(found[found != 0], wanted[wanted != 0], rtol=1e-8)
        check_ends(table)
    ladder = release.cdf("children", by=by, where=where, draws=3)
    estimates = [each for each in column(ladder, "estimate") if each is not None]
    np.testing.assert_allclose(estimates, (counts[some].cumsum(axis=1) / mass[some, None]).ravel(), rtol=1e-8)
    check_ends(ladder)


def test_shares_given_other_columns_add_up_to_one(release: Release, joint: Array) -> None:
    table = release.share("pay band", given=["sex", "smoker"], where="age >= 10", draws=3)
    shares = np.array(column(table, "estimate")).reshape(4, 4)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    counts = by_hand(joint, "age >= 10", ["sex", "smoker", "pay band"]).reshape(4, 4)
    np.testing.assert_allclose(shares, counts / counts.sum(axis=1, keepdims=True), rtol=1e-8)
    assert column(table, "pay band")[:4] == ["low", "mid", "high", None]
    check_ends(table)


def ages_by_hand(release: Release, shaped: Schema) -> Array:
    """How many rows the model gives each age, one by one: inside a bin, geometric with the bin's slope."""
    counts = release.model.project("age").values[:4]
    edges, slopes = [0, 10, 25, 40, 100], shaped.modelled[0].slopes  # type: ignore[attr-defined]
    ages = [np.exp(slope * np.arange(b - a) / (b - a)) for a, b, slope in zip(edges, edges[1:], slopes, strict=False)]
    return np.concatenate([count * chance / chance.sum() for count, chance in zip(counts, ages, strict=True)])


def test_the_mean_of_bins_is_that_of_values_of_their_shape(release: Release, shaped: Schema) -> None:
    ages = ages_by_hand(release, shaped)
    [found] = column(release.mean("age", draws=3), "estimate")
    assert found == pytest.approx(ages @ np.arange(100) / ages.sum())
    [older] = column(release.mean("age", where="age >= 30", draws=3), "estimate")
    assert older == pytest.approx(ages[30:] @ np.arange(30, 100) / ages[30:].sum())


def test_quantiles_invert_the_distribution(release: Release, shaped: Schema) -> None:
    ages = ages_by_hand(release, shaped)
    shares = ages.cumsum() / ages.sum()
    for at in (0.0, 0.1, 0.5, 0.77, 1.0):
        [found] = column(release.quantile("age", at, draws=3), "estimate")
        assert found == min(int(np.searchsorted(shares, at - 1e-9, side="right")), 99)
    bands = release.model.project("pay band").values[:3]
    [band] = column(release.median("pay band", draws=3), "estimate")
    assert band == ["low", "mid", "high"][int(np.searchsorted(bands.cumsum() / bands.sum(), 0.5))]
    table = release.median("born", by="sex", draws=20)
    check_ends(table)
    assert table.kind("estimate") == "date"


def test_values_come_back_in_the_terms_of_the_schema(release: Release) -> None:
    assert column(release.marginal("age", draws=2), "age") == ["[0, 10)", "[10, 25)", "[25, 40)", "[40, 99]", None]
    assert column(release.marginal("born", draws=2), "born") == ["2000", "2001", "2002", "2003", None]
    assert column(release.marginal(["children"], draws=2), "children") == [0, 1, 2, 3]
    assert column(release.marginal("smoker", draws=2), "smoker") == [False, True]
    cdf = release.cdf("born", draws=2)
    assert [str(day) for day in column(cdf, "born")] == ["2000-12-31", "2001-12-31", "2002-12-31", "2003-12-31"]
    assert column(release.mean("born", draws=2), "estimate")[0].year in range(2000, 2004)
    assert 0 < column(release.mean("smoker", draws=2), "estimate")[0] < 1


def test_a_release_answers_the_same_after_its_file(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "a.priory")
    again = Release.load(tmp_path / "a.priory")
    for one, two in (
        (release.mean("age", by="sex", draws=8).to_dict(), again.mean("age", by="sex", draws=8).to_dict()),
        (release.marginal("age", "sex", draws=8).to_dict(), again.marginal("age", "sex", draws=8).to_dict()),
    ):
        for name in ("estimate", "low", "high"):
            np.testing.assert_allclose(one[name], two[name], rtol=1e-6)
        assert one["source"] == two["source"]


def test_a_release_without_a_schema_answers_in_codes() -> None:
    coded = Schema.coded({"a": 3, "b": 2})
    release = fit({"a": [0, 1, 2, 2], "b": [0, 0, 1, 1]}, coded, rho=10, randomness=Replay(seed=0))
    bare = Release(release.domain, release.measurements, release.statement)
    assert column(bare.marginal("a", draws=2), "a") == [0, 1, 2]
    assert len(bare.marginal("a", where="a >= 1", draws=2)) == 2
    drawn = bare.sample(50, seed=0)
    assert drawn.names == release.sample(1).names
    assert set(column(drawn, "b")) == {0, 1}


def test_any_query_and_any_workload_is_answered(release: Release) -> None:
    domain = release.domain
    query = Query.product(domain, {"age": Prefix(), "sex": Identity()})
    table = release.answer(query, draws=4)
    np.testing.assert_allclose(column(table, "estimate"), release.model.answer(query).ravel())
    assert column(table, "age")[:2] == ["≤ [0, 10)", "≤ [0, 10)"]
    assert release.answer(Query.product(domain, {"age": Range(0, 1)}), draws=4).names[0] == "estimate"
    one = release.answer(Query.product(domain, {"children": Mean([0, 1, 2, 3])}), draws=4)
    assert column(one, "estimate") == pytest.approx(column(release.sum("children", draws=4), "estimate"))
    many = release.answer(Workload.marginals(domain, 1), draws=4)
    assert len(many) == sum(domain.shape)
    assert column(many, "cell")[4] == "null"
    assert column(many, "query")[-1] == "smoker"
    with pytest.raises(DomainError):
        release.answer(Query.marginal(Schema.coded({"x": 2}).domain, "x"))
    with pytest.raises(OptionError, match="Query or a Workload"):
        release.answer("age")  # type: ignore[arg-type]


def test_answers_say_where_they_come_from() -> None:
    table = rows()
    release = fit(table, SCHEMA, rho=1, mechanism="independent", randomness=Replay(seed=0))
    assert set(column(release.marginal("age", draws=3), "source")) == {"measured"}
    assert set(column(release.marginal("age", "sex", draws=3), "source")) == {"independent by assumption"}
    # The model says nothing of where in a bin values lie.
    assert column(release.count("age >= 30", draws=3), "source") == ["inferred"]
    assert column(release.count("age >= 25", draws=3), "source") == ["measured"]
    kept = [m for m in release.measurements if m.query.clique != ("age",)]
    less = Release(release.domain, tuple(kept), release.statement, SCHEMA)
    guessed = less.marginal("age", "sex", draws=3)
    assert set(column(guessed, "source")) == {"prior"}
    # Nobody knows how far off a guess is, so that it must not look sure.
    assert set(column(guessed, "low")) == set(column(guessed, "high")) == {None}


def test_where_an_estimate_cannot_be_repeated_only_what_was_measured_has_an_interval() -> None:
    release = fit(rows(), SCHEMA, rho=1, mechanism="privbayes", randomness=Replay(seed=0))
    measured = next(m for m in release.measurements if m.query.is_marginal and m.query.clique)
    table = release.marginal(*measured.query.clique)
    low, high = (np.array(column(table, end)) for end in ("low", "high"))
    assert (low <= np.maximum(measured.values.ravel(), 0)).all()
    assert (high >= measured.values.ravel()).all()
    unknown = release.mean("age", by="smoker")
    assert column(unknown, "low") == column(unknown, "high") == [None, None]


def test_the_interval_of_a_mean_does_not_depend_on_where_zero_is() -> None:
    values = np.arange(500) % 60
    groups = np.where(values < 20, "a", "b").tolist()
    found = []
    for zero in (0, 10**9, 10**12):
        columns = [f"  {name}: {{kind: category, levels: [a, b], other: b}}" for name in ("g", "h")]
        columns.append(f"  x: {{kind: integer, bounds: [{zero}, {zero + 59}], bins: 6, nullable: true}}")
        schema = Schema.parse("\n".join(["priory: 1", "name: far", "columns:", *columns]))
        data = {"x": values + zero, "g": groups, "h": groups}
        release = fit(data, schema, rho=0.1, mechanism="mst", randomness=Replay(seed=0))
        table = release.mean("x", by=["g", "h"], draws=5)
        found.append([[end - zero for end in column(table, name)] for name in ("estimate", "low", "high")])
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=0.01)


def test_no_end_of_a_mean_lies_where_no_mean_can() -> None:
    release = fit(rows(20), SCHEMA, rho="0.001", mechanism="independent", randomness=Replay(seed=1))
    table = release.mean("children", level=0.99, draws=10)
    assert (column(table, "low"), column(table, "high")) == ([0], [3])


def test_nothing_is_claimed_of_pairs_where_no_pair_was_measured() -> None:
    release = fit(rows(2000), SCHEMA, rho="1", mechanism="independent", randomness=Replay(seed=1))
    table = release.marginal("children", "sex", draws=10)
    assert set(column(table, "low")) == set(column(table, "high")) == {None}
    assert set(column(table, "source")) == {"independent by assumption"}


@pytest.mark.statistical
def test_intervals_of_means_and_counts_hold_the_truth_about_as_often_as_they_say() -> None:
    """90 % intervals of 8 answers in 8 fits; even if fits hit all or nothing, fewer than 4 have a chance of 4e-4."""
    data = rows(2000)
    mean = float(np.mean(data["children"]))
    counts = np.bincount(data["children"], minlength=4)
    hits = 0
    for seed in range(8):
        release = fit(data, SCHEMA, rho="0.05", mechanism="independent", randomness=Replay(seed=seed))
        one = release.mean("children", draws=20).to_dict()
        many = release.marginal("children", draws=20).to_dict()
        tail = release.cdf("children", draws=20).to_dict()
        hits += one["low"][0] <= mean <= one["high"][0]
        hits += sum(low <= n <= high for low, n, high in zip(many["low"], counts, many["high"], strict=True))
        shares = counts.cumsum() / counts.sum()
        hits += sum(low <= n <= high for low, n, high in zip(tail["low"][:3], shares, tail["high"], strict=False))
    assert hits >= 32


@pytest.mark.parametrize("container", ["dict", "pandas", "polars", "arrow"])
@pytest.mark.parametrize("name", ["sex", "day", "pay band", "children", "smoker"])
def test_a_condition_takes_the_values_that_answers_have_in_every_container(name: str, container: str) -> None:
    library = {"dict": "numpy", "arrow": "pyarrow"}.get(container, container)
    pytest.importorskip(library)
    columns = {
        "day": "{kind: date, bounds: [2000-01-01, 2000-01-03], bins: {every: day}, nullable: true}",
        "sex": "{kind: category, levels: [F, M], nullable: true}",
        "pay band": "{kind: ordinal, levels: [low, mid, high], nullable: true}",
        "children": "{kind: integer, bounds: [0, 3], nullable: true}",
        "smoker": "{kind: boolean, nullable: true}",
    }
    lines = [f"  {each}: {words}" for each, words in columns.items()]
    schema = Schema.parse("\n".join(["priory: 1", "name: listed", "columns:", *lines]))
    data = {**{each: values for each, values in rows(50).items() if each in columns}, "day": ["2000-01-02"] * 50}
    release = fit(data, schema, rho=1, mechanism="independent", randomness=Replay(seed=0))
    table = release.marginal(name, level=None)
    found = getattr(table, f"to_{container}")()
    values = found[name].to_pylist() if container == "arrow" else list(found[name])
    for value, estimate in zip(values, column(table, "estimate"), strict=True):
        assert column(release.count({name: value}, level=None), "estimate") == [pytest.approx(estimate)]


def test_a_column_named_like_an_answer_keeps_its_name() -> None:
    schema = Schema.coded({"estimate": 2, "low": 2})
    release = fit({"estimate": [0, 1], "low": [1, 1]}, schema, rho=1, randomness=Replay(seed=0))
    table = release.marginal("estimate", draws=2)
    assert table.names == ("estimate", "estimate_", "low", "high", "source")
    assert column(table, "estimate") == [0, 1]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda r: r.marginal("agee"), "did you mean 'age'?"),
        (lambda r: r.marginal("age", "age"), "named twice"),
        (lambda r: r.mean("sex"), "text levels"),
        (lambda r: r.sum("born"), "cannot be added up"),
        (lambda r: r.median("sex"), "no order"),
        (lambda r: r.cdf("smoker"), "no order"),
        (lambda r: r.mean("age", by="age"), "what is asked about"),
        (lambda r: r.mean(["age"]), "no column ['age']"),
        (lambda r: r.mean("age", by=None), "got None"),
        (lambda r: r.marginal(None), "no column None"),
        (lambda r: r.correlation(["age", ["sex"]]), "no column ['sex']"),
        (lambda r: r.quantile("age", 1.5), "from 0 to 1"),
        (lambda r: r.quantile("age", "0.5"), "from 0 to 1"),
        (lambda r: r.count(level="0.9"), "between 0 and 1"),
        (lambda r: r.marginal("age", level=2), "between 0 and 1"),
        (lambda r: r.count(where="sex = 'X'"), "'X' is not a level"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(release: Release, ask: Any, words: str) -> None:
    with pytest.raises(OptionError) as refused:
        ask(release)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_answers_than_anybody_can_read_are_refused_before_they_are_made() -> None:
    names = {f"c{i}": 100 for i in range(5)}
    release = fit({name: [0] for name in names}, Schema.coded(names), rho=1, randomness=Replay(seed=0))
    with pytest.raises(SizeError, match="10,000,000,000 answers"):
        release.marginal(*names)
    with pytest.raises(SizeError, match="100,000,000 answers"):
        release.share("c0", given=["c1", "c2", "c3"])


def test_a_note_stands_under_its_table(release: Release) -> None:
    table = release.count("age >= 30", draws=2)
    assert "Note: [25, 40) of 'age' is one bin" in str(table)
    assert "is one bin" in table._repr_html_()
    assert table.head(1).notes == table.notes


def test_intervals_of_a_few_answers_are_not_blown_up_by_degrees_of_freedom_that_do_not_exist() -> None:
    schema = Schema.coded({"a": 4, "b": 4})
    exact = {"a": [0] * 700 + [1] * 200 + [2] * 60 + [3] * 40}
    release = fit({**exact, "b": exact["a"]}, schema, rho="0.25", randomness=Replay(seed=0))
    table = release.marginal("a").to_dict()
    widths = np.array(table["high"]) - np.array(table["low"])
    assert (widths < 10 * release.measurements[0].stddev).all()


def test_answers_and_rows_of_a_release_that_is_not_private_say_so(release: Release) -> None:
    for table in (release.count(draws=2), release.mean("age", draws=2), release.sample(3), release.sample(150_000)):
        assert "NOT PRIVATE" in str(table)
    private = fit(rows(), SCHEMA, rho=1)
    assert "NOT PRIVATE" not in str(private.count(draws=2)) + str(private.sample(3))


def test_without_a_level_the_same_answers_come_without_intervals() -> None:
    release = fit(rows(200), SCHEMA, rho=1, mechanism="independent", randomness=Replay(seed=1))
    for verb in (release.marginal, release.mean, release.median, release.share):
        whole, alone = verb("children", level=0.9), verb("children", level=None)
        assert [name for name in whole.names if name not in alone.names] == ["low", "high"]
        assert column(alone, "estimate") == column(whole, "estimate")
        assert column(alone, "source") == column(whole, "source")


def test_cases_that_were_measured_inferred_and_known_before_add_up() -> None:
    domain = pr.Domain.of({"a": 3, "b": 3, "c": 2, "d": 2})
    schema = Schema.coded({"a": 3, "b": 3, "c": 2, "d": 2})
    rng = np.random.default_rng(0)
    queries = [pr.Query.marginal(domain, clique) for clique in (("a", "b"), ("b", "c"))]
    measurements = [pr.Measurement.of(query, 100 * rng.random(query.shape), 5.0) for query in queries]
    release = pr.declared_release(measurements, schema, pr.Budget.of(rho=1))
    mixed = release.count("(a = 0 and b = 0) or (a = 1 and c = 0)")
    assert column(mixed, "source") == ["inferred"]
    parts = [release.count("a = 0 and b = 0"), release.count("a = 1 and c = 0")]
    assert column(mixed, "estimate")[0] == pytest.approx(sum(column(part, "estimate")[0] for part in parts))
    before = release.count("(a = 0 and b = 0) or (a = 1 and d = 0)")
    assert (column(before, "source"), column(before, "low")) == (["prior"], [None])
