"""The embedded town: two years of a fictional register, made from a seed."""

import csv
import dataclasses
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

SEED = 1417
FOLDER = Path(__file__).resolve().parents[1] / "src" / "priory" / "town"
FOUNDERS = 25_000

# Places. The order is that of the schema; `elsewhere` is where second homes outside the town are.
DISTRICTS = (
    "Altstadt",
    "Hafen",
    "Klosterberg",
    "Nordfeld",
    "Sankt Jürgen",
    "Neue Wiesen",
    "Ostermoor",
    "Vogelsand",
    "elsewhere",
)
ZONES = ("centre", "centre", "north", "north", "south", "south", "outskirts", "outskirts", "elsewhere")
HAFEN, NEUE_WIESEN, VOGELSAND = 1, 5, 7
SETTLED = np.array([0.17, 0.12, 0.11, 0.20, 0.22, 0.06, 0.117, 0.003, 0.0])
ARRIVING = np.array([0.17, 0.09, 0.06, 0.15, 0.12, 0.37, 0.038, 0.002, 0.0])
SECOND_HOMES = np.array([0.20, 0.13, 0.07, 0.08, 0.13, 0.08, 0.08, 0.03, 0.20])
PROSPERITY = np.array([0.02, -0.14, 0.30, -0.18, 0.0, 0.12, -0.04, 0.05, 0.0])
OWNING = np.array([-1.1, -1.3, 0.5, -1.2, -0.2, 0.7, 0.8, 0.9, 0.0])
# Each year of age beyond 40 multiplies a district's share of that age by exp(tilt).
AGE_TILT = np.array([-0.012, -0.006, 0.010, -0.002, 0.004, -0.022, 0.012, 0.020, 0.0])

# How many people of each age group of five years, from 0-4 to 100-104, in thousandths.
PYRAMID = np.array([44, 47, 48, 49, 60, 66, 64, 61, 59, 60, 72, 82, 75, 62, 50, 39, 35, 19, 7, 1.0, 0.1])
NEWCOMERS = np.array([80, 60, 40, 60, 190, 180, 120, 75, 50, 35, 28, 22, 18, 12, 10, 8, 6, 4, 2, 0.2, 0.0])

EDUCATION = (
    "none",
    "primary",
    "lower secondary",
    "upper secondary",
    "vocational",
    "bachelor",
    "master or doctorate",
)
GRADUATION_AGE = np.array([0, 10, 16, 18, 20, 22, 25])
EDUCATION_RETURN = np.array([-0.25, -0.20, -0.10, 0.0, 0.10, 0.32, 0.50])

EMPLOYMENT = (
    "below school age",
    "in education",
    "employed",
    "self-employed",
    "unemployed",
    "at home, caring",
    "retired",
    "military service",
)
TODDLER, PUPIL, EMPLOYED, SELF_EMPLOYED, UNEMPLOYED, CARING, RETIRED, MILITARY = range(8)

REMARKS = (
    "address confirmed by letter",
    "letter returned, new one sent",
    "form filled in by a relative",
    'asks to be called "in the evening, please"',
    "foreign certificate, translation on file",
)
MAIN, JOB, HOME = range(3)


@dataclass(frozen=True)
class People:
    """The town's people at the end of a year, one entry per person in every array.

    Attributes:
        number: the person's number, for life.
        male: sex.
        born: day of birth, in days since 1970.
        moved_in: day of moving into the present home, in days since 1970.
        district: where the home is.
        household: how many live there.
        talent: what lies behind schooling and pay; never registered.
        schooling: the highest education the person will ever have.
        employment: what the person does.
        hours: hours of work per week, 0 without work.
        income: income of the year.
        owns: whether the household owns its home.
        smoker: whether the person smokes.
        frailty: what lies behind visits to the health centre; never registered.
        extra: how many rows the person has beyond the first.
    """

    number: Ints
    male: Flags
    born: Ints
    moved_in: Ints
    district: Ints
    household: Ints
    talent: Reals
    schooling: Ints
    employment: Ints
    hours: Ints
    income: Reals
    owns: Flags
    smoker: Flags
    frailty: Reals
    extra: Ints

    def __len__(self) -> int:
        return len(self.number)

    def take(self, which: Flags | Ints) -> "People":
        """Keep the persons of `which`, in its order."""
        return People(**{name: values[which] for name, values in vars(self).items()})

    def join(self, other: "People") -> "People":
        """Put `other` behind these people."""
        theirs = vars(other)
        return People(**{name: np.concatenate([values, theirs[name]]) for name, values in vars(self).items()})

    def age(self, year: int) -> Ints:
        """Age on the last day of `year`."""
        return year - (self.born.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970)

    def education(self, year: int) -> Ints:
        """Highest education reached by the end of `year`."""
        return reached(self.schooling, self.age(year))


