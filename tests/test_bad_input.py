"""Every verb, given what it cannot use: one line, its exit code, no traceback, nothing left behind, nothing spent."""

import inspect
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from priory.app.fit import fit
from priory.cli import main
from priory.data.schema import Schema
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms
from priory.release import Release
from priory.release.archive import write_archive

SCHEMA = """priory: 1
name: people
columns:
  who: {kind: id}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 20, 40, 99]}, nullable: true}
  "größe in cm": {kind: real, bounds: [0, 250], bins: 5, nullable: true}
  sex: {kind: category, levels: [F, M], other: M}
"""
TABLE = "who,age,größe in cm,sex\n" + "a,3,120,F\nb,30,180.5,M\n" * 20
FIT = ("fit", "table.csv", "--schema", "s.yaml", "-o", "new.priory")
PAID = (*FIT, "--epsilon", "1", "--ledger", "a.ledger")
QUERY, SAMPLE, PLAN = ("query", "a.priory"), ("sample", "a.priory"), ("plan", "--schema", "s.yaml")
ESTIMATE = ("estimate", "m.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1")

BAD: list[tuple[tuple[str, ...], int, str]] = [
    # fit
    (("fit", "no.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "no.csv cannot be opened"),
    (("fit", "table.dta", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "a kind that cannot be read"),
    (("fit", ".", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "without Parquet files"),
    (("fit", "narrow.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "column 'sex'"),
    (("fit", "empty.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "is empty"),
    (("fit", "latin.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "not UTF-8"),
    (("fit", "ragged.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "more or fewer cells"),
    (("fit", "table.csv", "--schema", "no.yaml", "-o", "new.priory", "--epsilon", "1"), 3, "no.yaml"),
    (("fit", "table.csv", "--schema", "bad.yaml", "-o", "new.priory", "--epsilon", "1"), 3, "bad.yaml, line 4"),
    (FIT, 2, "give epsilon"),
    ((*FIT, "--epsilon", "-1"), 2, "above 0"),
    ((*FIT, "--epsilon", "nan"), 2, "finite number"),
    ((*FIT, "--epsilon", "1", "--delta", "2"), 2, "below 1"),
    ((*FIT, "--epsilon", "1", "--rho", "1"), 2, "not both"),
    ((*FIT, "--epsilon", "1", "--mechanism", "magic"), 2, "'magic' is not one of"),
    ((*FIT, "--epsilon", "1", "--relation", "swap"), 2, "relation"),
    ((*FIT, "--epsilon", "1", "--unit", "sex"), 2, "kind: id"),
    ((*FIT, "--epsilon", "1", "--unit", "nobody"), 3, "nobody"),
    ((*FIT, "--epsilon", "1", "--max-rows", "0"), 2, "at least 1"),
    ((*FIT, "--epsilon", "1", "--max-rows", "x"), 2, "--max-rows"),
    ((*FIT, "--epsilon", "1", "--public", "no.csv", "--mechanism", "independent"), 2, "no use for public data"),
    ((*FIT, "--epsilon", "1", "--public", "no.csv", "--mechanism", "prior"), 4, "no.csv"),
    ((*FIT, "--epsilon", "1", "--public", "odd.csv", "--mechanism", "prior"), 4, "'X'"),
    ((*FIT, "--epsilon", "1", "--public", "table.csv"), 4, "is the private one"),
    ((*FIT, "--epsilon", "1", "--by", "sex"), 2, "need public data"),
    ((*FIT, "--epsilon", "1", "--public", "last.csv", "--by", "sexx"), 2, "sexx"),
    ((*FIT, "--epsilon", "1", "--public", "last.csv", "--by", "sex", "--by", "sex"), 2, "sex"),
    ((*FIT, "--epsilon", "1", "--public", "last.csv", "--by", ""), 2, "by"),
    ((*FIT, "--epsilon", "1", "--ledger", "no.ledger"), 8, "priory ledger init"),
    ((*FIT, "--epsilon", "1", "--ledger", "s.yaml"), 8, "s.yaml"),
    ((*FIT, "--epsilon", "9", "--ledger", "a.ledger"), 7, "is left"),
    ((*FIT, "--epsilon", "1", "--delta", "1e-6", "--ledger", "a.ledger"), 7, "pure"),
    ((*PAID, "--relation", "replace-one"), 8, "neighbours"),
    ((*PAID, "--unit", "who"), 8, "unit must be"),
    (
        ("fit", "table.csv", "--schema", "other.yaml", "-o", "new.priory", "--epsilon", "1", "--ledger", "a.ledger"),
        8,
        "another schema",
    ),
    (("fit", "table.csv", "--schema", "s.yaml", "-o", "a.priory", "--epsilon", "1"), 2, "exists"),
    (("fit", "table.csv", "--schema", "s.yaml", "-o", "no/new.priory", "--epsilon", "1"), 2, "does not exist"),
    (("fit", "table.csv", "--schema", "s.yaml", "--epsilon", "1"), 2, "output"),
    # query
    (("query", "no.priory"), 9, "does not exist"),
    (("query", "table.csv"), 9, "not a release"),
    (("query", "cut.priory"), 9, "cut.priory: the manifest was changed"),
    ((*QUERY, "agee"), 2, "did you mean 'age'?"),
    ((*QUERY, "who"), 2, "nothing was released"),
    ((*QUERY, "age", "age"), 2, "named twice"),
    ((*QUERY, "--where", "sex = 'X'"), 2, "there are: 'F', 'M'"),
    ((*QUERY, "--where", "größe in cm > 3"), 2, '"größe in cm"'),
    ((*QUERY, "--where", "age = 'old"), 2, "not closed"),
    ((*QUERY, "--where", "age >"), 2, "a value of 'age'"),
    ((*QUERY, "--where", "age > 100 and sex = 'F'"), 2, "nothing can satisfy"),
    ((*QUERY, "--mean", "sex"), 2, "needs numbers"),
    ((*QUERY, "--mean", "nobody"), 2, "no column 'nobody'"),
    ((*QUERY, "--mean", "age", "--sum", "age"), 2, "one thing at a time"),
    ((*QUERY, "--quantile", "age", "--at", "2"), 2, "from 0 to 1"),
    ((*QUERY, "--at", "0.5"), 2, "--quantile"),
    ((*QUERY, "--cdf", "sex"), 2, "no order"),
    ((*QUERY, "--level", "90"), 2, "between 0 and 1"),
    ((*QUERY, "--limit", "-1"), 2, "--limit"),
    ((*QUERY, "age", "--mean", "age"), 2, "cannot also"),
    # sample
    (("sample", "no.priory"), 9, "does not exist"),
    ((*SAMPLE, "-n", "-1"), 2, "at least 0"),
    ((*SAMPLE, "-n", "many"), 2, "--rows"),
    ((*SAMPLE, "--where", "age > 30"), 2, "one bin"),
    ((*SAMPLE, "--seed", "-3"), 2, "seed"),
    ((*SAMPLE, "-o", "rows.docx"), 2, ".csv"),
    ((*SAMPLE, "-o", "table.csv"), 2, "exists"),
    ((*SAMPLE, "-o", "no/rows.csv"), 2, "does not exist"),
    # combine
    (("combine", "a.priory", "-o", "new.priory"), 2, "at least two"),
    (("combine", "a.priory", "a.priory", "-o", "new.priory"), 9, "given twice"),
    (("combine", "a.priory", "no.priory", "-o", "new.priory"), 9, "does not exist"),
    (("combine", "a.priory", "other.priory", "-o", "new.priory"), 9, "different"),
    (("combine", "a.priory", "a.priory", "-o", "a.priory"), 2, "exists"),
    # plan
    ((*PLAN, "-n", "100"), 2, "what may be spent"),
    ((*PLAN, "-n", "0", "--epsilon", "1"), 2, "at least one"),
    ((*PLAN, "-n", "100", "--epsilon", "0"), 2, "above 0"),
    ((*PLAN, "-n", "100", "--epsilon", "1", "--rho", "1"), 2, "not both"),
    ((*PLAN, "-n", "100", "--epsilon", "1", "--mechanism", "magic"), 2, "magic"),
    ((*PLAN, "-n", "100", "--epsilon", "1", "--public", "odd.csv"), 4, "'X'"),
    ((*PLAN, "-n", "100", "--epsilon", "1", "--check", "table.csv"), 2, "--public"),
    ((*PLAN, "-n", "100", "--epsilon", "1", "--public", "table.csv", "--check", "table.csv"), 2, "--price"),
    ((*PLAN, "-n", "100", "--epsilon", "1", "--public", "table.csv", "--price", "1"), 2, "--check"),
    (("plan", "--schema", "no.yaml", "-n", "100", "--epsilon", "1"), 3, "no.yaml"),
    (("plan", "--schema", "s.yaml", "--epsilon", "1"), 2, "rows"),
    # estimate
    (("estimate", "no.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "no.csv"),
    (("estimate", "table.csv", "--schema", "s.yaml", "-o", "new.priory", "--epsilon", "1"), 4, "'value'"),
    ((*ESTIMATE, "--stop", "never"), 2, "--stop"),
    ((*ESTIMATE, "--marginal", "agee"), 5, "agee"),
    # schema, ledger, explain
    (("schema", "check", "no.yaml"), 3, "no.yaml"),
    (("schema", "check", "bad.yaml"), 3, "line 4"),
    (("schema", "check", "s.yaml", "--public", "odd.csv"), 4, "'X'"),
    (("schema", "init", "no.csv"), 4, "no.csv"),
    (("schema", "init", "table.csv", "-o", "s.yaml"), 2, "exists"),
    (("ledger", "init", "a.ledger", "--schema", "s.yaml", "--epsilon", "1"), 8, "exists already"),
    (("ledger", "init", "new.ledger", "--schema", "s.yaml"), 2, "epsilon"),
    (("ledger", "init", "no/new.ledger", "--schema", "s.yaml", "--epsilon", "1"), 8, "cannot be made"),
    (("ledger", "init", "new.ledger", "--schema", "s.yaml", "--epsilon", "1", "--unit", "sex"), 3, "kind id"),
    (("ledger", "show", "no.ledger"), 8, "does not exist"),
    (("ledger", "show", "table.csv"), 8, "table.csv"),
    (("explain", "--epsilon", "x"), 2, "finite number"),
    # statement
    (("statement", "no.priory"), 9, "no.priory"),
    (("statement", "table.csv", "--registry"), 9, "table.csv"),
    # quality, evaluate
    (("quality", "no.priory"), 9, "no.priory"),
    (("evaluate", "no.priory", "table.csv"), 9, "no.priory"),
    (("evaluate", "a.priory", "no.csv"), 4, "no.csv"),
    (("evaluate", "a.priory", "table.csv", "--target", "agee"), 2, "'age'"),
    (("evaluate", "a.priory", "table.csv", "-o", "new.json"), 2, "not-private"),
    # the frame
    (("fitt",), 2, "fit"),
    (("query",), 2, "release"),
    (("query", "a.priory", "--wher", "x"), 2, "did you mean --where"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("house")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, text in {
            "s.yaml": SCHEMA,
            "other.yaml": SCHEMA.replace("[F, M]", "[F, M, D]"),
            "bad.yaml": SCHEMA.replace("{kind: id}", "{kind: idd}"),
            "table.csv": TABLE,
            "last.csv": TABLE,
            "table.dta": TABLE,
            "narrow.csv": TABLE.replace("sex", "x"),
            "empty.csv": "",
            "ragged.csv": TABLE + "a,b\n",
            "odd.csv": TABLE.replace("F", "X"),
            "m.csv": "sex,value,stddev\nF,10,2\nM,12,2\n",
        }.items():
            Path(name).write_text(text, encoding="utf-8")
        Path("latin.csv").write_bytes(TABLE.encode("latin-1"))
        schema = Schema.load("s.yaml")
        fit("table.csv", schema, epsilon=1).save("a.priory")
        fit("table.csv", Schema.load("other.yaml"), epsilon=1).save("other.priory")
        Path("cut.priory").write_bytes(Path("a.priory").read_bytes()[:-50])
        Ledger.create("a.ledger", Terms("people", schema.dump(), Budget.pure(2)))
        yield folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(("arguments", "code", "words"), BAD, ids=[" ".join(bad[0]) for bad in BAD])
def test_a_bad_input_is_one_line_and_changes_nothing(
    house: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in house.rglob("*")}
    found, out, err = run(capsys, *arguments)
    assert (found, out) == (code, ""), err
    assert err.startswith("priory: ")
    assert err.count("\n") == 1
    assert words in err
    if arguments[0] == "fit":
        assert "othing was" in err
    told = json.loads(run(capsys, *arguments, "--json")[2])
    assert words in told["message"]
    after = {path: path.stat().st_mtime_ns for path in house.rglob("*") if path.name != "a.ledger"}
    assert after == {path: time for path, time in before.items() if path.name != "a.ledger"}
    assert Ledger.open(house / "a.ledger").left() == 2


def test_every_verb_can_speak_json() -> None:
    from priory.cli.frame import app_of

    groups = [group.typer_instance for group in app_of().registered_groups if group.typer_instance is not None]
    commands = [command for typer in (app_of(), *groups) for command in typer.registered_commands]
    for command in commands:
        assert command.callback is not None
        if command.callback.__name__ == "studio":
            # It is a server: what it has to say, it says to a browser.
            continue
        options = inspect.signature(command.callback).parameters
        assert {"as_json", "json"} & set(options), command.callback.__name__


def test_every_verb_is_tried_with_bad_input() -> None:
    from priory.cli.frame import app_of

    verbs = {command.name for command in app_of().registered_commands} | {
        group.name for group in app_of().registered_groups
    }
    # These take no input; the local page is attacked in tests of its own.
    assert verbs - {arguments[0] for arguments, _, _ in BAD} <= {"demo", "audit", "report", "studio"}


@pytest.mark.usefixtures("house")
def test_a_forged_model_is_refused_by_every_verb_that_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    release = Release.load("a.priory")
    broken = {**release.files(), "model": {"model.json": b'{"model": {}, "arrays": {}}'}}
    write_archive("forged.priory", broken, frozenset({"statement", "domain", "measurements"}))
    assert zipfile.is_zipfile("forged.priory")
    for arguments in (("query", "forged.priory"), ("sample", "forged.priory", "-n", "1")):
        code, out, err = run(capsys, *arguments)
        assert (code, out, err.count("\n")) == (9, "", 1)
    Path("forged.priory").unlink()
