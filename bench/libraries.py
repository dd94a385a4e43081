"""Libraries: what is written by hand in the estimator and the engine, beside the library that does the same.

Each line times the two in turn, so that a busy machine slows both; what counts is the ratio.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.clock import timed
from priory.estimate import dual
from priory.estimate.estimator import estimate
from priory.estimate.lbfgs import Minimum, Objective
from priory.model.model import Model
from priory.model.tilted import softmax
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array, cell_codes
from priory.queries.query import Query

Call = Callable[[], object]


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a job: CPU milliseconds of ours and of the library's, and their ratio."""
    for name, ours, theirs in _jobs(quick):
        with contextlib.suppress(ImportError):
            mine, other = _interleaved(ours, theirs, rounds=3 if quick else 7)
            print(f"{name:70} {1e3 * mine:10.3f} ms {1e3 * other:10.3f} ms  × {other / mine:.2f}")


def _interleaved(ours: Call, theirs: Call, rounds: int) -> tuple[float, float]:
    """The least CPU seconds of each over some rounds of one after the other."""
    for call in (ours, theirs):
        call()
    pairs = [(timed(ours)[1], timed(theirs)[1]) for _ in range(rounds)]
    return min(mine for mine, _ in pairs), min(other for _, other in pairs)


def _jobs(quick: bool) -> Iterator[tuple[str, Call, Call]]:  # noqa: FBT001 - as above
    for attributes, size, sigma in ((6, 8, 10.0), (10, 12, 50.0), *(() if quick else ((14, 40, 200.0),))):
        yield _estimates(attributes, size, sigma)
    yield from _small_ones()


def _estimates(attributes: int, size: int, sigma: float) -> tuple[str, Call, Call]:
    """All pairs of a random table, estimated with our L-BFGS inside the default solver and with SciPy's."""
    domain = Domain.of({f"a{i}": size for i in range(attributes)})
    rng = np.random.default_rng(0)
    rows = np.cumsum(rng.integers(0, 3, (30_000, attributes)), axis=1) % size
    measurements = []
    for clique in [*((name,) for name in domain), *pairwise(domain)]:
        counts = np.zeros(domain.project(clique).shape)
        np.add.at(counts, tuple(rows[:, domain.axis[name]] for name in clique), 1)
        noisy = counts + rng.normal(0, sigma, counts.shape)
        measurements.append(Measurement.of(Query.marginal(domain, clique), noisy, sigma))
    fit = partial(estimate, measurements, domain)
    calls = [_calls(fit()), _calls(_by_scipy(fit))]
    unknowns = sum(m.query.rows for m in measurements)
    return (
        f"estimate, {unknowns:,} answers, L-BFGS / SciPy ({calls[0]} / {calls[1]} calls)",
        fit,
        partial(_by_scipy, fit),
    )


def _calls(model: Model) -> int:
    return model.diagnostics.oracle_calls if model.diagnostics else 0


def _by_scipy(fit: Callable[[], Model]) -> Model:
    with patch.object(dual, "minimised", scipy_minimised):
        return fit()


def scipy_minimised(
    objective: Objective,
    start: Array,
    *,
    goal: float,
    iterations: int,
    limit: Array | None = None,
    weights: Array | None = None,
) -> Minimum:
    """`priory.estimate.lbfgs.minimised` by SciPy's L-BFGS-B, stopped where the gradient is small enough."""
    from scipy.optimize import minimize

    last: list[Array] = []
    calls = 0

    def counted(x: Array) -> tuple[float, Array]:
        nonlocal calls
        calls += 1
        value, gradient = objective(x.copy())
        last[:] = [gradient]
        return value, gradient

    def steepness() -> float:
        weighted = last[0] if weights is None else last[0] * weights
        return float(weighted @ weighted)

    def stop(_: Array) -> None:
        if steepness() <= goal:
            raise StopIteration

    bounds = None if limit is None else list(zip(-limit, limit, strict=True))
    options: dict[str, Any] = {"maxiter": iterations, "maxcor": 3, "gtol": 0.0, "ftol": 0.0}
    result = minimize(counted, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=stop, options=options)
    return Minimum(result.x, steepness(), calls)


def _small_ones() -> Iterator[tuple[str, Call, Call]]:
    rng = np.random.default_rng(0)
    for size in (100, 10_000, 1_000_000):
        logs = rng.normal(size=size)
        yield f"softmax with log Z, {size:,} rows / SciPy", partial(softmax, logs), partial(_scipy_softmax, logs)
    columns = [rng.integers(0, size, 1_000_000).astype(np.int32) for size in (16, 9, 5)]
    yield (
        "cells of 1,000,000 rows / numpy.ravel_multi_index",
        partial(cell_codes, columns, (16, 9, 5)),
        partial(np.ravel_multi_index, columns, (16, 9, 5)),
    )
    for size in (80, 300):
        a, b = rng.normal(size=(2, size, size)), rng.normal(size=(2, size, size))
        name = f"product of {size} × {size} matrices in blocks / one thread by threadpoolctl"
        yield name, partial(_blocked, a, b), partial(_limited, a, b)


def _scipy_softmax(logs: Array) -> tuple[float, Array]:
    """SciPy's own softmax gives no log Z, which the oracle needs too."""
    from scipy.special import logsumexp

    log_z = float(logsumexp(logs))
    return log_z, np.exp(logs - log_z)


def _blocked(a: Array, b: Array) -> Array:
    from priory.model.engine.blocks import in_blocks

    out = np.empty((len(a), a.shape[1], b.shape[2]))
    left, right, blocks = in_blocks(a, b, out)
    np.matmul(left, right, out=blocks)
    return out


def _limited(a: Array, b: Array) -> Array:
    with _controller().limit(limits=1, user_api="blas"):
        return np.asarray(np.matmul(a, b))


@cache
def _controller() -> Any:  # noqa: ANN401 - threadpoolctl is not a dependency
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
