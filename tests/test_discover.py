"""Discovery: what is learnt from private rows, what it costs, and that no single person shows."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import priory as pr
from priory.app.discover import discover
from priory.data.kinds import Boolean, Category, Moment, Number
from priory.data.schema import Schema
from priory.data.schema.open import OpenSchema
from priory.errors import BudgetError, LedgerError, OptionError, SchemaError
from priory.privacy.book import Terms
from priory.privacy.budget import Budget, Currency, rounded_up
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger, describe
from priory.privacy.randomness import Replay
from priory.privacy.statement import cost_of, described_cost, sum_of

ROWS = 4_000


def people(rows: int = ROWS) -> dict[str, list[object]]:
    rng = np.random.default_rng(5)
    income = np.where(rng.random(rows) < 0.6, 0, rng.lognormal(8, 1, rows)).round()
    return {
        "who": [str(i) for i in range(rows)],
        "town": [["north", "south", "west"][i] for i in rng.integers(3, size=rows)],
        "age": [str(each) for each in rng.integers(18, 90, rows)],
        "income": [str(int(each)) for each in income],
        "height": [f"{each:.2f}" for each in rng.normal(170, 8, rows)],
        "since": [
            f"{year}-03-{day:02}"
            for year, day in zip(rng.integers(1995, 2020, rows), rng.integers(1, 29, rows), strict=True)
        ],
        "member": [["yes", "no", "NA"][i] for i in rng.integers(3, size=rows)],
        "note": [f"note {i}" for i in range(rows)],
        "gone": [None] * rows,
    }


def columns_of(schema: Schema) -> dict[str, Any]:
    return {column.name: column for column in schema.columns}


def test_a_table_is_learnt_as_its_columns_are() -> None:
    # With noise of the right size from a seed: bounds hang on single cells of a grid, and vary from run to run.
    learnt = discover(people(), epsilon=20, delta="1e-9", randomness=Replay(seed=3))
    found = columns_of(learnt.schema)
    town, age = found["town"], found["age"]
    income, height = found["income"], found["height"]
    assert isinstance(town, Category)
    assert town.levels == ("north", "south", "west")
    assert isinstance(age, Number)
    assert age.whole
    assert 10 <= age.low <= 18
    assert 89 <= age.high <= 99
    assert isinstance(income, Number)
    assert list(income.spikes) == [0]
    assert income.high >= 20_000
    assert isinstance(height, Number)
    assert not height.whole
    assert 100 <= height.low < 155
    assert 185 < height.high <= 200
    since, member = found["since"], found["member"]
    assert isinstance(since, Moment)
    assert [since.point_text(each) for each in (since.low, since.high)] == ["1995-01-01", "2019-12-31"]
    assert isinstance(member, Boolean)
    assert (member.true, member.false, member.nulls) == (("yes",), ("no",), ("NA",))
    assert [found[name].kind for name in ("who", "note", "gone")] == ["integer", "text", "text"]


def test_what_was_learnt_can_be_read_again_with_its_cost() -> None:
    learnt = discover(people(), epsilon=5, delta="1e-9")
    assert Schema.parse(learnt.dump()) == learnt.schema
    assert learnt.cost.epsilon is not None
    assert 0 < learnt.cost.epsilon <= 5
    assert learnt.cost.additive <= Fraction(1, 2 * 10**9)
    assert "# Seen, with noise: " in learnt.dump()


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.lists(
            st.one_of(st.none(), st.text(max_size=3), st.integers(-5, 5), st.floats(), st.dates()),
            min_size=4,
            max_size=4,
        ),
        min_size=1,
    ),
    st.sampled_from(["add-remove", "replace-one"]),
    st.sampled_from([None, "1e-6"]),
    st.integers(0, 99),
)
def test_no_cell_makes_it_fail(table: dict[str, list[object]], relation: str, delta: str | None, seed: int) -> None:
    data = {name: cells * 50 for name, cells in table.items()}
    # Test noise at a budget so large that whatever is there shows.
    learnt = discover(data, epsilon=10**4, delta=delta, relation=relation, randomness=Replay(seed=seed))
    assert "NOT PRIVATE" in learnt.dump()


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [0, 1])
def test_of_one_row_or_none_only_names_are_told(rows: int, relation: str) -> None:
    table = {"a": ["secret"] * rows, "b": ["7654321"] * rows, "c": [None] * rows}
    learnt = discover(table, epsilon=1, delta="1e-9", relation=relation)
    with pytest.raises(SchemaError, match="no column is modelled"):
        _ = learnt.schema
    text = learnt.dump()
    assert "secret" not in text
    assert "7654321" not in text
    assert OpenSchema.parse(text).open == tuple(learnt.opened.open)


def test_a_person_with_many_rows_adds_no_level() -> None:
    crowd = {"who": [str(i) for i in range(2_000)], "town": ["north"] * 2_000}
    flood = {"who": ["p"] * 3_000, "town": [f"secret {i % 3}" for i in range(3_000)]}
    both = {name: crowd[name] + flood[name] for name in crowd}
    learnt = discover(both, epsilon=10, delta="1e-9", unit="who", max_rows=5)
    assert "secret" not in learnt.dump()
    column = learnt.schema.column("town")
    assert isinstance(column, Category)
    assert column.levels == ("north",)
    # As rows, each of the same values is found: it is the bound on persons that keeps them out.
    as_rows = discover({"town": both["town"]}, epsilon=10, delta="1e-9")
    assert "secret 1" in as_rows.dump()


def test_a_pure_budget_learns_kinds_and_bounds_without_values() -> None:
    learnt = discover(people(), epsilon=50)
    found = columns_of(learnt.schema)
    assert isinstance(found["age"], Number)
    assert "north" not in learnt.dump()
    assert "needs a delta" in " ".join(learnt.comments["town"])
    assert learnt.cost.delta is None


def test_declared_columns_are_not_looked_at() -> None:
    opened = OpenSchema.parse(
        "priory: 1\nname: x\nperson: who\ncolumns:\n  who:\n  town: {kind: category}\n"
        "  age: {kind: integer, bounds: [0, 99], nullable: true}\n"
        "  note: {kind: text}\n"
    )
    randomness = Replay(seed=1)
    table = {name: cells for name, cells in people().items() if name != "income"}
    learnt = discover(table, opened, epsilon=5, delta="1e-9", randomness=randomness)
    assert learnt.schema.person == "who"
    assert learnt.schema.column("age") == opened.columns[2]
    assert len(randomness.asked) == 1
    assert len(randomness.asked_values) == 1


def test_kinds_can_be_given_by_name() -> None:
    table = {"code": [str(1 + i % 3) for i in range(900)], "note": ["x"] * 900}
    learnt = discover(table, epsilon=5, delta="1e-9", kinds={"code": "category", "note": "text"})
    code = learnt.schema.column("code")
    assert isinstance(code, Category)
    assert code.levels == (1, 2, 3)
    assert learnt.schema.column("note").kind == "text"
    for wrong, said in (({"cod": "category"}, "no such column is open"), ({"code": "categry"}, "did you mean")):
        with pytest.raises(SchemaError, match=said):
            discover(table, epsilon=5, delta="1e-9", kinds=wrong)


def test_the_names_of_a_parquet_file_need_no_word_about_a_header(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"code": [1, 2] * 500, "day": ["2020-01-01"] * 1000}), tmp_path / "a.parquet")
    learnt = discover(tmp_path / "a.parquet", epsilon=5, delta="1e-9")
    assert {column.name: column.kind for column in learnt.schema.columns} == {"code": "integer", "day": "date"}


def test_a_book_made_without_a_schema_pays_and_is_bound_by_the_first_fit(tmp_path: Path) -> None:
    total = Budget.of(epsilon=4, delta="1e-9", additive="1e-10")
    book = Ledger.create(tmp_path / "a.ledger", Terms("people", "", total))
    learnt = discover(people(), epsilon=2, delta="1e-9", ledger=tmp_path / "a.ledger")
    [entry] = book.entries()
    assert entry.mechanism == "schema discovery"
    assert 0 < entry.charged_additive <= Fraction(1, 10**10)
    assert {event.currency for event in entry.events} == {Currency.GAUSSIAN}
    schema = learnt.schema
    release = pr.fit(people(), schema, epsilon=1, delta="1e-9", ledger=book, mechanism="independent")
    assert release.statement.discovered is not None
    words = next(line for line in release.statement.lines if line.startswith("parts: "))
    assert f"ε = {rounded_up(release.statement.discovered.epsilon or Fraction(0))}" in words
    release.save(tmp_path / "a.priory")
    assert pr.load(tmp_path / "a.priory").statement == release.statement
    with pytest.raises(LedgerError, match="another schema"):
        pr.fit(people(), Schema.coded({"age": 3}), epsilon="1/10", delta="1e-9", ledger=tmp_path / "a.ledger")


def test_a_refused_fit_binds_nothing(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "a.ledger", Terms("people", "", Budget.pure("1/10")))
    with pytest.raises(BudgetError):
        pr.fit({"age": [0]}, Schema.coded({"age": 3}), epsilon=1, ledger=book, mechanism="independent")
    assert not Ledger.open(tmp_path / "a.ledger").terms.schema


def test_what_cannot_be_paid_is_refused_before_any_look(tmp_path: Path) -> None:
    plain = Ledger.create(tmp_path / "a.ledger", Terms("people", "", Budget.approximate(1, "1e-9")))
    pure = Ledger.create(tmp_path / "b.ledger", Terms("people", "", Budget.pure(1)))
    with pytest.raises(BudgetError, match="set aside"):
        discover(people(), epsilon="1/2", delta="1e-9", ledger=plain)
    with pytest.raises(BudgetError, match="pure"):
        discover(people(), epsilon="1/2", delta="1e-9", ledger=pure)
    with pytest.raises(BudgetError) as caught:
        discover(people(), epsilon=2, ledger=pure)
    assert caught.value.spent is not None
    assert not caught.value.spent
    with pytest.raises(LedgerError, match="unit"):
        discover(people(), OpenSchema.of("x", ["who", "age"], person="who"), epsilon="1/2", ledger=pure)
    with pytest.raises(OptionError, match="unit"):
        discover(people(), epsilon="1/2", max_rows=3)
    assert not plain.entries()
    assert not pure.entries()


def test_whether_a_file_has_a_header_is_never_guessed(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("Anna,17\nBert,18\n")
    with pytest.raises(OptionError, match="never guessed") as caught:
        discover(path, epsilon=1, delta="1e-9")
    assert "Anna" not in str(caught.value)


def test_a_run_that_ends_early_leaves_what_it_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, partial = tmp_path / "a.yaml", tmp_path / "a.yaml.partial"
    right, calls = Curator.values, []

    def interrupted(self: Curator, *arguments: Any) -> Any:
        calls.append(arguments[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return right(self, *arguments)

    monkeypatch.setattr(Curator, "values", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        discover(people(), epsilon=9, delta="1e-9", output=output)
    assert str(partial) in caught.value.spent.text  # type: ignore[attr-defined]
    assert not output.exists()
    kept = OpenSchema.load(partial)
    known = {column.name: column for column in kept.columns if column not in kept.open}
    assert isinstance(known["town"], Category)
    assert isinstance(known["age"], Number)
    assert {"note", "gone"} <= {column.name for column in kept.open}
    assert "ended early" in partial.read_text()
    monkeypatch.undo()
    with pytest.raises(OptionError, match="ended early"):
        discover(people(), epsilon=9, delta="1e-9", output=output)
    # Another run goes on from there: it looks at the open columns alone, and the schema states the cost of both.
    partial.rename(tmp_path / "before.yaml")
    learnt = discover(people(), tmp_path / "before.yaml", epsilon=2, delta="1e-9", output=output)
    assert output.read_text() == learnt.dump()
    assert not partial.exists()
    assert set(learnt.found) == {column.name for column in kept.open}
    assert learnt.schema.column("town") == known["town"]
    first, both = cost_of(kept.discovered), cost_of(Schema.load(output).discovered)
    assert first is not None
    assert both is not None
    assert learnt.cost.amount > 0
    assert both.amount >= first.amount + learnt.cost.amount
    assert both.delta == Fraction(2, 10**9)


def test_what_is_learnt_later_must_be_about_the_same_neighbours(tmp_path: Path) -> None:
    before = described_cost(Budget.approximate(1, "1e-9", Currency.GAUSSIAN))
    opened = replace(OpenSchema.of("people", ["age", "town"]), discovered=before)
    (tmp_path / "a.yaml").write_text(opened.dump())
    assert OpenSchema.load(tmp_path / "a.yaml") == opened
    with pytest.raises(SchemaError, match="add-remove neighbours") as caught:
        discover(people(), tmp_path / "a.yaml", epsilon=1, delta="1e-9", relation="replace-one")
    assert not caught.value.spent


def test_values_of_few_persons_are_nowhere(tmp_path: Path) -> None:
    table = people()
    for name in ("town", "since", "note"):
        table[name][7] = "canary-zebra"
    table["income"][8] = "8765432109"
    book = Ledger.create(
        tmp_path / "a.ledger", Terms("people", "", Budget.of(epsilon=9, delta="1e-9", additive="1e-10"))
    )
    learnt = discover(table, epsilon=8, delta="1e-9", ledger=book)
    learnt.save(tmp_path / "a.yaml")
    shown = [learnt.dump(), repr(learnt), repr(book), repr(describe(book)), (tmp_path / "a.yaml").read_text()]
    shown.append((tmp_path / "a.ledger").read_bytes().decode("latin-1"))
    # The ledger holds some thousand random digits: shorter numbers would be in it by chance.
    for secret in ("canary", "zebra", "8765432109", "note 17"):
        assert not any(secret in text for text in shown)


def test_a_cost_that_was_edited_is_refused_before_anything_is_paid() -> None:
    schema = replace(Schema.coded({"age": 3}), discovered=(("currency", "gaussian"), ("amount", "much")))
    with pytest.raises(SchemaError, match="discovered") as caught:
        pr.fit({"age": [0]}, schema, epsilon=1, mechanism="independent")
    assert not caught.value.spent


def test_costs_about_other_neighbours_are_not_added() -> None:
    cost = Budget.approximate(1, "1e-9", Currency.GAUSSIAN, max_rows=3)
    schema = replace(Schema.coded({"age": 3}), discovered=described_cost(cost))
    release, again = (
        pr.fit({"age": [0, 1]}, schema, epsilon=1, delta="1e-9", mechanism="independent") for _ in range(2)
    )
    line = release.statement.lines[0]
    assert "does not add up" in line
    assert "at most 3 rows" in line
    both = pr.combine([release, again])
    assert both.statement.discovered == release.statement.discovered


def test_both_costs_are_added_in_one_currency() -> None:
    one = Budget.approximate(1, "1e-9", Currency.GAUSSIAN)
    other = Budget.approximate("1/2", "1e-9", Currency.GAUSSIAN, additive="1e-10")
    both = sum_of(one, other)
    assert both.amount == one.amount + other.amount
    assert (both.delta, both.additive) == (Fraction(2, 10**9), Fraction(1, 10**10))
    assert both.epsilon is not None
    assert 1 < both.epsilon < Fraction(3, 2)
    assert sum_of(Budget.zcdp("1/10"), one).currency is Currency.ZCDP
    assert sum_of(Budget.pure(1), Budget.pure(2)).amount == 3
    # As ρ the sum of a pure ε and an (ε, δ) would promise 9.5: that every ε adds up holds, too.
    assert sum_of(Budget.pure(1), Budget.approximate(5, "1e-9")).epsilon == 6
    again = cost_of(described_cost(other))
    assert again is not None
    assert other.amount <= again.amount <= other.amount * (1 + Fraction(1, 10**4))
    assert cost_of(()) is None
    with pytest.raises(SchemaError, match="discovered"):
        cost_of([("currency", "gold")])
