"""Evidence: measurements laid out as one vector of answers, with the linear map that predicts them."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from priory.errors import DomainError, OptionError
from priory.estimate.measured import in_counts
from priory.model.engine.layout import Layout
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Matrix, Part
from priory.queries.query import Query


@dataclass(frozen=True, eq=False)
class Evidence:
    """Answers y to queries Q on the marginals μ of a layout, with the standard deviation of each answer's noise.

    No entry of Q is above 1: rows of other sizes are divided by their largest entry, with their answers and noise.
    """

    layout: Layout  # the cliques that are read and where their marginals lie
    queries: tuple[Query, ...]  # what was asked, in order
    values: Array  # y, one query after the other
    stddevs: Array  # the standard deviation of the noise on each answer
    kinds: tuple[str, ...]  # the family of each query's noise, "gaussian" where it is not known

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement], extra: Sequence[Clique] = ()) -> "Evidence":
        """Lay out measurements, and `extra` cliques, checking that they fit the domain and that noise is positive."""
        measurements = tuple(measurements)
        for number, measurement in enumerate(measurements):
            _check(domain, measurement, number)
        measurements = tuple(in_counts(measurement) for measurement in measurements)
        queries = tuple(measurement.query for measurement in measurements)
        cliques = dict.fromkeys([*(query.clique for query in queries), *extra])
        return cls(
            Layout(domain, tuple(map(domain.checked, cliques))),
            queries,
            joined([np.asarray(m.values, dtype=np.float64) for m in measurements]),
            joined([np.broadcast_to(np.asarray(m.stddev, dtype=np.float64), m.query.shape) for m in measurements]),
            tuple("gaussian" if m.noise is None else m.noise.family for m in measurements),
        )

    @property
    def size(self) -> int:
        """How many answers there are."""
        return len(self.values)

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where each query's answers lie."""
        ends = np.cumsum([0, *(query.rows for query in self.queries)])
        return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))

    def indices_of(self, numbers: Sequence[int]) -> NDArray[np.intp]:
        """Where the answers of the queries with these numbers lie."""
        return np.concatenate([np.arange(span.start, span.stop) for span in map(self.spans.__getitem__, numbers)])

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
        return self._answered(self.queries, marginals)

    def _answered(self, queries: Sequence[Query], marginals: Array) -> Array:
        if self._is_plain:
            return marginals
        answers = np.empty(self.size)
        for query, (source, shape), span in zip(queries, self._sources, self.spans, strict=True):
            table = marginals[source]
            answers[span] = table if query.is_marginal else query(table.reshape(shape)).reshape(-1)
        return answers

    def excess(self, marginals: Array) -> Array:
        """(Qμ − y)/σ: by how many standard deviations of the noise these marginals exceed each answer."""
        return (self.predicted(marginals) - self.values) / self.stddevs

    def variances(self, marginals: Array, total: float) -> Array:
        """How much each answer varies where `total` records are drawn from these marginals: N·Var, at least 0."""
        # It is the diagonal of Q·Cov·Qᵀ, the second derivatives of N log Z in the multipliers of the answers.
        squares = self._answered(self._squared, marginals)
        return np.maximum(squares - self.predicted(marginals) ** 2 / total, 0.0)

    @cached_property
    def _squared(self) -> tuple[Query, ...]:
        """The queries with squared entries: those of a Kronecker product are products of squares."""
        return tuple(
            Query(query.domain, tuple(map(_squared, query.parts, query.domain.shape))) for query in self.queries
        )

    def adjoint(self, answers: Array) -> Array:
        """Qᵀ times `answers`: numbers on answers become potentials or a gradient on the cliques."""
        if self._is_plain:
            return answers
        tables = np.zeros(self.layout.size)
        for query, (source, _), span in zip(self.queries, self._sources, self.spans, strict=True):
            values = answers[span]
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
            joined([self.values[self.spans[i]] for i in numbers]),
            joined([self.stddevs[self.spans[i]] for i in numbers]),
            tuple(self.kinds[i] for i in numbers),
        )


