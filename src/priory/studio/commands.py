"""Commands: every step of a project as the command line that does the same, run in its folder."""

import csv
import io
import shlex
from collections.abc import Sequence

from priory.studio.project import Settings

Arguments = tuple[str, ...]


def text(arguments: Sequence[str]) -> str:
    """A command as people type it."""
    return f"priory {shlex.join(arguments)}"


def draft(settings: Settings) -> Arguments:
    """Draft the schema from the public table, or begin it with names alone."""
    named = _option("--name", settings.name) + _option("--output", settings.schema)
    if settings.public:
        return ("schema", "init", _file(settings.public), *named)
    return ("schema", "init", _file(settings.private), "--header-only", "--has-header", *named)


def discover(settings: Settings, *, delta: str, output: str) -> Arguments:
    """Learn the columns from private rows, paid for by the ledger."""
    return (
        "schema",
        "discover",
        _file(settings.private),
        *_option("--schema", settings.schema),
        *_option("--epsilon", settings.discover_epsilon),
        *_option("--delta", delta),
        *_option("--ledger", settings.ledger),
        *_option("--output", output),
        *_option("--counts", counts_name(output)),
    )


def counts_name(schema: str) -> str:
    """The file with the noisy counts that a schema was learnt from."""
    return f"{schema.removesuffix('.yaml')}.counts.json"


def ledger(settings: Settings, *, delta: str, discovers: bool) -> Arguments:
    """Make the book; it is bound to the schema of the first run. A part of δ is set aside where columns are learnt."""
    is_person = settings.protects != "row"
    return (
        "ledger",
        "init",
        _file(settings.ledger),
        *_option("--dataset", settings.name),
        *_option("--epsilon", settings.total_epsilon),
        *_option("--delta", delta),
        *_option("--relation", settings.relation),
        *(_option("--unit", settings.person) + _option("--max-rows", settings.max_rows) if is_person else ()),
        *(() if discovers else ("--additive", "0")),
    )


def plan(settings: Settings, *, epsilon: str, delta: str, relation: str, max_rows: int) -> Arguments:
    """Forecast a run."""
    return (
        "plan",
        *_option("--schema", settings.schema),
        *_option("--rows", settings.rows),
        *_option("--epsilon", epsilon),
        *_option("--delta", delta),
        *_option("--relation", relation),
        *_option("--max-rows", str(max_rows) if max_rows != 1 else ""),
        *_option("--public", _file(settings.public)),
        *_option("--mechanism", settings.mechanism),
        *_option("--effort", _effort(settings)),
    )


def fit(settings: Settings, *, delta: str, output: str) -> Arguments:
    """Make the release."""
    return (
        "fit",
        _file(settings.private),
        *_option("--schema", settings.schema),
        *_option("--epsilon", settings.epsilon),
        *_option("--delta", delta),
        *_option("--public", _file(settings.public)),
        *_option("--mechanism", settings.mechanism),
        *_option("--effort", _effort(settings)),
        *_option("--ledger", settings.ledger),
        *_option("--output", output),
    )


def more(settings: Settings, columns: Sequence[str], *, epsilon: str, delta: str, output: str) -> Arguments:
    """Measure one marginal once more, with all of the budget."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(columns)
    return (
        "fit",
        _file(settings.private),
        *_option("--schema", settings.schema),
        *_option("--epsilon", epsilon),
        *_option("--delta", delta),
        *("--mechanism", "hdmm"),
        *_option("--workload", line.getvalue()),
        *_option("--ledger", settings.ledger),
        *_option("--output", output),
    )


def estimate(partial: str, output: str) -> Arguments:
    """Make the release of a run that ended early, from what was paid for."""
    return ("estimate", _file(partial), *_option("--output", output))


def combine(releases: Sequence[str], output: str) -> Arguments:
    """Make one release of several."""
    return ("combine", *map(_file, releases), *_option("--output", output))


def truth(settings: Settings, release: str) -> Arguments:
    """Compare a release with the private table: for the curator alone."""
    asked = ("--not-private", "--yes", *_option("--ledger", settings.ledger), *_option("--output", truth_name(release)))
    return ("report", _file(release), "--against", _file(settings.private), *asked)


def truth_name(release: str) -> str:
    """The file of true errors of a release."""
    return f"{release.removesuffix('.priory')}.not-private.html"


def check(settings: Settings) -> Arguments:
    """Check the schema, and the public table against it."""
    return ("schema", "check", _file(settings.schema), *_option("--public", _file(settings.public)))


def history(settings: Settings) -> Arguments:
    """What was spent on what."""
    return ("ledger", "show", _file(settings.ledger))


def _option(name: str, value: str) -> Arguments:
    """An option with its value; nothing where there is none. A value that looks like an option is tied to it."""
    if not value:
        return ()
    return (f"{name}={value}",) if value.startswith("-") else (name, value)


def _file(name: str) -> str:
    """The name of a file that cannot be taken for an option, nor for stdin."""
    return f"./{name}" if name.startswith("-") else name


def _effort(settings: Settings) -> str:
    """The effort, where it is not the usual one."""
    return "" if settings.effort == "normal" else settings.effort
