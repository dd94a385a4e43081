"""Model: a tilted base with a total, which answers queries, projects on any clique and gives rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priory.errors import DomainError, OptionError
from priory.model.bases import Base, Shifted, check_mass, checked_codes
from priory.model.diagnostics import Diagnostics
from priory.model.engine.layout import Layout, Values, potentials_of
from priory.model.sampling import Chance, Codes, Method, Seed, checked_count
from priory.model.tilted import Oracle, Potentials, Tilted, inner, merged
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor
from priory.queries.parts import Part, Set
from priory.queries.query import Query

Where = Mapping[str, int | Iterable[int]]


@dataclass(frozen=True, eq=False)
class Model(Base):
    """q(x) = b(x) exp(Σ_C θ_C(x_C)) / Z, times a total.

    A model is a base too: what is tilted further starts from here.

    Attributes:
        base: b.
        potentials: θ_C for each clique C.
        total: how many records the model stands for.
        diagnostics: how it was estimated, where it was.
        domain: the attributes, which are the base's.
    """

    base: Base
    potentials: Potentials
    total: float = 1.0
    diagnostics: Diagnostics | None = None
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", self.base.domain)

    @classmethod
    def of(cls, base: Base, potentials: Mapping[Any, Values], total: float = 1.0) -> "Model":
        """Build a model, checking that its potentials fit and leave mass, and that its total is finite, at least 0."""
        if not 0 <= total < np.inf:
            raise OptionError("total", f"the number of records is finite and at least 0; got {total}")
        model = cls(base, potentials_of(base.domain, potentials), float(total))
        check_mass(model.log_z)
        return model

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques that have potentials."""
        return tuple(self.potentials)

    def __repr__(self) -> str:
        return f"Model({len(self.potentials)} cliques on {self.base!r}, total {self.total:g})"

    @cached_property
    def _tilted(self) -> Tilted:
        return self.base.tilt(self.potentials)

    @property
    def tilted(self) -> Tilted:
        """The base with the potentials, ready to be asked."""
        return self._tilted

    @property
    def log_z(self) -> float:
        """log Σ_x b(x) exp(Σ_C θ_C(x_C))."""
        return self._tilted.log_z

    def bind(self, cliques: Iterable[Clique]) -> Oracle:
        return Shifted(self.base, tuple(cliques), self.potentials, self.log_z)

    def bytes_of(self, cliques: Sequence[Clique] = ()) -> int:
        return self.base.bytes_of((*self.cliques, *cliques))

    def tilt(self, potentials: Potentials) -> Tilted:
        # Relative to this model rather than to its base.
        tilted = self.base.tilt(merged(self.potentials, potentials))
        return replace(tilted, log_z=tilted.log_z - self.log_z)

    def project(self, clique: str | Iterable[str]) -> Factor:
        """The marginal of any clique, measured or not, in records; axes in the order of `clique`."""
        clique = self.domain.checked(clique)
        return Factor(self.domain.project(clique), self.total * self._tilted.project(clique))

    def answer(self, query: Query) -> Array:
        """The answers to a product query, in records, of shape `query.shape`.

        The marginal of the query's clique is not formed where the query does not need it.
        """
        return self.answers([query])[0]

    def answers(self, queries: Sequence[Query]) -> list[Array]:
        """The answers to several queries; those on one clique share its marginal."""
        for query in queries:
            _check_query(query, self.domain)
        return [self.total * answer for answer in self._tilted.answers(queries)]

    def expect(self, query: Query, *, given: str | Iterable[str] = (), where: Where | None = None) -> Array:
        """The query's answers per record: probabilities and expectations, conditional where asked.

        With `given`, each answer is divided by the probability of what the parts of those attributes ask: a mean of age
        given the identity of sex is the mean age of each sex; it is NaN where that probability is 0. With `where`,
        everything is conditional on that evidence.
        """
        _check_query(query, self.domain)
        given = query.domain.checked(given)
        tilted = self._given(where)
        [answers] = tilted.answers([query])
        if not given:
            return answers
        conditions = {name: part for name, part in zip(query.clique, query.parts, strict=True) if name in given}
        [mass] = tilted.answers([Query.product(self.domain, conditions)])
        shape = [rows if name in given else 1 for name, rows in zip(query.clique, query.shape, strict=True)]
        mass = mass.reshape(shape)
        return np.asarray(np.divide(answers, mass, out=np.full(answers.shape, np.nan), where=mass > 0))

    def probability(self, where: Where) -> float:
        """The probability of evidence: codes, or sets of codes, for some attributes."""
        parts: dict[str, Part] = {name: Set(codes) for name, codes in _evidence(where, self.domain).items()}
        return float(self._tilted.answers([Query.product(self.domain, parts)])[0].sum())

    def sample(self, n: int, *, where: Where | None = None, seed: Seed = None, method: Method = "rounding") -> Codes:
        """`n` rows of codes, one column for each attribute of the domain.

        Args:
            n: how many rows.
            where: evidence the rows must agree with: for some attributes, a code or several.
            seed: an integer or a generator, to draw the same rows again. Rows are not private noise: a seed is safe.
            method: by "rounding" every table the rows are drawn from is met as closely as whole records can, which
                makes sums over rows less noisy; "independent" rows are draws of the model.

        Raises:
            OptionError: `n` is negative, or the evidence has probability zero.
        """
        return self._given(where).sample(checked_count(n), Chance.of(seed, method))

    def batches(
        self, n: int, size: int, *, where: Where | None = None, seed: Seed = None, method: Method = "rounding"
    ) -> Iterator[Codes]:
        """`n` rows in batches of at most `size`, for more than fits in memory; each batch is rounded by itself."""
        chance = Chance.of(seed, method)
        tilted = self._given(where)
        if checked_count(size) == 0:
            raise OptionError("size", "a batch needs at least one row")
        for start in range(0, checked_count(n), size):
            yield tilted.sample(min(size, n - start), chance)

    def log_likelihood(self, codes: ArrayLike) -> Array:
        """log q(x) for each row of codes; −∞ where the model rules a row out."""
        return self._tilted.log_mass(checked_codes(codes, self.domain))

    def entropy(self) -> float:
        """−Σ_x q(x) log q(x), in nats; an `OptionError` where the base is a mixture, which has no closed form."""
        return self._tilted.entropy()

    def divergence(self) -> float:
        """How far the model has moved from its base: KL(q ‖ b) = Σ_C ⟨θ_C, μ_C⟩ − log Z, in nats."""
        layout = Layout(self.domain, self.cliques)
        theta = layout.pack(self.potentials)
        log_z, marginals = self.base.bind(self.cliques)(theta)
        return inner(theta, marginals) - log_z

    def _given(self, where: Where | None) -> Tilted:
        if not where:
            return self._tilted
        evidence = evidence_of(_evidence(where, self.domain), self.domain)
        tilted = self.base.tilt(merged(self.potentials, evidence))
        if np.isneginf(tilted.log_z):
            raise OptionError("where", f"the model gives {dict(where)} probability zero")
        return tilted


def _check_query(query: Query, domain: Domain) -> None:
    clique = domain.checked(query.clique)
    if domain.project(clique).shape != query.domain.shape:
        raise DomainError(f"the query reads {query.domain}, the model has {domain.project(clique)}")


def evidence_of(codes: Mapping[str, tuple[int, ...]], domain: Domain) -> dict[Clique, Factor]:
    """Potentials that rule out all values of some attributes but those with these codes."""
    evidence: dict[Clique, Factor] = {}
    for name, allowed in codes.items():
        values = np.full(domain[name], -np.inf)
        values[list(allowed)] = 0.0
        evidence[(name,)] = Factor(domain.project((name,)), values)
    return evidence


def _evidence(where: Where, domain: Domain) -> dict[str, tuple[int, ...]]:
    domain.checked(where)
    evidence: dict[str, tuple[int, ...]] = {}
    for name, codes in where.items():
        allowed = tuple(codes) if isinstance(codes, Iterable) else (codes,)
        if not allowed or not all(hasattr(code, "__index__") and 0 <= code < domain[name] for code in allowed):
            raise OptionError("where", f"attribute {name!r} has codes 0 … {domain[name] - 1}; got {codes!r}")
        evidence[name] = allowed
    return evidence
