"""True answers: exact up to the declared rows, cut off beyond, and kept apart by exact types."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, Rows, curated, random_rows
from priory.errors import DataError, OptionError
from priory.privacy import curator as curators
from priory.privacy.budget import Budget
from priory.privacy.choice import NoisyMax
from priory.privacy.functionals import LargestCell
from priory.privacy.noise import Integers
from priory.privacy.randomness import Replay
from priory.privacy.scores import AbsoluteError, Dependence, L1Error, Payoff
from priory.privacy.truths import bounded
from priory.queries.domain import Domain
from priory.queries.parts import Matrix, Numbers, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, entry_range, sensitivity
from strategies import integer_parts, queries

HALF = Budget.zcdp("1/2")
AGE = Query.marginal(DOMAIN, "age")
WEIGHTS = Matrix([[1, 2, 0, 0], [0, 0, 1, 1]])


def cut_off(query: Query, counts: Integers, limit: int) -> Integers:
    """The answers of a query on counts, as they are given for a source of at most `limit` rows."""
    return bounded(query, counts, query(counts), limit)


class Louder(Matrix):
    """Equal to the matrix it is made of, with other answers."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matrix) and np.array_equal(self.entries, other.entries)

    def __hash__(self) -> int:
        return super().__hash__()

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return 1000 * super().apply(values, axis)


