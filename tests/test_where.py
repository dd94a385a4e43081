import itertools
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.answer.selection import Selection
from priory.answer.where import Where, modelled
from priory.data.schema import Schema
from priory.errors import OptionError

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  who: {kind: id}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 10, 25, 40, 99]}, nullable: true}
  sex: {kind: category, levels: [F, M], nullable: true}
  école-1: {kind: ordinal, levels: [aucune, primaire, lycée], other: aucune}
  "owns home": {kind: boolean, nullable: true}
  born: {kind: date, bounds: [2000-01-01, 2003-12-31], bins: {every: year}, nullable: true}
  wage: {kind: real, bounds: [0, 100], bins: 4, nullable: true}
  code: {kind: category, levels: [1, 5, 3], other: 3}
"""
)

Row = Mapping[str, object]
Holds = Callable[[Row], bool | None]


def boxes(text: str) -> tuple[Mapping[str, Selection], ...]:
    return Where.of(text, SCHEMA).boxes


def weight(where: Where, codes: Mapping[str, int]) -> float:
    """Which share of a cell's values is selected."""
    return sum(
        float(np.prod([s.weights(modelled(SCHEMA, name))[codes[name]] for name, s in box.items()]))
        for box in where.boxes
    )


# Atoms over columns whose codes are single values, with what they say of a row; None for unknown, as in SQL.
ATOMS: list[tuple[str, Holds]] = [
    ("sex = 'F'", lambda row: None if row["sex"] is None else row["sex"] == "F"),
    ("sex <> 'F'", lambda row: None if row["sex"] is None else row["sex"] != "F"),
    ("sex is null", lambda row: row["sex"] is None),
    ("sex is not null", lambda row: row["sex"] is not None),
    ('"owns home"', lambda row: row["owns home"]),  # type: ignore[list-item, return-value]
    ("école-1 >= primaire", lambda row: row["école-1"] != "aucune"),
    ("école-1 in ('aucune', 'lycée')", lambda row: row["école-1"] != "primaire"),
    ("code > 2", lambda row: row["code"] in (3, 5)),
    ("3 >= code", lambda row: row["code"] in (1, 3)),
]
VALUES: dict[str, list[object]] = {
    "sex": ["F", "M", None],
    "école-1": ["aucune", "primaire", "lycée"],
    "owns home": [False, True, None],
    "code": [1, 5, 3],
}


def opposite(holds: Holds) -> Holds:
    return lambda row: None if (held := holds(row)) is None else not held


def both(one: Holds, other: Holds) -> Holds:
    def holds(row: Row) -> bool | None:
        found = (one(row), other(row))
        return False if False in found else None if None in found else True

    return holds


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Holds]:
    kind = draw(st.sampled_from(["atom", "not", "and", "or"])) if depth else "atom"
    if kind == "atom":
        return draw(st.sampled_from(ATOMS))
    text, holds = draw(conditions(depth - 1))
    if kind == "not":
        return f"not ({text})", opposite(holds)
    other_text, other = draw(conditions(depth - 1))
    if kind == "and":
        return f"({text}) AND ({other_text})", both(holds, other)
    return f"({text}) or ({other_text})", opposite(both(opposite(holds), opposite(other)))


@settings(max_examples=150, deadline=None)
@given(conditions())
def test_a_condition_selects_the_rows_that_sql_would_and_none_of_them_twice(condition: tuple[str, Holds]) -> None:
    text, holds = condition
    cells = list(itertools.product(*VALUES.values()))
    wanted = [holds(dict(zip(VALUES, values, strict=True))) is True for values in cells]
    if not any(wanted):
        with pytest.raises(OptionError, match="nothing can satisfy"):
            Where.of(text, SCHEMA)
        return
    where = Where.of(text, SCHEMA)
    found = [
        weight(where, {name: VALUES[name].index(value) for name, value in zip(VALUES, values, strict=True)})
        for values in cells
    ]
    assert found == [float(each) for each in wanted]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(-3, 30), st.integers(-3, 30)), max_size=5), st.data())
