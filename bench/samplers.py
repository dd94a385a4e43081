"""Samplers: draws and picks, ours beside OpenDP's where it is installed and has the kind."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from importlib.util import find_spec

import numpy as np

from bench.clock import repeated
from priory.privacy.choice import NoisyMax, PermuteAndFlip
from priory.privacy.noise import Gaussian, Laplace, RoundedGaussian
from priory.privacy.randomness import OpenDP, OperatingSystem, Randomness

SCALES = tuple(map(Fraction, (0.7, 5, 100, 10_000)))
CELLS, FEW, CANDIDATES = 1_000_000, 10, 300_000
# OpenDP takes some twenty microseconds a draw.
OPENDP_CELLS = 20_000


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a job: median wall and CPU milliseconds, and CPU microseconds a draw."""
    sources: list[tuple[Randomness, int]] = [(OperatingSystem(), CELLS)]
    if find_spec("opendp") is not None:
        sources.append((OpenDP(), OPENDP_CELLS))
    for source, many in sources:
        for name, draws, call in _jobs(source, many, SCALES[:2] if quick else SCALES):
            times = repeated(call)
            each = 1000 * times["cpu_ms"] / draws
            print(f"{name:60} {times['wall_ms']:10.2f} ms wall {times['cpu_ms']:10.2f} ms CPU {each:10.3f} µs each")


def _jobs(source: Randomness, many: int, scales: tuple[Fraction, ...]) -> list[tuple[str, int, Callable[[], object]]]:
    jobs: list[tuple[str, int, Callable[[], object]]] = []
    for kind in (Laplace, Gaussian, RoundedGaussian):
        for scale in scales if kind.kind in source.kinds else ():
            for size in (FEW, many):
                call = partial(source.noisy, np.zeros(size, dtype=np.int64), kind(scale))
                jobs.append((f"{kind.kind}, scale {float(scale):g}, {size:,} draws, {source.name}", size, call))
    scores = np.random.default_rng(0).integers(0, 1000, CANDIDATES)
    for choice in (NoisyMax(Fraction(50)), PermuteAndFlip(Fraction(50))):
        for size in (FEW, CANDIDATES):
            call = partial(source.picks, scores[:size], choice, 1)
            jobs.append((f"{choice.kind} of {size:,}, {source.name}", 1, call))
    return jobs
