"""Figure 1 of IDE: one state public for the other, and early years for late ones, with the contest's score."""

import json
import lzma
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.results import Results, Stopwatch, shown
from experiments.splits import runs
from experiments.tables import data_folder
from priory.answer.contest import contest_score
from priory.data.memory import MemorySource
from priory.domain import Domain
from priory.mechanisms.prior_update import Group, PriorUpdate
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger

KEYS = ("case", "epsilon", "arm", "run")
BY = ("PUMA", "YEAR")
EPSILONS = ("0.1", "1", "10")
ARMS = ("untouched", "raking", "noise-aware")
# Records of one person, as the contest says.
MAX_ROWS = 7


@dataclass(frozen=True, eq=False)
class Case:
    """Private rows in groups, and public rows for them."""

    name: str
    domain: Domain
    private: NDArray[np.int64]
    public: NDArray[np.int64]
    groups: tuple[Group, ...]


def run() -> None:
    """Every case, ε, arm and repeat that is not there yet."""
    results = Results.of("ide", KEYS)
    for case in cases():
        for epsilon in EPSILONS:
            for repeat in range(runs(3)):
                for arm in ARMS:
                    if not results.has(case=case.name, epsilon=epsilon, arm=arm, run=repeat):
                        key = {"case": case.name, "epsilon": epsilon, "arm": arm, "run": repeat}
                        results.add(key | measured(case, epsilon, arm, repeat))
    shown([dict(row) for row in results.rows()])


def cases() -> list[Case]:
    """Ohio with Illinois public, and 2016 to 2018 with 2012 to 2015 public; PRIORY_AREAS limits the areas."""
    folder = data_folder() / "nist_sprint2_il_oh"
    domain = Domain.of(json.loads((folder / "domain.json").read_text()))
    with lzma.open(folder / "sprint2_coded.csv.xz", "rt") as file:
        codes = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)
    areas = json.loads((folder / "codebook.json").read_text())["PUMA"]["values"]
    is_public = np.array([area.startswith("17") for area in areas])
    most = int(os.environ.get("PRIORY_AREAS", len(areas)))
    ohio, every = np.flatnonzero(~is_public)[:most], np.arange(len(areas))[:most]
    return [
        _case("Illinois for Ohio", domain, codes, codes[is_public[codes[:, 0]]], (ohio, np.arange(7))),
        _case("early years for late", domain, codes, codes[codes[:, 1] < 4], (every, np.arange(4, 7))),
    ]


def _case(
    name: str,
    domain: Domain,
    codes: NDArray[np.int64],
    public: NDArray[np.int64],
    groups: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Case:
    areas, years = groups
    private = codes[np.isin(codes[:, 0], areas) & np.isin(codes[:, 1], years)]
    return Case(name, domain, private, public, tuple((int(a), int(y)) for a in areas for y in years))


def measured(case: Case, epsilon: str, arm: str, repeat: int) -> dict[str, object]:
    """One run; the untouched prior is given the true counts."""
    watch = Stopwatch()
    rows = _untouched(case, repeat) if arm == "untouched" else _released(case, epsilon, arm, repeat)
    seconds = watch.seconds
    found = contest_score(rows, case.private, case.domain, BY)
    return {
        "score": found.score,
        "mean_l1": float(found.distances.mean()),
        "missed": float(found.missed.mean()),
        "seconds": seconds,
    }


def _untouched(case: Case, repeat: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(repeat)
    rows = case.public[rng.integers(0, len(case.public), len(case.private))].copy()
    rows[:, :2] = case.private[:, :2]
    return rows


def _released(case: Case, epsilon: str, arm: str, repeat: int) -> NDArray[np.int64]:
    budget = Budget.pure(epsilon, max_rows=MAX_ROWS)
    columns = tuple(case.private[:, i].astype(np.int32) for i in range(len(case.domain)))
    source = MemorySource(case.domain, columns, len(case.private))
    mechanism = PriorUpdate(
        public=PublicRows(case.public, case.domain),
        by=((), BY),
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
