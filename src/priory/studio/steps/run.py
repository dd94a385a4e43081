"""Run: the step that starts a paid run once it is confirmed, and the page of a run."""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from starlette.responses import Response

from priory.errors import OptionError, PrioryError
from priory.privacy.budget import Budget, epsilon_of, rounded_down, rounded_up
from priory.privacy.ledger import Entry, EntryState, Ledger
from priory.privacy.outputs import partial_path
from priory.studio import checks, commands, python_code
from priory.studio.hub import RELEASE_SUFFIX, Studio
from priory.studio.jobs import Busy, Job, Kind
from priory.studio.later import PATIENCE, Coming
from priory.studio.visit import Refusal, Visit

_SHARE = re.compile(r"= (\S+) of (\S+) spent")


@dataclass(frozen=True)
class Order:
    """A run that can be confirmed."""

    commands: tuple[tuple[str, ...], ...]
    output: str
    price: str  # what it may cost, in words
    left: str  # what is left in the ledger then
    python: str  # the same as Python
    paid: str = ""  # what its paid command makes, where another one follows

    @property
    def digest(self) -> str:
        """What was confirmed, in short: the form sends it back, so that nothing else is started than was shown."""
        return hashlib.sha256(json.dumps([self.commands, self.price]).encode()).hexdigest()


def show(visit: Visit) -> Response:
    """The price, and the button that starts the run; or what is missing."""
    studio = visit.studio
    try:
        missing, is_reading = checks.missing(studio, PATIENCE), False
    except Coming:
        missing, is_reading = [], True
    order = None if missing or is_reading else ordered(studio)
    return visit.page(
        "run.html",
        title="Run",
        missing=missing,
        is_reading=is_reading,
        order=order,
        lines=[] if order is None else [commands.text(each) for each in order.commands],
        python="" if order is None else order.python,
        jobs=studio.jobs.all(),
    )


def save(visit: Visit) -> Response:
    """Keep what was typed; nothing is started."""
    visit.studio.change(purpose=visit.text("purpose").strip()[:500])
    return visit.next()


def ordered(studio: Studio) -> Order:
    """The run that the settings mean."""
    settings, book = studio.settings, opened(studio)
    output = free_output(studio, settings.name)
    delta = checks.run_delta(settings, book)
    arguments = commands.fit(settings, delta=delta, output=output)
    code = python_code.fit(settings, delta=delta, output=output)
    return Order((arguments,), output, *priced(book, checks.run_budget(settings, book)), code)


def priced(book: Ledger, budget: Budget) -> tuple[str, str]:
    """What a budget costs at the ledger and what is left then, in words; an `OptionError` if there is less."""
    price, left, letter = book.price(budget), book.left(), book.terms.total.currency.letter
    if price > left:
        raise OptionError("epsilon", f"this costs {letter} = {rounded_up(price)}, and {rounded_down(left)} is left")
    words = f"at most {budget}, which is {letter} = {rounded_up(price)} in the ledger"
    return words, f"{letter} = {rounded_down(left - price)}{_as_epsilon(book.terms.total, left - price)}"


def _as_epsilon(total: Budget, left: Fraction) -> str:
    """What is left of a ledger as the ε of one run; nothing where it is one already."""
    if total.delta is None:
        return ""
    epsilon = rounded_down(epsilon_of(total.currency, left, total.delta - total.additive))
    return f" (ε = {epsilon} at δ = {rounded_up(total.delta)} for one run)"


def opened(studio: Studio) -> Ledger:
    """The ledger, which must be there."""
    book = studio.ledger()
    if book is None:
        raise Refusal("Make the ledger first, in the step Budget.")
    return book


def free_output(studio: Studio, name: str, suffix: str = RELEASE_SUFFIX, also: str = "") -> str:
    """A name for what a run makes that no file and no earlier run has, and that is not `also`."""
    stem = re.sub(r"[^\w-]+", "-", name).strip("-")[:60] or "release"
    taken = {also} | {name for job in studio.jobs.all() for name in (job.output, job.paid)}
    return studio.folder.free_name(stem, suffix, taken)


def start(visit: Visit) -> Response:
    """Start what was confirmed; once, however often the form is sent."""
    studio = visit.studio
    if (job := earlier(visit)) is not None:
        return visit.go(f"/run/{job.name}")
    if checks.missing(studio):
        return visit.go("run", note="changed")
    response = started(visit, ordered(studio), "fit", "run")
    studio.change(purpose="" if earlier(visit) is not None else visit.text("purpose").strip()[:500])
    return response


def earlier(visit: Visit) -> Job | None:
    """The job that the same form started before, if it did."""
    return next((job for job in visit.studio.jobs.all() if job.plan == visit.text("plan")), None)


