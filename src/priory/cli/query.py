"""Query: the verb that asks a release."""

import inspect
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from priory.cli.asking import OPTIONS, Asked, Option, kept_answer, print_asked
from priory.cli.progress import working
from priory.data.table import Table
from priory.errors import PrioryError
from priory.release import Release
from priory.release.keeping import keep
from priory.work import stage

_TYPES: dict[str, Any] = {
    "text": str | None,
    "number": float,
    "numbers": list[float] | None,
    "count": int | None,
    "flag": bool,
    "switch": bool,
}


def query(**given: Any) -> None:  # noqa: ANN401 - options of several types
    """Answer from a release, in the words of its schema, with an interval for each answer. Free: nothing is spent.

    Without columns, the number of rows; with them, a marginal.
    """
    answer(Asked.of(given.pop("release"), given.pop("columns") or [], given))


def answer(asked: Asked) -> None:
    """Ask the release, keep what the next questions need, and print the answer."""
    with working("answering", is_wanted=not asked.as_json):
        table = _answered(asked)
    print_asked(asked, table)


def _answered(asked: Asked) -> Table:
    with stage(0.0, 0.2, "reading the release"):
        release = Release.load(asked.release)
    with suppress(PrioryError), stage(0.2, 0.9, "answering"):
        # What is wrong with a question is said below.
        keep(release, asked.release, asked.question.cliques(release.columns))
    with stage(0.9, 1.0, "answering"):
        # The same digits as the next time; sums in another order differ in the last ones.
        return kept_answer(asked) or release.ask(asked.question)


def _parameter(option: Option) -> inspect.Parameter:
    names = [f"--{option.name}"] + ([f"--no-{option.name}"] if option.kind == "switch" else [])
    declared = "/".join(names)
    given = typer.Option(declared, metavar=option.metavar, help=option.help)
    # Not in brackets: a type checker would read them as a type.
    annotation = Annotated.__class_getitem__((_TYPES[option.kind], given))  # type: ignore[attr-defined]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation)


def _signature() -> inspect.Signature:
    """The options that the quick way to an answer knows, for Typer, so that both read the same ones."""
    release = Annotated[Path, typer.Argument(help="The release file.")]
    columns = Annotated[
        list[str] | None, typer.Argument(help="One answer for each combination of these columns' values.")
    ]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [
            inspect.Parameter("release", kind, annotation=release),
            inspect.Parameter("columns", kind, annotation=columns, default=None),
            *map(_parameter, OPTIONS),
        ]
    )


query.__signature__ = _signature()  # type: ignore[attr-defined]  # functions may have one
query.__annotations__ = {each.name: each.annotation for each in query.__signature__.parameters.values()}  # type: ignore[attr-defined]
