import numpy as np

from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Recode
from priory.queries.query import Query
from priory.select.coarsened import Coarsened

DOMAIN = Domain.of({"a": 4, "b": 3})
RUNS = Recode((0, 0, 1, 1))
PAIR = Measurement.of(Query.product(DOMAIN, {"a": RUNS, "b": Identity()}), np.arange(6.0).reshape(2, 3), 2.0)
FINE = Measurement.of(Query.marginal(DOMAIN, ("a", "b")), np.arange(12.0).reshape(4, 3), 1.0)


def test_answers_about_cells_add_up_in_their_runs_with_their_noise() -> None:
    [summed] = Coarsened.of([PAIR], ()).summed([FINE])
    np.testing.assert_allclose(summed.values, FINE.values[0::2] + FINE.values[1::2])
    np.testing.assert_allclose(summed.stddev, 2**0.5)


def test_a_group_that_two_runs_share_is_parted_as_its_values_are_common() -> None:
    singles = Measurement.of(Query.marginal(DOMAIN, "a"), np.array([10.0, 29.0, 9.0, 10.0]), 1.0)
    # The second group has the values 1 and 2, one in each run, of 29 and 9 records and a standard deviation each.
    groups = Measurement.of(Query.product(DOMAIN, {"a": Recode((0, 1, 1, 2))}), np.array([10.0, 40.0, 10.0]), 1.0)
    [summed] = Coarsened.of([PAIR], [singles]).summed([groups])
    np.testing.assert_allclose(summed.values, [10 + 30, 10 + 10])