@dataclass(frozen=True, eq=False)
class Implied:
    """The one-way marginals that measured marginals imply, each the best average of what they say."""

    evidence: Evidence  # those marginals, with the noise that is left in them
    shares: tuple[tuple[tuple[int, int, float], ...], ...]  # each: measured queries, remaining axis, weight
    spans: tuple[slice, ...]  # where each measured query's answers lie
    shapes: tuple[tuple[int, ...], ...]  # the shape of each measured query's answers

    @classmethod
    def of(cls, evidence: Evidence, *, beside_measured: bool = False) -> "Implied | None":
        """What `evidence` implies, or None where it measures all of these marginals itself.

        With `beside_measured` they are None only where it measures nothing else.
        """
        # In the order of the queries, on which the perturbation of each answer depends: a set's differs between runs.
        measured = dict.fromkeys(query.clique for query in evidence.queries if query.is_marginal)
        names = dict.fromkeys(name for clique in measured for name in clique)
        if (
            all(len(clique) == 1 for clique in measured)
            if beside_measured
            else all((name,) in measured for name in names)
        ):
            return None
        domain = evidence.layout.domain
        shares, stddevs = [], []
        for name in names:
            precisions = [
                (number, query.clique.index(name), domain[name] / float(np.sum(evidence.stddevs[span] ** 2)))
                for number, (query, span) in enumerate(zip(evidence.queries, evidence.spans, strict=True))
                if query.is_marginal and name in query.clique
            ]
            whole = sum(precision for _, _, precision in precisions)
            shares.append(tuple((number, axis, precision / whole) for number, axis, precision in precisions))
            stddevs.append(np.full(domain[name], whole**-0.5))
        queries = tuple(Query.marginal(domain, name) for name in names)
        layout = Layout(domain, tuple(query.clique for query in queries))
        shapes = tuple(query.shape for query in evidence.queries)
        empty = Evidence(layout, queries, np.zeros(layout.size), joined(stddevs), ("gaussian",) * len(queries))
        implied = cls(empty, tuple(shares), evidence.spans, shapes)
        return replace(implied, evidence=empty.with_values(implied.answers(evidence.values)))

    def answers(self, values: Array) -> Array:
        """The implied marginals of measured `values`."""
        summed = [[weight * self._summed(values, number, axis) for number, axis, weight in s] for s in self.shares]
        return joined([np.asarray(sum(tables)) for tables in summed])

    def multipliers(self, alpha: Array, size: int) -> Array:
        """Multipliers of the measured answers with the same potentials as `alpha` on the implied ones."""
        lifted = np.zeros(size)
        for shares, span in zip(self.shares, self.evidence.spans, strict=True):
            for number, axis, weight in shares:
                shape = self.shapes[number]
                along = (weight * alpha[span]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
                lifted[self.spans[number]] += np.broadcast_to(along, shape).reshape(-1)
        return lifted

    def _summed(self, values: Array, number: int, axis: int) -> Array:
        table = values[self.spans[number]].reshape(self.shapes[number])
        return np.asarray(table.sum(axis=tuple(i for i in range(table.ndim) if i != axis)))


def implied_one_ways(evidence: Evidence) -> Evidence:
    """The one-way marginals that `evidence` measures, or implies where it measures not all of them."""
    implied = Implied.of(evidence)
    if implied is not None:
        return implied.evidence
    queries = evidence.queries
    return evidence.only([i for i, query in enumerate(queries) if query.is_marginal and len(query.clique) == 1])


def joined(tables: Sequence[Array]) -> Array:
    """Tables one after the other, as one vector."""
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
    stddev = np.asarray(measurement.stddev)
    if stddev.shape not in ((), query.shape):
        raise DomainError(f"{name} has standard deviations of shape {stddev.shape}; the query gives {query.shape}")
    if not (np.isfinite(stddev).all() and (stddev > 0).all()):
        raise OptionError("measurements", f"{name} needs a positive standard deviation; got {stddev.min()}")


def _squared(part: Part, size: int) -> Part:
    return part if part.is_counting else Matrix(np.square(part.matrix(size).astype(np.float64)))
