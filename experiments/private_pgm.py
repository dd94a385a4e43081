"""Private-PGM: the mechanisms of its figures, each a way to measure and the estimates made of the same release."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from experiments.paper_workload import Answers, Held
from experiments.results import Stopwatch
from priory.app.registry import Mechanism
from priory.errors import SizeError
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.dualquery.estimates import records_model, sampled_model
from priory.mechanisms.hdmm.hdmm import HDMM, local_least_squares
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem.mwem import MWEM, Graphical, Stop, Update, graphical_model
from priory.mechanisms.privbayes import PrivBayes, network_model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.workload import Workload
from priory.release import Release

Estimate = Callable[[Workload, Release], Answers]
Row = dict[str, object]

# The relative rise of DualQuery's likelihood in a step below which it has converged.
CONVERGED = 1e-4
LAST = 4
# The paper's script has θ = 1, but hands half of ε to a selector that allows families of εn/4dθ cells for its own ε:
# half as many as θ = 1 means here.
USEFULNESS = 2.0


@dataclass(frozen=True, eq=False)
class Way:
    """One way to measure, and the estimates that are made of the same release.

    Attributes:
        recipe: the mechanism, for a workload and the number of a repeat.
        estimates: each estimate by name: "own", "pgm" with our default stop, "pgm converged".
        budget: what is spent.
        is_slow: whether convergence takes minutes: then only the last of five repeats runs to it.
    """

    recipe: Callable[[Workload, int], Mechanism]
    estimates: Mapping[str, Estimate]
    budget: Budget
    is_slow: bool = False


def ways(epsilon: str = "1") -> dict[str, Way]:
    """All of Figure 1: pure ε and replace-one as in the paper; DualQuery with δ = 0.001.

    MWEM's model decides what it measures, so there are two of it: one that keeps tables and asks nothing that would
    make them too large, and one that keeps a graphical model. Both releases are estimated in every way.
    """
    pure = Budget.pure(epsilon, relation="replace-one")
    graphical: dict[str, Estimate] = {"pgm": _pgm("fission"), "pgm converged": _pgm("converged")}
    weights = MultiplicativeWeights()
    mwem: dict[str, Estimate] = {"own": _rounds(weights), **graphical}
    return {
        "mwem": Way(lambda w, _: MWEM(w, weights), mwem, pure),
        "mwem+pgm": Way(lambda w, _: MWEM(w, Graphical()), mwem, pure),
        "privbayes": Way(
            lambda _, repeat: PrivBayes(usefulness=USEFULNESS, seed=repeat),
            {"own": lambda _, release: network_model(release, seed=0).answers, **graphical},
            pure,
        ),
        "hdmm": Way(lambda w, _: HDMM(w, kind="equal"), {"own": _local, **graphical}, pure),
        "dualquery": Way(
            lambda w, repeat: DualQuery(w, seed=repeat),
            {
                "own": lambda _, release: records_model(release).answers,
                "pgm": lambda w, release: sampled_model(w, release).answers,
                "pgm converged": lambda w, release: sampled_model(w, release, tolerance=CONVERGED).answers,
            },
            Budget.approximate(epsilon, "0.001", relation="replace-one"),
            is_slow=True,
        ),
    }


def _pgm(stop: Stop) -> Estimate:
    return lambda _, release: graphical_model(release, stop=stop).answers


def _rounds(update: Update) -> Estimate:
    """The update of MWEM on the measurements of a release, a round at a time, whoever picked them."""

    def estimated(workload: Workload, release: Release) -> Answers:
        measured = [m.query.clique for m in release.measurements if m.query.clique]
        update.allowed(release.domain, measured[:-1], measured[-1:])
        return MWEM(workload, update).model(release).answers

    return estimated


def _local(_: Workload, release: Release) -> Answers:
    tables = {m.query.clique: local_least_squares(m).values for m in release.measurements if m.query.clique}
    return lambda queries: [np.asarray(query(tables[query.clique])) for query in queries]


def estimates(held: Held, way: Way, repeat: int) -> Iterator[Row]:
    """One release, and the error of each of its estimates; what does not fit is said, not hidden."""
    # Where a cap on steps ends an estimate, that is part of the setting; it is no news.
    warnings.filterwarnings("ignore", message="the estimate stopped early")
    watch = Stopwatch()
    with Ledger.in_memory(way.budget).reserve(way.budget, held.name) as reservation:
        release = way.recipe(held.workload, repeat).run(Curator(reservation, held.source), way.budget)
    row: Row = {"arm": "", "error": "", "seconds": "", "measuring": watch.seconds, "note": ""}
    row["spent"] = str(release.statement.spent)
    for name, estimated in way.estimates.items():
        if name == "pgm converged" and way.is_slow and repeat != LAST:
            continue
        watch = Stopwatch()
        try:
            error = held.error(estimated(held.workload, release))
        except SizeError as refused:
            yield row | {"arm": name, "note": f"infeasible: {refused}"}
            continue
        yield row | {"arm": name, "error": error, "seconds": watch.seconds}
