"""Demo: the main job on the embedded town."""

from rich.table import Table as RichTable

from priory import town
from priory.cli.output import AsJson, say, show, write, write_json
from priory.data.opening import open_source
from priory.data.schema import Schema
from priory.factor import Factor
from priory.mechanisms.fit import fit
from priory.privacy.measurement import Measurement
from priory.queries.parts import Numbers
from priory.release import Release

EPSILON, DELTA = 1, "1e-9"
SHOWN = ("district", "education", "income")
CROSSED = ("employment", "owns home")
BAR = 30
# Nine times in ten, Gaussian noise is within this many standard deviations.
NINETY_PERCENT = 1.645


def demo(*, as_json: AsJson = False) -> None:
    """Show the embedded town: its schema, its public register of last year, and a private release of this year's."""
    schema = Schema.load(town.SCHEMA)
    # One row a person, as in the release; the key of a public table need not be secret.
    public = open_source(town.LAST_YEAR, schema, unit=schema.person, key=bytes(32))
    one_way = {marginal.domain.attributes[0]: marginal for marginal in public.count([(name,) for name in SHOWN])}
    [two_way] = public.count([CROSSED])
    if not as_json:
        say("Klosterwiek is a made-up town. Last year's register is public, this year's is private.\n")
        write(str(schema))
        show(_crossed(schema, two_way))
        say("\nNow a release of this year's register, in which no person can be told to be there or not.\n")
    release = fit(
        town.THIS_YEAR, schema, epsilon=EPSILON, delta=DELTA, mechanism="independent", unit=schema.person, max_rows=1
    )
    if as_json:
        write_json(_as_json(schema, one_way, release))
        return
    write(str(release.statement))
    for name in SHOWN:
        show(_bars(schema, name, one_way[name], _measured(release, name)))
    say(f"\n{len(release.measurements)} marginals were released. Run it again: the noise, and so the figures, differ.")


def _as_json(schema: Schema, public: dict[str, Factor], release: Release) -> dict[str, object]:
    return {
        "schema": schema.name,
        "public": {name: _labelled(schema, name, marginal.values) for name, marginal in public.items()},
        "released": {name: _labelled(schema, name, _measured(release, name).values) for name in public},
        "statement": list(release.statement.lines),
    }


def _measured(release: Release, name: str) -> Measurement:
    return next(found for found in release.measurements if found.query.clique == (name,))


def _labelled(schema: Schema, name: str, counts: Numbers) -> dict[str, int]:
    return dict(zip(_labels(schema, name), counts.tolist(), strict=True))


def _labels(schema: Schema, name: str) -> tuple[str, ...]:
    return next(column.labels for column in schema.modelled if column.name == name)


def _bars(schema: Schema, name: str, public: Factor, released: Measurement) -> RichTable:
    table = RichTable(title=f"\n{name}", title_justify="left", box=None, pad_edge=False)
    for heading, side in (("", "left"), ("2024, public", "right"), ("2025, released", "right"), ("", "left")):
        table.add_column(heading, justify="right" if side == "right" else "left")
    before, after = _labelled(schema, name, public.values), _labelled(schema, name, released.values)
    most = max(1, *after.values())
    for label, count in after.items():
        margin = f"{count:,} ± {NINETY_PERCENT * released.stddev:.0f}"
        table.add_row(label, f"{before[label]:,}", margin, "█" * round(BAR * max(count, 0) / most))
    return table


def _crossed(schema: Schema, marginal: Factor) -> RichTable:
    rows, columns = marginal.domain.attributes
    table = RichTable(title=f"\n{rows} by {columns}, 2024, public", title_justify="left", box=None, pad_edge=False)
    for heading in ("", *_labels(schema, columns)):
        table.add_column(heading, justify="right" if heading else "left")
    for label, counts in zip(_labels(schema, rows), marginal.values.tolist(), strict=True):
        table.add_row(label, *(f"{count:,}" for count in counts))
    return table
