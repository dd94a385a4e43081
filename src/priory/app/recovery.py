"""Recovery: the release of a run that ended early, from what it was answered until then."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from priory.app.recipe import public_rows, recipe_of
from priory.app.registry import MECHANISMS, Mechanism, registered
from priory.errors import PrioryError, ReleaseError
from priory.mechanisms.steps.fitted import refitted
from priory.privacy.budget import Budget
from priory.privacy.journal import Transcript
from priory.release import Release
from priory.release.partial import Partial

EARLY = "ended early"
OTHERWISE = "modelled from its noisy answers alone"


@runtime_checkable
class Recoverable(Protocol):
    """A mechanism with its own estimate, other than the graphical model of its measurements."""

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release with the mechanism's own estimate, from the noisy answers of `release` and all of `transcript`.

        `budget` is what the whole run could have spent. No private data is needed. A `PrioryError` where its own
        estimate cannot be made from so little.
        """


def recover(partial: Partial | str | Path, *, mechanism: Mechanism | None = None) -> Release:
    """Make the release of a run that ended early; a `ReleaseError` where it cannot be read or holds no answers.

    It is estimated as the mechanism itself does, from what was answered until then, and promises what the run reserved.
    Nothing is spent: neither private data nor the ledger is opened, and the reservation is not continued. `partial` is
    the partial file of the run, or the attribute `partial` of the error that ended it. A mechanism with custom
    settings, which the file does not hold, is given again; without it the model is made of its noisy answers alone.
    """
    partial = partial if isinstance(partial, Partial) else Partial.load(partial)
    if not partial.transcript.holds_results:
        raise ReleaseError("the run ended before it was answered anything: there is nothing to make a release of")
    release, job = partial.release(), partial.job
    if mechanism is None and job.is_registered and job.mechanism in MECHANISMS:
        mechanism = recipe_of(registered(job.mechanism), job)
    early = f"{job.mechanism}, {EARLY}"
    if mechanism is not None:
        try:
            return _named(_own(mechanism, partial, release), early)
        except PrioryError:
            # Too little was answered for it, or the model would be too large: what was answered is still of use.
            pass
    return _named(_modelled(partial, release), f"{early}, {OTHERWISE}")


def _own(mechanism: Mechanism, partial: Partial, release: Release) -> Release:
    if isinstance(mechanism, Recoverable):
        release = mechanism.recovered(release, partial.transcript, partial.statement.budget)
    return release.with_estimate()


def _modelled(partial: Partial, release: Release) -> Release:
    try:
        return refitted(release, public_rows(partial.job))
    except PrioryError:
        return release


def _named(release: Release, mechanism: str) -> Release:
    return replace(release, statement=replace(release.statement, mechanism=mechanism))
