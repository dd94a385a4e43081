"""mbi in a virtual environment of its own: measurements in, potentials out, exchanged as files.

Run as `python peer_mbi.py jobs.npz results.npz`. The jobs file holds `domain` and `cliques` as JSON, and for each draw
i the answers `values/i/j` of each clique j and `stddev/i`. The results file holds `potentials/i/j`, `total/i` and the
CPU seconds of each draw; the first one includes compiling.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def main(jobs_path: str, results_path: str) -> None:
    """Estimate every draw with mbi's defaults."""
    warnings.simplefilter("ignore")
    begun = time.process_time()
    import mbi

    imported = time.process_time() - begun
    jobs = np.load(jobs_path)
    sizes = json.loads(str(jobs["domain"]))
    cliques = [tuple(clique) for clique in json.loads(str(jobs["cliques"]))]
    domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))
    results: dict[str, np.ndarray] = {"import": np.array(imported)}
    for draw in range(int(jobs["draws"])):
        measurements = [
            mbi.LinearMeasurement(jobs[f"values/{draw}/{j}"].reshape(-1), clique, float(jobs[f"stddev/{draw}"]))
            for j, clique in enumerate(cliques)
        ]
        begun = time.process_time()
        model = mbi.estimation.MirrorDescent().estimate(domain, measurements)
        held = {tuple(clique): np.asarray(model.potentials[clique].values) for clique in model.potentials.cliques}
        results[f"seconds/{draw}"] = np.array(time.process_time() - begun)
        results[f"total/{draw}"] = np.array(float(model.total))
        results["held"] = np.array(json.dumps(list(held)))
        for j, values in enumerate(held.values()):
            results[f"potentials/{draw}/{j}"] = values
        print(f"mbi draw {draw}: {float(results[f'seconds/{draw}']):.1f} s", file=sys.stderr, flush=True)
    partial = Path(results_path + ".partial.npz")
    np.savez(partial, **results)
    partial.rename(results_path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
