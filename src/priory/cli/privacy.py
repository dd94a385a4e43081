"""Privacy: the verbs about budgets and their book."""

from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, show, write, write_json
from priory.data.schema import Schema, check_person
from priory.data.visible import visible
from priory.errors import OptionError
from priory.privacy.budget import Budget, exact
from priory.privacy.explain import explain as explained
from priory.privacy.ledger import ENTRY_KEYS, Ledger, Terms, describe
from priory.privacy.record_file import check_place
from priory.queries.sensitivity import Relation

Epsilon = Annotated[str | None, typer.Option(help="What may be spent; pure without --delta.")]
Delta = Annotated[
    str | None, typer.Option(help="With epsilon: a person changes a probability p to at most e^epsilon * p + delta.")
]
Rho = Annotated[str | None, typer.Option(help="What may be spent in zCDP, instead of epsilon.")]
CurrencyName = Annotated[
    str | None, typer.Option(help="With --delta, what the book adds up: zcdp, the default, or gaussian.")
]
RelationName = Annotated[str, typer.Option(help="Which tables are neighbours: add-remove or replace-one.")]
Effort = Annotated[str, typer.Option(help="How much work it may take: low, normal or high.")]
Unit = Annotated[str | None, typer.Option(help="The column that names the person of a row; default: the schema's.")]
MaxRows = Annotated[int, typer.Option(help="With --unit, how many rows of one person count.")]

ledger = typer.Typer(help="Make or show the book of what was spent on a data set.", no_args_is_help=True)


def explain(
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    relation: RelationName = Relation.ADD_REMOVE.value,
    max_rows: MaxRows = 1,
    as_json: AsJson = False,
) -> None:
    """Say what a budget means for one person."""
    words = explained(Budget.of(epsilon=epsilon, delta=delta, rho=rho, relation=relation, max_rows=max_rows))
    if not as_json:
        write(str(words))
        return
    facts = {"budget": str(words.budget), "epsilon": words.epsilon, "delta": words.delta, "tail": words.tail}
    beliefs = [{"before": belief.before, "after": belief.after} for belief in words.beliefs]
    write_json({**facts, "beliefs": beliefs, "words": list(words.lines)})


@ledger.command("init")
def init(
    path: Annotated[Path, typer.Argument(help="The ledger file to make.")],
    *,
    schema: Annotated[
        Path | None, typer.Option(help="The schema of the data set; without one, the first fit's is bound to it.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="The data set's name; default: the schema's.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    currency: CurrencyName = None,
    relation: RelationName = Relation.ADD_REMOVE.value,
    unit: Unit = None,
    max_rows: MaxRows = 1,
    additive: Annotated[
        str | None,
        typer.Option(
            help="The part of delta for thresholds, as schema discover has; default: none, or 1/10 without a schema."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the book of a data set. Its terms are fixed for good; a new version of the table keeps its book."""
    described = None if schema is None else Schema.load(schema)
    if described is None and dataset is None:
        raise OptionError("--dataset", "a book without a schema needs the name of the data set")
    if described is not None:
        unit = described.person if unit is None else unit
    if described is not None and unit is not None:
        check_person(unit, described.columns)
    if additive is None:
        additive = "0" if described is not None or delta is None else str(exact("delta", delta) / 10)
    total = Budget.of(
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        currency=currency,
        relation=relation,
        max_rows=max_rows,
        additive=additive,
    )
    name, text = (dataset or "", "") if described is None else (dataset or described.name, described.dump())
    book = Ledger.create(path, Terms(name, text, total, unit))
    if as_json:
        write_json(describe(book))
        return
    say(f"Made {path} for {book.terms.dataset!r}: {total}, protecting {book.terms.unit}.")
    say("Keep it beside the data and back it up; whoever loses it cannot know any more what was spent.")


@ledger.command("show")
def show_ledger(
    path: Annotated[Path, typer.Argument(help="The ledger file.")],
    *,
    events: Annotated[bool, typer.Option("--events", help="Also what each run paid for.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what was spent on what, when, by which mechanism, and what remains."""
    book = describe(Ledger.open(path))
    if as_json:
        write_json(book)
        return
    for key in ("dataset", "unit", "relation", "schema_cost", "total", "spent", "left"):
        if key in book:
            write(visible(f"{key.replace('_', ' ')}: {book[key]}"))
    if "spent_epsilon" in book:
        write(f"spent so far is ε = {book['spent_epsilon']} at δ = {book['delta']}")
        write(f"left for one run is ε = {book['left_epsilon']} at δ = {book['delta']}")
    headings = ("#", "mechanism", "state", "asked", "charged", "opened (UTC)", "closed (UTC)")
    show(headings, ([str(entry[key] or "") for key in ENTRY_KEYS] for entry in book["entries"]))
    for entry in book["entries"] if events else []:
        for event in entry["events"]:
            write(visible(f"{entry['number']}  {event['cost']}  {event['kind']}  {event['what']}"))


def check_release_name(path: Path) -> None:
    """Refuse a name that promises something else than a release."""
    if path.name.lower().endswith((".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx", ".json", ".feather")):
        release = path.name.split(".")[0] + ".priory"
        raise OptionError(
            "--output", f"a release is no table: call it {release}, and draw rows by priory sample {release} -o {path}"
        )
    if path.suffix.lower() in (".html", ".htm", ".pdf"):
        release = path.with_suffix(".priory").name
        raise OptionError(
            "--output", f"a release is no page: call it {release}, and write one by priory report {release}"
        )


def check_output(path: Path | None, option: str = "--output") -> None:
    """Refuse a file that exists or cannot be written, before anything is done for it; None passes."""
    if path is not None:
        check_place(path, 0, option)
