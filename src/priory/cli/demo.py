"""Demo: the main job on the embedded town."""

from rich.table import Table as RichTable

from priory import town
from priory.cli.output import AsJson, say, show, write, write_json
from priory.data.opening import open_source
from priory.data.schema import Schema
from priory.factor import Factor

SHOWN = ("district", "born", "education", "income", "health visits")
CROSSED = ("employment", "owns home")
BAR = 40


def demo(*, as_json: AsJson = False) -> None:
    """Show the embedded town: its schema, and what its public register of last year says."""
    schema = Schema.load(town.SCHEMA)
    public = open_source(town.LAST_YEAR, schema)
    one_way = public.count([(name,) for name in SHOWN])
    [two_way] = public.count([CROSSED])
    if as_json:
        write_json(
            {"schema": schema.name, "marginals": {name: _labelled(schema, name, f) for name, f in _pairs(one_way)}}
        )
        return
    say("Klosterwiek is a made-up town. Last year's register is public, this year's is private.\n")
    write(str(schema))
    for name, marginal in _pairs(one_way):
        show(_bars(schema, name, marginal))
    show(_crossed(schema, two_way))
    say("\nThis was the public register. The private one was not opened.")


def _pairs(marginals: list[Factor]) -> list[tuple[str, Factor]]:
    return [(marginal.domain.attributes[0], marginal) for marginal in marginals]


def _labelled(schema: Schema, name: str, marginal: Factor) -> dict[str, int]:
    return dict(zip(_labels(schema, name), marginal.values.tolist(), strict=True))


def _labels(schema: Schema, name: str) -> tuple[str, ...]:
    return next(column.labels for column in schema.modelled if column.name == name)


def _bars(schema: Schema, name: str, marginal: Factor) -> RichTable:
    table = RichTable(title=f"\n{name}", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "records", ""):
        table.add_column(heading, justify="right" if heading else "left")
    most = max(int(marginal.values.max()), 1)
    for label, count in _labelled(schema, name, marginal).items():
        table.add_row(label, f"{count:,}", "█" * round(BAR * count / most))
    return table


def _crossed(schema: Schema, marginal: Factor) -> RichTable:
    rows, columns = marginal.domain.attributes
    table = RichTable(title=f"\n{rows} by {columns}", title_justify="left", box=None, pad_edge=False)
    for heading in ("", *_labels(schema, columns)):
        table.add_column(heading, justify="right" if heading else "left")
    for label, counts in zip(_labels(schema, rows), marginal.values.tolist(), strict=True):
        table.add_row(label, *(f"{count:,}" for count in counts))
    return table