def test_selections_behave_as_sets_of_points(spans: list[tuple[int, int]], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.tuples(st.integers(-3, 30), st.integers(-3, 30)), max_size=5))
    one, other = Selection.of(spans), Selection.of(others, null=True)

    def points(selection: Selection) -> set[int]:
        return {p for p in range(-5, 35) if any(low <= p < high for low, high in selection.spans)}

    assert points(one & other) == points(one) & points(other)
    assert points(one | other) == points(one) | points(other)
    assert points(~one) == set(range(-5, 35)) - points(one)
    assert ((one & other).null, (one | other).null, (~other).null) == (False, True, False)


@settings(max_examples=100)
@given(st.integers(-5, 110), st.integers(-5, 110))
def test_a_range_takes_of_each_bin_the_share_of_its_values_that_it_holds(low: int, high: int) -> None:
    column = modelled(SCHEMA, "age")
    selection = Selection.of([(low, high + 1)])
    edges = [0, 10, 25, 40, 100]
    for code, (first, end) in enumerate(itertools.pairwise(edges)):
        held = [age for age in range(first, end) if low <= age <= high]
        assert selection.weights(column)[code] == pytest.approx(len(held) / (end - first))
        assert selection.sums(column)[code] == pytest.approx(sum(held) / (end - first))
    assert selection.weights(column)[4] == 0


@pytest.mark.parametrize(
    ("text", "column", "weights"),
    [
        ("age between 10 and 24", "age", [0, 1, 0, 0, 0]),
        ("age not between 10 and 24", "age", [1, 0, 1, 1, 0]),
        ("10 <= age < 40", "age", [0, 1, 1, 0, 0]),
        ("age < 10 or age >= 40 or age is null", "age", [1, 0, 0, 1, 1]),
        ("born >= 2002", "born", [0, 0, 1, 1, 0]),
        ("born > 2002", "born", [0, 0, 0, 1, 0]),
        ("born = '2001'", "born", [0, 1, 0, 0, 0]),
        ("born < 2001-01-01", "born", [1, 0, 0, 0, 0]),
        ("born between 2001-01 and 2002-12", "born", [0, 1, 1, 0, 0]),
        ("wage >= 50 and wage <= 75", "wage", [0, 0, 1, 0, 0]),
        ("wage < 1e1", "wage", [0.4, 0, 0, 0, 0]),
        ("`owns home` = false", "owns home", [1, 0, 0]),
        ("not sex in (F)", "sex", [0, 1, 0]),
        ("code in ('5', 1)", "code", [1, 1, 0]),
    ],
)
def test_values_are_read_by_the_kind_of_their_column(text: str, column: str, weights: list[float]) -> None:
    [box] = boxes(text)
    assert box[column].weights(modelled(SCHEMA, column)) == pytest.approx(weights)


def test_conditions_on_one_column_are_joined_before_bins_are_cut() -> None:
    [box] = boxes("age >= 12 and age < 14")
    assert box["age"].weights(modelled(SCHEMA, "age"))[1] == pytest.approx(2 / 15)


def test_a_mapping_says_the_same_as_a_text() -> None:
    given_as = {"sex": ["F", None], "age": range(10, 25), "owns home": True}
    text = (
        'sex = \'F\' and age between 10 and 24 and "owns home" or sex is null and age between 10 and 24 and "owns home"'
    )
    assert Where.of(given_as, SCHEMA).boxes == boxes(text)