def main(folder: Path = FOLDER) -> None:
    """Write both years into `folder` and say how large they are."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    people = founders(rng, 2024)
    write(folder / "register_2024.csv.gz", register(rng, people, 2024))
    people = next_year(rng, people, 2025)
    write(folder / "register_2025.csv.gz", register(rng, people, 2025))


def founders(rng: np.random.Generator, year: int) -> People:
    """The people of the first year, long settled."""
    district = rng.choice(len(DISTRICTS), FOUNDERS, p=SETTLED)
    age = ages(rng, PYRAMID, district)
    # Numbers are never given twice, so those of people who left long ago are missing.
    number = np.sort(rng.choice(np.arange(1, 2 * FOUNDERS), FOUNDERS, replace=False))
    people = arrive(rng, number, district, age, year)
    return dataclasses.replace(people, moved_in=long_settled(rng, people, year))


def next_year(rng: np.random.Generator, people: People, year: int) -> People:
    """A year later: deaths and departures, work, homes and habits, newcomers and births."""
    stayed = people.take(stays(rng, people, year))
    stayed = new_homes(rng, new_work(rng, stayed, year), year)
    stayed = new_habits(rng, stayed, year)
    first = int(people.number.max()) + 1
    came = newcomers(rng, first, 1_500, year)
    babies = newborns(rng, stayed, first + len(came), year)
    return stayed.join(came).join(babies)


def arrive(rng: np.random.Generator, number: Ints, district: Ints, age: Ints, year: int) -> People:
    """People of a given district and age with everything else drawn; they moved in this year."""
    n = len(number)
    male = rng.random(n) < 0.495 - 0.004 * np.maximum(age - 65, 0)
    born = days(year - age) + rng.integers(0, 365, n)
    talent = rng.normal(0, 1, n) + PROSPERITY[district]
    schooling = final_schooling(rng, talent, year - age)
    education = reached(schooling, age)
    employment = employ(rng, age, male, talent, education, slump=1.0)
    hours = work_hours(rng, employment, age, male)
    income = pay(rng, employment, hours, age=age, male=male, talent=talent, education=education, district=district)
    household = household_size(rng, age, district)
    frailty = rng.gamma(1.6, 1 / 1.6, n)
    return People(
        number=number,
        male=male,
        born=born,
        moved_in=np.maximum(born, days(np.full(n, year)) + rng.integers(0, 365, n)),
        district=district,
        household=household,
        talent=talent,
        schooling=schooling,
        employment=employment,
        hours=hours,
        income=income,
        owns=rng.random(n) < owning(age, income, talent, district, household),
        smoker=rng.random(n) < smoking(age, male, education, district),
        frailty=frailty,
        extra=extra_rows(rng, age),
    )


def days(year: Ints) -> Ints:
    """The first day of each year, in days since 1970."""
    return (year - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)


def logistic(x: Reals) -> Reals:
    """The probability whose log-odds are `x`."""
    return np.asarray(1 / (1 + np.exp(-x)), dtype=np.float64)


def choose(rng: np.random.Generator, weights: Reals) -> Ints:
    """One column for each row of `weights`, in proportion to the row."""
    heights = np.cumsum(weights, axis=1)
    return np.asarray((rng.random((len(weights), 1)) * heights[:, -1:] >= heights).sum(axis=1), dtype=np.int64)


def ages(rng: np.random.Generator, pyramid: Reals, district: Ints) -> Ints:
    """An age in whole years for each person, by the pyramid and the district's tilt."""
    middle = 5 * np.arange(len(pyramid)) + 2.5
    weights = pyramid * np.exp(np.outer(AGE_TILT[district], middle - 40))
    return 5 * choose(rng, weights) + rng.integers(0, 5, len(district))


