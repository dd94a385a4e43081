"""Tables that forecasts are compared on: real and generated ones, some of their columns, samples of their rows.

"loans/14.1:5000" is Loans with 14 columns, drawn with seed 1, and 5,000 of its rows.
"""

import json
import lzma
from functools import cache

import numpy as np
from bench.census import Census

from experiments.default_fit import known_table
from experiments.tables import Coded, data_folder, split
from priory import town
from priory.data.codec import code_type
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.queries.domain import Domain

SPLITS = {"acs": "acs_nat19_pub_nat18", "acsred": "acs_red_nat19_pub_nat18", "adultred": "adult_reduced"}
# Laws are fitted to the first, and compared with the others: no rows are in both.
FITTED_TO = (
    *("adult:500", "adult:2000", "adult:10000", "adult", "adultred"),
    *("acs:2000", "acs", "acsred", "acsred:3000"),
    *("loans/8", "loans/14.1:5000", "loans/14", "loans/20.2:10000"),
)
LEFT_OUT = (
    *("titanic", "town:500", "town:2000", "town:10000", "town"),
    *("nist/10:5000", "nist/16.1:20000", "nist/7.3:20000"),
    *("stroke/12", "stroke/20.1:5000", "stroke/24.2"),
    *("census/15:30000", "census/9.2:5000"),
)
# Tables of more than 24 columns, which "aim" fits by default.
WIDE_FITTED_TO = ("loans", "loans/32.4:10000")
WIDE_LEFT_OUT = ("nist/30.1:30000", "stroke/40.3", "stroke", "census", "census/30.2:20000")


def part(name: str) -> Coded:
    """A table, some of its columns, or a sample of its rows."""
    base, _, rows = name.partition(":")
    base, _, columns = base.partition("/")
    found = _whole(base)
    if columns:
        found = _some_columns(found, *columns.partition(".")[::2])
    codes = found.codes
    if rows:
        codes = codes[np.random.default_rng([1, int(rows)]).permutation(len(codes))[: int(rows)]]
    return Coded(name, found.domain, np.ascontiguousarray(codes))


def schema_of(coded: Coded) -> Schema:
    """The schema of a table; the town has its own, with constraints."""
    if coded.name.partition(":")[0] == "town":
        return Schema.load(town.SCHEMA)
    return Schema.coded(dict(zip(coded.domain.attributes, coded.domain.shape, strict=True)))


def source_of(coded: Coded) -> MemorySource:
    """A table as something that a curator can count."""
    columns = tuple(coded.codes[:, i].astype(code_type(size)) for i, size in enumerate(coded.domain.shape))
    return MemorySource(coded.domain, columns, coded.records)


def census(year: int) -> Coded:
    """The made-up census of a year."""
    made = Census.made(year=year)
    return Coded("census", made.domain, np.asarray(made.codes, dtype=np.int64))


@cache
def _whole(name: str) -> Coded:
    if name in SPLITS:
        return split(SPLITS[name], "priv")
    if name == "census":
        return census(0)
    return _nist() if name == "nist" else known_table(name)


def _nist() -> Coded:
    import pandas as pd

    folder = data_folder() / "nist_sprint2_il_oh"
    sizes = json.loads((folder / "domain.json").read_text())
    with lzma.open(folder / "sprint2_coded.csv.xz") as file:
        frame = pd.read_csv(file)
    return Coded("nist", Domain.of(sizes), frame[list(sizes)].to_numpy(dtype=np.int64))


def _some_columns(coded: Coded, count: str, seed: str) -> Coded:
    drawn = np.random.default_rng([int(seed or 0), 7]).permutation(len(coded.domain))[: int(count)]
    places = np.sort(drawn)
    sizes = {coded.domain.attributes[i]: coded.domain.shape[i] for i in places}
    return Coded(coded.name, Domain.of(sizes), coded.codes[:, places])
