import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from priory.data import yaml_reader
from priory.data.kinds import Boolean, Category, ModelledColumn, Moment, Number, Unmodelled, bins
from priory.data.schema import Group, Schema, file
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order
from priory.data.visible import visible
from priory.errors import SchemaError
from strategies_data import DAY, columns, schemas

SAMPLE = """\
priory: 1
name: people
person: person id
columns:
  person id: {kind: id}
  district: {kind: category, levels: [Altstadt, "Hafen, Nord"], other: elsewhere}
  zone: {kind: category, levels: [centre, port], other: port}
  education: {kind: ordinal, levels: [none, primary], nullable: true, nulls: ["?"]}
  employment: {kind: category, levels: [employed, none], nullable: true}
  age: {kind: integer, bounds: [0, 110], bins: 22, other: 0}
  income: {kind: real, bounds: [0, 250000], bins: {edges: [0, 1, 5000, 250000]}, nullable: true}
  born: {kind: date, bounds: [1930-01-01, 2025-12-31], bins: {every: year}, nullable: true}
  moved in: {kind: date, bounds: [1930-01-01, 2025-12-31], bins: {every: year}, nullable: true}
  owns home: {kind: boolean, nullable: true, true: [yes], false: [no]}
  remarks: {kind: text}
groups:
  - by: [district]
constraints:
  - forbid: {age: {below: 15}, employment: [employed]}
  - determine: {column: zone, by: district, map: {Altstadt: centre}}
  - order: [born, moved in]
"""


def one(options: str) -> str:
    return f"priory: 1\nname: x\ncolumns:\n  a: {options}\n"


def parse_one(options: str) -> Any:
    return Schema.parse(one(options)).columns[0]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(schemas())
