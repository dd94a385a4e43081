"""Row weights: a million rows weighted by all triples of a table like Adult, on the CPU and on a GPU.

The floor of a call is the time in which memory can be read: the cell of each row in each table twice, once for the sums
over rows and once for those over cells.
"""

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from bench.gpu import bandwidth_of, torch_at_hand
from priory.estimate.row_answers import RowAnswers
from priory.estimate.row_device import DeviceAnswers
from priory.estimate.row_weights import RowFits
from priory.model.bases import PublicRows
from priory.model.engine.gpu import Precision
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.query import Query

SIZES = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)  # those of Adult
RECORDS, STDDEV, WORTH, CALLS = 48_842, 15.6, 30_000.0, 60


def run(quick: bool) -> None:  # noqa: FBT001
    """Print a line for each place that can do it."""
    count = 50_000 if quick else 1_000_000
    domain = Domain.of({f"a{i}": size for i, size in enumerate(SIZES)})
    rows = PublicRows(_drawn(domain, count, 1), domain)
    measured = _measured(domain)
    print(f"{len(rows.codes):,} rows, {len(measured)} triples, {CALLS} calls")
    print("| where | precision | set up, s | fit, s | ms a call | memory floor, ms |\n|---|---|---|---|---|---|")
    print(_line("CPU", "float64", lambda: _on_cpu(measured, rows)))
    torch = torch_at_hand()
    if torch is None:
        return
    _on_gpu(measured[:2], rows, "float64")
    for precision in ("float64", "float32"):
        floor = 2 * 4 * len(rows.codes) * len(measured) / bandwidth_of(torch)
        print(_line(torch.cuda.get_device_name(), precision, lambda p=precision: _on_gpu(measured, rows, p), floor))


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


def _on_cpu(measured: Sequence[Measurement], rows: PublicRows) -> RowFits:
    return RowFits(RowAnswers.of(measured, rows, RECORDS), np.log(rows.shares))


def _on_gpu(measured: Sequence[Measurement], rows: PublicRows, precision: Precision) -> RowFits:
    answers = DeviceAnswers(measured, rows, RECORDS, device="cuda", precision=precision)
    return RowFits(answers, answers.tensor(np.log(rows.shares)))


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
