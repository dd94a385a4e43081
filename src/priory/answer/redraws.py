"""Redraws: a model estimated again and again from fresh noise, to see how far its answers lie from the truth.

The answers that the model itself would give get fresh noise of the kind and scale that was measured with, and the
estimate is repeated; how far the repeated answers lie from the model's says how far the model's lie from the truth. No
rows are resampled: the target is the table. What redrawing cannot show is added: of measured answers what stopping
shrinks away, by the estimated error of the fit; of others what the model assumes, by how it predicts measured marginals
that are left out.
"""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.answer.intervals import Source, noise_left
from priory.answer.misfit import Misfit, size_groups
from priory.cores import available
from priory.errors import OptionError
from priory.estimate.evidence import Evidence, joined
from priory.estimate.response import Response
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.query import Query

# Sizes, in standard deviations, between which the bias of measured answers is compared, and the fewest answers between
# two of them: with fewer the comparison is mostly noise.
_EDGES, _FEWEST = (0.1, 0.3, 1.0, 2.0, 5.0, 20.0), 150


@dataclass(frozen=True, eq=False)
class Redraws:
    """A model estimated again and again from redrawn noise.

    Attributes:
        model: the estimate.
        measurements: what it was estimated from.
        models: the estimates from redrawn noise.
        bias: what redrawing does not show of measured answers.
        temperature: at which the model responds to its answers.
    """

    model: Model
    measurements: tuple[Measurement, ...]
    models: tuple[Model, ...]
    bias: "Bias"
    temperature: float

    @classmethod
    def of(
        cls,
        model: Model,
        measurements: Sequence[Measurement],
        *,
        draws: int = 50,
        seed: int = 0,
        workers: int | None = None,
    ) -> "Redraws":
        """Draw the noise again `draws` times.

        Args:
            model: an estimate.
            measurements: what it was estimated from.
            draws: how often the noise is drawn again.
            seed: of those draws, which are no release.
            workers: how many at a time; one for each core by default.

        Raises:
            OptionError: there are fewer than 2 draws.
        """
        if draws < 2:
            raise OptionError("draws", f"at least 2; got {draws}")
        response = Response.of(model, measurements)
        added = np.array([_noise(response.evidence, rng) for rng in np.random.default_rng(seed).spawn(draws)])
        workers = min(workers or available(), draws)

        def repeat(some: Array) -> list[tuple[Model, Array]]:
            oracle = response.oracle()
            return [response.moved(oracle, each) for each in some]

        with ThreadPoolExecutor(workers) as pool:
            parts = pool.map(repeat, np.array_split(added, workers))
        repeats = list(itertools.chain.from_iterable(parts))
        moved = np.array([answers for _, answers in repeats]) - response.evidence.values
        models = tuple(model for model, _ in repeats)
        return cls(model, tuple(measurements), models, Bias.of(response, added, moved), response.temperature)

    @cached_property
    def misfit(self) -> Misfit:
        """How far the model is from answers that it was not fitted to."""
        return Misfit.of(self.model, self.measurements, self.temperature)

    def hidden(self, query: Query, answer: Array, source: Source) -> Array:
        """The standard deviation of what redrawing does not show."""
        if source != "measured":
            # Of the number of rows alone a model assumes nothing.
            return self.misfit(answer) if query.clique else np.zeros(answer.shape)
        stddev = np.min(
            [noise_left(query, m) for m in self.measurements if set(query.clique) <= set(m.query.clique)], axis=0
        )
        sizes = np.divide(answer, stddev, out=np.zeros(answer.shape), where=stddev > 0)
        return np.asarray(self.bias(sizes) * stddev)


@dataclass(frozen=True, eq=False)
class Bias:
    """The error of measured answers that redrawing does not show, for answers of each size.

    An answer F_j with leverage h_j = ∂F_j/∂y_j has a mean squared error, in units of its noise, that Stein's formula
    ((y_j − F_j)/σ)² − 1 + 2h_j estimates without bias; redrawing shows only its variance. The two are compared over
    answers of like size, as a single one says next to nothing.

    Attributes:
        edges: the sizes, in standard deviations, between the groups.
        values: for each group √(error − variance), in standard deviations, rather too large than too small.
    """

    edges: Array
    values: Array

    @classmethod
    def of(cls, response: Response, added: Array, moved: Array) -> "Bias":
        """Work it out from the noise that was added in each draw and how the answers moved."""
        fitted, stddevs = response.evidence.values, response.evidence.stddevs
        misfit = (response.measured - fitted) / stddevs
        leverage = np.mean(added * moved, axis=0) / stddevs**2
        excess = misfit**2 - 1 + 2 * leverage - np.mean(moved**2, axis=0) / stddevs**2
        sizes = fitted / stddevs
        edges = size_groups(sizes, _EDGES, _FEWEST)
        group = np.searchsorted(edges, sizes)
        numbers = np.maximum(np.bincount(group, minlength=len(edges) + 1), 1)
        means, squares = (np.bincount(group, excess**power, len(edges) + 1) / numbers for power in (1, 2))
        # One standard error is added: an interval that is too wide does less harm than one that is too narrow. It is
        # never less than that of the noise that is not fitted: a few answers that happen to agree prove nothing.
        unfitted = 2 * np.bincount(group, (1 - np.clip(leverage, 0, 1)) ** 4, len(edges) + 1) / numbers
        errors = np.sqrt(np.maximum(squares - means**2, unfitted) / numbers)
        return cls(edges, np.sqrt(np.maximum(means, 0.0) + errors))

    def __call__(self, sizes: Array) -> Array:
        """The bias of answers of these sizes."""
        return np.asarray(self.values[np.searchsorted(self.edges, sizes)])


def _noise(evidence: Evidence, rng: np.random.Generator) -> Array:
    """Fresh noise of the kind and scale of each measurement."""
    drawn = []
    for kind, span in zip(evidence.kinds, evidence.spans, strict=True):
        stddevs = evidence.stddevs[span]
        drawn.append(rng.laplace(0, stddevs / 2**0.5) if kind == "laplace" else rng.normal(0, stddevs))
    return joined(drawn)
