"""The contract of each family; a new member is tested by its line in the registry."""

import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from houses import DOMAIN, Kept, Rows, curated, random_rows
from priory.app.registry import MECHANISMS, Mechanism, Registered
from priory.audit.replay import complaints_about
from priory.audit.settings import DOMAIN as AUDITED
from priory.audit.settings import always
from priory.errors import BudgetError, ReleaseError
from priory.mechanisms.independent import Independent
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget, Currency
from priory.privacy.journal import Answered, Entry, Numbered, Paid, Picked, Transcript
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.privacy.randomness import Replay
from priory.privacy.scores import Pick
from priory.privacy.session import Ended, Replayed
from priory.queries.domain import Clique
from priory.queries.factor import Factor
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

RECORDS = 5_000


def budgets(entry: Registered) -> list[Budget]:
    """One of every currency, relation and number of rows that the mechanism can be given."""
    found = [
        Budget.approximate(1, 1e-9),
        Budget.approximate(1, 1e-6, Currency.GAUSSIAN),
        Budget.gaussian("1/5", relation="replace-one", max_rows=2),
        Budget.zcdp("1/10", relation="replace-one"),
        Budget.zcdp("1/10", max_rows=3),
        Budget.zcdp("1/10", relation="replace-one", max_rows=2),
    ]
    return found + [Budget.pure(1), Budget.pure("1/100", relation="replace-one")] * entry.is_pure


def check_it_spends_no_more_than_it_was_given(entry: Registered) -> None:
    for budget in budgets(entry):
        ledger = Ledger.in_memory(budget, person="who" if budget.max_rows > 1 else None)
        with curated(budget, ledger=ledger) as curator:
            release = entry.build(DOMAIN).run(curator, budget)
            spent = curator.reservation.spent
        assert 0 < spent <= budget.amount
        assert ledger.left() == budget.amount - spent
        assert release.statement.spent == spent
        assert release.statement.budget == budget


def check_it_stays_within_a_part_of_the_budget(entry: Registered) -> None:
    for budget in budgets(entry):
        part = budget.part(Fraction(1, 3))
        with curated(budget) as curator:
            entry.build(DOMAIN).run(curator, part)
            assert curator.reservation.spent <= part.amount


def check_it_is_refused_more_than_is_left(entry: Registered) -> None:
    budget = Budget.zcdp("1/10")
    source = random_rows()
    with curated(budget, source) as curator:
        try:
            entry.build(DOMAIN).run(curator, Budget.zcdp("1/5"))
        except BudgetError:
            return
    raise AssertionError("it spent more than there was")


def check_it_replays_from_a_forced_transcript(entry: Registered) -> None:
    # Strangers, crowds and a few neighbours: in the quick battery the audit replays it on all that these begin with.
    assert list(complaints_about(always(entry.build(AUDITED)), 3)) == []


class Guarded(Rows):
    """Rows that only the curator may count."""

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        assert sys._getframe(1).f_code.co_qualname == "Truths.of"
        return super().count(cliques)


def check_it_counts_only_through_the_curator(entry: Registered) -> None:
    budget = budgets(entry)[0]
    with curated(budget, Guarded(DOMAIN, random_rows().rows)) as curator:
        entry.build(DOMAIN).run(curator, budget)


def check_the_same_randomness_gives_the_same_release(entry: Registered) -> None:
    budget = budgets(entry)[0]

    def values() -> list[bytes]:
        with curated(budget, randomness=Replay(seed=1)) as curator:
            return [m.values.tobytes() for m in entry.build(DOMAIN).run(curator, budget).measurements]

    assert values() == values()


def check_a_release_survives_its_file(entry: Registered) -> None:
    budget = budgets(entry)[0]
    with curated(budget) as curator:
        release = entry.build(DOMAIN).run(curator, budget)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.priory"
        release.save(path)
        again = Release.load(path)
    assert again.statement == release.statement
    for one, two in zip(release.measurements, again.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)


def check_a_large_budget_gives_the_truth(entry: Registered) -> None:
    budget = Budget.zcdp(10**9)
    source = random_rows(5_000)
    with curated(budget, source) as curator:
        release = entry.build(DOMAIN).run(curator, budget)
    assert release.measurements
    for measurement in release.measurements:
        truth = measurement.query(source.count([measurement.query.clique])[0].values)
        np.testing.assert_allclose(measurement.values, truth, atol=1)


