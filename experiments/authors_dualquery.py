"""Authors' DualQuery: the game as the code published with Private-PGM plays it, for comparison only.

It samples with ordinary randomness from the true answers, counts its rounds by advanced composition, and among records
that are worth the same takes the one of the smallest codes.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from experiments.paper_workload import Held
from priory.mechanisms.dualquery.data_player import Reward, best_record
from priory.mechanisms.dualquery.estimates import SampleLoss, answers, most_likely
from priory.model.bases import PublicRows
from priory.model.engine.maxsum import best_row
from priory.model.model import Model
from priory.privacy.scores import Pick
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor
from priory.queries.workload import Workload
from priory.release.parts import Round

RATE, SAMPLES, DELTA = 2.0, 50, 1e-3


def rounds_by_advanced_composition(records: int, epsilon: float = 1.0) -> int:
    """How many rounds of DualQuery (2η(T−1)/n)(√(2s(T−1)·ln 1/δ) + s(T−1)(e^{2η(T−1)/n} − 1)) ≤ ε pays for.

    >>> rounds_by_advanced_composition(48_842)
    58
    """

    def cost(rounds: int) -> float:
        each = 2 * RATE * (rounds - 1) / records
        draws = SAMPLES * (rounds - 1)
        return each * (math.sqrt(2 * draws * math.log(1 / DELTA)) + draws * math.expm1(each))

    rounds = 2
    while cost(rounds + 1) <= epsilon:
        rounds += 1
    return rounds


def models(here: Held, seed: int, *, takes_first_code: bool) -> Iterator[tuple[str, Model]]:
    """The records of a game, and the model under which its samples are most likely."""
    game = tuple(_played(here, np.random.default_rng(seed), takes_first_code=takes_first_code))
    rows = np.array([played.row for played in game], dtype=np.int64)
    domain, total = here.source.domain, float(here.records)
    yield "own", Model(PublicRows(rows, domain), {}, total)
    yield "pgm converged", most_likely(SampleLoss(domain, here.workload, game, total), tolerance=1e-4)


def _played(here: Held, rng: np.random.Generator, *, takes_first_code: bool) -> Iterator[Round]:
    workload, domain = here.workload, here.source.domain
    truth = np.concatenate([np.ravel(answer) for answer in here.truths]) / here.records
    satisfied = np.zeros(workload.rows)
    for t in range(rounds_by_advanced_composition(here.records)):
        chances = _chances(RATE * (satisfied - t * truth))
        picks = [_pick(workload, int(place)) for place in rng.choice(len(chances), SAMPLES, p=chances)]
        rewards = [
            Reward(workload.queries[pick.query].row(pick.cell or 0), 1.0 if pick.is_complement else -1.0)
            for pick in picks
        ]
        found = _first_record(domain, rewards) if takes_first_code else best_record(domain, rewards, rng)
        row = tuple(int(code) for code in found)
        yield Round(tuple(picks), row, RATE / here.records if t else 0.0)
        satisfied += np.concatenate([np.ravel(answers(query, row, domain)) for query in workload])


def _chances(exponents: Array) -> Array:
    """∝ e^u for each query and e^−u for its complement."""
    both = np.concatenate([exponents, -exponents])
    weights = np.exp(both - both.max())
    return np.asarray(weights / weights.sum())


def _pick(workload: Workload, place: int) -> Pick:
    starts = np.cumsum([0, *(query.rows for query in workload)])
    is_complement, cell = divmod(place, workload.rows)
    query = int(np.searchsorted(starts, cell, side="right")) - 1
    return Pick(query, cell - int(starts[query]), is_complement=bool(is_complement))


def _first_record(domain: Domain, rewards: Sequence[Reward]) -> Sequence[int]:
    tables: dict[Clique, Array] = {}
    for each in rewards:
        own = each.reward * each.query.adjoint(np.ones(each.query.shape))
        tables[each.query.clique] = tables.get(each.query.clique, np.zeros_like(own)) + own
    row, _ = best_row(domain, {clique: Factor(domain.project(clique), table) for clique, table in tables.items()})
    return [int(code) for code in row]
