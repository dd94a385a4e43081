"""Kinds: a column of each, which the tests of codes share."""

from priory.data.kinds import Boolean, Category, Moment, Number

DAY = 86_400_000_000
WORDS = Category.of("a", ["1", "a", ""], other="else", nullable=True, nulls=["NA"])
CODED = Category.of("a", [3, 1, 0], other=9, nullable=True, nulls=["-1"])
STRICT = Category.of("a", ["u", "v"], other="v")
WHOLE = Number.of("a", whole=True, low=0, high=9, edges=[0, 5, 10], nullable=True, nulls=["NA"])
REAL = Number.of("a", whole=False, low=0, high=1, edges=[0, 0.5, 1], other=0.7, nullable=True)
DATE = Moment.of("a", clock=False, low=0, high=9, edges=[0, 5, 10], nullable=True)
CLOCK = Moment.of("a", clock=True, low=0, high=DAY - 1, edges=[0, DAY // 2, DAY], other=0, nullable=True)
GERMAN = Moment.of("a", clock=False, low=0, high=9, edges=[0, 5, 10], nullable=True, format="%d.%m.%Y")
TRUTH = Boolean.of("a", nullable=True)
ANSWER = Boolean.of("a", true=["yes", "1"], false=["no"], other=False)
