"""The embedded town: two years of a fictional register, made from a seed."""

import csv
import dataclasses
import gzip
import io
from pathlib import Path

import numpy as np

from town_people import (
    DISTRICTS,
    EDUCATION,
    EMPLOYED,
    EMPLOYMENT,
    SELF_EMPLOYED,
    UNEMPLOYED,
    VOGELSAND,
    Flags,
    Ints,
    People,
    Reals,
    days,
    first_of_month,
    founders,
)
from town_years import next_year

SEED = 1417
FOLDER = Path(__file__).resolve().parents[1] / "src" / "priory" / "town"
ZONES = ("centre", "centre", "north", "north", "south", "south", "outskirts", "outskirts", "elsewhere")
SECOND_HOMES = np.array([0.20, 0.13, 0.07, 0.08, 0.13, 0.08, 0.08, 0.03, 0.20])
REMARKS = (
    "address confirmed by letter",
    "letter returned, new one sent",
    "form filled in by a relative",
    'asks to be called "in the evening, please"',
    "foreign certificate, translation on file",
)
MAIN, JOB, HOME = range(3)


def main(folder: Path = FOLDER) -> None:
    """Write both years into `folder` and say how large they are."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    people = founders(rng, 2024)
    write(folder / "register_2024.csv.gz", register(rng, people, 2024))
    people = next_year(rng, people, 2025)
    write(folder / "register_2025.csv.gz", register(rng, people, 2025))


def register(rng: np.random.Generator, people: People, year: int) -> dict[str, list[str | None]]:
    """The register of a year as columns of cells, rows in the order of persons."""
    person = np.repeat(np.arange(len(people)), 1 + people.extra)
    visits = health_visits(rng, people, year)
    silent = silences(rng, people, year)
    first = np.r_[True, person[1:] != person[:-1]]
    kind = np.where(first, MAIN, np.where(rng.random(len(person)) < 0.6, JOB, HOME))
    rows = second_homes(rng, second_jobs(rng, people.take(person), kind), kind, year)
    missing = {name: flags[person] for name, flags in silent.items()}
    grown = rows.age(year) >= 15
    return {
        "person id": [f"P{number:06d}" for number in rows.number.tolist()],
        "district": labels(DISTRICTS, rows.district),
        "zone": labels(ZONES, rows.district),
        "sex": labels(("female", "male"), rows.male.astype(np.int64), missing["sex"]),
        "born": dates(rows.born, missing["born"]),
        "moved in": dates(rows.moved_in, missing["moved in"]),
        "household size": integers(rows.household),
        "education": labels(EDUCATION, rows.education(year), missing["education"]),
        "employment": labels(EMPLOYMENT, rows.employment, missing["employment"]),
        "hours per week": integers(rows.hours, (rows.hours == 0) | missing["employment"]),
        "income": integers(10 * np.rint(np.clip(rows.income, 0, 250_000) / 10), missing["income"] | ~grown),
        "owns home": labels(("false", "true"), rows.owns.astype(np.int64), missing["owns home"]),
        "smoker": labels(("false", "true"), rows.smoker.astype(np.int64), missing["smoker"] | ~grown),
        "health visits": integers(visits[person]),
        "remarks": remarks(rng, kind),
    }


def health_visits(rng: np.random.Generator, people: People, year: int) -> Ints:
    """Visits to the health centre in the year: many for the very young, the old, the frail and smokers."""
    age = people.age(year)
    log_mean = 0.35 + 0.0028 * np.maximum(age - 25, 0) ** 1.5 + 0.9 * (age < 4) + 0.25 * ~people.male * (age >= 15)
    log_mean = log_mean + 0.3 * people.smoker + 0.25 * (people.employment == UNEMPLOYED)
    # The island has no doctor of its own, and the ferry takes an hour.
    log_mean = log_mean - 0.6 * (people.district == VOGELSAND)
    visits: Ints = np.minimum(rng.poisson(np.exp(log_mean) * people.frailty), 60)
    return visits


def silences(rng: np.random.Generator, people: People, year: int) -> dict[str, Flags]:
    """Which answers each person leaves out; high incomes and the self-employed refuse more often."""
    n, age = len(people), people.age(year)
    refusing = 0.034 + 0.03 * (people.income > 60_000) + 0.05 * (people.employment == SELF_EMPLOYED)
    chances: dict[str, float | Reals] = {
        "sex": 0.003,
        "born": 0.002,
        "moved in": 0.02,
        "education": np.where(age < 16, 0.0, 0.03),
        "employment": np.where(age < 16, 0.0, 0.006),
        "income": np.where(age < 15, 0.0, refusing),
        "owns home": 0.015,
        "smoker": np.where(age < 25, 0.10, 0.06),
    }
    return {name: rng.random(n) < chance for name, chance in chances.items()}


def second_jobs(rng: np.random.Generator, rows: People, kind: Ints) -> People:
    """Rows of second jobs: few hours, little pay, the same person and home."""
    n, job = len(rows), kind == JOB
    employment = np.where(rng.random(n) < 0.75, EMPLOYED, SELF_EMPLOYED)
    hours = rng.integers(3, 17, n)
    income = 52 * hours * np.exp(rng.normal(2.65, 0.35, n))
    return dataclasses.replace(
        rows,
        employment=np.where(job, employment, rows.employment),
        hours=np.where(job, hours, rows.hours),
        income=np.where(job, income, rows.income),
    )


def second_homes(rng: np.random.Generator, rows: People, kind: Ints, year: int) -> People:
    """Rows of second homes: small, anywhere, the same person and work."""
    n, home = len(rows), kind == HOME
    last_day = days(np.full(n, year + 1)) - 1
    day = first_of_month(rng, last_day - rng.gamma(1.0, 1_800.0, n).astype(np.int64))
    return dataclasses.replace(
        rows,
        district=np.where(home, rng.choice(len(DISTRICTS), n, p=SECOND_HOMES), rows.district),
        moved_in=np.where(home, np.maximum(rows.born, day), rows.moved_in),
        household=np.where(home, 1 + (rng.random(n) < 0.3), rows.household),
        owns=np.where(home, rng.random(n) < 0.3, rows.owns),
    )


def remarks(rng: np.random.Generator, kind: Ints) -> list[str | None]:
    """A clerk's notes: one on every second job and home, few on other rows."""
    which = rng.integers(0, len(REMARKS), len(kind))
    noted = rng.random(len(kind)) < 0.02
    notes = np.select([kind == JOB, kind == HOME, noted], [0, 1, 2 + which], -1)
    texts = ("second job", "second home", *REMARKS)
    return labels(texts, notes, notes < 0)


def labels(names: tuple[str, ...], codes: Ints, missing: Flags | None = None) -> list[str | None]:
    """The name of each code, nothing where it is missing."""
    return blanked([names[code] for code in codes.tolist()], missing)


def dates(day: Ints, missing: Flags) -> list[str | None]:
    """Days since 1970 as ISO dates."""
    return blanked(np.datetime_as_string(day.astype("datetime64[D]")).tolist(), missing)


def integers(values: Ints | Reals, missing: Flags | None = None) -> list[str | None]:
    """Whole numbers as digits."""
    return blanked([f"{value:.0f}" for value in values.tolist()], missing)


def blanked(cells: list[str], missing: Flags | None) -> list[str | None]:
    """The cells, with nothing where they are missing."""
    if missing is None:
        return list(cells)
    return [None if gone else cell for cell, gone in zip(cells, missing.tolist(), strict=True)]


def write(path: Path, columns: dict[str, list[str | None]]) -> None:
    """Write the columns as compressed CSV, the same bytes each time."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    # No time and no file name in the header: otherwise each run would give other bytes.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.getvalue().encode())
    rows, persons = len(columns["person id"]), len(set(columns["person id"]))
    print(f"{path.name}: {rows:,} rows of {persons:,} persons, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