def long_settled(rng: np.random.Generator, people: People, year: int) -> Ints:
    """When people who have long been here moved in: young adults lately, the old long ago, many at birth."""
    n, age = len(people), people.age(year)
    years = np.select([age < 18, age < 30, age < 45, age < 65], [11.0, 3.5, 7.0, 16.0], 24.0)
    restless = np.array([0.75, 0.8, 1.2, 0.8, 1.1, 0.6, 1.7, 1.8, 1.0])[people.district]
    last_day = int(days(np.array([year + 1]))[0]) - 1
    moved = last_day - (365.25 * rng.gamma(1.3, years * restless / 1.3)).astype(np.int64)
    # The first houses of Neue Wiesen were let in April 2014: whoever would have come earlier came in the years after.
    opened = int(np.datetime64("2014-04-01").astype(np.int64))
    late = (people.district == NEUE_WIESEN) & (moved < opened)
    moved = np.where(late, opened + rng.integers(0, 1_500, n), moved)
    return np.maximum(people.born, first_of_month(rng, moved))


def first_of_month(rng: np.random.Generator, day: Ints) -> Ints:
    """Six in ten leases begin on the first of the month."""
    first = day.astype("datetime64[D]").astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return np.where(rng.random(len(day)) < 0.6, first, day)


def final_schooling(rng: np.random.Generator, talent: Reals, birth_year: Ints) -> Ints:
    """The highest education a person will ever have: by talent and, for longer education, by later birth."""
    score = talent + 0.022 * (np.minimum(birth_year, 1995) - 1965) + rng.normal(0, 0.7, len(talent))
    return np.searchsorted(np.array([-3.2, -2.3, -0.95, -0.55, 0.65, 1.45]), score).astype(np.int64)


def reached(schooling: Ints, age: Ints) -> Ints:
    """The education reached so far by someone who will reach `schooling`."""
    return np.minimum(schooling, np.searchsorted(GRADUATION_AGE, age, side="right") - 1)


def employ(rng: np.random.Generator, age: Ints, male: Flags, talent: Reals, education: Ints, *, slump: float) -> Ints:
    """What people do; `slump` multiplies the odds of being unemployed."""
    weights = np.zeros((len(age), len(EMPLOYMENT)))
    young, old = (age >= 16) & (age < 27), age >= 60
    working = (age >= 16) & (age < 75)
    weights[:, TODDLER] = age < 6
    weights[:, PUPIL] = np.select(
        [age < 6, age < 16, age < 19, young], [0.0, 1.0, 4.5, 1.4 * np.exp(0.7 * talent - 0.35 * (age - 20))], 0.015
    )
    weights[:, EMPLOYED] = np.where(working, np.where(old, np.exp(-0.42 * (age - 62)), 0.8), 0.0)
    weights[:, SELF_EMPLOYED] = np.where(
        working, 0.09 * np.clip((age - 18) / 20, 0.05, 1.0) * np.exp(0.2 * talent), 0.0
    )
    weights[:, SELF_EMPLOYED] *= np.where(old, np.exp(-0.2 * (age - 62)), 1.0)
    weights[:, UNEMPLOYED] = np.where(
        working & (age < 66), slump * 0.055 * np.exp(-0.35 * talent - 0.12 * education + 0.4), 0
    )
    weights[:, CARING] = np.where(working, np.where(male, 0.008, 0.09), 0.0)
    weights[:, RETIRED] = np.where(age < 55, 0.0, np.exp(0.42 * (age - 64)))
    weights[:, MILITARY] = np.where((age >= 18) & (age < 26), np.where(male, 0.085, 0.025), 0.0)
    return choose(rng, weights)


def work_hours(rng: np.random.Generator, employment: Ints, age: Ints, male: Flags) -> Ints:
    """Hours of work per week: full time around 39, part time on round numbers, the self-employed anything."""
    n = len(age)
    part_time = rng.random(n) < np.select([male, age < 30, age < 60], [0.11, 0.25, 0.48], 0.45)
    full = 38 + choose(rng, np.tile([0.2, 0.25, 0.4, 0.1, 0.05], (n, 1)))
    part = np.array([10, 15, 20, 25, 30, 32])[choose(rng, np.tile([0.1, 0.1, 0.3, 0.18, 0.25, 0.07], (n, 1)))]
    own = np.clip(np.rint(rng.normal(43, 12, n)), 5, 70).astype(np.int64)
    return np.select([employment == EMPLOYED, employment == SELF_EMPLOYED], [np.where(part_time, part, full), own], 0)


