"""Whatever way a release comes to be, and however it is rendered, what its schema cost is in what it promises."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import priory as pr
from priory.cli import main
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.privacy.budget import Budget, Currency, rounded_up
from priory.privacy.curator import Curator
from priory.privacy.encoding import encode_statement
from priory.privacy.ledger import Ledger, Terms, describe
from priory.privacy.measurement import Measurement
from priory.privacy.progress import Step
from priory.privacy.statement import Statement, described_cost, sum_of
from priory.release import Release
from priory.release.archive import json_bytes, write_archive
from priory.release.partial import Partial
from priory.release.registry import registry_entry
from priory.report.contents import Contents
from priory.report.sections import citation, lead, privacy

TABLE = {"age": (np.arange(90) % 3).tolist(), "sex": (np.arange(90) % 2).tolist()}
PUBLIC = {name: values * 2 for name, values in TABLE.items()}
PLAIN = Schema.coded({"age": 3, "sex": 2}, name="people")


@dataclass(frozen=True)
class Paid:
    """What a release cost in a test, and what its schema did."""

    mine: Budget
    learnt: Budget
    options: dict[str, Any]  # of fit

    @property
    def schema(self) -> Schema:
        return replace(PLAIN, discovered=described_cost(self.learnt))


PAID = {
    "pure": Paid(Budget.pure("1.125"), Budget.pure("5.25"), {"epsilon": "1.125"}),
    "approximate": Paid(
        Budget.approximate("1.125", "1e-9"),
        Budget.approximate("5.25", "1e-9", Currency.GAUSSIAN, additive="1e-10"),
        {"epsilon": "1.125", "delta": "1e-9"},
    ),
    "pure, learnt with a delta": Paid(
        Budget.pure("1.125"), Budget.approximate("5.25", "1e-9", Currency.GAUSSIAN), {"epsilon": "1.125"}
    ),
}


def fitted(paid: Paid, **options: Any) -> Release:
    return pr.fit(TABLE, paid.schema, **{"mechanism": "independent", **paid.options, **options})


def from_a_ledger(paid: Paid, folder: Path) -> Release:
    total = Budget.pure(9) if paid.mine.is_pure else Budget.approximate(9, "1e-9")
    Ledger.create(folder / "a.ledger", Terms("people", "", total))
    return fitted(paid, ledger=folder / "a.ledger")


def ended_early(paid: Paid, folder: Path) -> Partial:
    def interrupt(step: Step) -> None:
        if step.spent:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fitted(paid, mechanism="mst", output=folder / "a.priory", progress=interrupt)
    partial: Partial = caught.value.partial  # type: ignore[attr-defined]
    return partial


def recovered_from_its_file(paid: Paid, folder: Path) -> Release:
    ended_early(paid, folder)
    called("estimate", str(folder / "a.priory.partial"), "-o", str(folder / "a.priory"))
    return pr.load(folder / "a.priory")


def counted(paid: Paid) -> Measurement:
    query = pr.Query.marginal(paid.schema.domain, ("age", "sex"))
    return Measurement.of(query, np.full(query.shape, 15.0), 5.0)


def declared(paid: Paid, _: Path) -> Release:
    return pr.declared_release([counted(paid)], paid.schema, paid.mine)


def declared_in_files(paid: Paid, folder: Path) -> Release:
    lines = ["age,sex,value,stddev", *(f"{i},{j},15,5" for i in range(3) for j in range(2))]
    (folder / "counts.csv").write_text("\n".join(lines))
    (folder / "schema.yaml").write_text(paid.schema.dump())
    options = [word for name, value in paid.options.items() for word in (f"--{name}", value)]
    words = ["estimate", str(folder / "counts.csv"), "--schema", str(folder / "schema.yaml"), *options]
    called(*words, "-o", str(folder / "a.priory"))
    return pr.load(folder / "a.priory")


def loaded(paid: Paid, folder: Path) -> Release:
    fitted(paid).save(folder / "a.priory")
    return pr.load(folder / "a.priory")


def loaded_without_the_cost_in_its_statement(paid: Paid, folder: Path) -> Release:
    sections = fitted(paid).files()
    words = json.loads(sections["statement"]["statement.json"])
    files = {**sections, "statement": {"statement.json": json_bytes({**words, "discovered": None})}}
    write_archive(folder / "a.priory", files, frozenset({"statement", "domain", "measurements"}))
    return pr.load(folder / "a.priory")


def of_building_blocks(paid: Paid, _: Path) -> Release:
    book = Ledger.in_memory(paid.mine, dataset="people", schema=paid.schema.dump())
    with book.reserve(paid.mine, "by hand") as reservation:
        curator = Curator(reservation, open_source(TABLE, paid.schema))
        answers = curator.answer([pr.Query.marginal(curator.domain, ("age", "sex"))], [paid.mine])
        return Release(curator.domain, tuple(answers), curator.statement("by hand"), paid.schema)


def measured_further(paid: Paid, folder: Path) -> Release:
    fitted(paid).save(folder / "one.priory")
    fitted(paid, mechanism="mst").save(folder / "other.priory")
    called("combine", str(folder / "one.priory"), str(folder / "other.priory"), "-o", str(folder / "a.priory"))
    return pr.load(folder / "a.priory")


WAYS: dict[str, Callable[[Paid, Path], Release]] = {
    "fit": lambda paid, _: fitted(paid),
    "fit from a ledger": from_a_ledger,
    "fit by groups": lambda paid, _: fitted(paid, mechanism=None, by=[["sex"]], public=PUBLIC),
    "recovered from the error": lambda paid, folder: pr.recover(ended_early(paid, folder)),
    "recovered from the file": recovered_from_its_file,
    "a partial run as it is": lambda paid, folder: ended_early(paid, folder).release(),
    "declared": declared,
    "declared in files": declared_in_files,
    "combined": lambda paid, _: pr.combine([fitted(paid), fitted(paid)]),
    "combined with declared counts": lambda paid, folder: pr.combine([fitted(paid), declared(paid, folder)]),
    "measured further": measured_further,
    "loaded": loaded,
    "loaded, of an older version": loaded_without_the_cost_in_its_statement,
    "of building blocks": of_building_blocks,
    "the schema attached": lambda paid, _: replace(fitted(paid), schema=None).with_schema(paid.schema),
}


def called(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0


def plain(markup: object) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", str(markup)))


# What states the total, and all of the rendering.
RENDERINGS: dict[str, Callable[[Release], tuple[str, str]]] = {
    "statement": lambda release: (release.statement.lines[0], str(release.statement)),
    "text of the release": lambda release: (str(release), str(release)),
    "repr": lambda release: (repr(release), repr(release)),
    "notebook": lambda release: (release._repr_html_(), plain(release._repr_html_())),
    "json": lambda release: (encode_statement(release.statement)["words"][0], str(encode_statement(release.statement))),
    "registry": lambda release: (
        registry_entry(release).fields["deployment"]["privacy_loss"]["privacy_parameters_details"],
        json.dumps(registry_entry(release).fields, ensure_ascii=False),
    ),
    "first card": lambda release: (lead(contents(release)),) * 2,
    "citation": lambda release: (citation(contents(release)),) * 2,
    "report on privacy": lambda release: (str(privacy(contents(release)).body), plain(privacy(contents(release)).body)),
}


def contents(release: Release) -> Contents:
    # What is said of privacy needs no figure of the release.
    return Contents(release, (), None, (), None, {})  # type: ignore[arg-type]


def apart(statement: Statement) -> str:
    """The one place that names what was paid for the release alone, beside what was paid for its schema."""
    return next((line.partition(": ")[2] for line in statement.lines if line.startswith("parts: ")), "")


def figure(budget: Budget) -> str:
    return f"ε = {rounded_up(budget.amount if budget.epsilon is None else budget.epsilon)}"


@pytest.mark.parametrize(
    ("way", "cost"),
    [
        *((way, "approximate") for way in WAYS),
        *((way, "pure") for way in ("fit", "declared", "recovered from the file")),
        *((way, "pure, learnt with a delta") for way in ("fit", "combined with declared counts")),
    ],
)
def test_what_the_schema_cost_is_in_every_rendering_of_every_release(way: str, cost: str, tmp_path: Path) -> None:
    paid = PAID[cost]
    release = WAYS[way](paid, tmp_path)
    mine = release.statement.budget
    assert release.statement.discovered is not None
    learnt = figure(release.statement.discovered)
    total = figure(both(release.statement, release.statement.discovered))
    if paid.mine.is_pure and paid.learnt.is_pure:
        assert total == f"ε = {float(mine.amount) + 5.25}"
    for name, rendering in RENDERINGS.items():
        stated, text = (str(each).replace(apart(release.statement) or "\0", "") for each in rendering(release))
        assert re.search(rf"{total}(?!\.?\d)", stated), (name, total, stated)
        for part in (figure(mine), learnt):
            assert not re.search(rf"{part}(?!\.?\d)", text), (name, part, text)
        assert "declared to be public" not in text, name
        assert "a public schema" not in text, name
    parameters = registry_entry(release).fields["deployment"]["privacy_loss"]["privacy_parameters"]
    assert f"ε = {parameters['epsilon']:.6g}" == total


def both(statement: Statement, learnt: Budget) -> Budget:
    """The sum, of declared ε and δ one by one."""
    mine = statement.budget
    if statement.is_declared and mine.epsilon is not None and mine.delta is not None:
        assert learnt.epsilon is not None
        assert learnt.delta is not None
        return replace(mine, epsilon=mine.epsilon + learnt.epsilon, delta=mine.delta + learnt.delta)
    return sum_of(mine, learnt)


def test_a_release_never_forgets_what_its_schema_cost() -> None:
    paid = PAID["pure"]
    release = fitted(paid)
    edited = replace(paid.schema, discovered=())
    assert release.with_schema(edited).statement == release.statement
    assert replace(release, schema=None).statement == release.statement


def test_a_schema_that_was_declared_is_said_to_be() -> None:
    release = pr.fit(TABLE, PLAIN, epsilon=1, mechanism="independent")
    variant = registry_entry(release).fields["deployment"]["dp_variant"]
    assert "declared to be public" in variant["unprotected_quantities"]
    assert release.statement.promises == (release.statement.budget,)


def test_promises_about_other_neighbours_stand_side_by_side_wherever_one_would() -> None:
    cost = Budget.approximate("5.25", "1e-9", Currency.GAUSSIAN, max_rows=3)
    schema = replace(PLAIN, discovered=described_cost(cost))
    release = pr.fit(TABLE, schema, epsilon="1.125", mechanism="independent")
    for name, rendering in RENDERINGS.items():
        stated, _ = rendering(release)
        assert {"ε = 1.125", "ε = 5.25"} <= set(re.findall(r"ε = [\d.]*\d", str(stated))), name
    # No one figure is the promise.
    assert registry_entry(release).fields["deployment"]["privacy_loss"]["privacy_parameters"] == {}


def test_the_book_and_the_statement_state_one_total(tmp_path: Path) -> None:
    total = Budget.of(epsilon=9, delta="1e-9", additive="1e-10")
    book = Ledger.create(tmp_path / "a.ledger", Terms("people", "", total))
    rng = np.random.default_rng(3)
    table = {"age": rng.integers(20, 60, 2000).tolist(), "sex": rng.choice(["f", "m"], 2000).tolist()}
    learnt = pr.discover(table, epsilon=2, delta="1e-9", ledger=book)
    release = pr.fit(table, learnt.schema, epsilon=1, delta="1e-9", mechanism="weighing", ledger=book)
    [stated] = release.statement.promises
    spent = sum((entry.charged for entry in book.entries()), Fraction(0))
    # A book in ρ holds what Gaussian noise of μ² costs.
    spent *= 2 if stated.currency is Currency.GAUSSIAN else 1
    # The schema keeps six digits of its cost, rounded up.
    assert spent <= stated.amount <= spent * (1 + Fraction(1, 10**5))
    assert describe(book)["schema_cost"].startswith(str(learnt.cost)[:12])


def test_a_book_says_that_its_schema_was_learnt_and_whether_that_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paid = PAID["pure"]
    Ledger.create(tmp_path / "a.ledger", Terms("people", paid.schema.dump(), Budget.pure(9)))
    called("ledger", "show", str(tmp_path / "a.ledger"))
    shown = capsys.readouterr().out
    assert "ε = 5.25" in shown
    assert "no line of this book paid for it" in shown
