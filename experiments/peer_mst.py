"""MST on mbi, in a virtual environment of its own: a table of codes in, potentials and CPU seconds out.

Run as `python peer_mst.py job.npz results.npz`. The job holds `domain` as JSON, `codes`, `rho` and `seed`; the results
are those of `peer_mbi.py` with one draw. Noise is rounded Gaussian and for the benchmark only.
"""

import itertools
import json
import sys
import time
import warnings
from typing import Any

import numpy as np


def main(job_path: str, results_path: str) -> None:
    """MST on a job's table, its potentials kept in a file."""
    warnings.simplefilter("ignore")
    job = np.load(job_path)
    begun = time.process_time()
    model = fitted(json.loads(str(job["domain"])), job["codes"], float(job["rho"]), int(job["seed"]))
    held = {tuple(clique): np.asarray(model.potentials[clique].values) for clique in model.potentials.cliques}
    found = {f"potentials/{j}": values for j, values in enumerate(held.values())}
    seconds = time.process_time() - begun
    np.savez(
        results_path,
        **found,
        held=np.array(json.dumps(list(held))),
        total=float(model.total),
        seconds=seconds,
        first=seconds,
    )


def fitted(sizes: dict[str, int], codes: np.ndarray, rho: float, seed: int) -> Any:  # noqa: ANN401 - no types
    """One-way marginals, a spanning tree, and its marginals, a third of the budget each."""
    import mbi

    names = list(sizes)
    rng = np.random.default_rng(seed)
    domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))

    def counts(clique: tuple[str, ...]) -> np.ndarray:
        shape = [sizes[name] for name in clique]
        places = np.ravel_multi_index([codes[:, names.index(name)] for name in clique], shape)
        return np.bincount(places, minlength=int(np.prod(shape))).reshape(shape)

    def measured(cliques: list[tuple[str, ...]], share: float) -> list[object]:
        sigma = np.sqrt(len(cliques) / (2 * share))
        return [
            mbi.LinearMeasurement((counts(c) + np.rint(rng.normal(0, sigma, counts(c).shape))).ravel(), c, sigma)
            for c in cliques
        ]

    measurements = measured([(name,) for name in names], rho / 3)
    model = mbi.estimation.MirrorDescent().estimate(domain, measurements)
    pairs = list(itertools.combinations(names, 2))
    scores = [np.abs(counts(pair) - np.asarray(model.project(pair).values)).sum() for pair in pairs]
    tree = _tree(names, pairs, scores, np.sqrt(8 * rho / 3 / (len(names) - 1)), rng)
    measurements += measured(tree, rho / 3)
    return mbi.estimation.MirrorDescent().estimate(domain, measurements)


def _tree(
    names: list[str], pairs: list[tuple[str, str]], scores: list[float], epsilon: float, rng: np.random.Generator
) -> list[tuple[str, ...]]:
    """Edges by the exponential mechanism at `epsilon` each, on scores of sensitivity 1."""
    group = {name: name for name in names}
    tree: list[tuple[str, ...]] = []
    while len(tree) < len(names) - 1:
        noisy = np.array(scores) * epsilon / 2 + rng.gumbel(size=len(pairs))
        noisy[[group[a] == group[b] for a, b in pairs]] = -np.inf
        a, b = pairs[int(noisy.argmax())]
        tree.append((a, b))
        group = {name: group[a] if held == group[b] else held for name, held in group.items()}
    return tree


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
