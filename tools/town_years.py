"""Town years: what a year changes in the town."""

import dataclasses

import numpy as np

from town_people import (
    DISTRICTS,
    EMPLOYED,
    HAFEN,
    NEUE_WIESEN,
    RETIRED,
    UNEMPLOYED,
    Flags,
    Ints,
    People,
    Reals,
    ages,
    arrive,
    days,
    employ,
    extra_rows,
    first_of_month,
    household_size,
    owning,
    pay,
    smoking,
    work_hours,
)

ARRIVING = np.array([0.17, 0.09, 0.06, 0.15, 0.12, 0.37, 0.038, 0.002, 0.0])
NEWCOMERS = np.array([80, 60, 40, 60, 190, 180, 120, 75, 50, 35, 28, 22, 18, 12, 10, 8, 6, 4, 2, 0.2, 0.0])


def next_year(rng: np.random.Generator, people: People, year: int) -> People:
    """A year later: deaths and departures, work, homes and habits, newcomers and births."""
    stayed = people.take(stays(rng, people, year))
    stayed = new_homes(rng, new_work(rng, stayed, year), year)
    stayed = new_habits(rng, stayed, year)
    first = int(people.number.max()) + 1
    came = newcomers(rng, first, 1_500, year)
    babies = newborns(rng, stayed, first + len(came), year)
    return stayed.join(came).join(babies)


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