def test_bins_that_are_cut_are_named() -> None:
    [note] = Where.of("age >= 30", SCHEMA).notes(SCHEMA)
    assert "[25, 40) of 'age'" in note
    assert "66.7 %" in note
    assert Where.of("age >= 25", SCHEMA).notes(SCHEMA) == ()
    with pytest.raises(OptionError, match=r"\[25, 40\) of 'age' is one bin"):
        Where.of("age >= 30", SCHEMA).codes(SCHEMA)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agee = 3", "no column 'agee'; did you mean 'age'?"),
        ("owns = true", 'did you mean "owns home"? Put names with spaces in double quotes'),
        ("who = 3", "'who' is of kind id"),
        ("sex = 'f'", "'f' is not a level; did you mean 'F'?"),
        ("école-1 = lycee", "did you mean 'lycée'?"),
        ("sex < 'F'", "without an order"),
        ('"owns home" > true', "true or false"),
        ('"owns home" = maybe', "neither true nor false"),
        ("wage = 5", "ask for a range"),
        ("age = 2.5", "whole numbers only"),
        ("age = old", "'old' is not a number"),
        ("age = 200", "outside the bounds"),
        ("age > 200", "nothing can satisfy"),
        ("age = null", "age is null"),
        ("code is null", "never null"),
        ("born > yesterday", "2024-03-01"),
        ("born = 2001-13", "no month"),
        ("sex = 'F", "is not closed"),
        ("sex = 'F' and", "name of a column was expected at the end"),
        ("(sex = 'F'", "')' was expected at the end"),
        ("sex = 'F') or", "expected at ')"),
        ("sex", "a comparison of 'sex'"),
        ("sex not = 'F'", "in or between"),
        ("sex in ()", "a value of 'sex'"),
        ("sex ; drop table", "';' has no meaning here"),
        ("age between 30 and 20", "smaller one first"),
        ("and", "name of a column"),
        ("", "empty"),
        (3, "a text such as"),
        ({"agee": 3}, "did you mean 'age'?"),
        ({"sex": "X"}, "there are: 'F', 'M'"),
        ({"code": [None]}, "never null"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_to_do(text: object, words: str) -> None:
    with pytest.raises(OptionError) as refused:
        Where.of(text, SCHEMA)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_too_many_cases_are_refused() -> None:
    schema = Schema.coded({f"c{i}": 3 for i in range(14)})
    text = " or ".join(f"(c{i} = 0 and c{i + 1} = 1)" for i in range(0, 14, 2))
    with pytest.raises(OptionError, match="separate cases"):
        Where.of(text, schema)


def test_no_text_at_all_makes_the_reader_fail_otherwise() -> None:
    chance = random.Random(0)  # noqa: S311 - it makes up texts
    pieces = [
        "age",
        "sex",
        "'F'",
        "=",
        "<",
        "(",
        ")",
        "and",
        "or",
        "not",
        "in",
        ",",
        "between",
        "is",
        "null",
        "3",
        '"',
        "é",
        " ",
    ]
    for _ in range(3000):
        text = " ".join(chance.choice(pieces) for _ in range(chance.randint(1, 9)))
        try:
            assert Where.of(text, SCHEMA).boxes
        except OptionError:
            continue


def test_a_spike_of_reals_can_be_asked_for_and_left_out() -> None:
    schema = Schema.parse(
        "priory: 1\nname: x\ncolumns:\n"
        "  paid: {kind: real, bounds: [0, 100], bins: 2, spikes: [0, 100], nullable: true}\n"
    )
    column = modelled(schema, "paid")
    expected = {
        "paid = 0": [1, 0, 0, 0, 0],
        "paid <> 0": [0, 1, 1, 1, 0],
        "paid > 0": [0, 1, 1, 1, 0],
        "paid <= 0": [1, 0, 0, 0, 0],
        "paid >= 50 and paid < 100": [0, 0, 1, 0, 0],
        "paid in (0, 100)": [1, 0, 0, 1, 0],
    }
    for text, weights in expected.items():
        where = Where.of(text, schema)
        assert sum(box["paid"].weights(column) for box in where.boxes).tolist() == weights, text  # type: ignore[union-attr]
        assert where.notes(schema) == ()
    with pytest.raises(OptionError, match="real numbers have no count of their own"):
        Where.of("paid = 1", schema)


@pytest.mark.parametrize("text", ["(" * 5000 + "age = 1" + ")" * 5000, "age = 1 or " * 20_000 + "age = 1"])
def test_a_condition_that_is_nested_deeply_or_has_no_end_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(OptionError, match=r"brackets are open|letters; ask in parts"):
        Where.of(text, SCHEMA)


def test_not_can_be_said_as_often_as_one_likes() -> None:
    assert Where.of("not " * 5000 + "sex = 'F'", SCHEMA).boxes == Where.of("sex = 'F'", SCHEMA).boxes


@pytest.mark.parametrize("number", ["1e4000000000", "-1e-4000000000", "9" * 5000, "0." + "1" * 5000])
def test_a_number_of_any_length_in_a_condition_is_compared_or_refused(number: str) -> None:
    for sign in ("=", "<", ">="):
        try:
            Where.of(f"age {sign} {number}", SCHEMA)
        except OptionError:
            continue
