"""Peers: other libraries in virtual environments of their own, with results exchanged as files."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from priory.domain import Clique, Domain
from priory.factor import Factor
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.measurement import Measurement

MBI = "mbi==2.0.0"


@dataclass(frozen=True, eq=False)
class PeerEstimate:
    """What a peer found.

    Attributes:
        model: its potentials and total, as a model of ours, so that both are read alike.
        seconds: its CPU seconds; those of a first draw include compiling.
    """

    model: Model
    seconds: float


def mbi_python() -> Path:
    """The interpreter of mbi's virtual environment, made where it is missing."""
    folder = Path(".venv-mbi")
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", MBI], check=True)
        (folder / ".ready").touch()
    return python


def mbi_estimates(
    folder: Path, domain: Domain, cliques: Sequence[Clique], draws: Sequence[Sequence[Measurement]]
) -> list[PeerEstimate]:
    """mbi's default estimates of several draws, from one process; kept in `folder` and read back if there."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.npz"
    if not results.exists():
        jobs: dict[str, object] = {
            "domain": json.dumps(dict(zip(domain, domain.shape, strict=True))),
            "cliques": json.dumps([list(clique) for clique in cliques]),
            "draws": len(draws),
        }
        for i, measurements in enumerate(draws):
            jobs[f"stddev/{i}"] = measurements[0].stddev
            jobs |= {f"values/{i}/{j}": measurement.values for j, measurement in enumerate(measurements)}
        np.savez(folder / "jobs.npz", **jobs)  # type: ignore[arg-type]
        script = Path(__file__).with_name("peer_mbi.py")
        command = [str(mbi_python()), str(script), str(folder / "jobs.npz"), str(results)]
        subprocess.run(command, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    return read_estimates(results, domain, len(draws))


def read_estimates(path: Path, domain: Domain, draws: int) -> list[PeerEstimate]:
    """What a peer's process left in a file."""
    results = np.load(path)
    held = [tuple(clique) for clique in json.loads(str(results["held"]))]
    found = []
    for i in range(draws):
        potentials = {
            clique: Factor(domain.project(clique), results[f"potentials/{i}/{j}"].astype(np.float64))
            for j, clique in enumerate(held)
        }
        model = Model(Uniform(domain), potentials, float(results[f"total/{i}"]))
        found.append(PeerEstimate(model, float(results[f"seconds/{i}"])))
    return found
