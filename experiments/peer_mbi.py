"""mbi in a virtual environment of its own: measurements in, potentials out, exchanged as files.

Run as `python peer_mbi.py folder number …`. `folder/problem.json` holds the domain and the cliques, and
`folder/jobs/i.npz` the answers of each clique and the noise of draw i. `folder/draws/i.npz` gets the potentials, the
total, the CPU seconds of that draw and those of the first draw of its process, which include compiling.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def main(folder: Path, numbers: list[int]) -> None:
    """Estimate these draws with mbi's defaults."""
    warnings.simplefilter("ignore")
    import mbi

    problem = json.loads((folder / "problem.json").read_text())
    sizes: dict[str, int] = problem["domain"]
    cliques = [tuple(clique) for clique in problem["cliques"]]
    domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))
    first = None
    for number in numbers:
        job = np.load(folder / "jobs" / f"{number}.npz")
        measurements = [
            mbi.LinearMeasurement(job[f"values/{j}"].reshape(-1), clique, float(job["stddev"]))
            for j, clique in enumerate(cliques)
        ]
        begun = time.process_time()
        model = mbi.estimation.MirrorDescent().estimate(domain, measurements)
        held = {tuple(clique): np.asarray(model.potentials[clique].values) for clique in model.potentials.cliques}
        seconds = time.process_time() - begun
        first = seconds if first is None else first
        results: dict[str, object] = {"seconds": seconds, "first": first, "total": float(model.total)}
        results |= {f"potentials/{j}": values for j, values in enumerate(held.values())}
        partial = folder / "draws" / f"{number}.partial.npz"
        np.savez(partial, held=json.dumps(list(held)), **results)
        partial.rename(folder / "draws" / f"{number}.npz")
        print(f"mbi draw {number}: {seconds:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])
