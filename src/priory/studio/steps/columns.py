"""Columns: the step in which the schema is drafted, edited and checked."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from priory.data.dialect import Dialect
from priory.data.kinds import ModelledColumn
from priory.data.public import Misfit
from priory.data.schema import Schema
from priory.data.schema.open import OpenColumn, OpenSchema, read_names
from priory.data.sources.containers import ARROW_SUFFIXES, PARQUET_SUFFIXES, suffix_of
from priory.errors import DataError, PrioryError, SchemaError
from priory.studio import commands, python_code
from priory.studio.hub import Studio
from priory.studio.later import PATIENCE, Coming
from priory.studio.schema_store import comments_of, parsed
from priory.studio.visit import Refusal, Visit

BOUND = "The ledger is bound to this schema, so that no run would take another one. Its columns are shown, not edited."


@dataclass(frozen=True)
class Line:
    """A column in the list."""

    number: int
    name: str
    kind: str
    values: str  # what it can be, in short
    size: int | None  # how many codes it has
    problem: str  # what is wrong with it, or ""
    fit: str  # how the public table fits it, or ""


def show(visit: Visit) -> Response:
    """The columns, or the ways to get them where there are none yet."""
    studio = visit.studio
    is_drafting, wrong = studio.draft_state()
    schema, is_reading = None, False
    listed: list[Line] = []
    try:
        schema = studio.schema()
        if schema is not None:
            listed, is_reading = lines(studio, schema)
    except PrioryError as error:
        wrong = str(error)
    return visit.page(
        "columns.html",
        title="What are its columns?",
        note="" if is_drafting or wrong else visit.note,
        schema=schema,
        is_open=isinstance(schema, OpenSchema),
        lines=listed,
        is_reading=is_reading,
        is_drafting=is_drafting,
        is_coming=is_reading or is_drafting,
        wrong=studio.folder.shown(wrong) if schema is None else "",
        is_bound=studio.is_bound(),
        bound=BOUND,
        names_itself=names_itself(studio),
        discovery=next((job for job in studio.jobs.all() if job.kind == "discover"), None),
        **_same(studio, has_schema=schema is not None),
    )


def _same(studio: Studio, *, has_schema: bool) -> dict[str, Any]:
    """The step as command lines and as Python: first how to begin, then how to check what was edited."""
    settings = studio.settings
    if not settings.private and not settings.public:
        return {"commands": [], "python": ""}
    lines, code = [commands.draft(settings)], [python_code.draft(settings)]
    if has_schema:
        lines.append(commands.check(settings))
        code.append(python_code.check(settings))
    return {"commands": [commands.text(each) for each in lines], "python": "\n\n".join(code)}


def lines(studio: Studio, schema: Schema | OpenSchema) -> tuple[list[Line], bool]:
    """One line for each column, and whether the public table is still being read for their remarks."""
    drafts, is_reading = studio.drafts.read(), False
    fits: Mapping[str, Misfit] = {}
    lost = ""
    try:
        fits = studio.misfits(PATIENCE)
    except Coming:
        is_reading = True
    except PrioryError as error:
        lost = studio.folder.shown(str(error))
    found = []
    for number, column in enumerate(schema.columns, start=1):
        problem = "what was typed does not fit yet" if column.name in drafts else ""
        fit = ""
        if isinstance(column, ModelledColumn) and column.name in fits:
            each = fits[column.name]
            fit = "; ".join([*([each.sentence] if each.wrong else []), *each.notes])
        elif isinstance(column, ModelledColumn) and (fits or lost):
            fit = lost or "the public table has no such column"
        size = column.size if isinstance(column, ModelledColumn) else None
        found.append(Line(number, column.name, column.kind or "not known yet", _values(column), size, problem, fit))
    return found, is_reading


def _values(column: object) -> str:
    if isinstance(column, OpenColumn):
        return "to be declared, or discovered"
    if not isinstance(column, ModelledColumn):
        return "not modelled"
    labels = column.place_labels
    shown = ", ".join(labels if len(labels) <= 6 else [*labels[:3], "…", labels[-1]])
    return shown if len(shown) <= 100 else shown[:99] + "…"


def names_itself(studio: Studio) -> bool:
    """Whether the private file names its columns whatever its first line holds, as Parquet does."""
    try:
        return suffix_of(studio.folder.file(studio.settings.private)) in (*PARQUET_SUFFIXES, *ARROW_SUFFIXES)
    except DataError:
        return False


def check_unbound(studio: Studio) -> None:
    """Refuse to change a schema that the ledger is bound to."""
    if studio.is_bound():
        raise Refusal(BOUND, 409)


def draft(visit: Visit) -> Response:
    """Draft a schema from the public table."""
    studio = visit.studio
    check_unbound(studio)
    with suppress(Coming):
        studio.adopt_draft(PATIENCE)
    return visit.go("columns", note="drafted")


def name_columns(visit: Visit) -> Response:
    """Begin a schema of names alone: those in the header, where somebody says that there is one, or typed ones."""
    studio, settings = visit.studio, visit.studio.settings
    check_unbound(studio)
    typed = [name.strip() for name in visit.text("columns").replace(",", "\n").split("\n") if name.strip()]
    has_header = visit.text("header") == "yes"
    if not typed and not has_header and not names_itself(studio):
        raise Refusal(
            "Say that the first line names the columns, or type their names: it is never guessed, for somebody's "
            "record would be published."
        )
    table = studio.folder.file(settings.private)
    names = typed or read_names(table)
    reading = Dialect.of(header=has_header or names_itself(studio))
    opened = OpenSchema.of(settings.name or "table", names, reading=reading)
    studio.write_schema(opened.dump())
    studio.drafts.clear()
    return visit.go("columns", note="named")


def show_text(visit: Visit) -> Response:
    """The schema file as text; what was typed last and was wrong, with its line."""
    studio = visit.studio
    draft_path = studio.folder.kept / "schema.draft"
    text, problem, line = studio.schema_text() or "", "", None
    if draft_path.is_file():
        text = draft_path.read_text(encoding="utf-8")
        try:
            parsed(text, studio.settings.schema)
        except PrioryError as error:
            problem, line = str(error), getattr(error, "line", None)
    return visit.page(
        "columns-yaml.html",
        title="The schema as a file",
        text=text,
        problem=problem,
        line=line,
        is_bound=studio.is_bound(),
        bound=BOUND,
        is_draft=draft_path.is_file(),
    )


def save_text(visit: Visit) -> Response:
    """Take the text, or an uploaded file, as the schema; where it is wrong, keep it for the next look."""
    studio = visit.studio
    check_unbound(studio)
    upload = visit.uploads.get("file", b"")
    try:
        text = upload.decode("utf-8-sig") if upload else visit.text("text")
    except UnicodeDecodeError:
        raise Refusal("The file is not UTF-8 text; save it as UTF-8.") from None
    draft_path = studio.folder.kept / "schema.draft"
    draft_path.unlink(missing_ok=True)
    if visit.text("go") == "forget":
        return visit.go("/columns/yaml")
    try:
        parsed(text, studio.settings.schema)
    except SchemaError:
        draft_path.write_text(text, encoding="utf-8")
        return visit.go("/columns/yaml")
    studio.write_schema(text)
    studio.drafts.clear()
    return visit.go("columns", note="saved")


def comments(studio: Studio) -> dict[str, list[str]]:
    """The comments in the schema file; none where it cannot be read."""
    try:
        return comments_of(studio.schema_text() or "")
    except PrioryError:
        return {}


ROUTES = [
    ("/columns", "GET", show),
    ("/columns/draft", "POST", draft),
    ("/columns/names", "POST", name_columns),
    ("/columns/yaml", "GET", show_text),
    ("/columns/yaml", "POST", save_text),
]
