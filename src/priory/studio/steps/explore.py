"""Explore: what a release is good for, and questions to it."""

import io
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.responses import Response

from priory.answer.quality import ABOVE, DOMINATED, Judged
from priory.data.kinds import ModelledColumn
from priory.data.lines import write_csv
from priory.errors import OptionError, PrioryError
from priory.release import Release
from priory.release.release import LEVEL
from priory.report.sections import SOURCES, amount
from priory.studio import pictures, warming
from priory.studio.later import PATIENCE, PATIENCE_FOR_ALL, Coming
from priory.studio.question import SIGNS, VERBS, Question, Restriction, can_ask
from priory.studio.visit import Refusal, Visit

# How many lines of a condition the form has, and how many levels of a column it suggests.
TESTS, MOST_SUGGESTED = 3, 200
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
VERDICTS = {ABOVE: "good", DOMINATED: "bad"}
T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """A release that is looked at."""

    name: str  # of its file
    release: Release

    def url(self, path: str = "", **parameters: str | list[str]) -> str:
        """The address of a page about the release."""
        return f"/explore{path}?{urlencode({'release': self.name, **parameters}, doseq=True)}"


def opened(visit: Visit, seconds: float | None = PATIENCE_FOR_ALL) -> Opened | None:
    """The release that the address names, or the newest; None where there is none yet.

    Raises:
        Coming: it has not been read after so many seconds; None waits for it.
    """
    name = visit.query.get("release", "")
    if not name:
        found = visit.studio.releases()
        if not found:
            return None
        name = found[0].name
    return Opened(name, visit.studio.release(name, seconds))


def needed(visit: Visit, seconds: float | None = PATIENCE_FOR_ALL) -> Opened:
    """The release that the address names, or the newest; a refusal where there is none, and `Coming` as above."""
    found = opened(visit, seconds)
    if found is None:
        raise Refusal("There is no release yet: run one first.", 404)
    return found


def shared(visit: Visit, look: Opened, tab: str) -> dict[str, Any]:
    """What every page about a release shows: its name, the others, and the ways on."""
    tabs = {
        "quality": ("Quality", look.url()),
        "ask": ("Ask", look.url("/ask")),
        "rows": ("Synthetic rows", look.url("/rows")),
        "more": ("Measure more", look.url("/more")),
        "handing": ("Hand on", look.url("/handing")),
    }
    return {
        "release": look.name,
        "releases": visit.studio.releases(),
        "tabs": [(key, *words) for key, words in tabs.items()],
        "tab": tab,
        "stamp": "" if look.release.statement.is_private else look.release.statement.lines[0],
    }


def show(visit: Visit) -> Response:
    """The first page: which columns and pairs are above the noise."""
    look = opened(visit)
    if look is None:
        return visit.page("explore-none.html", title="Explore")
    release = look.release
    judged, drawn = _soon(warming.judged, release, PATIENCE), _soon(warming.overview, release, 0)
    facts = [
        (f"≈ {amount(release.model.total)}", "records, estimated"),
        (f"{len(release.domain):,}", "columns"),
        (f"{len(release.measurements):,}", "noisy measurements"),
        (release.statement.headline, "privacy promise"),
    ]
    return visit.page(
        "explore.html",
        title="Explore",
        facts=facts,
        is_coming=judged is None or drawn is None,
        is_judged=judged is not None,
        notes=[] if judged is None else [f"{note[:1].upper()}{note[1:]}." for note in judged.notes],
        columns=[] if judged is None else [_row(look, each) for each in judged.columns],
        pairs=[] if judged is None else [_row(look, each) for each in judged.pairs],
        is_drawn=drawn is not None,
        overview=drawn or "",
        command=[shlex.join(["priory", "quality", look.name])],
        python=f"import priory as pr\n\nrelease = pr.load({look.name!r})\nrelease.quality()",
        **shared(visit, look, "quality"),
    )


def _soon(work: Callable[[Release, float | None], T], release: Release, seconds: float) -> T | None:
    """What is worked out in the background; None where it is not there after so many seconds."""
    try:
        return work(release, seconds)
    except Coming:
        return None


def _row(look: Opened, each: Judged) -> dict[str, object]:
    return {
        "names": each.names,
        "strength": "" if each.strength is None else f"{each.strength:.2f}",
        "error": "not known" if each.error is None else f"{each.error:.1%}",
        "verdict": each.verdict,
        "mood": VERDICTS.get(each.verdict, ""),
        "ask": look.url("/ask", what="count", by=list(each.names)),
        "more": look.url("/more", columns=list(each.names)),
    }


