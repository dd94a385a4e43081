"""Python code: every step of a project as Python that does the same as its command line, run in its folder."""

from collections.abc import Sequence

from priory.studio.commands import counts_name
from priory.studio.project import Settings

IMPORT = "import priory as pr\n"


def draft(settings: Settings) -> str:
    """Draft the schema from the public table, or begin it with names alone."""
    name = repr(settings.name) if settings.name else repr("table")
    if settings.public:
        call = f"draft_schema({settings.public!r}, name={name}).save({settings.schema!r})"
        return f"from priory.data.drafting import draft_schema\n\n{call}"
    return (
        "from pathlib import Path\n\nfrom priory.data.schema.open import OpenSchema, read_names\n\n"
        f"opened = OpenSchema.of({name}, read_names(Path({settings.private!r})))\n"
        f'Path({settings.schema!r}).write_text(opened.dump(), encoding="utf-8")'
    )


def discover(settings: Settings, *, delta: str, output: str) -> str:
    """Learn the columns from private rows, paid for by the ledger."""
    given = {"epsilon": settings.discover_epsilon, "delta": delta, "ledger": settings.ledger, "output": output}
    call = _call("pr.discover", [settings.private, settings.schema], given | {"counts": counts_name(output)})
    return f"{IMPORT}\n{call}"


def ledger(settings: Settings, *, delta: str, max_rows: int, discovers: bool) -> str:
    """Make the book."""
    person = repr(settings.person) if settings.protects != "row" else "None"
    head, additive = IMPORT, ""
    if discovers:
        head, additive = f"from fractions import Fraction\n\n{IMPORT}", f", additive=Fraction({delta!r}) / 10"
    return (
        f"{head}from priory.privacy.ledger import Terms\n\n"
        f"total = pr.Budget.of(epsilon={settings.total_epsilon!r}, delta={delta!r}, "
        f"relation={settings.relation!r}, max_rows={max_rows}{additive})\n"
        f'terms = Terms({settings.name!r}, schema="", total=total, person={person})\n'
        f"pr.Ledger.create({settings.ledger!r}, terms)"
    )


def plan(settings: Settings, *, epsilon: str, delta: str, relation: str, max_rows: int) -> str:
    """Forecast a run."""
    budget = f"epsilon={epsilon!r}, delta={delta or None!r}, relation={relation!r}, max_rows={max_rows}"
    given = {"mechanism": settings.mechanism, "public": settings.public, "effort": _effort(settings)}
    options = "".join(f", {name}={value!r}" for name, value in given.items() if value)
    return (
        f"{IMPORT}\nschema = pr.Schema.load({settings.schema!r})\nbudget = pr.Budget.of({budget})\n"
        f"print(pr.forecast(schema, {settings.rows}, [budget]{options}))"
    )


def fit(settings: Settings, *, delta: str, output: str) -> str:
    """Make the release."""
    given = {
        "epsilon": settings.epsilon,
        "delta": delta,
        "public": settings.public,
        "mechanism": settings.mechanism,
        "effort": _effort(settings),
        "ledger": settings.ledger,
        "output": output,
    }
    return f"{IMPORT}\n{_call('release = pr.fit', [settings.private, settings.schema], given)}"


def more(settings: Settings, columns: Sequence[str], *, epsilon: str, delta: str, outputs: tuple[str, str, str]) -> str:
    """Measure one marginal once more, and combine; `outputs` are what there was, what is measured, and both."""
    release, new, both = outputs
    given = {"epsilon": epsilon, "delta": delta, "mechanism": "hdmm", "ledger": settings.ledger, "output": new}
    call = _call("more = pr.fit", [settings.private, settings.schema], given, ["workload=workload"])
    return (
        f"{IMPORT}\ndomain = pr.Schema.load({settings.schema!r}).domain\n"
        f"workload = pr.Workload.of([pr.Query.marginal(domain, {tuple(columns)!r})])\n{call}\n"
        f"pr.combine([pr.load({release!r}), more]).save({both!r})"
    )


def estimate(partial: str, output: str) -> str:
    """Make the release of a run that ended early, from what was paid for."""
    return f"{IMPORT}\npr.recover({partial!r}).save({output!r})"


def check(settings: Settings) -> str:
    """Read the schema, and see whether it is good."""
    return f"{IMPORT}\nprint(pr.Schema.load({settings.schema!r}))"


def history(settings: Settings) -> str:
    """What was spent on what."""
    return f"{IMPORT}\nledger = pr.Ledger.open({settings.ledger!r})\nprint(ledger.left(), *ledger.entries(), sep='\\n')"


def truth(settings: Settings, release: str, page: str) -> str:
    """Compare a release with the private table: for the curator alone."""
    return (
        f"from pathlib import Path\n\n{IMPORT}from priory.report.evaluation import private_source\n"
        "from priory.report.truth import truth_page\n\n"
        f"release = pr.load({release!r})\n"
        f"source = private_source(release, {settings.private!r}, {settings.ledger!r})\n"
        f'Path({page!r}).write_text(str(truth_page(release, source, confirmed=True)), encoding="utf-8")'
    )


def _call(name: str, positional: Sequence[str], given: dict[str, str], also: Sequence[str] = ()) -> str:
    """A call with an argument a line; options that are empty are left out."""
    arguments = [*map(repr, positional), *(f"{key}={value!r}" for key, value in given.items() if value), *also]
    return f"{name}(" + "".join(f"\n    {each}," for each in arguments) + "\n)"


def _effort(settings: Settings) -> str:
    return "" if settings.effort == "normal" else settings.effort
