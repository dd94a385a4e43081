"""Strategies: which queries to ask so that a workload is answered with the least noise; no data are needed.

The error of a workload W answered by least squares from a strategy A is the variance of unit noise on A times
‖A‖²·tr(WᵀW(AᵀA)⁺), with the largest column norm ‖A‖ in L1 for Laplace noise and L2 for Gaussian noise
[HDMM, McKenna, Miklau, Hay & Machanavajjhala 2018]. Strategies here have ‖A‖ = 1.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from priory.errors import OptionError, SizeError
from priory.model.tilted import softmax
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Matrix, Part, Total
from priory.queries.query import Query
from priory.queries.workload import Workload

# Five starts are within 1 % of twenty-five on prefix ranges.
RESTARTS = 5
# From this many values on an attribute is asked as it is: a search would take minutes.
LARGEST_ATTRIBUTE = 1024
# A Gram matrix of more values than this would not fit a laptop.
LARGEST_GRAM = 20_000
ROUNDS = 10
# Marginals with less than this share are left out, and the others share it.
LEAST_SHARE = 1e-4
SEED = 0


@dataclass(frozen=True)
class Strategy:
    """What to ask, and at which shares of the budget."""

    queries: tuple[Query, ...]  # what is asked
    shares: tuple[float, ...]  # parts of the budget, which add up to 1
    # The forecast Σ of weighted variances over the workload's answers, for noise of variance 1/budget² on answers that
    # one row moves by 1 in L1 (pure), or of variance 1/budget in L2 (zCDP).
    error: float


def p_identity_error(theta: Array, gram: Array, *, is_pure: bool) -> tuple[float, Array]:
    """tr(G(AᵀA)⁻¹) and its gradient in Θ, for A = [I; Θ]·S⁻¹ with columns of norm 1 [HDMM, OPT₀]."""
    # S is diagonal, s = 1 + 1ᵀΘ in L1 and √(1 + 1ᵀΘ²) in L2. With M = (I + ΘᵀΘ)⁻¹ = I − Θᵀ(I + ΘΘᵀ)⁻¹Θ the inverse is
    # SMS, the error tr(SGS·M), and its derivative −2ΘM(SGS)M in Θ and 2(G∘M)s in s.
    s = 1 + theta.sum(axis=0) if is_pure else np.sqrt(1 + np.square(theta).sum(axis=0))
    inner = np.linalg.solve(np.eye(len(theta)) + theta @ theta.T, theta)
    m = np.eye(theta.shape[1]) - theta.T @ inner
    scaled = s[:, None] * gram * s
    error = float((scaled * m).sum())
    in_s = 2 * (gram * m) @ s
    gradient = -2 * theta @ m @ scaled @ m + (in_s if is_pure else theta * (in_s / s))
    return error, gradient


def best_part(gram: Array, *, is_pure: bool) -> tuple[Part, float]:
    """The best strategy found for one attribute with workload Gram G = WᵀW, and its error [HDMM, OPT₀]."""
    size = len(gram)
    identity = float(np.trace(gram))
    if np.allclose(gram, gram[0, 0]):
        return Total(), float(gram[0, 0])
    if size > LARGEST_ATTRIBUTE or np.allclose(gram, np.diag(np.diagonal(gram))):
        return Identity(), identity
    matrix, error = _optimised(gram.tobytes(), size, is_pure)
    return (Matrix(matrix), error) if error < identity else (Identity(), identity)


@lru_cache(maxsize=256)
def _optimised(gram_bytes: bytes, size: int, is_pure: bool) -> tuple[Array, float]:  # noqa: FBT001 - a key of the cache
    from scipy.optimize import minimize

    gram = np.frombuffer(gram_bytes).reshape(size, size)
    gram = gram * (size / np.trace(gram))
    p = max(1, size // 16)
    rng = np.random.default_rng(SEED)

    def error(flat: Array) -> tuple[float, Array]:
        value, gradient = p_identity_error(flat.reshape(p, size), gram, is_pure=is_pure)
        return value, gradient.ravel()

    search = partial(minimize, error, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (p * size), tol=1e-4)
    tried = [search(rng.random(p * size)) for _ in range(RESTARTS)]
    best = min(tried, key=lambda result: float(result.fun))
    theta = np.asarray(best.x).reshape(p, size)
    s = 1 + theta.sum(axis=0) if is_pure else np.sqrt(1 + np.square(theta).sum(axis=0))
    scale = float(np.trace(np.frombuffer(gram_bytes).reshape(size, size))) / size
    return np.vstack([np.eye(size), theta]) / s, float(best.fun) * scale


def best_product(queries: Sequence[Query], weights: Sequence[float], *, is_pure: bool) -> tuple[Query, float]:
    """A product strategy for weighted queries on one clique, and its error [HDMM, OPT_⊗]."""
    # For one query each part is optimised by itself. For several, parts take turns: the workload that part i sees is
    # Σ_k w_k Π_{j≠i} tr(G_{k,j}(A_jᵀA_j)⁻¹)·G_{k,i}.
    domain = queries[0].domain
    if all(query.is_marginal for query in queries):
        # Each Gram is the identity, for which nothing beats asking as it is; forming it could take any memory.
        return Query.marginal(domain, domain), sum(weights) * domain.size
    grams = [[_gram(part, size) for part, size in zip(q.parts, domain.shape, strict=True)] for q in queries]
    errors = [[float(np.trace(gram)) for gram in row] for row in grams]
    parts: list[Part] = [Identity()] * len(domain)
    for _, i in itertools.product(range(ROUNDS if len(queries) > 1 else 1), range(len(domain))):
        others = [w * math.prod(row[:i] + row[i + 1 :]) for w, row in zip(weights, errors, strict=True)]
        mixed = sum(other / sum(others) * row[i] for other, row in zip(others, grams, strict=True))
        parts[i], _ = best_part(np.asarray(mixed), is_pure=is_pure)
        for k, row in enumerate(grams):
            errors[k][i] = _part_error(parts[i], row[i])
    error = sum(w * math.prod(row) for w, row in zip(weights, errors, strict=True))
    return Query(domain, tuple(parts)), error


def _gram(part: Part, size: int) -> Array:
    if size > LARGEST_GRAM:
        said = f"a strategy for an attribute of {size:,} values needs a table of {size**2:,} cells; recode it to fewer"
        raise SizeError(said, cells=size**2, limit=LARGEST_GRAM**2)
    matrix = part.matrix(size).astype(np.float64)
    return matrix.T @ matrix


def _part_error(part: Part, gram: Array) -> float:
    """tr(G(AᵀA)⁺) for the A of a part, which spans the workload."""
    if isinstance(part, Identity):
        return float(np.trace(gram))
    return float((gram * np.linalg.pinv(_gram(part, len(gram)), hermitian=True)).sum())


def union_strategy(workload: Workload, *, is_pure: bool, is_equal: bool = False) -> Strategy:
    """A product strategy for each clique of the workload, each with its share [HDMM, OPT₊]."""
    # A share s of ε gives errors 1/s² times as large, a share of ρ 1/s: the best shares are as errors to the power of
    # 1/3 and 1/2. With `is_equal` they are equal, as in the experiments of Private-PGM.
    groups: dict[Clique, list[tuple[Query, float]]] = {}
    for query, weight in zip(workload.queries, workload.weights, strict=True):
        groups.setdefault(query.clique, []).append((query, weight))
    products = [best_product([q for q, _ in g], [w for _, w in g], is_pure=is_pure) for g in groups.values()]
    errors = [error for _, error in products]
    wanted = [1.0 if is_equal else error ** (1 / 3 if is_pure else 1 / 2) for error in errors]
    shares = [want / sum(wanted) for want in wanted]
    total = sum(error / share ** (2 if is_pure else 1) for error, share in zip(errors, shares, strict=True))
    return Strategy(tuple(query for query, _ in products), tuple(shares), total)


def marginals_strategy(workload: Workload, *, is_pure: bool) -> Strategy:
    """Weighted marginals for a workload of marginals, answered by least squares on all of them [HDMM, OPT_M]."""
    from scipy.optimize import minimize

    if not all(query.is_marginal for query in workload):
        raise OptionError("workload", "weighted marginals answer workloads of marginals only")
    spectrum = Spectrum.of(workload, power=2 if is_pure else 1)
    start = np.log(spectrum.asked + spectrum.asked.sum() / len(spectrum.asked))
    result = minimize(spectrum.log_error, start, jac=True, method="L-BFGS-B", tol=1e-10)
    shares = softmax(np.asarray(result.x))[1]
    shares = np.where((shares < LEAST_SHARE) & (spectrum.asked == 0), 0.0, shares)
    shares /= shares.sum()
    measured = np.flatnonzero(shares)
    domain = spectrum.domain
    queries = tuple(Query.marginal(domain, spectrum.cliques[i]) for i in measured)
    return Strategy(queries, tuple(float(shares[i]) for i in measured), spectrum.error(shares))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A workload and strategies of marginals in the eigenspaces they share.

    There is one for each set S of attributes, of dimension Π_{i∈S}(n_i − 1). On it a marginal of C ⊇ S has an
    eigenvalue of MᵀM proportional to 1/Π_{i∈C} n_i, and any other 0. So the error is Σ_S dim_S·w_S/a_S.
    """

    domain: Domain  # the attributes that the workload reads
    cliques: tuple[Clique, ...]  # the marginals that may be asked: the downward closure of the workload
    asked: Array  # the workload's weight of each
    power: int  # a share s of the budget gives a precision of s^power

    @classmethod
    def of(cls, workload: Workload, *, power: int) -> "Spectrum":
        """The spectrum of a workload of marginals."""
        sizes = {name: n for q in workload for name, n in zip(q.clique, q.domain.shape, strict=True)}
        sizes_of = [(clique, k) for clique in workload.cliques for k in range(len(clique) + 1)]
        closure = dict.fromkeys(subset for clique, k in sizes_of for subset in itertools.combinations(clique, k))
        asked = dict.fromkeys(closure, 0.0)
        for query, weight in zip(workload.queries, workload.weights, strict=True):
            asked[query.clique] += weight
        return cls(Domain.of(sizes), tuple(closure), np.array(list(asked.values())), power)

    @cached_property
    def eigenvalues(self) -> Array:
        """Of each marginal (columns) on each eigenspace (rows), divided by the cells of the whole domain."""
        sets = [frozenset(clique) for clique in self.cliques]
        inside = np.array([[s <= c for c in sets] for s in sets], dtype=np.float64)
        return np.asarray(inside / np.array([self.domain.size_of(clique) for clique in self.cliques]))

    @cached_property
    def wanted(self) -> Array:
        """dim_S·w_S."""
        dims = [math.prod(self.domain[name] - 1 for name in clique) for clique in self.cliques]
        return np.asarray(np.array(dims, dtype=np.float64) * (self.eigenvalues @ self.asked))

    def error(self, shares: Array) -> float:
        """Σ_S dim_S·w_S/a_S."""
        needed = self.wanted > 0
        return float((self.wanted[needed] / (self.eigenvalues @ shares**self.power)[needed]).sum())

    def log_error(self, logs: Array) -> tuple[float, Array]:
        """The logarithm of the error and its gradient, where shares are the softmax of `logs`."""
        shares = softmax(logs)[1]
        precision = self.eigenvalues @ shares**self.power
        value = float((self.wanted / precision).sum())
        in_shares = -self.power * shares ** (self.power - 1) * (self.eigenvalues.T @ (self.wanted / precision**2))
        return math.log(value), shares * (in_shares - shares @ in_shares) / value