def test_a_schema_written_and_read_again_is_the_same(schema: Schema) -> None:
    assert Schema.parse(schema.dump()) == schema
    assert Schema.parse(schema.dump().replace("\n", "\r\n")) == schema


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(schemas(), st.lists(st.text(max_size=200), max_size=3))
def test_comments_change_nothing_and_no_text_escapes_them(schema: Schema, comments: list[str]) -> None:
    everywhere = dict.fromkeys(["", *(column.name for column in schema.columns)], comments)
    text = file.dump(schema, everywhere)
    assert Schema.parse(text) == schema
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{delimiter: ""}', "delimiter is one character"),
        ("{decimal: ;}", 'decimal is "." or ","'),
        ('{decimal: ",", thousands: ","}', "must differ"),
        ("{encoding: klingon}", "there is no encoding 'klingon'"),
        ("{encoding: rot13}", "there is no encoding 'rot13'"),
        ("{header: 3}", "header is true or false"),
        ("{delimeter: ;}", "did you mean 'delimiter'"),
    ],
)
def test_an_error_in_reading_names_its_line_and_the_fix(options: str, message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Schema.parse(f"priory: 1\nname: t\nreading: {options}\ncolumns: {{a: {{kind: boolean, nullable: true}}}}\n")
    assert caught.value.line == 3


@given(schemas())
def test_every_code_has_one_label_and_bad_cells_a_code(schema: Schema) -> None:
    for column in schema.modelled:
        assert len(set(column.labels)) == len(column.labels) == column.size == schema.domain[column.name]
        assert 0 <= column.other_code < column.size
        assert column.null_code == (column.size - 1 if column.nullable else None)
    assert visible(schema.name) in str(schema)
    assert schema._repr_html_().startswith("<table>")


def test_the_sample_means_what_it_says() -> None:
    schema = Schema.parse(SAMPLE)
    assert [column.kind for column in schema.columns][:6] == [
        "id",
        "category",
        "category",
        "ordinal",
        "category",
        "integer",
    ]
    assert schema.person == "person id"
    assert schema.domain["district"] == 3
    assert schema.column("district").labels == ("Altstadt", "Hafen, Nord", "elsewhere")  # type: ignore[union-attr]  # modelled
    age, income, born, owns = (schema.column(name) for name in ("age", "income", "born", "owns home"))
    assert isinstance(age, Number)
    assert age.edges == (*range(0, 110, 5), 111)
    assert age.labels[-1] == "[105, 110]"
    assert isinstance(income, Number)
    assert income.labels == ("[0, 1)", "[1, 5000)", "[5000, 250000]", "null")
    assert isinstance(born, Moment)
    assert (born.size, born.labels[0]) == (97, "1930")
    assert isinstance(owns, Boolean)
    assert (owns.true, owns.false) == (("yes",), ("no",))
    assert schema.groups[0].codes(schema.columns) == [(0,), (1,)]
    assert "remarks" not in schema.domain


def test_yaml_does_not_surprise() -> None:
    text = "[no, yes, on, Off, 007, 12:30, 2024-03-01, 0x1f, 1_000, 1e3, '1', true, ~, 1., .5]"
    values = [item.data for item in yaml_reader.read(text).items("list")]
    assert values == [
        "no", "yes", "on", "Off", "007", "12:30", "2024-03-01", "0x1f", "1_000", 1000.0, "1", True, None, 1.0, 0.5,
    ]  # fmt: skip


def test_aliases_are_read_and_cannot_explode() -> None:
    assert Schema.parse(
        one("&c {kind: category, levels: &l [u, v], nullable: true}").rstrip()
        + "\n  b: {kind: ordinal, levels: *l, nullable: true}\n"
    ).domain.shape == (3, 3)
    lists = ["&a0 [x, x, x, x, x, x, x, x, x, x]", *(f"&a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 15))]
    bomb = one(f"{{kind: category, nullable: true, levels: [{', '.join(lists)}]}}")
    with pytest.raises(SchemaError, match="a level must be a single value; got a list"):
        Schema.parse(bomb)
    with pytest.raises(SchemaError, match="too deeply"):
        yaml_reader.read("&a [*a]")
    with pytest.raises(SchemaError, match="too deeply"):
        yaml_reader.read("[" * 5000 + "]" * 5000)


def test_a_byte_order_mark_windows_lines_and_any_alphabet_are_read(tmp_path: Path) -> None:
    path = tmp_path / "schéma.yaml"
    path.write_bytes(
        b"\xef\xbb\xbf" + one('{kind: category, levels: [Ünï, "日本"], nullable: true}').replace("\n", "\r\n").encode()
    )
    schema = Schema.load(path)
    assert schema.domain.shape == (3,)
    schema.save(tmp_path / "again.yaml")
    assert Schema.load(tmp_path / "again.yaml") == schema


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"missing\.yaml.*cannot be read"):
        Schema.load(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes("priory: 1\nname: Käse\n".encode("latin-1"))
    with pytest.raises(SchemaError, match=r"latin\.yaml, line 2: .*UTF-8"):
        Schema.load(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", None, None, "empty"),
        ("a: b: c", 1, None, "not valid YAML"),
        ("name: x\n", 1, None, "begin with 'priory: 1'"),
        ("priory: 2\nname: x\n", 1, None, "version"),
        ("priory: 1\nname: x\nname: y\ncolumns: {}\n", 3, None, "already given in line 2"),
        ("priory: 1\nname: x\ncolumns: {}\n", 1, None, "no column is modelled"),
        ("priory: 1\ncolumns: {}\n", 1, None, "needs name"),
        ("priory: 1\nname: x\ncolums: {}\n", 3, None, "did you mean 'columns'"),
        ("priory: 1\nname: x\ncolumns:\n  a: {kind: text}\n  b: 3\n", 5, "b", "must be a mapping"),
        ("priory: 1\nname: x\ncolumns:\n  a: {kind: text}\n  a: {kind: text}\n", 5, None, "already given in line 4"),
        ("priory: 1\nname: x\nperson: q\ncolumns:\n  a: {kind: boolean, nullable: true}\n", 3, "q", "no such column"),
        ("priory: 1\nname: x\nperson: a\ncolumns:\n  a: {kind: boolean, nullable: true}\n", 3, "a", "kind id"),
        (one("!secret {kind: text}"), 4, None, "tags"),
    ],
)
def test_an_error_in_the_file_names_line_column_and_fix(
    text: str, line: int | None, column: str | None, message: str
) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.parse(text, path="people.yaml")
    assert (caught.value.line, caught.value.column, caught.value.path) == (line, column, "people.yaml")


YEAR = "kind: date, bounds: [2023-01-01, 2024-01-01], nullable: true"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{levels: [u]}", "needs kind"),
        ("{kind: catgory}", "did you mean 'category'"),
        ("{kind: text, other: x}", "has no 'other'"),
        ("{kind: category, levls: [u]}", "did you mean 'levels'"),
        ("{kind: category}", "needs levels"),
        ("{kind: category, levels: [], nullable: true}", "no levels"),
        ("{kind: category, levels: [u, 1], nullable: true}", "all texts or all integers"),
        ("{kind: category, levels: [true], nullable: true}", "put it in quotes"),
        ("{kind: category, levels: [1.5], nullable: true}", "put it in quotes"),
        ("{kind: category, levels: [1], other: x}", "all texts or all integers"),
        ("{kind: category, levels: [9007199254740993], nullable: true}", "text levels"),
        ("{kind: category, levels: [u]}", "add nullable: true, or other"),
        ("{kind: category, levels: [u], nullable: yes}", "true or false; got 'yes'"),
        ("{kind: category, levels: [u], nullable: true, nulls: [u]}", "both a level"),
        ("{kind: integer, nullable: true}", "needs bounds"),
        ("{kind: integer, bounds: [1], nullable: true}", "two values"),
        ("{kind: integer, bounds: [9, 1], nullable: true}", "reversed"),
        ("{kind: real, bounds: [1, 1], bins: 2, nullable: true}", "empty"),
        ("{kind: real, bounds: [1, 2], nullable: true}", "needs bins"),
        ("{kind: real, bounds: [1, x], bins: 2, nullable: true}", "finite number; got 'x'"),
        ("{kind: real, bounds: [1, 1e999], bins: 2, nullable: true}", "finite number"),
        ("{kind: integer, bounds: [0.5, 2], nullable: true}", "whole number"),
        ("{kind: integer, bounds: [0, 5], bins: 0, nullable: true}", "at least 1"),
        ("{kind: integer, bounds: [0, 5], bins: 7, nullable: true}", "7 bins for 6 integers"),
        ("{kind: integer, bounds: [0, 5], bins: many, nullable: true}", "at least 1; got 'many'"),
        ("{kind: integer, bounds: [0, 5], bins: {log: 2, edges: []}, nullable: true}", "one of"),
        ("{kind: integer, bounds: [0, 5], bins: {edges: [0, 3, 3, 5]}, nullable: true}", "rise"),
        ("{kind: integer, bounds: [0, 5], bins: {edges: [0, 3]}, spikes: [2], nullable: true}", "end at the upper"),
        ("{kind: integer, bounds: [0, 5], spikes: [6], nullable: true}", "widen the bounds"),
        ("{kind: integer, bounds: [0, 5], spikes: [1, 1.0], nullable: true}", "spike 1 is listed twice; keep one"),
        ("{kind: integer, bounds: [0, 5], spikes: [1.5], nullable: true}", "round it, or use kind: real"),
        ("{kind: real, bounds: [0, 5], bins: 2, spikes: [zero], nullable: true}", "a spike must be a finite number"),
        ("{kind: real, bounds: [0, 5], bins: 2, spikes: 0, nullable: true}", "spikes"),
        ("{kind: integer, bounds: [0, 5], bins: {edges: [0, 3]}, nullable: true}", "end at the upper"),
        ("{kind: real, bounds: [-1, 5], bins: {log: 3}, nullable: true}", "not negative"),
        ("{kind: real, bounds: [0, 5], bins: 10001, nullable: true}", "10,001 bins"),
        ("{kind: integer, bounds: [0, 999999], nullable: true}", "1,000,001 levels.*id or text"),
        ("{kind: integer, bounds: [0, 5], other: 9}", "outside the bounds"),
        ("{kind: date, bounds: [2024-13-01, 2025-01-01], bins: 2, nullable: true}", "2024-03-01"),
        ("{kind: date, bounds: [2024-01-01, 2023-01-01], bins: 2, nullable: true}", "reversed"),
        (f"{{{YEAR}}}", "needs bins"),
        (f"{{{YEAR}, bins: {{every: fortnight}}}}", "no unit"),
        (f"{{{YEAR}, bins: {{every: hour}}}}", "no hours"),
        (f"{{{YEAR}, bins: 2, format: '%d.%j.%Y'}}", "%j"),
        (f"{{{YEAR}, bins: 2, format: '%d.%m'}}", "needs a year"),
        (f"{{{YEAR}, bins: 2, format: '%d.%m.%Y %I:%M'}}", "%p, AM or PM"),
        (f"{{{YEAR}, bins: 2, format: '%d.%m.%Y %y'}}", "nothing twice"),
        ("{kind: boolean, nullable: true, true: [x], false: [x]}", "two meanings"),
        ("{kind: boolean, other: maybe}", "true or false"),
        ("!!python/object/apply:os.system [x]", "must be a mapping"),
    ],
)
def test_an_error_in_a_column_names_line_column_and_fix(options: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.parse(one(options))
    assert (caught.value.line, caught.value.column) == (4, "a")


def test_a_duplicate_level_is_found_in_the_line_of_the_levels() -> None:
    with pytest.raises(SchemaError, match=r"line 6, column 'a': level 'u' is listed twice"):
        Schema.parse(one("\n    kind: category\n    levels: [u, v, u]\n    nullable: true"))


BOOLEAN = "{kind: boolean, nullable: true}"
HALVES = "{kind: integer, bounds: [0, 9], bins: 2, other: 0}"


@pytest.mark.parametrize(
    ("options", "part", "column", "message"),
    [
        (BOOLEAN, "groups:\n  - {by: [b]}\n", "b", "no such column"),
        (BOOLEAN, "groups:\n  - {by: [a], values: [[maybe]]}\n", "a", "not true"),
        (BOOLEAN, "constraints:\n  - {order: [a]}\n", None, "at least two"),
        (BOOLEAN, "constraints:\n  - {forbid: {b: true}}\n", "b", "declared and modelled"),
        (BOOLEAN, "constraints:\n  - {forbid: {a: {below: 1}}}\n", "a", "order"),
        (BOOLEAN, "constraints:\n  - {forbids: {a: true}}\n", None, "did you mean 'forbid'"),
        (HALVES, "constraints:\n  - {forbid: {a: {below: 3}}}\n", "a", "wholly inside"),
        (HALVES, "constraints:\n  - {forbid: {a: {null: true}}}\n", "a", "not nullable"),
    ],
)
def test_an_error_in_a_group_or_constraint_names_its_line(
    options: str, part: str, column: str | None, message: str
) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.parse(one(options) + part)
    assert (caught.value.line, caught.value.column) == (6, column)


def test_a_million_levels_are_refused_with_their_number() -> None:
    assert Category.of("a", range(999_998), nullable=True).size == 999_999
    with pytest.raises(SchemaError, match=r"column 'a': 1,000,000 levels .* id or text, or group them"):
        Category.of("a", range(999_999), nullable=True)
    with pytest.raises(SchemaError, match=r"10,000,000,001"):
        Number.of("a", whole=True, low=0, high=10**10, other=0)
    with pytest.raises(SchemaError, match="levels"):
        bins.calendar_units("a", 0, 86_400_000_000 * 365 * 200, "hour", clock=True)


def test_a_column_is_declared_once() -> None:
    column = Boolean.of("a", nullable=True)
    with pytest.raises(SchemaError, match=r"column 'a': .*twice"):
        Schema.of([column, column], name="x")


@given(st.integers(-50, 50), st.integers(0, 60), st.data())
def test_equal_bins_of_integers_cover_them_and_differ_by_one(low: int, span: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, span + 1))
    edges = bins.equal_width("a", low, low + span, count, whole=True)
    widths = set(np.diff(edges))
    assert (edges[0], edges[-1], len(edges)) == (low, low + span + 1, count + 1)
    assert max(widths) - min(widths) <= 1