def pay(
    rng: np.random.Generator,
    employment: Ints,
    hours: Ints,
    *,
    age: Ints,
    male: Flags,
    talent: Reals,
    education: Ints,
    district: Ints,
) -> Reals:
    """Income of a year: log-normal wages and pensions, flat benefits, nothing for many others."""
    n = len(age)
    experience = np.clip(age - 19, 0, 42)
    log_wage = 10.1 + EDUCATION_RETURN[education] + 0.030 * experience - 0.00045 * experience**2
    log_wage = log_wage + 0.16 * talent + 0.5 * PROSPERITY[district] + 0.11 * male
    wage = np.exp(log_wage + rng.normal(0, 0.27, n)) * hours / 39
    own = np.exp(log_wage + rng.normal(-0.1, 0.65, n)) * hours / 39
    pension = np.exp(log_wage - 0.75 + 0.12 * male + rng.normal(0, 0.32, n))
    some = rng.random(n)
    kinds = [EMPLOYED, SELF_EMPLOYED, RETIRED, UNEMPLOYED, PUPIL, CARING, MILITARY]
    amounts = [
        wage,
        own,
        np.where(some < 0.03, 0.0, pension),
        np.where(some < 0.12, 0.0, rng.normal(9_600, 1_300, n)),
        np.where((some < 0.55) | (age < 17), 0.0, rng.gamma(2.5, 2_100, n)),
        np.where(some < 0.72, 0.0, rng.gamma(3.0, 1_500, n)),
        rng.normal(19_500, 1_200, n),
    ]
    return np.select([employment == kind for kind in kinds], amounts, 0.0)


def household_size(rng: np.random.Generator, age: Ints, district: Ints) -> Ints:
    """How many live in the home: families around children and their parents, couples and singles else."""
    sizes = np.select(
        [age < 18, age < 30, age < 50, age < 70],
        [3.8 * np.ones(len(age)), 1.95, 2.9, 2.05],
        1.5,
    )
    sizes = sizes + np.array([-0.35, -0.15, 0.15, 0.1, 0.05, 0.6, 0.1, -0.2, 0.0])[district]
    least = np.where(age < 18, 2, 1)
    drawn: Ints = np.minimum(least + rng.poisson(np.maximum(sizes - least, 0.2)), 9)
    return drawn


def owning(age: Ints, income: Reals, talent: Reals, district: Ints, household: Ints) -> Reals:
    """How likely the household owns its home; for the young, their parents' means count."""
    grown = age >= 25
    means = np.where(grown, np.log((income + 9_000) / 32_000), 0.35 * talent)
    settled = np.where(grown, np.minimum(age, 62) - 42, -2)
    return logistic(OWNING[district] + 1.15 * means + 0.05 * settled + 0.22 * (household - 2))


def smoking(age: Ints, male: Flags, education: Ints, district: Ints) -> Reals:
    """How likely a person smokes: fewer with longer education and in old age, none under 15."""
    log_odds = -0.55 + 0.3 * male - 0.28 * (education - 2) - 0.0011 * (age - 35) ** 2 - 0.8 * PROSPERITY[district]
    return np.where(age < 15, 0.0, logistic(log_odds))


def extra_rows(rng: np.random.Generator, age: Ints) -> Ints:
    """Rows beyond the first, for second jobs and second homes of adults."""
    some = (rng.random(len(age)) < 0.049) & (age >= 18)
    return np.where(some, 1 + choose(rng, np.tile([0.78, 0.17, 0.05], (len(age), 1))), 0)


def stays(rng: np.random.Generator, people: People, year: int) -> Flags:
    """Who neither died nor moved away during `year`."""
    age = people.age(year)
    death = np.minimum(0.00004 * np.exp(0.092 * age) * (0.7 + 0.3 * people.frailty), 0.6)
    leaving = np.select([age < 18, age < 23, age < 32, age < 50], [0.035, 0.13, 0.10, 0.045], 0.015)
    leaving = leaving * np.where(people.owns, 0.5, 1.2)
    return np.asarray(rng.random(len(people)) >= death + leaving)


