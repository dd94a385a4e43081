"""Planted: mechanisms with bugs that the replay must catch."""

from dataclasses import dataclass
from fractions import Fraction

from priory.app.registry import Mechanism
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Event
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace, Noise
from priory.queries.query import Query
from priory.release import Release


def exact_rows(curator: Curator) -> int:
    """The true number of rows, unpaid: what no mechanism may know."""
    return int(curator._truths.of([Query.marginal(curator.domain, ())])[0])  # noqa: SLF001 - this is the bug


@dataclass(frozen=True)
class Peeking:
    """Planted: it decides what to ask by looking at the rows itself."""

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Ask for more if there are many rows."""
        many = exact_rows(curator) % 2
        queries = [Query.marginal(curator.domain, name) for name in curator.domain.attributes[: 1 + many]]
        measured = curator.answer(queries, budget.split([1] * len(queries)))
        return Release(curator.domain, measured, curator.statement("peeking"))


@dataclass(frozen=True)
class Raising:
    """Planted: it refuses tables that it does not like."""

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Raise on an empty cell."""
        query = Query.marginal(curator.domain, "colour")
        if exact_rows(curator) % 2:
            raise ValueError
        return Release(curator.domain, curator.answer([query], [budget]), curator.statement("raising"))


@dataclass(frozen=True)
class Forgetful:
    """Planted: it answers twice and pays once."""

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Ask again behind the ledger's back."""
        query = Query.marginal(curator.domain, "colour")
        (measured,) = curator.answer([query], [budget])
        noise: Noise = measured.noise or Laplace(Fraction(1))
        again = curator._randomness.noisy(curator._truths.of([query])[0], noise)  # noqa: SLF001
        second = Measurement(query, again, noise.stddev, noise)
        return Release(curator.domain, (measured, second), curator.statement("forgetful"))


@dataclass(frozen=True)
class Understated:
    """Planted: it pays for half the sensitivity."""

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Buy half the noise for the whole price."""
        query = Query.marginal(curator.domain, "colour")
        (measured,) = curator.answer([query], [budget.part(Fraction(1, 2))])
        noise: Noise = measured.noise or Laplace(Fraction(1))
        half = type(noise)(Fraction(float(noise.scale) / 2))
        curator.reservation.charge([Event(half.kind, "understated", budget.amount / 2)])
        values = curator._randomness.noisy(curator._truths.of([query])[0], half)  # noqa: SLF001
        return Release(
            curator.domain, (Measurement(query, values, half.stddev, half),), curator.statement("understated")
        )


@dataclass(frozen=True)
class Telling:
    """Planted: the release holds a true count."""

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Put the number of rows beside the noisy answers."""
        measured = curator.answer([Query.marginal(curator.domain, "colour")], [budget])
        rows = str(exact_rows(curator))
        release = Release(curator.domain, measured, curator.statement("telling"))
        return release.with_section("notes", {"rows.txt": rows.encode()})


PLANTED: dict[str, Mechanism] = {
    "a mechanism that peeks": Peeking(),
    "an error that depends on the rows": Raising(),
    "a second answer without a charge": Forgetful(),
    "noise for half the sensitivity": Understated(),
    "a true count in the release": Telling(),
}
