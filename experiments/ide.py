"""Figure 1 of IDE: one state public for the other, and early years for late ones, with the contest's score.

The contest's groups had about 800 rows each. The table at hand has a sixth of them, so that areas over all years, with
about 900 rows, stand for its groups; areas by year, with about 130, are shown beside them.
"""

import json
import lzma
import os
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from experiments.comparison import standard_error
from experiments.contest import contest_score
from experiments.jobs import done
from experiments.results import Results, Stopwatch, picture, shown
from experiments.splits import chosen, runs
from experiments.tables import data_folder
from priory.data.sources.memory import MemorySource
from priory.mechanisms.ide.prior_update import Group, PriorUpdate
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Domain

KEYS = ("case", "epsilon", "arm", "run")
NAME = "ide"
EPSILONS = ("0.1", "1", "10")
CASES = ("Illinois for Ohio, areas", "Illinois for Ohio, areas by year", "early years for late, areas by year")
BOUGHT = "untouched, counts bought"
ARMS = ("untouched", BOUGHT, "raking", "noise-aware")
# The distances of groups in order are kept at so many places.
PLACES = 41
# Records of one person, as the contest says.
MAX_ROWS = 7


@dataclass(frozen=True, eq=False)
class Case:
    """Private rows in groups, and public rows for them."""

    name: str
    domain: Domain
    private: NDArray[np.int64]
    public: NDArray[np.int64]
    by: tuple[str, ...]
    groups: tuple[Group, ...]


def run() -> None:
    """Every case, ε, arm and repeat that is not there yet."""
    results = Results.of(NAME, KEYS)
    names, epsilons = chosen(CASES, "PRIORY_CASES", ";"), chosen(EPSILONS, "PRIORY_EPSILONS")
    done(results, missing, [(name, e, repeat) for name in names for e in epsilons for repeat in range(runs(3))])
    table = summary(results)
    shown(table)
    _draw(table)
    _draw_groups(results)


def missing(name: str, epsilon: str, repeat: int) -> list[dict[str, object]]:
    """The rows of one repeat that are not there yet."""
    case, results = cases()[name], Results.of(NAME, KEYS)
    arms = chosen(ARMS, "PRIORY_ARMS", ";")
    keys = [{"case": name, "epsilon": epsilon, "arm": arm, "run": repeat} for arm in arms]
    return [key | measured(case, epsilon, str(key["arm"]), repeat) for key in keys if not results.has(**key)]


