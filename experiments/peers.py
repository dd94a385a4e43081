"""Peers: other libraries in virtual environments of their own, with results exchanged as files."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor

MBI = "mbi==2.0.0"
# Draws in one process: compiling is paid once in each.
PIECE = 10


@dataclass(frozen=True, eq=False)
class PeerEstimate:
    """What a peer found.

    Attributes:
        model: its potentials and total, as a model of ours, so that both are read alike.
        seconds: its CPU seconds.
        first: those of the first draw of the same process, which include compiling.
    """

    model: Model
    seconds: float
    first: float


@dataclass(frozen=True, eq=False)
class Mbi:
    """mbi's default estimates of several draws of the same measurements, kept in a folder.

    Attributes:
        folder: where.
        domain: the attributes.
    """

    folder: Path
    domain: Domain

    def run(self, cliques: Sequence[Clique], draws: Sequence[Sequence[Measurement]]) -> None:
        """Estimate the draws that are missing, `PIECE` of them in a process."""
        missing = [number for number in range(len(draws)) if not self._path(number).exists()]
        if not missing:
            return
        for part in ("jobs", "draws"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        sizes = dict(zip(self.domain, self.domain.shape, strict=True))
        (self.folder / "problem.json").write_text(json.dumps({"domain": sizes, "cliques": cliques}))
        script = Path(__file__).with_name("peer_mbi.py")
        for start in range(0, len(missing), PIECE):
            piece = missing[start : start + PIECE]
            for number in piece:
                values = {f"values/{j}": measurement.values for j, measurement in enumerate(draws[number])}
                np.savez(self.folder / "jobs" / f"{number}.npz", stddev=draws[number][0].stddev, **values)
            command = [str(mbi_python()), str(script), str(self.folder), *map(str, piece)]
            subprocess.run(command, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})

    def __getitem__(self, number: int) -> PeerEstimate:
        """The estimate of one draw."""
        return read_estimate(self._path(number), self.domain)

    def _path(self, number: int) -> Path:
        return self.folder / "draws" / f"{number}.npz"


def read_estimate(path: Path, domain: Domain) -> PeerEstimate:
    """What a peer's process left in a file."""
    with np.load(path) as results:
        potentials = {
            tuple(clique): Factor(domain.project(clique), results[f"potentials/{j}"].astype(np.float64))
            for j, clique in enumerate(json.loads(str(results["held"])))
        }
        model = Model(Uniform(domain), potentials, float(results["total"]))
        return PeerEstimate(model, float(results["seconds"]), float(results["first"]))


def mbi_python() -> Path:
    """The interpreter of mbi's virtual environment, made where it is missing."""
    return peer_python(".venv-mbi", MBI)


def peer_python(name: str, requirement: str) -> Path:
    """The interpreter of a peer's virtual environment, made with the requirement where it is missing."""
    folder = Path(name)
    python = folder / "bin" / "python"
    package = requirement.replace("-", "_").replace("==", "-")
    if not any(folder.glob(f"lib/*/site-packages/{package}.dist-info")):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)
    return python
