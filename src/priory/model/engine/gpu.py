"""GPU: the same program through torch, captured once as a CUDA graph and replayed at every call."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from priory.errors import MissingExtra, OptionError
from priory.model.engine.algebra import bound_by
from priory.model.engine.contract import Contraction
from priory.model.engine.layout import Layout
from priory.model.engine.plan import Plan
from priory.model.engine.program import COPY, DIV, MUL, NORM, SUM, Instruction, Program, program
from priory.queries.factor import Array

Precision = Literal["float64", "float32"]
# Entries of messages outside these bounds may have lost terms to underflow: such calls are done again on the CPU.
_BOUNDS = {"float64": (1e-260, 1e260), "float32": (1e-25, 1e25)}
# Calls before a graph is captured, so that libraries have set themselves up.
_WARM_UP = 3
# The maxima of tables up to this size are found together, those of larger ones one by one.
_LARGE = 1 << 14


class TorchContraction:
    """The oracle of the uniform base on a device of torch, such as "cuda"; the contract is that of `Contraction`.

    Outside of its arithmetic θ and μ are float64, whatever the precision.
    """

    def __init__(self, layout: Layout, plan: Plan, *, device: str = "cuda", precision: Precision = "float64") -> None:
        torch = torch_on(device)
        if precision not in _BOUNDS:
            raise OptionError("precision", f"needs to be one of {list(_BOUNDS)}; got {precision!r}")
        self.layout = layout
        self.plan = plan
        self.device = device
        self.precision = precision
        self._cpu = Contraction(layout, plan)
        self._program = program(plan, layout, scaled=True)
        self._tables = _Tables(torch, self._program, device, getattr(torch, precision), _BOUNDS[precision])
        self._replay: Callable[[], None] | None = None
        self._log_cells = float(sum(np.log(plan.domain.shape[v]) for v in plan.order))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        log_z, marginals, is_safe = self.on_device(_torch().as_tensor(theta, device=self.device))
        if not is_safe:
            return self._cpu(theta)
        return log_z, np.array(marginals.to("cpu", dtype=_torch().float64).numpy())

    def on_device(self, theta: Any) -> tuple[float, Any, bool]:  # noqa: ANN401  a tensor
        """log Z, the marginals as a tensor that the next call overwrites, and whether no term was lost."""
        self._tables.theta.copy_(theta)
        if self._replay is None:
            self._replay = self._captured()
        self._replay()
        log_z, lost = self._tables.summary.tolist()
        return log_z - self._log_cells, self._tables.buffer[: self.layout.size], lost == 0.0

    def _captured(self) -> Callable[[], None]:
        """The whole call as one function: a replayed graph on a GPU, the plain steps elsewhere."""
        torch, tables = _torch(), self._tables
        if not self.device.startswith("cuda"):
            return tables.run
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                tables.run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tables.run()
        replay: Callable[[], None] = graph.replay
        return replay


class _Tables:
    """The buffer on the device, and the steps bound to it."""

    def __init__(self, torch: Any, steps: Program, device: str, dtype: Any, bounds: tuple[float, float]) -> None:  # noqa: ANN401
        self.torch = torch
        layout = steps.layout
        self.size = layout.size
        self.bounds = bounds
        self.theta = torch.zeros(layout.size, dtype=dtype, device=device)
        self.buffer = torch.zeros(steps.size, dtype=dtype, device=device)
        self.buffer[steps.one] = 1.0
        self.scales = torch.ones(steps.scales, dtype=dtype, device=device)
        self.summary = torch.zeros(2, dtype=torch.float64, device=device)
        self.raw = self.buffer[steps.raw[0] : steps.raw[1]]
        takes = [is_leaf or not clique for is_leaf, clique in zip(steps.is_leaf, layout.cliques, strict=True)]
        spans = zip(layout.offsets, layout.offsets[1:], takes, strict=False)
        taking = [(start, stop) for start, stop, takes in spans if takes]
        self.large = [(start, stop) for start, stop in taking if stop - start > _LARGE]
        small = [(start, stop) for start, stop in taking if stop - start <= _LARGE]
        self.smalls = len(small)
        cells = [np.arange(start, stop) for start, stop in small]
        self.small = torch.as_tensor(np.concatenate([np.zeros(0, dtype=np.int64), *cells]), device=device)
        owner = np.repeat(np.arange(len(small)), [stop - start for start, stop in small])
        self.owner = torch.as_tensor(owner, device=device)
        self.before = [self._bound(step) for step in steps.before]
        self.forward = [self._bound(step) for step in steps.forward]
        self.back = [self._bound(step) for step in (*steps.back, *steps.after)]

    def run(self) -> None:
        """The whole call; everything stays on the device."""
        torch = self.torch
        tables = self.buffer[: self.size]
        tables.copy_(self.theta)
        for _, a, b, out in self.before:
            torch.add(a, b, out=out)
        shift = self._shift(tables)
        torch.exp(tables, out=tables)
        for call in self.forward:
            self._step(call)
        self._judge(shift)
        for call in self.back:
            self._step(call)

    def _shift(self, tables: Any) -> Any:  # noqa: ANN401
        """Take each leaf's maximum out of it, and each constant; return their sum."""
        torch = self.torch
        tops = torch.full((self.smalls,), -torch.inf, dtype=tables.dtype, device=tables.device)
        tops = tops.scatter_reduce(0, self.owner, tables[self.small], "amax")
        tables.index_add_(0, self.small, -tops[self.owner])
        shift = tops.sum(dtype=torch.float64)
        for start, stop in self.large:
            top = tables[start:stop].amax()
            tables[start:stop].sub_(top)
            shift = shift + top
        return shift

    def _judge(self, shift: Any) -> None:  # noqa: ANN401
        """log Z, and how many entries of messages cannot be trusted."""
        torch = self.torch
        low, high = self.bounds
        self.summary[0] = self.scales.to(torch.float64).log().sum() + shift
        self.summary[1] = (~((self.raw >= low) & (self.raw <= high))).sum() + ~torch.isfinite(shift)

    def _step(self, call: tuple[Any, ...]) -> None:
        torch = self.torch
        kind = call[0]
        if kind == MUL:
            torch.mul(call[1], call[2], out=call[3])
        elif kind == SUM:
            torch.sum(call[1], dim=call[2], out=call[3])
        elif kind == COPY:
            call[2].copy_(call[1])
        elif kind == NORM:
            torch.amax(call[1], dim=0, out=call[3])
            torch.div(call[1], call[3], out=call[2])
        elif kind == DIV:
            torch.div(call[1], call[2], out=call[3])
        else:
            torch.bmm(call[1], call[2], out=call[3])

    def _bound(self, step: Instruction) -> tuple[Any, ...]:
        call = bound_by(step, self._view)
        return (*call[:3], self.scales[step.b]) if step.kind == NORM else call

    def _view(self, start: int, shape: Any, strides: Any) -> Any:  # noqa: ANN401
        return self.torch.as_strided(self.buffer, tuple(shape), tuple(strides), start)


def torch_on(device: str) -> Any:  # noqa: ANN401
    """The library, where it has the device."""
    torch = _torch()
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise OptionError("device", f"torch finds no GPU for {device!r}; use 'cpu' or leave the device out")
    return torch


def _torch() -> Any:  # noqa: ANN401
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "priory[gpu]") from None
    return torch