def started(visit: Visit, order: Order, kind: Kind, back: str) -> Response:
    """Start an order if it is the one that was confirmed."""
    if order.digest != visit.text("plan"):
        # The same form may have started it in another tab just now.
        same = earlier(visit)
        return visit.go(back, note="changed") if same is None else visit.go(f"/run/{same.name}")
    lines = len(opened(visit.studio).entries())
    try:
        job = visit.studio.jobs.start(
            kind,
            order.commands,
            output=order.output,
            paid=order.paid,
            purpose=visit.text("purpose").strip()[:500],
            plan=order.digest,
            lines=lines,
            python=order.python,
        )
    except Busy:
        return visit.go(back, note="busy")
    return visit.go(f"/run/{job.name}")


def show_job(visit: Visit) -> Response:
    """One run: how far it is, or how it ended and what it cost."""
    studio = visit.studio
    job = studio.jobs.job(visit.names["job"])
    warm(studio, job)
    return visit.page(
        "job.html",
        title=f"Run {job.name}",
        job=job,
        lines=[commands.text(each) for each in job.arguments],
        spent=spent(studio, job),
        facts=facts(job),
        has_output=(studio.folder.root / job.output).is_file(),
        can_estimate=can_estimate(studio, job),
    )


def show_facts(visit: Visit) -> Response:
    """The same as data, for the script that looks every second."""
    job = visit.studio.jobs.job(visit.names["job"])
    warm(visit.studio, job)
    return visit.json({**facts(job), "spent": spent(visit.studio, job) if job.state != "running" else ""})


def warm(studio: Studio, job: Job) -> None:
    """Have what the pages of its release need worked out, once it has ended: whoever waits for it looks at it next."""
    if job.state == "ended" and job.output.endswith(RELEASE_SUFFIX):
        studio.warm(job.output)


def facts(job: Job) -> dict[str, object]:
    """How far a job is."""
    found = _SHARE.search(job.progress)
    share = None if found is None else min(1.0, float(found[1]) / float(found[2]))
    return {
        "state": job.state,
        "line": job.progress,
        "share": 1.0 if job.state == "ended" else share,
        "seconds": round(job.seconds, 1),
        "output": job.output,
    }


def spent(studio: Studio, job: Job) -> str:
    """What a run has cost, as the ledger says."""
    if job.kind in ("estimate", "combine"):
        return "nothing: it uses what was paid for before"
    book = studio.ledger()
    entry = None if book is None else entry_of(job, book.entries())
    if book is None or entry is None:
        return "nothing"
    letter = book.terms.total.currency.letter
    charged = f"{letter} = {rounded_up(entry.charged)} (entry {entry.number} of the ledger)"
    if entry.state is EntryState.OPEN and job.state != "running":
        return f"{charged}: the run was cut off, and what it had set aside stays charged"
    return charged if entry.charged else f"nothing (entry {entry.number} of the ledger was given back)"


def entry_of(job: Job, entries: tuple[Entry, ...]) -> Entry | None:
    """The line of the ledger that a job made: the first one after those that there were, while it ran."""
    ended = float("inf") if job.ended is None else job.ended
    new = (entry for entry in entries if entry.number > job.lines)
    return next((entry for entry in new if job.started - 2 <= _seconds(entry.opened) <= ended + 2), None)


def _seconds(when: str) -> float:
    return datetime.fromisoformat(when).timestamp()


def cancel(visit: Visit) -> Response:
    """Ask a run to end."""
    job = visit.studio.jobs.cancel(visit.names["job"])
    return visit.go(f"/run/{job.name}", note="cancelled" if job.state == "running" else "")


def can_estimate(studio: Studio, job: Job) -> bool:
    """Whether a run that ended early left something to make a release of."""
    output = studio.folder.root / job.paid
    is_early = job.kind == "fit" and job.state in ("failed", "cancelled", "interrupted")
    return is_early and partial_path(output).is_file() and not output.exists()


def estimate(visit: Visit) -> Response:
    """Make the release of a run that ended early, from what was paid for."""
    job = visit.studio.jobs.job(visit.names["job"])
    if not can_estimate(visit.studio, job):
        raise Refusal("There is nothing left to make a release of.")
    made = estimated(visit.studio, job)
    return visit.go(f"/run/{made.name}")


def estimated(studio: Studio, job: Job) -> Job:
    """Start the estimate of a run that ended early."""
    arguments = commands.estimate(partial_path(job.paid).name, job.paid)
    code = python_code.estimate(partial_path(job.paid).name, job.paid)
    return studio.jobs.start("estimate", (arguments,), output=job.paid, purpose=job.purpose, python=code)


def resume(studio: Studio) -> Job | None:
    """After a run was killed: begin to make the release of what it had paid for."""
    for job in studio.jobs.all():
        if job.state in ("interrupted", "failed") and can_estimate(studio, job):
            try:
                return estimated(studio, job)
            except PrioryError:
                return None
    return None


ROUTES = [
    ("/run", "GET", show),
    ("/run", "POST", save),
    ("/run/start", "POST", start),
    ("/run/{job}.json", "GET", show_facts),
    ("/run/{job}", "GET", show_job),
    ("/run/{job}/cancel", "POST", cancel),
    ("/run/{job}/estimate", "POST", estimate),
]
