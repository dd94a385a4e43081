"""Demo: the main job on the embedded town, from a private register to answers, synthetic rows and a report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from priory import town
from priory.app.fit import fit
from priory.cli.output import AsJson, say, write, write_json, write_statement
from priory.data.schema import Schema
from priory.data.table import Table
from priory.errors import DataError, MissingExtra
from priory.release import Release

EPSILON, DELTA, MECHANISM = 1, "1e-9", "prior"
ROWS, SEED = 10_000, 7
FOLDER = Path("priory-demo")
QUESTIONS = ("How many live in each district?", "What do people earn, by education?", "Who smokes, by sex?")


@dataclass(frozen=True)
class Files:
    """What the demo leaves behind."""

    release: Path  # the release
    rows: Path  # synthetic rows
    report: Path | None  # the page to look at; None where the libraries that draw are missing


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Release the embedded town: fit its private register, starting from the public one, answer, sample and report."""
    _make(output)
    if not as_json:
        say("Klosterwiek is a made-up town. Last year's register is public; this year's is to be treated as private.\n")
        budget = f"ε = {EPSILON}, δ = {DELTA}"
        say(f"1. Fit this year's register with {budget}, starting from last year's. A few seconds …\n")
    schema = Schema.load(town.SCHEMA)
    release = fit(town.THIS_YEAR, schema, epsilon=EPSILON, delta=DELTA, mechanism=MECHANISM, public=town.LAST_YEAR)
    if not as_json:
        write_statement(release.statement)
        say("\n2. Ask it. Nine intervals in ten should hold the true figure.")
    answers = [release.marginal("district"), release.mean("income", by="education")]
    answers.append(release.share("smoker", given="sex"))
    if not as_json:
        for question, answer in zip(QUESTIONS, answers, strict=True):
            write(f"\n{question}\n{answer}")
        say(f"\n3. Draw {ROWS:,} synthetic rows, and a report. A few seconds more …")
    sample = release.sample(ROWS, seed=SEED)
    files = _written(release, sample, output)
    if as_json:
        write_json(_described(release, answers, files))
        return
    write(f"\n{sample.head(5)}")
    say(_ending(files))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be made: {error.strerror or error}") from None


def _written(release: Release, sample: Table, folder: Path) -> Files:
    """The files, in place of those of an earlier run."""
    files = Files(folder / "klosterwiek.priory", folder / "klosterwiek-synthetic.csv", folder / "klosterwiek.html")
    release.save(files.release)
    sample.write_csv(files.rows)
    try:
        release.report(folder / "klosterwiek.html")
    except MissingExtra as missing:
        say(f"No report: {missing}")
        return Files(files.release, files.rows, None)
    return files


def _described(release: Release, answers: list[Table], files: Files) -> dict[str, object]:
    return {
        "statement": list(release.statement.lines),
        "answers": {question: answer.to_dict() for question, answer in zip(QUESTIONS, answers, strict=True)},
        "files": {name: path and str(path) for name, path in vars(files).items()},
    }


def _ending(files: Files) -> str:
    report = [f"  {files.report}   the report: open it in a browser"] if files.report is not None else []
    return "\n".join(
        [
            "\nWritten:",
            *report,
            f"  {files.rows}   {ROWS:,} synthetic rows",
            f"  {files.release}   the release: measurements, model and statement, nothing private",
            "\nTry next:",
            f'  priory query {files.release} employment sex --where "born < 2000-01-01"',
            f"  priory sample {files.release} -n 5 --where \"district = 'Hafen'\"",
            f"  priory explain --epsilon {EPSILON} --delta {DELTA}",
            "\nRun it again: the noise, and so the figures, differ.",
        ]
    )