class Alike(Query):
    """Equal to the query it is made of, with other answers."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and (self.domain, self.parts) == (other.domain, other.parts)

    def __hash__(self) -> int:
        return super().__hash__()

    def __call__(self, marginal: Numbers) -> Numbers:
        return 1000 * super().__call__(marginal)


CHECKED = Query(AGE.domain, (WEIGHTS,))
PRETENDERS = [Query(AGE.domain, (Louder(WEIGHTS.entries),)), Alike(AGE.domain, (WEIGHTS,))]


@pytest.mark.parametrize("pretender", PRETENDERS, ids=["part", "query"])
def test_an_equal_object_of_a_derived_class_is_refused_though_its_equal_was_checked(pretender: Query) -> None:
    source = random_rows()
    with curated(HALF, source) as curator:
        curator.answer([CHECKED], [HALF.part("1/4")])
        looks, left = source.looks, curator.left
        for asked in ([pretender], [CHECKED, pretender], [pretender, CHECKED]):
            with pytest.raises(OptionError):
                curator.answer(asked, [HALF.part("1/8")] * len(asked))
            with pytest.raises(OptionError):
                curator.choose(asked, [np.zeros(2)] * len(asked), AbsoluteError(), HALF.part("1/8"))
        assert (source.looks, curator.left) == (looks, left)


def test_a_choice_that_costs_more_than_its_share_is_refused_before_anything_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = random_rows()
    monkeypatch.setattr(curators, "choice_within", lambda *_: NoisyMax(Fraction(1, 100)))
    with curated(HALF, source) as curator:
        with pytest.raises(AssertionError):
            curator.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF)
        assert source.looks == 0
        assert curator.left == HALF.amount


@pytest.mark.parametrize("budget", [Budget.pure(2), HALF, Budget.gaussian(1)], ids=str)
def test_events_are_data_from_which_their_price_follows(budget: Budget) -> None:
    with curated(budget) as curator:
        [measured] = curator.answer([AGE], [budget.part("1/2")])
        curator.choose([AGE], [np.zeros(4)], AbsoluteError(), budget.part("1/4"), draws=3)
        curator.number(LargestCell((AGE,), np.ones(4, dtype=bool)), budget.part("1/4"))
        answered, chosen, number = curator.reservation.events
    assert measured.noise is not None
    for event in (answered, number):
        assert event.sensitivity is not None
        assert event.currency is budget.currency
        price = measured.noise.__class__(event.scale or Fraction(0)).cost(event.sensitivity, budget.currency)
        assert price is not None
        assert 0.999999 * float(event.cost) < float(price) <= float(event.cost)
    assert (chosen.draws, chosen.cost) == (3, budget.amount / 4)
    assert chosen.moved == 2**10
    assert chosen.scale is not None


@pytest.mark.parametrize("sigma", ["1/2", "3", "50"])
def test_answers_paid_in_mu_squared_are_the_truth_and_rounded_gaussian_noise(sigma: str) -> None:
    budget, replay, source = Budget.gaussian(1 / Fraction(sigma) ** 2), Replay(seed=1), random_rows()
    with curated(budget, source, randomness=replay) as curator:
        [measured] = curator.answer([AGE], [budget])
    assert measured.noise is not None
    assert measured.noise.kind == "rounded-gaussian"
    assert measured.noise.scale == Fraction(sigma)
    steps = measured.values / float(measured.noise.step)
    np.testing.assert_array_equal(steps, np.rint(steps))
    # Rounding adds at most a twelfth of a squared step, and steps are at most an eighth of the noise wherever it is
    # smaller than eight counts.
    assert float(sigma_squared(sigma)) < measured.stddev**2 < 1.002 * float(sigma_squared(sigma))
    assert np.abs(measured.values - source.count([("age",)])[0].values).max() < 8 * measured.stddev


def sigma_squared(sigma: str) -> Fraction:
    return Fraction(sigma) ** 2


@given(query=queries(of=integer_parts), limit=st.integers(1, 40), data=st.data())
def test_answers_within_the_declared_rows_are_exact_and_others_are_cut_off(
    query: Query, limit: int, data: st.DataObject
) -> None:
    size = query.domain.size
    counts = np.array(data.draw(st.lists(st.integers(0, 20), min_size=size, max_size=size)))
    found = cut_off(query, counts.reshape(query.domain.shape), limit)
    exact = query(counts.reshape(query.domain.shape))
    bound = int(max(map(abs, entry_range(query)))) * limit
    np.testing.assert_array_equal(found, exact if counts.sum() <= limit else np.clip(exact, -bound, bound))


@given(
    entries=st.lists(st.integers(-(2**30), 2**30), min_size=3, max_size=3),
    counts=st.lists(st.integers(0, 2**61), min_size=3, max_size=3),
)
def test_answers_that_no_integer_of_the_machine_holds_are_cut_off_exactly(
    entries: list[int], counts: list[int]
) -> None:
    query = Query.product(Domain.of({"a": 3}), {"a": Matrix([entries])})
    bound = max(map(abs, entries)) * 2**32
    exact = sum(a * n for a, n in zip(entries, counts, strict=True))
    [found] = cut_off(query, np.array(counts), 2**32)
    assert found == min(max(exact, -bound), bound)


@settings(max_examples=200)
@given(query=queries(of=integer_parts), limit=st.integers(1, 10), relation=st.sampled_from(Relation), data=st.data())
def test_one_row_moves_cut_off_answers_no_further_than_the_sensitivity_says(
    query: Query, limit: int, relation: Relation, data: st.DataObject
) -> None:
    size = query.domain.size
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    other = counts.copy()
    other[data.draw(st.integers(0, size - 1))] += 1
    if relation is Relation.REPLACE_ONE:
        counts[data.draw(st.integers(0, size - 1))] += 1
    shape = query.domain.shape
    gap = cut_off(query, other.reshape(shape), limit) - cut_off(query, counts.reshape(shape), limit)
    size_of = sensitivity(query, relation)
    assert np.abs(gap).sum() <= size_of.l1
    assert (gap**2).sum() <= size_of.l2_squared


class Large(Rows):
    """Rows that each count very often, more often than was declared."""

    def __init__(self, times: int, limit: int) -> None:
        super().__init__(DOMAIN, random_rows(20).rows)
        self.times, self.row_limit = times, limit

    def _count(self, clique: tuple[str, ...]) -> object:  # type: ignore[override]
        found = super()._count(clique)
        return type(found)(found.domain, found.values * self.times)


@pytest.mark.parametrize("budget", [Budget.pure(1), HALF, Budget.gaussian(1)], ids=str)
@pytest.mark.parametrize("times", [1, 2**20, 2**45])
def test_more_rows_than_declared_are_never_an_error(budget: Budget, times: int) -> None:
    share = budget.part("1/8")
    age, everyone = np.zeros(4), Query.marginal(DOMAIN, ())
    pair = Query.marginal(DOMAIN, ("age", "sex"))
    with curated(budget, Large(times, 10)) as curator:
        measured = curator.answer([AGE, everyone], [share, share])
        curator.choose([AGE], [age], AbsoluteError(), share)
        curator.choose([AGE], [age], L1Error(), share)
        curator.choose([AGE], [age], Payoff(2, 5.0), share)
        curator.choose([pair], [], Dependence(("age",)), share)
        curator.number(LargestCell((AGE,), np.ones(4, dtype=bool)), share)
    if times > 1:
        np.testing.assert_allclose(measured[0].values, 10, atol=400)
        assert abs(float(measured[1].values) - 10) < 400


def test_scores_of_more_rows_than_declared_move_no_further_than_their_sensitivity() -> None:
    estimate, limit = [np.zeros(4)], 2**45
    counts = np.full(4, 2**60)
    truths: list[Integers] = [cut_off(AGE, counts, limit)]
    [score] = L1Error().scores([AGE], truths, estimate, limit)
    assert 0 < score < 2**62
    [same] = L1Error().scores([AGE], [cut_off(AGE, counts + 1, limit)], estimate, limit)
    assert score == same


def test_a_public_number_of_rows_above_the_declared_one_is_an_error_before_anything_is_spent() -> None:
    budget = Budget.zcdp("1/2", relation="replace-one")
    with curated(budget, Large(2**20, 10)) as curator:
        with pytest.raises(DataError, match="declare more"):
            _ = curator.public_total
        assert curator.left == budget.amount


@pytest.mark.parametrize(
    ("limit", "entry", "fits"), [(2**32, 2**30, True), (2**33, 2**30, False), (2**20, 2**42, True)]
)
def test_the_room_for_entries_follows_from_the_declared_rows(limit: int, entry: int, *, fits: bool) -> None:
    source = random_rows()
    source.row_limit = limit
    query = Query.product(DOMAIN, {"age": Matrix([[entry, 0, 0, 0]])})
    with curated(Budget.pure(1), source) as curator:
        if fits:
            curator.answer([query], [Budget.pure(1)])
        else:
            with pytest.raises(OptionError, match="declare fewer rows"):
                curator.answer([query], [Budget.pure(1)])
            assert source.looks == 0


def test_cutting_off_cells_instead_of_answers_would_break_replace_one() -> None:
    """The number of rows has no sensitivity where rows are replaced; the sum of cut-off cells would move by one."""
    everyone = Query.product(DOMAIN, {"age": Total()})
    assert sensitivity(everyone, Relation.REPLACE_ONE).l1 == 0
    one, other = np.array([3, 1, 0, 0]), np.array([2, 2, 0, 0])
    assert np.minimum(one, 2).sum() != np.minimum(other, 2).sum()
    np.testing.assert_array_equal(cut_off(everyone, one, 2), cut_off(everyone, other, 2))


def test_estimates_of_a_derived_class_do_not_see_what_they_are_compared_with() -> None:
    class Spy(np.ndarray):
        seen: list[object] = []  # noqa: RUF012

        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
            self.seen.extend(type(given) for given in inputs)
            plain = [np.asarray(given) if isinstance(given, Spy) else given for given in inputs]
            return getattr(ufunc, method)(*plain, **options)

    with curated(HALF) as curator:
        curator.choose([AGE], [np.zeros(4).view(Spy)], AbsoluteError(), HALF.part("1/2"))
        curator.choose([AGE], [np.zeros(4).view(Spy)], L1Error(), HALF.part("1/2"))
    assert not Spy.seen


def test_currencies_do_not_mix_within_a_run() -> None:
    with curated(Budget.gaussian(1)) as curator, pytest.raises(OptionError, match="no part"):
        curator.answer([AGE], [Budget.zcdp("1/4")])
