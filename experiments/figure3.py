"""Figure 3 of Private-PGM: L1 and L2 loss and workload error over iterations, and where our stop falls.

HDMM's strategy for fifteen random triples of Adult with prefix ranges on numeric attributes, measured with Laplace
noise at ε = 1 and fitted by mirror descent with either loss [McKenna et al. 2019, Appendix D].
"""

import altair as alt
import numpy as np

from experiments.metrics import workload_error
from experiments.results import Results, picture, shown
from experiments.tables import Coded, table
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L1, L2
from priory.estimate.measured import evidence as noisy
from priory.estimate.papers.mirror_descent import MirrorDescent
from priory.estimate.problem import Problem, states
from priory.mechanisms.hdmm.hdmm import HDMM
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.privacy.randomness import Replay
from priory.queries.factor import Array
from priory.queries.workload import Workload

NAME = "figure3"
NUMERIC = ("age", "capital-gain", "capital-loss", "hours-per-week", "education-num")
TRIPLES = 15
ITERATIONS = 500
MARKS = sorted({int(t) for t in np.geomspace(1, ITERATIONS, 30)})
# The paper's 15 three-way marginals, less those whose table has more cells than this.
LARGEST = 20_000


def run() -> None:
    """Run what is missing, then print the table and draw the picture."""
    results = Results.of(NAME, ("fitted to", "iteration"))
    coded = table("adult")
    drawn = Workload.prefix_ranges(coded.domain, NUMERIC, k=3, count=120, seed=0)
    workload = Workload.of([query for query in drawn if query.domain.size <= LARGEST][:TRIPLES])
    truth = [np.asarray(query(coded.counts(query.clique)), dtype=np.float64) for query in workload]
    measurements = _measured(workload, coded)
    evidence = Evidence.of(coded.domain, measurements)
    losses = {"L1": L1(evidence), "L2": L2(evidence)}
    total = float(coded.records)

    def add(name: str, iteration: int, model: Model, marginals: Array, calls: int) -> None:
        values = {f"{kind} loss": loss(marginals)[0] for kind, loss in losses.items()}
        error = workload_error(model.answers(list(workload)), truth)
        results.add({"fitted to": name, "iteration": iteration, **values, "workload error": error, "calls": calls})

    base = Uniform(coded.domain)
    for name, loss in losses.items():
        if results.has(**{"fitted to": name, "iteration": MARKS[-1]}):
            continue
        problem = Problem(base.bind(loss.layout.cliques), loss, total)
        for state in states(MirrorDescent(iterations=ITERATIONS, tolerance=0.0), problem):
            if state.iteration in MARKS and not results.has(**{"fitted to": name, "iteration": state.iteration}):
                model = Model(base, loss.layout.unpack(state.theta), total)
                add(name, state.iteration, model, state.marginals, state.calls)
    if not results.has(**{"fitted to": "priory", "iteration": 0}):
        model = estimate(measurements, coded.domain, total=total)
        marginals = evidence.layout.pack([model.project(clique) for clique in evidence.layout.cliques])
        add("priory", 0, model, marginals, model.diagnostics.oracle_calls if model.diagnostics else 0)
    report(results)


def _measured(workload: Workload, coded: Coded) -> list[Measurement]:
    """HDMM's noisy answers; the same ones every time, so that the experiment can be gone on with."""
    columns = {name: coded.codes[:, i] for i, name in enumerate(coded.domain)}
    source = open_source(columns, Schema.coded(dict(zip(coded.domain, coded.domain.shape, strict=True))))
    budget = Budget.pure("1", relation="replace-one")
    with Ledger.in_memory(budget).reserve(budget, NAME) as reservation:
        curator = Curator(reservation, source, randomness=Replay(seed=0))
        return noisy(HDMM(workload, kind="equal").run(curator, budget).measurements)


def report(results: Results) -> None:
    """The curves, with our stop as a line across."""
    rows = results.rows()
    kinds = ("L1 loss", "L2 loss", "workload error")
    lines: list[dict[str, object]] = [
        {"fitted to": r["fitted to"], "iteration": int(r["iteration"]), "calls": int(r["calls"])}
        | {kind: float(r[kind]) for kind in kinds}
        for r in rows
    ]
    shown(lines)
    flat = [
        {"fitted to": x["fitted to"], "iteration": x["iteration"], "what": kind, "value": x[kind]}
        for x in lines
        for kind in kinds
    ]
    curves = alt.Chart().transform_filter("datum['fitted to'] != 'priory'").mark_line(point=True)
    stop = alt.Chart().transform_filter("datum['fitted to'] == 'priory'").mark_rule(strokeDash=[4, 4])
    color = alt.Color("fitted to:N")
    y = alt.Y("value:Q", title=None, scale=alt.Scale(type="log", nice=False))
    chart = (
        alt.layer(
            curves.encode(x=alt.X("iteration:Q", scale=alt.Scale(type="log", nice=False)), y=y, color=color),
            stop.encode(y=y, color=color),
            data=alt.Data(values=flat),
        )
        .properties(width=240, height=200)
        .facet(alt.Facet("what:N", title=None))
        .resolve_scale(y="independent")
    )
    picture(chart, NAME)
