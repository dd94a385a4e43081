"""Domain: attribute names and how many values each can take."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from priory.errors import DomainError, SizeError

Clique = tuple[str, ...]
# 1 GiB of counts. A marginal larger than this is mostly noise at any budget worth having.
MOST_CELLS = 2**27


@dataclass(frozen=True)
class Domain:
    """Attribute names and sizes after encoding.

    Attributes:
        attributes: the names, each once.
        shape: how many values each attribute can take.
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> "Domain":
        """Build a domain from names and sizes, checking them.

        >>> Domain.of({"age": 85, "sex": 2}).size
        170
        """
        for name, size in sizes.items():
            if not isinstance(name, str):
                raise DomainError(f"attribute names are text; got {name!r}")
            if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
                raise DomainError(f"attribute {name!r} needs a whole number of values, at least 1; got {size!r}")
        return cls(tuple(sizes), tuple(int(size) for size in sizes.values()))

    @cached_property
    def axis(self) -> Mapping[str, int]:
        """Where each attribute stands."""
        return {name: i for i, name in enumerate(self.attributes)}

    @property
    def size(self) -> int:
        """How many cells the full table has (an exact integer, however large)."""
        return math.prod(self.shape)

    def size_of(self, clique: Iterable[str]) -> int:
        """How many cells the marginal of `clique` has."""
        return math.prod(self.shape[self.axis[name]] for name in clique)

    def __getitem__(self, name: str) -> int:
        """How many values attribute `name` can take."""
        return self.shape[self.axis[name]]

    def __contains__(self, name: object) -> bool:
        return name in self.axis

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def project(self, clique: Iterable[str]) -> "Domain":
        """Keep only `clique`, in the order given."""
        clique = tuple(clique)
        return Domain(clique, tuple(self.shape[self.axis[name]] for name in clique))

    def without(self, clique: Iterable[str]) -> "Domain":
        """Drop `clique`, keep the order of the rest."""
        dropped = set(clique)
        return self.project(name for name in self.attributes if name not in dropped)

    def clique(self, names: str | Iterable[str]) -> Clique:
        """Check `names` and put them in the domain's order.

        >>> Domain.of({"age": 85, "sex": 2}).clique(["sex", "age"])
        ('age', 'sex')
        """
        names = self.checked(names)
        return tuple(sorted(names, key=self.axis.__getitem__))

    def checked(self, names: str | Iterable[str]) -> Clique:
        """Check that `names` are attributes, each named once; keep their order."""
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in self.axis]
        if unknown:
            raise DomainError(f"unknown attributes {unknown}; domain has {list(self.attributes)}")
        if len(set(names)) < len(names):
            raise DomainError(f"attributes are named twice in {list(names)}")
        return names


def checked_cliques(domain: Domain, cliques: Sequence[Clique]) -> list[Domain]:
    """The domain of each clique, if all can be counted."""
    domains = [domain.project(domain.checked(clique)) for clique in cliques]
    for clique in domains:
        if clique.size > MOST_CELLS:
            said = f"the marginal of {list(clique)} has {clique.size:,} cells; at most {MOST_CELLS:,} can be counted"
            hint = "leave out an attribute, or give it fewer levels or bins"
            raise SizeError(f"{said}: {hint}", cells=clique.size, limit=MOST_CELLS, cliques=[clique.attributes])
    return domains
