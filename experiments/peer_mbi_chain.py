"""mbi on a chain of triples, in a virtual environment of its own: CPU milliseconds of a step of Algorithm 1.

Run as `python peer_mbi_chain.py 3 10 100`; a line of JSON for each number of attributes. Steps have a fixed length, so
that each calls the oracle once; the times are between two calls of its callback, after everything is compiled.
"""

import json
import sys
import time
import warnings

import numpy as np

VALUES = 10


def main(sizes: list[int]) -> None:
    """Time each chain."""
    warnings.simplefilter("ignore")
    import jax  # type: ignore[import-not-found, unused-ignore]
    import mbi

    every = mbi.estimation.CALLBACK_EVERY
    for size in sizes:
        names = [f"a{i}" for i in range(size)]
        domain = mbi.Domain(tuple(names), (VALUES,) * size)
        rng = np.random.default_rng(0)
        triples = zip(names, names[1:], names[2:], strict=False)
        measurements = [mbi.LinearMeasurement(rng.random(VALUES**3), clique, 1.0) for clique in triples]
        marks: list[float] = []

        def mark(value: object, marks: list[float] = marks) -> None:
            jax.block_until_ready(value)
            marks.append(time.process_time())

        begun = time.process_time()
        estimator = mbi.estimation.MirrorDescent(stepsize=1e-3)
        estimator.estimate(
            domain,
            measurements,
            known_total=1.0,
            iters=4 * every,
            callback_fn=mark,
        )
        steps = np.diff(marks) / every
        found = {"attributes": size, "milliseconds": 1e3 * float(steps.min()), "first": marks[0] - begun}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
