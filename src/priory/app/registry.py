"""Registry: the mechanisms by name; the audit and the contract suite run over all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from priory.errors import OptionError
from priory.mechanisms.aim import AIM
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.hdmm.hdmm import HDMM
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.mechanisms.independent import Independent
from priory.mechanisms.mst import MST
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem.mwem import MWEM, Graphical
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.pmw_pub.row_weights import every_cell
from priory.mechanisms.privbayes import PrivBayes
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.session import Session
from priory.queries.domain import Clique, Domain
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.workloads import default_workload


class Mechanism(Protocol):
    """A recipe: frozen settings and one verb."""

    def run(self, session: Session, budget: Budget, /) -> Release:
        """Spend at most `budget`, which is the session's own or a part of it, and hand out a release.

        It looks at private data only through the session, and everything that decides what it asks next is public or
        was answered there: asked the same, it answers the same. What asks is in `with asking():`, so that a release of
        what was answered can be made where a run ended early.
        """


@dataclass(frozen=True)
class Registered:
    """A mechanism that can be asked for by name, and what it declares about itself."""

    name: str  # what people type
    summary: str  # one line for people
    build: Callable[[Domain], Mechanism]  # with its default settings
    is_pure: bool = True  # whether it can spend a pure budget
    with_public: Callable[[PublicRows], Mechanism] | None = None  # started from public rows, where it has use for them
    # Whether its releases hold the mechanism's own estimate; the others get the graphical model of their measurements.
    has_own_model: bool = True
    # Whether each attribute is measured whatever the answers: where attributes are independent, its answers are then
    # about as good as those of "independent".
    measures_every_attribute: bool = True
    ways: int = 2  # by default it aims at marginals of so many attributes

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Registered":
        """A mechanism with custom settings, under its class's name."""
        return cls(type(mechanism).__name__.lower(), "", lambda _: mechanism)


def _pairs(domain: Domain) -> Workload:
    return default_workload(domain, ways=2)


def _halves(domain: Domain) -> tuple[Clique, ...]:
    """The table as a whole, then groups by its first attribute, where there are others and it has few values."""
    first = domain.attributes[0]
    return ((), (first,)) if len(domain) > 1 and domain[first] <= 100 else ((),)


MECHANISMS: dict[str, Registered] = {
    entry.name: entry
    for entry in (
        Registered(
            "independent", "all one-way marginals, equally noisy", lambda _: Independent(), has_own_model=False, ways=1
        ),
        Registered(
            "mst",
            "a spanning tree of the pairs that depend most",
            lambda _: MST(),
            with_public=lambda rows: MST(public=rows),
        ),
        Registered(
            "aim-textbook",
            "marginals chosen by their error less their noise, as published",
            lambda _: AIM.textbook(),
            with_public=lambda rows: AIM.textbook(public=rows),
            ways=3,
        ),
        Registered(
            "aim",
            "marginals chosen by their error less their noise, after careful one-way marginals",
            lambda _: AIM(),
            with_public=lambda rows: AIM(public=rows),
            ways=3,
        ),
        Registered(
            "weighing",
            "a prior, public or bought, that is left as far as noisy answers about all pairs say",
            lambda _: Weighing(),
            with_public=lambda rows: Weighing(public=rows),
        ),
        Registered(
            "dualquery",
            "a game of sampled queries and records",
            lambda domain: DualQuery(_pairs(domain)),
            measures_every_attribute=False,
        ),
        Registered(
            "hdmm",
            "the queries that answer a workload with the least noise, and a graphical model of the answers",
            lambda domain: HDMM(_pairs(domain)),
            has_own_model=False,
        ),
        Registered(
            "mwem",
            "the worst answers, on explicit tables",
            lambda domain: MWEM(_pairs(domain), MultiplicativeWeights()),
            measures_every_attribute=False,
        ),
        Registered(
            "mwem+pgm",
            "the worst answers, on a graphical model",
            lambda domain: MWEM(_pairs(domain), Graphical()),
            measures_every_attribute=False,
        ),
        Registered("privbayes", "a Bayesian network, its families, and rows drawn along it", lambda _: PrivBayes()),
        Registered(
            "privbayes+pgm",
            "a Bayesian network, its families, and a graphical model of them",
            lambda _: PrivBayes(estimator="graphical"),
            has_own_model=False,
        ),
        Registered(
            "pmw-pub",
            "multiplicative weights over public rows, or over the whole domain",
            # Over very many cells a round takes long: the number of rounds is then small, whatever the first one shows.
            lambda domain: PMWPub(rounds=None if domain.size <= 100_000 else 5),
            with_public=lambda rows: PMWPub(public=rows),
            measures_every_attribute=False,
            ways=3,
        ),
        Registered(
            "prior-update",
            "public data improved for all, then for each group (IDE)",
            lambda domain: PriorUpdate(public=every_cell(domain, 1), by=_halves(domain)),
            with_public=lambda rows: PriorUpdate(public=rows, by=_halves(rows.domain)),
        ),
    )
}

# Other names for one of them.
ALIASES = {"prior": "weighing"}


def registered(name: str) -> Registered:
    """The mechanism called `name`, in any case; an `OptionError` where there is none."""
    # Papers write their names in capitals.
    known = name.lower().replace("_", "-")
    known = ALIASES.get(known, known)
    if known not in MECHANISMS:
        raise OptionError("mechanism", f"{name!r} is not one of {', '.join(MECHANISMS)}")
    return MECHANISMS[known]


def chosen(mechanism: str | Mechanism | None, *, has_public: bool, has_workload: bool) -> Registered:
    """The mechanism that someone chose; by default one that public facts decide.

    "weighing", and "aim" for a workload without public data.
    """
    if mechanism is not None:
        return registered(mechanism) if isinstance(mechanism, str) else Registered.of(mechanism)
    return registered("aim" if has_workload and not has_public else "weighing")
