"""Schemas without rows: names alone, answers in the terminal, codebooks."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import priory
from priory.data.kinds import Boolean, Category, Moment, Number
from priory.data.schema import Schema
from priory.data.schema.codebook import read_codebook
from priory.data.schema.open import OpenColumn, OpenSchema, read_names
from priory.errors import DataError, PrioryError, SchemaError

names = st.lists(st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()), min_size=1, unique=True)
SECRET = "Anna Secret"


@given(names, st.data())
def test_names_alone_are_written_and_read_again(given: list[str], data: st.DataObject) -> None:
    person = data.draw(st.sampled_from([None, *given]))
    opened = OpenSchema.of("people", given, person=person)
    assert OpenSchema.parse(opened.dump()) == opened
    assert len(opened.open) == len(given) - (person is not None)
    with pytest.raises(SchemaError):
        Schema.parse(opened.dump())


def test_kinds_may_be_declared_for_some_columns() -> None:
    opened = OpenSchema.parse(
        "priory: 1\nname: x\nperson: who\ncolumns:\n  who: {}\n  a: {kind: category, nulls: ['?']}\n"
        "  b: {kind: integer, bounds: [0, 9], nullable: true}\n  c:\n  d: {kind: date, format: '%d.%m.%Y'}\n"
    )
    assert opened.open == (
        OpenColumn(name="a", kind="category", nulls=("?",)),
        OpenColumn(name="c"),
        OpenColumn(name="d", kind="date", format="%d.%m.%Y"),
    )
    assert isinstance(opened.columns[2], Number)
    assert OpenSchema.parse(opened.dump()) == opened


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("priory: 1\nname: x\ncolumns:\n  a: {kind: integer, levels: [1]}\n", "levels"),
        ("priory: 1\nname: x\nperson: b\ncolumns:\n  a: {}\n", "no such column"),
        ("priory: 1\nname: x\nperson: a\ncolumns:\n  a: {kind: boolean, nullable: true}\n", "kind id"),
        ("name: x\ncolumns:\n  a: {}\n", "priory"),
    ],
)
def test_what_does_not_fit_is_an_error(text: str, match: str) -> None:
    with pytest.raises(SchemaError, match=match):
        OpenSchema.parse(text)


def test_of_a_private_file_nothing_but_names_is_read(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"name;age\n{SECRET};17\n")
    assert read_names(path) == ["name", "age"]
    done = priory("schema", "init", path, "--header-only", "--has-header")
    assert done.returncode == 0
    assert [column.name for column in OpenSchema.parse(done.stdout).columns] == ["name", "age"]
    assert "17" not in done.stdout + done.stderr


def test_whether_there_is_a_header_has_to_be_said(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{SECRET},17\n")
    for verb in (
        ["schema", "init", path, "--header-only"],
        ["schema", "ask", path],
        ["schema", "discover", path, "--epsilon", 1],
    ):
        refused = priory(*verb)
        assert refused.returncode == 2
        assert "never guessed" in refused.stderr
        assert SECRET not in refused.stdout + refused.stderr
    named = priory("schema", "init", path, "--header-only", "--columns", "name, age")
    opened = OpenSchema.parse(named.stdout)
    assert [column.name for column in opened.columns] == ["name", "age"]
    assert not opened.reading.header
    assert SECRET not in named.stdout + named.stderr


def test_a_discovery_says_what_it_spent_and_left_out(tmp_path: Path) -> None:
    path, output = tmp_path / "people.csv", tmp_path / "people.yaml"
    path.write_text("town,note\n" + "".join(f"{'north' if i % 2 else 'south'},note {i}\n" for i in range(900)))
    done = priory("schema", "discover", path, "--has-header", "--epsilon", 5, "--delta", "1e-9", "--output", output)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "Spent ε = " in done.stderr
    assert "Left out: note." in done.stderr
    assert Schema.load(output).discovered


def test_a_refused_discovery_says_that_nothing_was_spent(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\nAnna,17\n")
    known = ["schema", "discover", path, "--has-header"]
    for wrong in (
        ["--epsilon", "much"],
        ["--epsilon", 1, "--output", path],
        ["--epsilon", 1, "--max-rows", 2],
        ["--delta", 1],
    ):
        refused = priory(*known, *wrong)
        assert refused.returncode == 2
        assert "Nothing was spent" in refused.stderr


def test_answers_in_the_terminal_make_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("who,age,town,height,member\n1,17,Ulm,1.7,yes\n")
    # The first answer about age has its bounds reversed, and is asked for again.
    answers = [
        "id",
        "integer",
        "99, 0",
        "integer",
        "0, 99",
        "category",
        "Ulm, Bonn",
        "real",
        "0, 3",
        "",
        "boolean",
        "who",
    ]
    done = priory("schema", "ask", path, "--has-header", answers="\n".join(answers) + "\n")
    assert done.returncode == 0, done.stderr
    schema = Schema.parse(done.stdout)
    assert schema.person == "who"
    kinds = {"who": "id", "age": "integer", "town": "category", "height": "real", "member": "boolean"}
    assert {column.name: column.kind for column in schema.columns} == kinds
    assert "reversed" in done.stderr


def test_a_codebook_of_values_and_labels_is_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "codebook.csv"
    path.write_text(
        "Variable,Value,Label\nsex,1,male\nsex,2,female\nage,0-120,age in years\nage,999,not known\n"
        "region,N,north\nregion,S,south\nweight,0.0 to 300.0,kg\nremark,,free words\n"
    )
    opened, comments = read_codebook(path)
    sex, age, region, weight, remark = opened.columns
    assert isinstance(sex, Category)
    assert sex.levels == (1, 2)
    assert isinstance(age, Number)
    assert (age.low, age.high, age.nulls) == (0, 120, ("999",))
    assert isinstance(region, Category)
    assert (region.levels, region.other) == (("N", "S"), "other")
    assert isinstance(weight, Number)
    assert not weight.whole
    assert remark == OpenColumn(name="remark")
    assert comments["sex"] == ("1 = male; 2 = female",)
    assert "# 1 = male; 2 = female" in opened.dump(comments)


def test_a_frictionless_table_schema_is_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "table-schema.json"
    fields = [
        {"name": "id", "type": "string"},
        {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"], "required": True}},
        {"name": "age", "type": "integer", "title": "Age", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "score", "type": "number", "constraints": {"minimum": 0, "maximum": 1}},
        {"name": "born", "type": "date", "constraints": {"minimum": "1900-01-01", "maximum": "2025-12-31"}},
        {"name": "smoker", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
        {"name": "note", "type": "string"},
        {"name": "place", "type": "geopoint"},
    ]
    text = {"fields": fields, "missingValues": ["", "NA"], "primaryKey": "id"}
    path.write_text(json.dumps({"resources": [{"schema": text}]}))
    opened, comments = read_codebook(path)
    kinds = ["id", "category", "integer", "real", "date", "boolean", None, "text"]
    assert [column.kind for column in opened.columns] == kinds
    assert [column.name for column in opened.open] == ["note"]
    _, sex, age, score, born, smoker, note, _ = opened.columns
    assert isinstance(sex, Category)
    assert isinstance(age, Number)
    assert isinstance(score, Number)
    assert isinstance(born, Moment)
    assert isinstance(smoker, Boolean)
    assert (age.low, age.high, age.nulls) == (0, 99, ("NA",))
    assert (smoker.true, smoker.false) == (("yes",), ("no",))
    assert note == OpenColumn(name="note", nulls=("NA",))
    assert comments["age"] == ("Age",)


DDI = """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
 <var name="SEX" intrvl="discrete"><labl>Sex of person</labl>
  <catgry><catValu>1</catValu><labl>Male</labl></catgry>
  <catgry><catValu>2</catValu><labl>Female</labl></catgry>
  <catgry missing="Y"><catValu>9</catValu><labl>Unknown</labl></catgry>
  <varFormat type="numeric"/></var>
 <var name="AGE" intrvl="contin"><labl>Age</labl>
  <valrng><range min="0" max="99"/></valrng><varFormat type="numeric"/></var>
 <var name="NAME"><labl>Name</labl><varFormat type="character"/></var>
