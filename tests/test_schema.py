import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from priory.data import yaml_reader
from priory.data.kinds import Boolean, Category, ModelledColumn, Moment, Number, Unmodelled, bins
from priory.data.schema import Schema, file
from priory.data.visible import visible
from priory.errors import SchemaError
from strategies_data import columns, schemas

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
    with pytest.raises(SchemaError, match=r"line 4: there are more than .* values"):
        Schema.parse(bomb)
    with pytest.raises(SchemaError, match=r"line 1: \*a is not named with &a before"):
        yaml_reader.read("&a [*a]")
    with pytest.raises(SchemaError, match="too deeply"):
        yaml_reader.read("[" * 5000 + "]" * 5000)


def test_a_second_document_is_refused() -> None:
    with pytest.raises(SchemaError, match="line 2: there is a second document"):
        yaml_reader.read("a: 1\n--- 2\n")


def test_all_columns_together_have_a_bounded_number_of_codes() -> None:
    columns = [Number.of(f"c{i}", whole=True, low=0, high=600_000, other=0) for i in range(2)]
    Schema.of(columns[:1], name="one")
    with pytest.raises(SchemaError, match="all columns together have more than 1,000,000 levels and bins"):
        Schema.of(columns, name="both")


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
