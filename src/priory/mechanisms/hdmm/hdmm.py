"""HDMM: ask the queries that answer a workload with the least noise, then answer it from them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.hdmm.strategies import Strategy, marginals_strategy, union_strategy
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.queries.workload import Workload
from priory.release import Release

# The paper answers its workload by least squares, which is no model of the table: a release is asked other things too,
# and answers them by a graphical model of the same noisy answers.
NAME = "hdmm, noisy answers for a graphical model"

Kind = Literal["best", "union", "equal", "marginals"]


@dataclass(frozen=True)
class HDMM:
    """The high-dimensional matrix mechanism [McKenna, Miklau, Hay & Machanavajjhala 2018].

    The strategy is optimised for the workload without looking at data; what is released are its noisy answers. They
    can be turned into answers to the workload by local least squares, by least squares on the full vector, or by a
    graphical model: all three are free.

    Attributes:
        workload: what is to be answered.
        kind: which strategy: a product for each clique ("union", or with equal shares "equal"), weighted marginals
            ("marginals"), or the one with the smaller forecast error ("best").
    """

    workload: Workload
    kind: Kind = "best"
    choice_share: ClassVar[Fraction] = Fraction(0)

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Measure the strategy."""
        self.workload.checked(curator.domain)
        strategy = self.strategy(is_pure=budget.is_pure)
        measurements = measure(curator, strategy.queries, budget, shares=strategy.shares)
        return Release(curator.domain, (*curator.public_count, *measurements), curator.statement(NAME))

    def strategy(self, *, is_pure: bool) -> Strategy:
        """What will be asked; it depends on the workload alone."""
        if self.kind in ("union", "equal"):
            return union_strategy(self.workload, is_pure=is_pure, is_equal=self.kind == "equal")
        if self.kind == "marginals":
            return marginals_strategy(self.workload, is_pure=is_pure)
        if self.kind != "best":
            raise OptionError("kind", f"one of best, union, equal and marginals; got {self.kind!r}")
        strategies = [union_strategy(self.workload, is_pure=is_pure)]
        if all(query.is_marginal for query in self.workload):
            strategies.append(marginals_strategy(self.workload, is_pure=is_pure))
        return min(strategies, key=lambda strategy: strategy.error)