</dataDscr></codeBook>"""


def test_a_ddi_codebook_is_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "ddi.xml"
    path.write_text(DDI)
    opened, comments = read_codebook(path, name="survey")
    sex, age, name = opened.columns
    assert opened.name == "survey"
    assert isinstance(sex, Category)
    assert (sex.levels, sex.nulls) == ((1, 2), ("9",))
    assert isinstance(age, Number)
    assert (age.low, age.high) == (0, 99)
    assert name == OpenColumn(name="NAME")
    assert comments["SEX"] == ("Sex of person", "1 = Male; 2 = Female")
    done = priory("schema", "from-codebook", path)
    assert done.returncode == 0
    assert "Still open: NAME" in done.stderr


@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE a [<!ENTITY x SYSTEM "secret.txt">]>',
        '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;">]>',
        '<!DOCTYPE a SYSTEM "somewhere.dtd">',
    ],
)
def test_xml_that_reaches_out_is_refused(tmp_path: Path, declaration: str) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    path = tmp_path / "ddi.xml"
    path.write_text(f'{declaration}<codeBook><var name="a"><labl>&x;</labl></var></codeBook>')
    with pytest.raises(DataError, match="document type"):
        read_codebook(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x,y\n1,2\n"),
        ("a.csv", ""),
        ("a.json", "[]"),
        ("a.json", "{"),
        ("a.json", '{"fields": [{}]}'),
        ("a.json", "[" * 100_000),
        ("a.json", '{"fields": [{"name": "a", "constraints": {"minimum": 1, "maximum": "1e4000000000"}}]}'),
        ("a.json", '{"fields": [{"name": "a", "constraints": {"minimum": [[]], "maximum": 2}}]}'),
        ("a.csv", f"column,value,label\na,1 - {'9' * 5000},x\n"),
        ("a.xml", "<a/>"),
        ("a.xml", "<a"),
        ("a.docx", ""),
        ("missing.csv", None),
    ],
)
def test_what_is_no_codebook_is_said_so(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(PrioryError):
        read_codebook(tmp_path / name)
