"""The MST of one peer in its own virtual environment: a table of codes in, synthetic rows and CPU seconds out."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bench.clock import peak_in_mb, read_spec, say, timed

Codes = Any


def mbi(job: Any, sizes: dict[str, int]) -> Codes:  # noqa: ANN401 - a file of arrays
    """MST put together of mbi's parts, as its users do."""
    import sys

    sys.path.insert(0, str(Path(__file__).parent.parent / "experiments"))
    from peer_mst import fitted  # type: ignore[import-not-found]

    rows = fitted(sizes, job["codes"], float(job["rho"]), int(job["seed"])).synthetic_data(rows=len(job["codes"]))
    return rows.df[list(sizes)].to_numpy()


def dpmm(job: Any, sizes: dict[str, int]) -> Codes:  # noqa: ANN401 - a file of arrays
    """dpmm's own MST."""
    import pandas as pd
    from dpmm.models.mst import MSTGM  # type: ignore[import-not-found]

    frame = pd.DataFrame(job["codes"], columns=list(sizes))
    seed = np.random.RandomState(int(job["seed"]))
    # In one process, so that its CPU seconds can be counted.
    model = MSTGM(epsilon=float(job["epsilon"]), delta=float(job["delta"]), domain=sizes, random_state=seed, n_jobs=1)
    model.fit(frame)
    return model.generate(n_records=len(frame))[list(sizes)].to_numpy()


def main() -> None:
    """Carry out the spec."""
    warnings.simplefilter("ignore")
    spec = read_spec()
    job = np.load(spec["job"])
    sizes = json.loads(str(job["domain"]))
    found: list[Codes] = []
    peer = {"mbi": mbi, "dpmm": dpmm}[spec["peer"]]
    wall, cpu = timed(lambda: found.append(peer(job, sizes)))
    np.save(spec["rows"], np.asarray(found[0], dtype=np.int64))
    say({"cpu_s": cpu, "wall_s": wall, "fit_mb": peak_in_mb()})


if __name__ == "__main__":
    main()