def summary(results: Results) -> list[dict[str, object]]:
    """Means over repeats."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in results.rows():
        groups.setdefault((row["case"], row["epsilon"], row["arm"]), []).append(row)
    table: list[dict[str, object]] = []
    for (case, epsilon, arm), rows in groups.items():
        line: dict[str, object] = {"case": case, "epsilon": epsilon, "arm": arm, "runs": len(rows)}
        for name in ("score", "mean_l1", "missed", "seconds"):
            line[name] = float(np.mean([float(row[name]) for row in rows]))
        table.append(line | {"score ±": standard_error([float(row["score"]) for row in rows])})
    return table


def _draw(table: list[dict[str, object]]) -> None:
    import altair as alt

    rows = [{**row, "ε": float(str(row["epsilon"]))} for row in table]
    panels = [
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(x=alt.X("ε:Q", scale=alt.Scale(type="log")), y=f"{name}:Q", color="arm:N")
        .properties(width=240, height=180)
        .facet("case:N", columns=3)
        for name in ("mean_l1", "score")
    ]
    picture(alt.vconcat(*panels), NAME)


def _draw_groups(results: Results) -> None:
    """The mean L1 distance of each group, the groups in order, as in the paper."""
    import altair as alt

    rows = [
        {
            "case": row["case"],
            "ε": row["epsilon"],
            "arm": row["arm"],
            "groups": place / (PLACES - 1),
            "L1": float(value),
        }
        for row in results.rows()
        if row["run"] == "0"
        for place, value in enumerate(row["sorted_l1"].split(";"))
    ]
    panel = alt.Chart(alt.Data(values=rows)).mark_line().encode(x="groups:Q", y="L1:Q", color="arm:N")
    picture(panel.properties(width=220, height=150).facet(column="ε:N", row="case:N"), NAME, "ide_groups")


@cache
def cases() -> dict[str, Case]:
    """Ohio with Illinois public, and 2016 to 2018 with 2012 to 2015 public; PRIORY_AREAS limits the areas."""
    folder = data_folder() / "nist_sprint2_il_oh"
    domain = Domain.of(json.loads((folder / "domain.json").read_text()))
    with lzma.open(folder / "sprint2_coded.csv.xz", "rt") as file:
        codes = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)
    areas = json.loads((folder / "codebook.json").read_text())["PUMA"]["values"]
    is_public = np.array([area.startswith("17") for area in areas])
    most = int(os.environ.get("PRIORY_AREAS", len(areas)))
    ohio, every = np.flatnonzero(~is_public)[:most], np.arange(len(areas))[:most]
    illinois = codes[is_public[codes[:, 0]]]
    early = codes[codes[:, 1] < 4]
    found = (
        _case(CASES[0], domain, codes, illinois, (ohio, np.arange(7)), by=("PUMA",)),
        _case(CASES[1], domain, codes, illinois, (ohio, np.arange(7)), by=("PUMA", "YEAR")),
        _case(CASES[2], domain, codes, early, (every, np.arange(4, 7)), by=("PUMA", "YEAR")),
    )
    return {case.name: case for case in found}


def _case(
    name: str,
    domain: Domain,
    codes: NDArray[np.int64],
    public: NDArray[np.int64],
    groups: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    by: tuple[str, ...],
) -> Case:
    areas, years = groups
    private = codes[np.isin(codes[:, 0], areas) & np.isin(codes[:, 1], years)]
    both = [(int(a), int(y)) for a in areas for y in years]
    return Case(name, domain, private, public, by, tuple(dict.fromkeys(group[: len(by)] for group in both)))


def measured(case: Case, epsilon: str, arm: str, repeat: int) -> dict[str, object]:
    """One run; the untouched prior is given the true counts, or noisy ones for all of ε."""
    watch = Stopwatch()
    if arm in ("untouched", BOUGHT):
        rows = _untouched(case, float(epsilon) if arm == BOUGHT else None, repeat)
    else:
        rows = _released(case, epsilon, arm, repeat)
    seconds = watch.seconds
    found = contest_score(rows, case.private, case.domain, case.by)
    return {
        "score": found.score,
        "mean_l1": float(found.distances.mean()),
        "missed": float(found.missed.mean()),
        "seconds": seconds,
        "sorted_l1": ";".join(f"{d:.4f}" for d in np.quantile(found.distances, np.linspace(0, 1, PLACES))),
    }


def _untouched(case: Case, epsilon: float | None, repeat: int) -> NDArray[np.int64]:
    """Public rows at random, for each group as many as it has, or as a noisy count of ε says."""
    rng = np.random.default_rng(repeat)
    made = [case.domain.axis[name] for name in case.by]
    groups = np.array(case.groups)
    held, counts = np.unique(case.private[:, made], axis=0, return_counts=True)
    truth = {tuple(group): count for group, count in zip(held.tolist(), counts.tolist(), strict=True)}
    counts = np.array([truth.get(group, 0) for group in case.groups])
    if epsilon is not None:
        # Not a release: a baseline, for which noise in floats will do.
        counts = np.rint(np.maximum(counts + rng.laplace(0, MAX_ROWS / epsilon, len(counts)), 0)).astype(int)
    rows = case.public[rng.integers(0, len(case.public), counts.sum())].copy()
    rows[:, made] = np.repeat(groups, counts, axis=0)
    return rows


def _released(case: Case, epsilon: str, arm: str, repeat: int) -> NDArray[np.int64]:
    budget = Budget.pure(epsilon, max_rows=MAX_ROWS)
    columns = tuple(case.private[:, i].astype(np.int32) for i in range(len(case.domain)))
    source = MemorySource(case.domain, columns, len(case.private))
    mechanism = PriorUpdate(
        public=PublicRows(case.public, case.domain),
        by=((), case.by),
        groups=case.groups,
        way="raking" if arm == "raking" else "noise-aware",
        seed=repeat,
    )
    with Ledger.in_memory(budget, person="individual").reserve(budget, "experiment") as reservation:
        release = mechanism.run(Curator(reservation, source), budget)
    if release.model is None or not isinstance(release.model.base, PublicRows):
        return case.private[:0]
    base = release.model.base
    return np.repeat(base.codes, np.rint(base.shares * release.model.total).astype(int), axis=0).astype(np.int64)