def new_work(rng: np.random.Generator, people: People, year: int) -> People:
    """School, first jobs, the shipyard's closing in Hafen, retirement; all other pay rises by 3.6 % on average."""
    n, age, education = len(people), people.age(year), people.education(year)
    drawn = employ(rng, age, people.male, people.talent, education, slump=1.4)
    now = np.where(rng.random(n) < turnover(people, age), drawn, people.employment)
    working = (people.employment == EMPLOYED) & (age < 63)
    laid_off = working & (rng.random(n) < np.where(people.district == HAFEN, 0.11, 0.018))
    now = np.where(laid_off, UNEMPLOYED, now)
    now = np.where(people.employment == RETIRED, RETIRED, now)
    changed = now != people.employment
    hours = np.where(changed, work_hours(rng, now, age, people.male), people.hours)
    fresh = 1.036 * pay(
        rng, now, hours, age=age, male=people.male, talent=people.talent, education=education, district=people.district
    )
    income = np.where(changed, fresh, people.income * np.exp(rng.normal(0.0335, 0.06, n)))
    return dataclasses.replace(people, employment=now, hours=hours, income=income)


def turnover(people: People, age: Ints) -> Reals:
    """How likely a person's employment is drawn anew in a year."""
    by_kind = np.array([0.0, 0.25, 0.012, 0.04, 0.32, 0.10, 0.0, 0.6])[people.employment]
    by_kind = np.where((age >= 62) & (by_kind < 0.6), 0.6, by_kind)
    return np.where(age <= 16, 1.0, by_kind)


def new_homes(rng: np.random.Generator, people: People, year: int) -> People:
    """One in twenty moves within the town, many of them to the new estate in Neue Wiesen; some rent, some buy."""
    n, age = len(people), people.age(year)
    moves = rng.random(n) < np.select([age < 18, age < 35, age < 60], [0.05, 0.10, 0.04], 0.015)
    district = np.where(moves, rng.choice(len(DISTRICTS), n, p=ARRIVING), people.district)
    day = first_of_month(rng, days(np.full(n, year)) + rng.integers(0, 365, n))
    household = np.where(moves | (rng.random(n) < 0.05), household_size(rng, age, district), people.household)
    buys = rng.random(n) < owning(age, people.income, people.talent, district, household)
    return dataclasses.replace(
        people,
        district=district,
        moved_in=np.where(moves, np.maximum(people.born, day), people.moved_in),
        household=household,
        owns=np.where(moves | (rng.random(n) < 0.04), buys, people.owns),
    )


def new_habits(rng: np.random.Generator, people: People, year: int) -> People:
    """A few start or stop smoking; second jobs and second homes come and go."""
    n, age = len(people), people.age(year)
    drawn = rng.random(n) < 0.93 * smoking(age, people.male, people.education(year), people.district)
    renewed = rng.random(n) < np.where(age == 15, 1.0, 0.08)
    extra = np.where(rng.random(n) < 0.3, extra_rows(rng, age), people.extra)
    return dataclasses.replace(people, smoker=np.where(renewed, drawn, people.smoker), extra=extra)


def newcomers(rng: np.random.Generator, first: int, n: int, year: int) -> People:
    """People who came from outside during `year`: younger, and often to the new estate."""
    district = rng.choice(len(DISTRICTS), n, p=ARRIVING)
    age = ages(rng, NEWCOMERS, district)
    people = arrive(rng, first + np.arange(n), district, age, year)
    return dataclasses.replace(
        people,
        moved_in=np.maximum(people.born, first_of_month(rng, people.moved_in)),
        income=1.036 * people.income,
        owns=people.owns & (rng.random(n) < np.where(district == NEUE_WIESEN, 0.85, 0.45)),
    )


def newborns(rng: np.random.Generator, people: People, first: int, year: int) -> People:
    """Children born during `year` to women of the town, at home where their mothers live."""
    age = people.age(year)
    mother = ~people.male & (rng.random(len(people)) < np.where((age >= 20) & (age < 42), 0.062, 0.0))
    district = people.district[mother]
    n = len(district)
    babies = arrive(rng, first + np.arange(n), district, np.zeros(n, dtype=np.int64), year)
    return dataclasses.replace(
        babies,
        moved_in=babies.born,
        household=np.minimum(np.maximum(people.household[mother], 2) + 1, 9),
        owns=people.owns[mother],
    )


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
