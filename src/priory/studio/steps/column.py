"""Column: the form of one column, with its bins drawn over public rows, or over what was discovered."""

import numpy as np
from starlette.responses import Response

from priory.data.codec import encode_column
from priory.data.kinds import Column, ModelledColumn
from priory.data.schema.open import OpenColumn
from priory.data.survey import Seen
from priory.errors import PrioryError
from priory.studio.bins import Bar, picture
from priory.studio.column_form import BINS, FIELDS, KINDS, FieldProblem, column_of, fields_of
from priory.studio.discovered import discovered_bars
from priory.studio.hub import Studio
from priory.studio.later import PATIENCE, Coming
from priory.studio.schema_store import Columns, dumped, problems_of, with_column
from priory.studio.steps.columns import BOUND, check_unbound, comments
from priory.studio.visit import Refusal, Visit

# More bins than this are drawn without their edges, which would hide what is below them.
MOST_BARS, MOST_EDGES = 400, 60


def show(visit: Visit) -> Response:
    """The form: what is declared, or what was typed last and does not fit yet."""
    studio = visit.studio
    schema, number, column = _asked(visit)
    draft = studio.drafts.read().get(column.name)
    fields = fields_of(column, schema.reading) if draft is None else {name: draft.get(name, "") for name in FIELDS}
    try:
        drawn, is_reading = bars(studio, column), False
    except Coming:
        drawn, is_reading = [], True
    learnt = discovered_bars(studio, column) if isinstance(column, ModelledColumn) and not drawn else []
    return visit.page(
        "column.html",
        title=column.name,
        number=number,
        count=len(schema.columns),
        column=column,
        fields=fields,
        is_draft=draft is not None,
        problems={} if draft is None else problems_of(schema, column, fields),
        kinds=KINDS,
        bins=BINS,
        comments=comments(studio).get(column.name, []),
        labels=column.labels if isinstance(column, ModelledColumn) and column.size <= MOST_BARS else (),
        bars=drawn or learnt,
        is_learnt=bool(learnt),
        is_reading=is_reading,
        picture=_picture(column, drawn, learnt),
        is_bound=studio.is_bound(),
        bound=BOUND,
    )


def _picture(column: Column | OpenColumn, drawn: list[Bar], learnt: list[Bar]) -> str:
    if drawn:
        return picture(drawn, column.name)
    # What was learnt was counted between other edges than the bins have: these are drawn over it.
    edges = getattr(column, "edges", ()) if getattr(column, "is_binned", False) else ()
    edges = edges if len(edges) <= MOST_EDGES + 1 else ()
    return picture(learnt, column.name, "Rows as counted with noise", edges) if learnt else ""


def save(visit: Visit) -> Response:
    """Take what was typed; where it does not fit, keep it, and say what is wrong beside the field."""
    with visit.studio.editing():
        return _saved(visit)


def _saved(visit: Visit) -> Response:
    studio = visit.studio
    check_unbound(studio)
    schema, number, column = _asked(visit)
    here = f"/columns/edit/{number}"
    go = {"previous": f"/columns/edit/{number - 1}", "next": f"/columns/edit/{number + 1}"}.get(visit.text("go"), "")
    if visit.text("go") == "forget":
        studio.drafts.keep(column.name, None)
        return visit.go(here)
    fields = {name: visit.text(name) for name in FIELDS}
    try:
        changed = with_column(schema, column_of(column.name, fields, column, schema.reading))
    except (FieldProblem, PrioryError):
        studio.drafts.keep(column.name, fields)
        return visit.go(here)
    if changed is not schema and changed != schema:
        studio.write_schema(dumped(changed, comments(studio)))
    studio.drafts.keep(column.name, None)
    if go:
        return visit.go(go)
    return visit.go(here, note="saved") if visit.text("go") == "stay" else visit.next("saved")


def _asked(visit: Visit) -> tuple[Columns, int, Column | OpenColumn]:
    schema, text = visit.studio.schema(), visit.names["number"]
    number = int(text) if text.isdecimal() and len(text) < 9 else 0
    if schema is None or not 1 <= number <= len(schema.columns):
        raise Refusal("There is no such column.", 404)
    return schema, number, schema.columns[number - 1]


def bars(studio: Studio, column: Column | OpenColumn) -> list[Bar]:
    """The public rows of each bin or level; none where there are no public rows, or far too many bins.

    Raises:
        Coming: the public table is still being read.
    """
    if not isinstance(column, ModelledColumn) or column.size > MOST_BARS:
        return []
    try:
        seen = studio.surveyed(PATIENCE).get(column.name)
    except PrioryError:
        return []
    return [] if seen is None else _bars(column, seen)


def _bars(column: ModelledColumn, seen: Seen) -> list[Bar]:
    counts = np.zeros(column.size)
    for cells, weights in seen.parts:
        if len(weights):
            counts += np.bincount(encode_column(column, cells), weights=weights, minlength=column.size)
    spikes = {float(spike) for spike in getattr(column, "spikes", ())}
    rows = max(1, seen.rows)
    found = []
    for i, (label, count) in enumerate(zip(column.labels, counts.tolist(), strict=True)):
        is_bin = column.is_binned and i < column.places
        low, high = (float(column.edges[i]), float(column.edges[i + 1])) if is_bin else (None, None)
        found.append(Bar(label, round(count), count / rows, low in spikes, low, high))
    return found


ROUTES = [("/columns/edit/{number}", "GET", show), ("/columns/edit/{number}", "POST", save)]
