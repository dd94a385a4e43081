"""Weighing: start from a prior and leave it as far as noisy answers say; where there is none, buy one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import ClassVar

from priory.errors import OptionError
from priory.estimate.rows.work import Work
from priory.measure import measure
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.cliques import chosen_cliques
from priory.mechanisms.steps.fitted import Fitted
from priory.mechanisms.steps.plan import MOST_PAIR_CELLS, ONE_WAYS, ONE_WAYS_ONLY, Plan, Settings
from priory.mechanisms.steps.public_rows import check_public_rows
from priory.mechanisms.steps.weighed_model import StepAnswers, Weigher
from priory.model.bases import PublicRows, Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget, Number
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session, asking
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.information import informative_marginals
from priory.select.noisy_pairs import strengths

# Of more pairs of attributes cliques take minutes to choose; a pure budget is left to the same mechanism.
MOST_PAIRS = 1_200


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """Start from a prior and leave it as far as noisy answers say; where there is none, buy one.

    One-way marginals are measured. Where pairs are above the noise, too, all of them are, on runs of values; by these
    noisy answers cliques are chosen, and measured by their cells. Together they make a first model. Rows drawn from
    it, and public rows beside them where there are any, are weighed by all pairs, measured once with the rest. All of
    it is Gaussian noise on counts, and no choice looks at private data.

    A pure budget, with which so many marginals are too noisy, and very many attributes are left to `AIM`.

    Attributes:
        public: rows of public data to start from, too.
        workload: what is measured once instead of all pairs; marginals.
        settings: what is asked, and how finely.
        work: caps on rows, marginals and cells.
        outside: the share of a public prior that lies on rows one value away from the public ones.
        seed: of the rows, which are drawn from what was answered with noise.
        device: a device of torch on which rows are weighed, such as "cuda".
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    settings: Settings = field(default_factory=Settings)
    work: Work = field(default_factory=Work)
    outside: float = 0.01
    seed: int = 0
    device: str | None = None
    choice_share: ClassVar[Fraction] = Fraction(0)

    def with_effort(self, factor: float) -> "Weighing":
        """The mechanism with so many times more rows, and a first model of as many more cells."""
        return replace(self, work=self.work.times(factor))

    def run(self, session: Session, budget: Budget) -> Release:
        """Measure step by step, then estimate."""
        domain, settings = session.domain, self.settings
        self._check(domain)
        if self.is_left_to_aim(domain, budget):
            return AIM(public=self.public, workload=self.workload).run(session, budget)
        session.check(budget)

        def ask(step: int, note: str, weights: Mapping[Query, Number], share: Budget) -> tuple[Measurement, ...]:
            session.report_progress(step, 5, note)
            return tuple(measure(session, list(weights), share, shares=list(weights.values())))

        first, left = budget.split((settings.one_ways, 1 - settings.one_ways))
        start = Fitted.start(session, Uniform(domain))
        one_ways = start.with_measured(ask(1, "one-way marginals", ONE_WAYS.strategy(domain), first))
        answered = StepAnswers(one_ways)
        with asking():
            plan = self.plan(domain, left, one_ways.model.total)
            if plan is None:
                again = ask(2, "one-way marginals only", ONE_WAYS_ONLY.strategy(domain), left)
                answered = StepAnswers(one_ways.with_measured(again))
            else:
                counts = {name: one_ways.model.project((name,)).values for name in domain}
                coarse = ask(2, "coarse pairs", dict.fromkeys(plan.coarse_pairs(counts), 1), plan.coarse)
                answered = replace(answered, coarse=coarse)
                cells, noise = self.work.cells_for(domain) / 2, settings.tree_noise
                cliques = chosen_cliques(one_ways, coarse, most_cells=cells, tree_noise=noise)
                if cliques:
                    marginals = {Query.marginal(domain, clique): 1 for clique in cliques}
                    answered = replace(answered, chosen=ask(3, "chosen cliques", marginals, plan.chosen))
                asked = self._aimed(domain) or plan.every_marginal(counts, strengths(coarse, one_ways.model))
                rest = plan.everything if cliques else plan.everything_and_chosen
                everything = ask(4, "everything once", dict.fromkeys(asked, 1), rest)
                answered = replace(answered, everything=everything)
        session.report_progress(5, 5, "weighing rows")
        name = "weighing" if self.public is None else "prior"
        return Release(domain, answered.measurements, session.statement(name)).with_model(self.model(answered))

    def model(self, answered: StepAnswers) -> Model:
        """The model of what was answered."""
        each = {field.name: getattr(self, field.name) for field in fields(Weigher)}
        return Weigher(**each).model(answered)

    def _aimed(self, domain: Domain) -> list[Query]:
        """The marginals of the workload, as many as can be weighed by."""
        if self.workload is None:
            return []
        most, cells = self.work.marginals, MOST_PAIR_CELLS
        cliques = informative_marginals(self.workload, self.public, most=most, most_cells=cells)
        return [Query.marginal(domain, clique) for clique in cliques]

    def plan(self, domain: Domain, left: Budget, total: float) -> Plan | None:
        """What is asked after one-way marginals, of a table of about so many records."""
        return Plan.of(domain, left, total, self.settings, self.work, has_public=self.public is not None)

    def is_left_to_aim(self, domain: Domain, budget: Budget) -> bool:
        """Whether `AIM` does the work: public facts alone decide."""
        return budget.is_pure or math.comb(len(domain), 2) > MOST_PAIRS

    def places(self, domain: Domain, budget: Budget, total: float) -> int:
        """Rows times the marginals that they are weighed by, for a table of about so many records."""
        plan = self.plan(domain, budget.part(1 - self.settings.one_ways), total)
        if plan is None:
            return 1
        marginals = math.comb(len(domain), 3 if plan.has_triples else 2)
        marginals = marginals if plan.has_triples else min(marginals, self.work.marginals)
        return min(self.work.rows_for(total, marginals), domain.size) * marginals

    def _check(self, domain: Domain) -> None:
        """Validates all options before spending."""
        check_public_rows(self.public, domain)
        if not 0 <= self.outside < 1:
            raise OptionError("outside", f"a share below 1; got {self.outside}")
        if self.workload is not None and not all(query.is_marginal for query in self.workload.checked(domain)):
            raise OptionError("workload", "rows are weighed by marginals; give a workload of marginals")
