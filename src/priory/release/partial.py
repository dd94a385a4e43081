"""Partial: a run that ended early, as a release without a model."""

from dataclasses import dataclass
from pathlib import Path

from priory.privacy.journal import Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.recorder import Job, read_recorded
from priory.privacy.session import Replayed
from priory.privacy.statement import Statement
from priory.release.release import Release


@dataclass(frozen=True, eq=False)
class Partial:
    """A run that ended early: what it was asked, and what it was answered until then."""

    job: Job  # what it was asked
    statement: Statement  # what it promises, with what was paid until then
    transcript: Transcript  # what it was answered

    @classmethod
    def load(cls, path: str | Path) -> "Partial":
        """Read the partial file of a run; a record that was cut off at its end is left out."""
        return cls(*read_recorded(path))

    @property
    def session(self) -> Replayed:
        """The run's session once more, as far as it was answered."""
        schema, limit = self.job.schema, self.job.row_limit
        return Replayed(self.transcript, self.statement, schema.domain, impossible=schema.impossible(), row_limit=limit)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The noisy answers; the number of rows first, where it is public."""
        return self.transcript.measurements

    def release(self) -> Release:
        """A release of the noisy answers, without a model of its own; see `recover` for one with the mechanism's."""
        return Release(self.job.schema.domain, self.measurements, self.statement, self.job.schema)