def ask(visit: Visit) -> Response:
    """The form for questions, and the answer to the one in the address."""
    look = needed(visit)
    question, answer, problems = Question(), None, {}
    is_ready = _is_ready(look.release)
    if "what" in visit.query:
        try:
            question = asked(visit.query)
            answer = _answer(look, question) if is_ready else None
        except OptionError as error:
            problems = {_field(error.argument): _reason(error)}
        except PrioryError as error:
            problems = {"by": str(error)}
    return visit.page(
        "explore-ask.html",
        title="Explore: ask",
        form=_form(visit.query),
        columns=[_column(each) for each in look.release.columns.modelled],
        verbs=VERBS,
        signs=SIGNS,
        levels=[(f"{level:g}", f"{level:.0%}") for level in LEVELS],
        problems=problems,
        question=question,
        answer=answer,
        is_coming="what" in visit.query and not is_ready and not problems,
        **shared(visit, look, "ask"),
    )


def _is_ready(release: Release) -> bool:
    """Whether answers come at once; whatever else is wrong is said with the answer."""
    try:
        warming.errors(release, PATIENCE)
    except Coming:
        return False
    except PrioryError:
        return True
    return True


def download(visit: Visit) -> Response:
    """The answers as a CSV file."""
    look = needed(visit, None)
    file = io.StringIO()
    write_csv([asked(visit.query).answer(look.release)], file)
    return visit.download(file.getvalue().encode(), "answers.csv", "text/csv; charset=utf-8")


def asked(query: QueryParams) -> Question:
    """The question that the address of a form asks.

    Raises:
        OptionError: a field has a value that it cannot have.
    """
    form = _form(query)
    return Question.of(
        str(form["what"]),
        column=str(form["column"]),
        by=query.getlist("by"),
        tests=[Restriction(*each) for each in _tests(query)],
        condition=str(form["condition"]),
        at=[_share("at", each) for each in str(form["at"]).replace(";", " ").split()],
        level=_share("level", str(form["level"])),
    )


def _answer(look: Opened, question: Question) -> dict[str, object]:
    table = question.answer(look.release)
    shown = pictures.shown(table)
    sources = dict.fromkeys(table.to_dict()[table.names[-1]])
    picture = pictures.picture(look.release, question, table)
    return {
        "words": question.words,
        "shown": shown,
        "single": shown.rows[0] if len(table) == 1 else (),
        "picture": picture or "",
        "notes": [f"{note[:1].upper()}{note[1:]}." for note in table.notes],
        "sources": [(source, SOURCES.get(source, source)) for source in sources],
        "level": f"{question.level:.0%}",
        "command": [shlex.join(question.command(look.name))],
        "python": question.python(look.name),
        "more": look.url("/more", columns=list(dict.fromkeys([*question.by, *filter(None, [question.column])]))),
    }


def _form(query: QueryParams) -> Mapping[str, object]:
    """What the fields of the form hold."""
    tests = _tests(query)
    return {
        "what": query.get("what", "count"),
        "column": query.get("column", ""),
        "by": query.getlist("by"),
        "tests": tests + [("", "=", "")] * max(0, TESTS - len(tests)),
        "condition": query.get("condition", ""),
        "at": query.get("at", "0.25 0.5 0.75"),
        "level": query.get("level", f"{LEVEL:g}"),
        "address": str(query),
    }


def _tests(query: QueryParams) -> list[tuple[str, str, str]]:
    """The lines of the condition, those without a column left out."""
    given = (query.getlist(name) for name in ("test-column", "test-sign", "test-value"))
    return [each for each in zip(*given, strict=False) if each[0]][:20]


def _column(column: ModelledColumn) -> dict[str, object]:
    labels = column.place_labels if not column.is_binned else ()
    return {
        "name": column.name,
        "kind": column.kind,
        "asks": " ".join(what for what in VERBS if can_ask(what, column)),
        "labels": labels[:MOST_SUGGESTED],
    }


def _share(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(field, f"a share between 0 and 1, such as 0.9; got {text!r}") from None


def _field(argument: str) -> str:
    """Which field of the form an argument comes from."""
    return {"where": "condition", "columns": "by", "given": "by"}.get(argument, argument)


def _reason(error: OptionError) -> str:
    reason = str(error).removeprefix(f"{error.argument}: ")
    return f"{reason[:1].upper()}{reason[1:]}."


ROUTES = [
    ("/explore", "GET", show),
    ("/explore/ask", "GET", ask),
    ("/explore/answers.csv", "GET", download),
]
