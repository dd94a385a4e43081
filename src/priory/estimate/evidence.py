"""Evidence: measurements laid out as one vector of answers, with the linear map that predicts them."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.domain import Clique, Domain
from priory.errors import DomainError, OptionError
from priory.factor import Array
from priory.model.layout import Layout
from priory.privacy.measurement import Measurement
from priory.queries.query import Query


@dataclass(frozen=True, eq=False)
class Evidence:
    """Answers y to queries Q on the marginals μ of a layout, with the standard deviation of each answer's noise.

    Attributes:
        layout: the cliques that are read and where their marginals lie.
        queries: what was asked, in order.
        values: y, one query after the other.
        stddevs: the standard deviation of the noise on each answer.
        kinds: the kind of noise of each query, "gaussian" where it is not known.
    """

    layout: Layout
    queries: tuple[Query, ...]
    values: Array
    stddevs: Array
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement], extra: Sequence[Clique] = ()) -> "Evidence":
        """Lay out measurements, checking that they fit the domain and that their noise is positive.

        Args:
            domain: the attributes.
            measurements: the measurements.
            extra: further cliques to hold in the layout.

        Raises:
            DomainError: a query reads attributes or sizes the domain does not have, or answers are not finite or few.
            OptionError: a standard deviation is not a positive number.
        """
        measurements = tuple(measurements)
        for number, measurement in enumerate(measurements):
            _check(domain, measurement, number)
        queries = tuple(measurement.query for measurement in measurements)
        cliques = dict.fromkeys([*(query.clique for query in queries), *extra])
        return cls(
            Layout.of(domain, cliques),
            queries,
            _joined([np.asarray(m.values, dtype=np.float64) for m in measurements]),
            _joined([np.broadcast_to(np.float64(m.stddev), m.query.shape) for m in measurements]),
            tuple("gaussian" if m.noise is None else m.noise.kind for m in measurements),
        )

    @property
    def size(self) -> int:
        """How many answers there are."""
        return len(self.values)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where each query's answers lie."""
        ends = np.cumsum([0, *(query.rows for query in self.queries)])
        return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))

    @cached_property
    def _sources(self) -> tuple[tuple[slice, tuple[int, ...]], ...]:
        offsets = self.layout.offsets
        where = {
            c: (slice(offsets[i], offsets[i + 1]), self.layout.shapes[i]) for i, c in enumerate(self.layout.cliques)
        }
        return tuple(where[query.clique] for query in self.queries)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the answers are the marginals themselves, one after the other, so that the map is the identity."""
        return self.layout.cliques == tuple(q.clique for q in self.queries) and all(q.is_marginal for q in self.queries)

    def predicted(self, marginals: Array) -> Array:
        """Qμ: the answers that these marginals would give."""
        if self._is_plain:
            return marginals
        answers = np.empty(self.size)
        for query, (source, shape), place in zip(self.queries, self._sources, self.places, strict=True):
            table = marginals[source]
            answers[place] = table if query.is_marginal else query(table.reshape(shape)).reshape(-1)
        return answers

    def adjoint(self, answers: Array) -> Array:
        """Qᵀ times `answers`: numbers on answers become potentials or a gradient on the cliques."""
        if self._is_plain:
            return answers
        tables = np.zeros(self.layout.size)
        for query, (source, _), place in zip(self.queries, self._sources, self.places, strict=True):
            values = answers[place]
            tables[source] += values if query.is_marginal else query.adjoint(values.reshape(query.shape)).reshape(-1)
        return tables

    def with_values(self, values: Array) -> "Evidence":
        """The same queries with other answers."""
        return replace(self, values=values)

    def only(self, numbers: Sequence[int]) -> "Evidence":
        """The queries with these numbers, in a layout of their own."""
        queries = tuple(self.queries[i] for i in numbers)
        return Evidence(
            Layout(self.layout.domain, tuple(dict.fromkeys(query.clique for query in queries))),
            queries,
            _joined([self.values[self.places[i]] for i in numbers]),
            _joined([self.stddevs[self.places[i]] for i in numbers]),
            tuple(self.kinds[i] for i in numbers),
        )


def _joined(tables: Sequence[Array]) -> Array:
    return np.concatenate([np.ravel(table) for table in tables]) if tables else np.empty(0)


def _check(domain: Domain, measurement: Measurement, number: int) -> None:
    query = measurement.query
    name = f"measurement {number} of {list(query.clique)}"
    if domain.project(domain.checked(query.clique)) != query.domain:
        raise DomainError(f"{name} has sizes {query.domain.shape} unlike the domain's")
    if np.shape(measurement.values) != query.shape:
        raise DomainError(f"{name} has answers of shape {np.shape(measurement.values)}; the query gives {query.shape}")
    if not np.isfinite(measurement.values).all():
        raise DomainError(f"{name} has answers that are not finite numbers")
    if not (np.isfinite(measurement.stddev) and measurement.stddev > 0):
        raise OptionError("measurements", f"{name} needs a positive standard deviation; got {measurement.stddev}")