@given(st.integers(0, 50), st.integers(0, 3000), st.data())
def test_logarithmic_bins_of_integers_each_hold_one(low: int, span: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, span + 1))
    edges = bins.logarithmic("a", low, low + span, count, whole=True)
    assert (edges[0], edges[-1], len(edges)) == (low, low + span + 1, count + 1)
    assert min(np.diff(edges)) >= 1


def test_logarithmic_bins_grow_by_a_ratio() -> None:
    assert bins.logarithmic("a", 1, 10000, 4, whole=False) == (1, 10, 100, 1000, 10000)
    assert bins.logarithmic("a", 0, 999, 3, whole=False) == (0, 9, 99, 999)
    assert len(bins.logarithmic("a", 1e-313, 1e300, 5, whole=False)) == 6


@pytest.mark.parametrize(
    ("every", "labels"),
    [
        ("year", ["[2023-11-20, 2024-01-01)", "[2024-01-01, 2024-03-05]"]),
        ("quarter", ["[2023-11-20, 2024-01-01)", "[2024-01-01, 2024-03-05]"]),
        ("month", ["[2023-11-20, 2023-12-01)", "2023-12", "2024-01", "2024-02", "[2024-03-01, 2024-03-05]"]),
    ],
)
def test_calendar_bins_begin_where_their_units_do(every: str, labels: list[str]) -> None:
    column = parse_one(f"{{kind: date, bounds: [2023-11-20, 2024-03-05], bins: {{every: {every}}}, nullable: true}}")
    assert column.place_labels == tuple(labels)


