"""GPU: the oracle on a CUDA device against the floor its memory sets; run by hand where there is one."""

import json
import os
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from priory.model.bases import Uniform
from priory.model.engine.gpu import Precision, TorchContraction
from priory.model.engine.layout import Layout
from priory.model.engine.plan import plan
from priory.model.engine.program import MATMUL, Instruction, program
from priory.queries.domain import Domain

Case = tuple[str, Domain, list[tuple[str, ...]]]


def run(quick: bool) -> None:  # noqa: FBT001
    """Print the table; say so where there is no GPU."""
    torch = torch_at_hand()
    if torch is None:
        return
    bandwidth = bandwidth_of(torch)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: a copy moves {bandwidth / 1e12:.2f} TB/s")
    print(
        "| job | precision | ms a call | with transfers, ms | first call, s | CPU here, ms | memory floor, ms "
        "| TFLOP/s | kernels | largest difference |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    found = []
    for case in _cases(quick):
        for precision in ("float64", "float32"):
            found.append(_measured(torch, case, precision, bandwidth))
            print(_line(found[-1]), flush=True)
    out = Path(os.environ.get("OUT", "results"))
    out.mkdir(exist_ok=True)
    (out / "gpu.json").write_text(json.dumps({"bandwidth": bandwidth, "rows": found}, indent=1))


def torch_at_hand() -> Any:  # noqa: ANN401
    """The library, where it has a GPU; else says why there are no figures."""
    try:
        import torch
    except ImportError:
        print("no GPU figures: torch is not installed")
        return None
    if not torch.cuda.is_available():
        print("no GPU figures: torch finds no CUDA device")
        return None
    return torch


def _cases(quick: bool) -> list[Case]:  # noqa: FBT001
    cases = [_pairs(count) for count in ((8, 9) if quick else (8, 9, 10, 11, 12))]
    return [*cases, _chain(1000 if quick else 10_000), _dense(7 if quick else 9)]


def _pairs(count: int) -> Case:
    domain = Domain.of({f"a{i}": 8 for i in range(count)})
    return f"all pairs among {count} of size 8", domain, list(combinations(domain.attributes, 2))


def _chain(length: int) -> Case:
    domain = Domain.of({f"a{i}": 10 for i in range(length)})
    names = domain.attributes
    return f"chain of {length - 2:,} triples", domain, list(zip(names, names[1:], names[2:], strict=False))


def _dense(count: int) -> Case:
    domain = Domain.of({f"a{i}": 8 for i in range(count)})
    return (
        f"one clique of {count} of size 8 and pairs",
        domain,
        [domain.attributes, *combinations(domain.attributes, 2)],
    )


def _measured(torch: Any, case: Case, precision: Precision, bandwidth: float) -> dict[str, Any]:  # noqa: ANN401
    name, domain, cliques = case
    layout = Layout.of(domain, cliques)
    planned = plan(domain, cliques)
    theta = np.random.default_rng(0).normal(size=layout.size)
    cpu = Uniform(domain).bind(cliques)
    expected = cpu(theta)
    start = time.perf_counter()
    oracle = TorchContraction(layout, planned, device="cuda", precision=precision)
    found = oracle(theta)
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    there = torch.as_tensor(theta, device="cuda")
    steps = program(planned, layout, scaled=True)
    width = 8 if precision == "float64" else 4
    every = (*steps.before, *steps.forward, *steps.back, *steps.after)
    on_device = _median(lambda: oracle.on_device(there))
    return {
        "job": name,
        "precision": precision,
        "ms": on_device,
        "with_transfers_ms": _median(lambda: oracle(theta)),
        "first_s": first,
        "cpu_ms": _median(lambda: cpu(theta), least=2, seconds=0.3, warm_up=0),
        "floor_ms": 1e3 * width * (2 * layout.size + sum(map(_cells_moved, every))) / bandwidth,
        "tflops": 2e-9 * sum(int(np.prod(step.shape)) for step in every if step.kind == MATMUL) / on_device,
        "kernels": len(every),
        "difference": float(np.abs(found[1] - expected[1]).max()),
        "memory_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


def _cells_moved(step: Instruction) -> int:
    """The cells a step must read and write at the least, each operand once."""
    if step.kind == MATMUL:
        batch, m, k, n = step.shape
        return batch * (m * k + k * n + m * n)
    walks = (step.out_strides, step.a_strides, step.b_strides)
    return sum(int(np.prod([n for n, s in zip(step.shape, walk, strict=True) if s])) for walk in walks if any(walk))


def bandwidth_of(torch: Any) -> float:  # noqa: ANN401
    """How many bytes a copy on the device moves in a second, read and written."""
    cells = 1 << 28
    a, b = (torch.zeros(cells, dtype=torch.float64, device="cuda") for _ in range(2))

    def copy() -> None:
        b.copy_(a)
        torch.cuda.synchronize()

    return 2 * 8 * cells / (1e-3 * _median(copy))


def _median(call: Callable[[], object], *, least: int = 10, seconds: float = 0.5, warm_up: int = 2) -> float:
    times: list[float] = []
    for _ in range(warm_up):
        call()
    begun = time.perf_counter()
    while len(times) < least or (time.perf_counter() - begun < seconds and len(times) < 500):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def _line(row: dict[str, Any]) -> str:
    keys = ("ms", "with_transfers_ms", "first_s", "cpu_ms", "floor_ms", "tflops")
    figures = [f"{row[key]:.3g}" for key in keys]
    return (
        f"| {row['job']} | {row['precision']} | "
        + " | ".join(figures)
        + f" | {row['kernels']:,} | {row['difference']:.1e} |"
    )


if __name__ == "__main__":
    run(quick=False)
