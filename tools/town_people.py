"""Town people: who lives in the embedded town in its first year."""

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]
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
HAFEN, NEUE_WIESEN, VOGELSAND = 1, 5, 7
SETTLED = np.array([0.17, 0.12, 0.11, 0.20, 0.22, 0.06, 0.117, 0.003, 0.0])
PROSPERITY = np.array([0.02, -0.14, 0.30, -0.18, 0.0, 0.12, -0.04, 0.05, 0.0])
OWNING = np.array([-1.1, -1.3, 0.5, -1.2, -0.2, 0.7, 0.8, 0.9, 0.0])
# Each year of age beyond 40 multiplies a district's share of that age by exp(tilt).
AGE_TILT = np.array([-0.012, -0.006, 0.010, -0.002, 0.004, -0.022, 0.012, 0.020, 0.0])
# How many people of each age group of five years, from 0-4 to 100-104, in thousandths.
PYRAMID = np.array([44, 47, 48, 49, 60, 66, 64, 61, 59, 60, 72, 82, 75, 62, 50, 39, 35, 19, 7, 1.0, 0.1])
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


def founders(rng: np.random.Generator, year: int) -> People:
    """The people of the first year, long settled."""
    district = rng.choice(len(DISTRICTS), FOUNDERS, p=SETTLED)
    age = ages(rng, PYRAMID, district)
    # Numbers are never given twice, so those of people who left long ago are missing.
    number = np.sort(rng.choice(np.arange(1, 2 * FOUNDERS), FOUNDERS, replace=False))
    people = arrive(rng, number, district, age, year)
    return dataclasses.replace(people, moved_in=long_settled(rng, people, year))


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