def test_weeks_begin_on_monday_and_hours_on_the_hour() -> None:
    week = parse_one("{kind: date, bounds: [2024-03-01, 2024-03-12], bins: {every: week}, nullable: true}")
    assert week.place_labels[1] == "[2024-03-04, 2024-03-11)"
    hour = parse_one("{kind: datetime, bounds: [2024-03-01, 2024-03-01], bins: {every: hour}, nullable: true}")
    assert hour.places == 24
    assert hour.place_labels[23] == "[2024-03-01T23:00, 2024-03-01T23:59:59.999999]"


def brute_force(schema: Schema) -> list[tuple[tuple[str, ...], np.ndarray[Any, Any]]]:
    """Impossible cells found by trying every whole value of every bin."""
    found = {column.name: column for column in schema.modelled}
    zeros = []
    for constraint in schema.constraints:
        for clique in constraint.cliques:
            ordered = schema.domain.clique(clique)
            values = {name: [_values(found[name], code) for code in range(found[name].size)] for name in clique}
            mask = np.zeros([schema.domain[name] for name in ordered], dtype=bool)
            for cell in np.ndindex(mask.shape):
                at = dict(zip(ordered, cell, strict=True))
                rows = itertools.product(*(values[name][at[name]] for name in clique))
                mask[cell] = not any(_allowed(constraint, clique, row) for row in rows)
            zeros.append((ordered, mask))
    return zeros


