"""Recovery: the release of a run that ended early; its mechanism runs again on what it was answered until then."""

from dataclasses import replace
from pathlib import Path

from priory.app.recipe import public_rows, recipe_of
from priory.app.registry import MECHANISMS, Mechanism, registered
from priory.errors import PrioryError, ReleaseError
from priory.mechanisms.steps.fitted import refitted
from priory.privacy.session import Ended
from priory.release import Release
from priory.release.partial import Partial

EARLY = "ended early"
OTHERWISE = "modelled from its noisy answers alone"


def recover(partial: Partial | str | Path, *, mechanism: Mechanism | None = None, alone: bool = False) -> Release:
    """Make the release of a run that ended early.

    The mechanism runs once more, is answered what the run was, and makes a release of it where the answers end; it
    promises what the run reserved. Nothing is spent: neither private data nor the ledger is opened, and the reservation
    is not continued.

    Args:
        partial: the partial file of the run, or the attribute `partial` of the error that ended it.
        mechanism: a mechanism with custom settings, which the file does not hold, as it was; without it the model is
            made of the noisy answers alone.
        alone: make the model of the noisy answers alone in any case.

    Raises:
        ReleaseError: the file cannot be read, holds no answers, is of another version of priory, or its answers are
            not to what the mechanism asks.
    """
    partial = partial if isinstance(partial, Partial) else Partial.load(partial)
    if not partial.transcript.holds_results:
        raise ReleaseError("the run ended before it was answered anything: there is nothing to make a release of")
    job = partial.job
    if mechanism is None and job.is_registered and job.mechanism in MECHANISMS:
        mechanism = recipe_of(registered(job.mechanism), job)
    early = f"{job.mechanism}, {EARLY}"
    if mechanism is not None and not alone:
        try:
            return _named(_resumed(mechanism, partial), early)
        except ReleaseError:
            raise
        except (PrioryError, Ended):
            # Too little was answered for it, or the model would be too large: what was answered is still of use.
            pass
    return _named(_modelled(partial), f"{early}, {OTHERWISE}")


def _resumed(mechanism: Mechanism, partial: Partial) -> Release:
    session = partial.session
    release = mechanism.run(session, partial.statement.budget)
    session.check_finished()
    return release.with_schema(partial.job.schema).with_estimate()


def _modelled(partial: Partial) -> Release:
    release = partial.release()
    try:
        return refitted(release, public_rows(partial.job))
    except PrioryError:
        return release


def _named(release: Release, mechanism: str) -> Release:
    return replace(release, statement=replace(release.statement, mechanism=mechanism))
