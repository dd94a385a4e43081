"""Prior: start at public data, measure what the workload is about, and weigh each by its precision."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.measured import noisy, public_total, smallest
from priory.estimate.mixing import Mixing
from priory.estimate.prior_strength import SEARCHED, posterior, reweighed
from priory.estimate.total import total_of
from priory.measure import measure
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.answered import Answered
from priory.mechanisms.steps.drift import drifted_columns, said_of, said_of_few, without_drift
from priory.mechanisms.steps.fitted import Fitted, noted, refitted_without_drift
from priory.mechanisms.steps.public_rows import check_public_rows, neighbourhood, starting_base
from priory.mechanisms.steps.resolution import LEAST_FOR_ONE_WAYS
from priory.mechanisms.steps.total import counted, released_total
from priory.mechanisms.weighing import Explained, Weighing
from priory.model.bases import Product, PublicRows, Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.journal import Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.dense import LEAST_STDDEV
from priory.select.information import informative_marginals
from priory.select.one_ways import OneWays
from priory.select.workloads import default_workload

# More would take minutes to estimate from, and add little.
MOST_MARGINALS = 400
# The part of the budget that measures single attributes first, to see whether public rows are about the same values.
TESTED = Fraction(1, 20)
# Where more of the columns have drifted, public rows are left out. With 1 of 13 columns of the town, pairs err by 0.35
# of what they do without public rows at ε = 0.1, by 0.7 of it at ε = 1; with 4 of the census's 42, by 0.75 and 1.4.
FEW = Fraction(1, 12)
# The same beside a bought model, which takes over what such columns spoil. With 4 of 14 columns of Adult moved, at
# ε = 0.1 and 1, the mixture errs by 27 and 4 % less on pairs than a fit without public rows.
FEW_OF_BOTH = Fraction(1, 3)
# Of more columns models take long to be bought beside public rows.
FEW_COLUMNS = 24
# Beside a bought model, which fits what they cannot, public rows count for at least this part of themselves: weights
# that bend them further make small cells worse than the answers, which are large, can tell.
LEAST_OF_BOTH = 0.1
# Public rows explain coarse pairs where their squared error, in units of the noise, is at most so many times the
# degrees of freedom: it is once these where rows can be weighted to meet the truth. Then no cliques are chosen.
UNBIASED = 1.5
# Down to this part of the public rows, that they count for fewer may be chance.
BY_CHANCE = 0.12
# Answers by which public rows are weighted, beside a bought model: all triples of a table can have many more.
MOST_CELLS = 2_000_000
# What a release says where public rows were of no use.
NO_WEIGHT = (
    "Public rows have no weight: by the noisy answers, rows drawn from a bought model are closer to private ones."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """Leave the public prior as far as noisy evidence says, and no further.

    A table of few attributes is asked what `Weighing` asks of it. The answers weight the public rows, and rows that are
    drawn from a model bought with the same answers; the model is a mixture of both, each with the share that noisy
    answers say. Where the values of many columns are not those of the public rows, these are left out.

    Of a table of many attributes, for a workload or a pure budget, a small part of the budget measures single
    attributes. Where the values of a few columns are not those of the public rows, these columns are drawn anew from
    the noisy answers; where those of many are not, the rest is spent as `AIM` does, without public rows. The release
    says so. Then:

    The marginals of the workload, or its pairs where they are too large, are measured once, all equally: none is chosen
    by looking, so that nothing is spent on choosing. Then public rows and noisy marginals are weighted by their
    precision, as if the public rows were a sample of the private population, less where the marginals differ.

    Attributes:
        public: the rows to start from; without any, the attributes are taken as independent and even.
        workload: marginals; see `default_workload` for the default.
        outside: the share of the prior that lies on rows one value away from the public ones.
        most_cells: marginals with more are not measured.
        seed: of the rows outside.
        searched: how many places, rows times marginals, the search for the weight of the public rows goes over.
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    outside: float = 0.01
    most_cells: int = 20_000
    seed: int = 0
    searched: int = SEARCHED

    @property
    def choice_share(self) -> Fraction:
        return Weighing.choice_share if self._buys else Fraction(0)

    def with_effort(self, factor: float) -> "Prior":
        """The mechanism with a search that goes over so many times more rows."""
        return replace(self, searched=int(factor * self.searched))

    def run(self, curator: Session, budget: Budget) -> Release:
        """Spend `budget`."""
        domain = curator.domain
        queries = self.queries(domain, budget)
        if self._buys and not budget.is_pure:
            return self._run_both(curator, budget, queries)
        curator.check(budget)
        count = counted(curator, budget)
        tested: list[Measurement] = []
        if self.public is not None:
            one_ways = _one_ways(queries, domain)
            tested = measure(curator, list(one_ways), count.rest.part(TESTED), shares=list(one_ways.values()))
            gone = self._gone(noisy(tested, LEAST_STDDEV), count.total)
            if self._are_many(gone):
                start = Fitted.start(curator, Uniform(domain)).with_measured([*count.paid, *tested])
                return self._aim().continued(curator, count.rest, replace(start, gone=tuple(gone)), TESTED)
        measurements = [*tested, *measure(curator, queries, count.rest.part(1 - TESTED if tested else 1))]
        release = Release(domain, (count.measurement, *measurements), curator.statement("prior"))
        return release.with_model(self._model(noisy(measurements, LEAST_STDDEV), domain, count.total))

    @property
    def _buys(self) -> bool:
        """Whether a model is bought beside the public rows, where the budget is not pure."""
        return self.public is not None and self.workload is None and len(self.public.domain) <= FEW_COLUMNS

    def _run_both(self, curator: Session, budget: Budget, queries: list[Query]) -> Release:
        """Ask what `Weighing` does; of very many records, after the same one-way marginals, `queries` once."""
        first = self._weighing.begun(curator, budget)
        if not self._weighing.takes_long(first, budget):
            answered = self._weighing.answered(curator, budget, first, self.explained)
            release = Release(curator.domain, answered.measurements, curator.statement("prior"))
            return release.with_model(self.mixed(answered, self._weighing.model(answered)))
        if self._are_many(gone := self._gone(_of_attributes(first.measurements), first.model.total)):
            return self._aim().continued(curator, budget, replace(first, gone=tuple(gone)), LEAST_FOR_ONE_WAYS)
        rest = measure(curator, queries, budget.part(1 - LEAST_FOR_ONE_WAYS))
        release = Release(curator.domain, (*first.measurements, *rest), curator.statement("prior"))
        return release.with_model(self._model(_of_attributes(release.measurements), curator.domain, first.model.total))

    @property
    def explained(self) -> Explained:
        """What public rows explain, of which nothing need be bought."""
        return Explained(self._explains, self._records)

    def _explains(self, one_ways: Fitted, coarse: Sequence[Measurement], least: float) -> list[Query]:
        """What is asked once where weighted public rows meet noisy coarse pairs so well that none need be chosen.

        They must count for at least the part `least` of themselves then.
        """
        measurements, total = _of_attributes([*one_ways.measurements, *coarse]), one_ways.model.total
        if not coarse or self._gone(measurements, total):
            return []
        domain = one_ways.base.domain
        model = self._model(measurements, domain, total)
        if model.diagnostics is None or self._said(model) < least * self._records:
            return []
        size = sum(m.query.rows for m in measurements)
        error = size * model.diagnostics.estimated_error**2
        is_met = error < UNBIASED * model.diagnostics.degrees_of_freedom + math.sqrt(2 * size)
        return self._marginals(domain, default_workload(domain), is_pure=False) if is_met else []

    def mixed(self, answered: Answered, bought: Model) -> Model:
        """The mixture of public rows and of what was bought, both by what was answered."""
        measurements = smallest(_of_attributes(answered.measurements), MOST_CELLS)
        known = public_total(answered.measurements)
        # By all answers: that of one-way marginals alone can be far off.
        evidence = Evidence.of(bought.domain, measurements)
        total = max(1.0, total_of(evidence)(evidence.values)) if known is None else known
        if self._are_many(gone := self._gone(measurements, total), FEW_OF_BOTH):
            return noted(bought, said_of(gone))
        public = self._model(measurements, bought.domain, total, LEAST_OF_BOTH)
        mixing = Mixing(public, self._weighing.as_rows(bought), measurements, self._size(public), answered.has_triples)
        return mixing.model if mixing.share else noted(bought, NO_WEIGHT)

    def _size(self, model: Model) -> float:
        """How many records the public rows of a model are worth."""
        known, said = self._records, self._said(model)
        # What answers say is found in large steps, and by chance is a step or two too few.
        return math.sqrt(known * said) if said > BY_CHANCE * known else said

    def _said(self, model: Model) -> float:
        """How many records the answers say that the public rows of a model count for."""
        steps = model.diagnostics.schedule if model.diagnostics is not None else ()
        return min([self._records, *(size * model.total for step in steps for size in step.temperatures)])

    @property
    def _records(self) -> float:
        return self.public.records if self.public is not None else math.inf

    @property
    def _weighing(self) -> Weighing:
        return Weighing(seed=self.seed).with_effort(self.searched / SEARCHED)

    def _aim(self) -> AIM:
        """What the rest of the budget is left to where public rows are not about the same values."""
        return AIM(workload=self.workload, name="prior").with_effort(self.searched / SEARCHED)

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early: the prior as it is where no marginal was measured."""
        if self._buys and not budget.is_pure:
            return self._recovered_both(release, transcript, budget)
        total = released_total(release.measurements)
        measured = [m for m in release.measurements if m.query.clique]
        first = measured[: len(_one_ways(self.queries(release.domain, budget), release.domain))]
        if self.public and self._are_many(self._gone(noisy(first, LEAST_STDDEV), total)):
            return refitted_without_drift(release, self.public)
        if not measured:
            return release.with_model(Model.of(starting_base(release.domain, self.public), {}, total))
        return release.with_model(self._model(noisy(measured, LEAST_STDDEV), release.domain, total))

    def _recovered_both(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        first = self._weighing.begun_before(release, transcript)
        if not self._weighing.takes_long(first, budget):
            answered = self._weighing.answered_before(transcript, budget, first, self.explained)
            return release.with_model(self.mixed(answered, self._weighing.model(answered)))
        if self._are_many(self._gone(_of_attributes(first.measurements), first.model.total)):
            return refitted_without_drift(release, self.public)
        return release.with_model(self._model(_of_attributes(release.measurements), release.domain, first.model.total))

    def _are_many(self, gone: Sequence[str], few: Fraction = FEW) -> bool:
        return self.public is not None and len(gone) > few * len(self.public.domain)

    def _gone(self, tested: Sequence[Measurement], total: float) -> list[str]:
        """The columns that have drifted, by these measurements of single attributes."""
        return [] if self.public is None else drifted_columns(self.public, tested, total)

    def queries(self, domain: Domain, budget: Budget) -> list[Query]:
        """What will be measured; validates all options before spending."""
        check_public_rows(self.public, domain)
        if not 0 <= self.outside < 1:
            raise OptionError("outside", f"a share below 1; got {self.outside}")
        workload = default_workload(domain) if self.workload is None else self.workload
        if not all(query.is_marginal for query in workload.checked(domain)):
            raise OptionError("workload", "the prior is improved for marginals")
        return self._marginals(domain, workload, is_pure=budget.is_pure)

    def _marginals(self, domain: Domain, workload: Workload, *, is_pure: bool) -> list[Query]:
        # Under zCDP the noise of one of k marginals grows with √k, and what they say together stays the same; for a
        # pure budget it grows with k, and few must do.
        most = len({name for clique in workload.cliques for name in clique}) if is_pure else MOST_MARGINALS
        cliques = informative_marginals(workload, self.public, most=most, most_cells=self.most_cells)
        return [Query.marginal(domain, clique) for clique in cliques]

    def _model(self, measurements: list[Measurement], domain: Domain, total: float, least: float = 0.0) -> Model:
        # Whether the solver ran to its end changes nothing of what there is.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if self.public is None:
                model = estimate(measurements, domain, base=Product([], domain=domain), total=total)
                return Model.of(model.base, model.potentials, total)
            known, changed = without_drift(self.public, measurements, total)
            base = neighbourhood(known, self.outside, np.random.default_rng(self.seed))
            model = posterior(measurements, base, total, self.public.records, searched=self.searched, least=least)
        weighed = replace(Model.of(reweighed(model), {}, total), diagnostics=model.diagnostics)
        return noted(weighed, said_of_few(changed)) if changed else weighed


def _of_attributes(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Those that are not of the number of rows, with as much noise as rows can meet."""
    return noisy([m for m in measurements if m.query.clique], LEAST_STDDEV)


def _one_ways(queries: Sequence[Query], domain: Domain) -> dict[Query, Fraction]:
    """The single attributes of `queries`, measured first to see whether they have drifted, and their proportions."""
    asked = {name for query in queries for name in query.clique}
    strategy = OneWays(groups=None).strategy(domain)
    return {query: share for query, share in strategy.items() if asked.issuperset(query.clique)}