def _values(column: ModelledColumn, code: int) -> list[Any]:
    if code == column.null_code:
        return [None]
    match column:
        case Category():
            return [column.values[code]]
        case Boolean():
            return [bool(code)]
        case _:
            return list(range(int(column.edges[code]), int(column.edges[code + 1])))


def _allowed(constraint: object, clique: tuple[str, ...], row: tuple[Any, ...]) -> bool:
    match constraint:
        case Order():
            return None in row or row[0] <= row[1]
        case Determine():
            given, value = row
            return value is None or dict(constraint.values).get(given, value) == value
        case Forbid():
            return not all(map(_holds, constraint.conditions, row))
    raise AssertionError(clique)


def _holds(condition: Condition, value: Any) -> bool:
    if condition.null or value is None:
        return condition.null and value is None
    if condition.values:
        return value in condition.values
    below, above = condition.below, condition.above
    return (below is None or value < below) and (above is None or value > above)


@given(st.data())
def test_structural_zeros_are_the_cells_without_an_allowed_value(data: st.DataObject) -> None:
    edges = st.lists(st.integers(0, 12), min_size=2, max_size=5, unique=True).map(sorted)
    nullable = st.booleans()

    def number(name: str) -> Number:
        points = data.draw(edges)
        return Number.of(
            name,
            whole=True,
            low=points[0],
            high=points[-1] - 1,
            edges=points,
            other=points[0],
            nullable=data.draw(nullable),
        )

    u, v = number("u"), number("v")
    levels = ["a", "b", "c"]
    w = Category.of("w", levels, other="d", nullable=data.draw(nullable))
    x = Category.of("x", levels, other="a", nullable=data.draw(nullable))
    limit = data.draw(st.sampled_from(u.edges[1:]))
    picked = data.draw(st.lists(st.sampled_from([*levels, "d"]), min_size=1, unique=True))
    constraints: list[Constraint] = [
        Order(columns=("v", "u")),
        Forbid(conditions=(Condition(column="w", values=tuple(picked)), Condition(column="u", below=limit))),
        Forbid(conditions=(Condition(column="v", above=v.edges[0] - 1), Condition(column="x", values=("b",)))),
        Determine(column="x", by="w", values=(("a", "b"), ("d", "c"))),
    ]
    if x.nullable:
        constraints.append(Forbid(conditions=(Condition(column="w", values=("b",)), Condition(column="x", null=True))))
    schema = Schema.of([u, v, w, x], name="x", constraints=constraints)
    for (clique, mask), (expected_clique, expected) in zip(schema.impossible(), brute_force(schema), strict=True):
        assert clique == expected_clique
        np.testing.assert_array_equal(mask, expected)


