"""Estimate: the verb for noisy answers that were made elsewhere, or by a fit that ended early."""

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from priory.app.recovery import recover
from priory.cli.output import AsJson, say, stdout, write_json, write_statement
from priory.cli.privacy import Delta, Epsilon, RelationName, Rho, check_output, check_release_name
from priory.cli.progress import working
from priory.data.schema import Schema
from priory.errors import OptionError
from priory.privacy.budget import Budget
from priory.privacy.encoding import encode_statement
from priory.privacy.record_file import is_record_file
from priory.queries.domain import Clique
from priory.queries.sensitivity import Relation
from priory.release import Release
from priory.release.measured import declared_release, read_measurements, schema_of_measurements


def estimate(
    measurements: Annotated[
        list[Path],
        typer.Argument(help="CSV files of cells: attributes, value and stddev; or the .partial file of a fit."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release file to write.")],
    *,
    schema: Annotated[
        Path | None, typer.Option(help="The schema whose labels name the cells; without one, those of the files.")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    relation: RelationName = Relation.ADD_REMOVE.value,
    total: Annotated[float | None, typer.Option(help="The number of rows, if it is public.")] = None,
    stop: Annotated[str, typer.Option(help="fission (at the noise) or converged.")] = "fission",
    marginal: Annotated[
        list[str] | None, typer.Option(help="Print the estimate of a,b,… as CSV; may be repeated.")
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Of a .partial file: model its noisy answers, not as its mechanism does.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a release of noisy counts that you measured elsewhere, or of what a fit measured that ended early.

    For counts from elsewhere, the budget is what you say they cost. The partial file of a fit is given alone: it says
    itself what it is and what it cost; neither private data nor the ledger is opened.
    """
    check_release_name(output)
    check_output(output)
    if any(is_record_file(path) for path in measurements):
        asked = (schema, epsilon, delta, rho, total)
        if len(measurements) > 1 or any(each is not None for each in asked):
            said = "the partial file of a run is given alone: it has its own schema and budget"
            raise OptionError("measurements", said)
        _recover(measurements[0], output, marginal or (), alone=alone, as_json=as_json)
        return
    if alone:
        raise OptionError("--alone", "it is about the partial file of a run; leave it out")
    if stop not in ("fission", "converged"):
        raise OptionError("--stop", f"fission or converged; got {stop!r}")
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, relation=relation)
    described = schema_of_measurements(measurements, name=output.stem) if schema is None else Schema.load(schema)
    cliques = [described.domain.checked(names.split(",")) for names in marginal or ()]
    measured = [m for path in measurements for m in read_measurements(path, described)]
    how: Literal["fission", "converged"] = "fission" if stop == "fission" else "converged"
    with working("estimating", is_wanted=not as_json):
        release = declared_release(measured, described, budget, total=total, stop=how)
    release.save(output)
    _show(release, cliques, output, as_json=as_json)


def _recover(path: Path, output: Path, marginals: Sequence[str], *, alone: bool, as_json: bool) -> None:
    """Make the release of a run that ended early; the file itself says what it is and what it cost."""
    with working("estimating", is_wanted=not as_json):
        release = recover(path, alone=alone)
    cliques = [release.domain.checked(names.split(",")) for names in marginals]
    release.save(output)
    _show(release, cliques, output, as_json=as_json)


def _show(release: Release, cliques: Sequence[Clique], output: Path, *, as_json: bool) -> None:
    """Print the estimates of marginals, or the statement."""
    model, count = release.model, len(release.measurements)
    reason = model.diagnostics.reason if model.diagnostics else ""
    if as_json:
        tables = [{"attributes": list(clique), "values": model.project(clique).values.tolist()} for clique in cliques]
        facts = {"output": str(output), "measurements": count, "total": model.total, "stopped": reason}
        write_json({**facts, "statement": encode_statement(release.statement), "marginals": tables})
        return
    labels = {column.name: column.labels for column in release.columns.modelled}
    for clique in cliques:
        writer = csv.writer(stdout(), lineterminator="\n")
        writer.writerow([*clique, "estimate"])
        cells = itertools.product(*(labels[name] for name in clique))
        values = model.project(clique).values.ravel()
        writer.writerows([*cell, f"{value:.3f}"] for cell, value in zip(cells, values, strict=True))
    if not cliques:
        write_statement(release.statement)
    say(f"{count} measurements, about {model.total:,.0f} rows. {reason} Wrote {output}.")
