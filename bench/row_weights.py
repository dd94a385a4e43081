"""Row weights: a million rows weighted by all triples of a table of Adult's size, on the CPU and on a GPU.

Rows and answers are made up; where Adult is at hand, a whole fit of it is timed, too. The floor of a call is the time
in which memory can be read: the cell of each row in each table twice, once for the sums over rows and once for those
over cells.
"""

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.gpu import bandwidth_of, torch_at_hand
from priory.estimate.rows.answers import RowAnswers
from priory.estimate.rows.device import DeviceAnswers
from priory.estimate.rows.weights import RowFits
from priory.model.bases import PublicRows
from priory.model.engine.gpu import Precision
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.query import Query

SIZES = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)  # those of Adult
RECORDS, STDDEV, WORTH, CALLS = 48_842, 15.6, 30_000.0, 60


@dataclass(frozen=True, eq=False)
class Job:
    """Rows, and the noisy answers that they are weighted by."""

    name: str
    rows: PublicRows
    measured: Sequence[Measurement]


def run(quick: bool) -> None:  # noqa: FBT001
    """Print a line for each place that can do it."""
    torch = torch_at_hand()
    job = _made_up(50_000 if quick else 1_000_000)
    print(f"{job.name}: {len(job.rows.codes):,} rows, {len(job.measured)} marginals, {CALLS} calls")
    print("| where | precision | set up, s | fit, s | ms a call | memory floor, ms |\n|---|---|---|---|---|---|")
    if torch is not None:
        _on_gpu(job, "float64", 2)
        for precision in ("float64", "float32"):
            floor = 2 * 4 * len(job.rows.codes) * len(job.measured) / bandwidth_of(torch)
            print(_line(torch.cuda.get_device_name(), precision, lambda p=precision: _on_gpu(job, p), floor))
        if os.environ.get("PRIORY_DATA") and not quick:
            _whole_fit("cuda")
    print(_line("CPU", "float64", lambda: RowFits(RowAnswers.of(job.measured, job.rows, RECORDS), _logs(job))))


def _whole_fit(device: str) -> None:
    """All that the default does of Adult at ε = 10, with the rows on a device."""
    from experiments.default_fit import CodedSource, compared
    from experiments.tables import table, variations

    from priory.mechanisms.weighing import Weighing
    from priory.privacy.budget import Budget, Currency
    from priory.privacy.curator import Curator
    from priory.privacy.ledger import Ledger

    adult = table("adult")
    budget = Budget.approximate("10", "1e-9", Currency.GAUSSIAN)
    begin = time.perf_counter()
    with Ledger.in_memory(budget).reserve(budget, "bench") as reservation:
        recipe = Weighing(device=device)
        model = recipe.run(Curator(reservation, CodedSource(adult)), budget).model
    seconds = time.perf_counter() - begin
    means = (variations(model, adult, compared(adult.domain, ways)).mean() for ways in (2, 3))
    errors = " and ".join(f"{mean:.4f}" for mean in means)
    print(f"Adult at ε = 10, whole fit on {device}: {seconds:.2f} s; mean TV of pairs and triples {errors}")


def _made_up(count: int) -> Job:
    domain = Domain.of({f"a{i}": size for i, size in enumerate(SIZES)})
    rows = PublicRows(_drawn(domain, count, 1), domain)
    return Job("a made-up table of Adult's size", rows, _measured(domain))


def _drawn(domain: Domain, count: int, seed: int) -> np.ndarray:
    """Rows whose columns depend on each other through one that is not in the table, common values first."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(count)
    columns = [(size * (0.5 * hidden + 0.5 * rng.random(count)) ** 3).astype(np.int64) for size in domain.shape]
    return np.stack(columns, axis=1)


def _measured(domain: Domain) -> list[Measurement]:
    rng, codes = np.random.default_rng(0), _drawn(domain, RECORDS, 0)
    found = []
    for triple in itertools.combinations(range(len(domain)), 3):
        query = Query.marginal(domain, tuple(domain.attributes[i] for i in triple))
        counts = np.bincount(
            np.ravel_multi_index(tuple(codes[:, i] for i in triple), query.shape), minlength=query.rows
        )
        noisy = counts + STDDEV * rng.standard_normal(query.rows)
        found.append(Measurement.of(query, noisy.reshape(query.shape), STDDEV))
    return found


def _logs(job: Job) -> np.ndarray:
    return np.log(job.rows.shares)


def _on_gpu(job: Job, precision: Precision, most: int | None = None) -> RowFits:
    answers = DeviceAnswers(job.measured[:most], job.rows, RECORDS, device="cuda", precision=precision)
    return RowFits(answers, answers.tensor(_logs(job)))


def _line(where: str, precision: str, made: Callable[[], RowFits], floor: float | None = None) -> str:
    begin = time.perf_counter()
    fits = made()
    start = fits.start(WORTH)
    ready = time.perf_counter()
    fits.fitted(start, CALLS)
    done = time.perf_counter()
    shown = "" if floor is None else f"{1000 * floor:.1f}"
    fit = done - ready
    return f"| {where} | {precision} | {ready - begin:.2f} | {fit:.2f} | {1000 * fit / CALLS:.1f} | {shown} |"


if __name__ == "__main__":
    run(quick=False)