def dependent_rows() -> Rows:
    """A table in which the first attribute says the second."""
    rng = np.random.default_rng(4)
    ages = rng.choice(4, RECORDS, p=[0.5, 0.3, 0.15, 0.05])
    return Rows(DOMAIN, np.stack([ages, ages // 2, rng.choice(3, RECORDS, p=[0.7, 0.2, 0.1])], axis=1))


def independent_rows() -> Rows:
    """A table in which no attribute says anything of another."""
    rng = np.random.default_rng(5)
    shares = [[0.5, 0.3, 0.15, 0.05], [0.8, 0.2], [0.7, 0.2, 0.1]]
    return Rows(DOMAIN, np.stack([rng.choice(len(each), RECORDS, p=each) for each in shares], axis=1))


def error_of(model: Model, source: Rows, ways: int) -> float:
    """The mean total variation distance over all marginals of so many attributes."""
    queries = Workload.marginals(DOMAIN, ways).queries
    truths = [source.count([query.clique])[0].values / RECORDS for query in queries]
    answers = [model.answer(query) / model.total for query in queries]
    return float(np.mean([np.abs(a - t).sum() / 2 for a, t in zip(answers, truths, strict=True)]))


def released(mechanism: Mechanism, source: Rows) -> Release:
    """What a mechanism makes of a table with a budget of ρ = 1/10, from fixed randomness."""
    budget = Budget.zcdp("1/10")
    with curated(budget, source, randomness=Replay(seed=3)) as curator:
        return mechanism.run(curator, budget)


def check_it_answers_its_workload_better_than_uniform(entry: Registered) -> None:
    source = dependent_rows()
    uniform = Model(Uniform(DOMAIN), {}, RECORDS)
    model = released(entry.build(DOMAIN), source).model
    # Half is far from both: uniform is off by a third or more here, and the noise of ρ = 1/10 by a hundredth.
    assert error_of(model, source, entry.ways) < error_of(uniform, source, entry.ways) / 2


def check_it_is_no_worse_than_independent_where_nothing_depends(entry: Registered) -> None:
    if not entry.measures_every_attribute:
        return
    source = independent_rows()
    alone = error_of(released(Independent(), source).model, source, 2)
    # Rows drawn for a release differ from its model by about 1/√5000 = 0.014.
    assert error_of(released(entry.build(DOMAIN), source).model, source, 2) < alone + 0.02


def check_it_hands_out_its_own_estimate_if_it_says_so(entry: Registered) -> None:
    release = released(entry.build(DOMAIN), dependent_rows())
    assert (release.estimate is not None) == entry.has_own_model


# Transcripts are replayed of both relations: the number of rows is secret in one, and public in the other.
REPLAYED = (Budget.zcdp("1/100"), Budget.zcdp("1/100", relation="replace-one"))
# Of longer transcripts so many prefixes are replayed, the shortest, the longest and some between.
PREFIXES = 4
# These ask the same and model it otherwise: the answers of one are answers to the other.
ALIKE = ({"mwem", "mwem+pgm"}, {"privbayes", "privbayes+pgm"})


@lru_cache(maxsize=64)
def live(name: str, budget: Budget) -> tuple[Release, tuple[Entry, ...]]:
    """What a registered mechanism released, and was answered."""
    journal = Kept()
    with curated(budget, dependent_rows(), randomness=Replay(seed=3), journal=journal) as curator:
        return MECHANISMS[name].build(DOMAIN).run(curator, budget), tuple(journal.entries)


def replayed(name: str, live_release: Release, entries: Sequence[Entry]) -> Release:
    """What it makes of these answers to a run that reserved as much."""
    budget, transcript = live_release.statement.budget, Transcript(tuple(entries))
    statement = replace(live_release.statement, spent=transcript.spent)
    session = Replayed(transcript, statement, DOMAIN)
    release = MECHANISMS[name].build(DOMAIN).run(session, budget)
    session.check_finished()
    return release


def check_a_whole_transcript_replays_to_the_same_release(entry: Registered) -> None:
    for budget in REPLAYED:
        release, entries = live(entry.name, budget)
        again = replayed(entry.name, release, entries)
        assert again.statement == release.statement
        assert again.files() == release.files()


def check_every_prefix_of_a_transcript_replays_to_a_release_of_all_that_was_answered(entry: Registered) -> None:
    for budget in REPLAYED:
        release, entries = live(entry.name, budget)
        results = [i for i, each in enumerate(entries, start=1) if isinstance(each, Answered | Picked | Numbered)]
        places = sorted({int(i) for i in np.linspace(0, len(results) - 1, PREFIXES)})
        for end in [results[place] for place in places]:
            # Nothing after it, a payment whose answer was lost, or a public number of rows alone.
            for prefix in (entries[:end], entries[: end + 1]):
                cut = replayed(entry.name, release, prefix)
                answered = Transcript(tuple(prefix)).measurements
                assert {id_of(m) for m in answered} <= {id_of(m) for m in cut.measurements}
                assert cut.model.total >= 1
                assert cut.statement.spent == Transcript(tuple(prefix)).spent
    release, _ = live(entry.name, REPLAYED[0])
    with pytest.raises(Ended):
        replayed(entry.name, release, ())


def id_of(measurement: Measurement) -> tuple[object, ...]:
    return measurement.query, measurement.values.tobytes(), measurement.noise


def check_a_changed_transcript_is_refused(entry: Registered) -> None:
    release, entries = live(entry.name, REPLAYED[0])
    for changed in changes(entries):
        with pytest.raises(ReleaseError, match="alone"):
            replayed(entry.name, release, changed)


def check_the_transcript_of_another_version_is_refused(entry: Registered) -> None:
    release, entries = live(entry.name, REPLAYED[0])
    other = replace(release, statement=replace(release.statement, version="0.1"))
    with pytest.raises(ReleaseError, match=r"made with priory 0\.1"):
        replayed(entry.name, other, entries)


def changes(entries: tuple[Entry, ...]) -> Iterator[Sequence[Entry]]:
    """The transcript with something else in it."""
    for place in {*range(len(entries))[:4], *range(len(entries))[-1:]}:
        before, entry, after = entries[:place], entries[place], entries[place + 1 :]
        # One less; the last may have been lost.
        if after:
            yield [*before, *after]
        yield [*before, entry, entry, *after]
        # Another payment, query, noise, candidate, or share.
        match entry:
            case Paid():
                yield [*before, Paid(entry.spent / 2), *after]
            case Answered():
                first, *rest = entry.measurements
                fewer = Measurement(Query.marginal(first.query.domain, ()), np.array(7), first.stddev, first.noise)
                other = fewer if first.query.clique else replace(fewer, query=Query.marginal(DOMAIN, "age"))
                noise = type(first.noise)(2 * first.noise.scale) if first.noise is not None else None
                yield [*before, Answered((other, *rest)), *after]
                yield [*before, Answered((replace(first, noise=noise), *rest)), *after]
                yield [*before, Answered(tuple(rest)), *after]
            case Picked():
                yield [*before, replace(entry, share=entry.share / 2), *after]
                yield [*before, replace(entry, picks=entry.picks[1:], queries=entry.queries[1:]), *after]
                yield [*before, replace(entry, queries=("another", *entry.queries[1:])), *after]
                yield [*before, replace(entry, picks=(Pick(0, 10**6), *entry.picks[1:])), *after]
    # Two results in each other's place.
    results = [i for i, each in enumerate(entries) if isinstance(each, Answered | Picked)]
    for one, two in itertools.pairwise(results[:4]):
        swapped = list(entries)
        swapped[one], swapped[two] = swapped[two], swapped[one]
        yield swapped


def check_the_transcript_of_another_mechanism_is_refused(entry: Registered) -> None:
    for other in MECHANISMS:
        if {entry.name, other} not in (*ALIKE, {entry.name}):
            release, entries = live(other, REPLAYED[0])
            with pytest.raises(ReleaseError, match="alone"):
                replayed(entry.name, release, entries)


MECHANISM_CHECKS = [
    check_it_spends_no_more_than_it_was_given,
    check_it_stays_within_a_part_of_the_budget,
    check_it_is_refused_more_than_is_left,
    check_it_replays_from_a_forced_transcript,
    check_it_counts_only_through_the_curator,
    check_the_same_randomness_gives_the_same_release,
    check_a_release_survives_its_file,
    check_a_large_budget_gives_the_truth,
    check_it_answers_its_workload_better_than_uniform,
    check_it_is_no_worse_than_independent_where_nothing_depends,
    check_it_hands_out_its_own_estimate_if_it_says_so,
    check_a_whole_transcript_replays_to_the_same_release,
    check_every_prefix_of_a_transcript_replays_to_a_release_of_all_that_was_answered,
    check_a_changed_transcript_is_refused,
    check_the_transcript_of_another_version_is_refused,
    check_the_transcript_of_another_mechanism_is_refused,
]

# What mechanisms with custom settings or public rows are held to: the money, and repeatability.
BUDGET_CHECKS = [
    check_it_spends_no_more_than_it_was_given,
    check_it_stays_within_a_part_of_the_budget,
    check_it_is_refused_more_than_is_left,
    check_the_same_randomness_gives_the_same_release,
]