def test_conditions_on_reals_take_whole_bins_only() -> None:
    column = Number.of("a", whole=False, low=0, high=3, edges=[0, 1, 2, 3], nullable=True)
    assert Condition(column="a", below=2).mask(column).tolist() == [True, True, False, False]
    assert Condition(column="a", below=2.5).mask(column).tolist() == [True, True, False, False]
    # The last bin holds its upper edge, so that it is not wholly below it.
    assert Condition(column="a", below=3).mask(column).tolist() == [True, True, False, False]
    assert Condition(column="a", above=0).mask(column).tolist() == [False, True, True, False]
    twin = Number.of("b", whole=False, low=0, high=3, edges=[0, 1, 2, 3], nullable=True)
    schema = Schema.of([column, twin], name="x", constraints=[Order(columns=("a", "b"))])
    expected = [[False, False, False], [True, False, False], [True, True, False]]
    assert schema.impossible()[0][1][:3, :3].tolist() == expected


def test_a_real_spike_is_a_value_that_conditions_can_name() -> None:
    column = Number.of("a", whole=False, low=0, high=3, edges=[0, 1, 3], spikes=[3, 0], nullable=True)
    assert column.labels == ("0", "(0, 1)", "[1, 3)", "3", "null")
    assert column.short_labels == ("0", ">0–1", "1–3", "3")
    assert Condition(column="a", values=(0, 3)).mask(column).tolist() == [True, False, False, True, False]
    assert Condition(column="a", above=0).mask(column).tolist() == [False, True, True, True, False]
    assert Condition(column="a", below=3).mask(column).tolist() == [True, True, True, False, False]
    with pytest.raises(SchemaError, match="by value only where it is one of spikes"):
        Condition(column="a", values=(0, 1)).mask(column)


def test_bins_with_spikes_are_written_in_the_words_they_were_given() -> None:
    for bins_given in ("bins: 4", "bins: {log: 3}", "bins: {edges: [0, 7, 100]}"):
        for kind in ("integer", "real"):
            text = f"{{kind: {kind}, bounds: [0, 100], {bins_given}, spikes: [0, 25, 99, 100], nullable: true}}"
            column = parse_one(text)
            dumped = Schema.of([column], name="x").dump()
            assert bins_given in dumped.replace(".0", "").replace("101]", "100]")
    single = parse_one("{kind: integer, bounds: [0, 9], spikes: [0, 5], nullable: true}")
    assert single.edges == parse_one("{kind: integer, bounds: [0, 9], nullable: true}").edges


def test_a_constraint_on_too_many_cells_is_refused() -> None:
    wide = [Number.of(name, whole=True, low=0, high=9999, nullable=True) for name in "ab"]
    with pytest.raises(SchemaError, match=r"100,020,001 cells"):
        Schema.of(wide, name="x", constraints=[Order(columns=("a", "b"))])


def test_groups_without_values_are_all_declared_levels() -> None:
    district = Category.of("d", ["n", "s"], other="elsewhere", nullable=True)
    member = Boolean.of("m", nullable=True)
    group = Group(by=("d", "m"), values=None)
    assert group.codes([district, member]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    with pytest.raises(SchemaError, match="2 values"):
        Schema.of([district, member], name="x", groups=[Group(by=("d", "m"), values=(("n",),))])
    with pytest.raises(SchemaError, match="twice"):
        Schema.of([district], name="x", groups=[Group(by=("d",), values=(("n",), ("n",)))])


def test_a_coded_schema_has_the_sizes_asked_for() -> None:
    schema = Schema.coded({"age": 85, "sex": 2})
    assert schema.domain.shape == (85, 2)
    assert schema.column("sex") == Category.of("sex", [0, 1], other=1)


def test_the_adult_schema_has_the_sizes_of_the_coded_table() -> None:
    schema = Schema.load(Path(__file__).parent / "schemas" / "adult.yaml")
    assert schema.domain.shape == (85, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)


@given(columns("a"))
def test_columns_are_equal_to_themselves_built_again(column: ModelledColumn) -> None:
    kind: Any = type(column)
    declared = {field.name for field in dataclasses.fields(kind) if field.compare}
    assert kind.of(**{key: value for key, value in vars(column).items() if key in declared}) == column


def test_unmodelled_columns_have_names_too() -> None:
    with pytest.raises(SchemaError, match="not empty"):
        Unmodelled.of("", kind="text")


def test_a_date_alone_bounds_a_datetime_by_the_whole_day() -> None:
    column = parse_one("{kind: datetime, bounds: [1970-01-01, 1970-01-02], bins: 2, nullable: true}")
    assert (column.low, column.high, column.edges) == (0, 2 * DAY - 1, (0, DAY, 2 * DAY))
