"""Bases: what is special to one of them; their common contract is in contracts/test_every_base.py."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from priory.errors import DomainError, OptionError, ReleaseError
from priory.model.bases import Base, Mixture, Product, PublicRows, Uniform
from priory.model.model import Model
from priory.model.store import from_arrays, to_arrays
from priory.model.tilted import Oracle, Potentials, Tilted
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor


def test_public_rows_are_written_only_when_the_user_says_so() -> None:
    domain = Domain.of({"a": 3, "b": 4})
    rows = PublicRows([[0, 1], [2, 3], [0, 1]], domain)
    fitted = Model.of(Mixture([(0.5, rows), (0.5, Uniform(domain))]), {("a",): np.arange(3.0)}, 9)
    meta, arrays = to_arrays(fitted)
    assert not any("codes" in name or "shares" in name for name in arrays)
    with pytest.raises(ReleaseError, match="supply the same rows"):
        from_arrays(meta, arrays)
    with pytest.raises(ReleaseError, match="supply the same rows"):
        from_arrays(meta, arrays, public=[PublicRows([[0, 1], [2, 3]], domain)])
    again = from_arrays(meta, arrays, public=[PublicRows([[2, 3], [0, 1], [0, 1]], domain)])
    assert isinstance(again, Model)
    np.testing.assert_allclose(again.project(("a", "b")).values, fitted.project(("a", "b")).values)


def test_damaged_data_is_refused() -> None:
    meta, arrays = to_arrays(Model.of(Uniform(Domain.of({"a": 3})), {("a",): np.arange(3.0)}, 9))
    with pytest.raises(ReleaseError, match="unknown kind"):
        from_arrays({**meta, "base": {"kind": "magic"}}, arrays)
    with pytest.raises(ReleaseError, match="damaged"):
        from_arrays(meta, {})
    with pytest.raises(ReleaseError, match="damaged"):
        from_arrays(meta, {"potentials/0": np.zeros(4)})
    with pytest.raises(ReleaseError, match="damaged"):
        from_arrays({**meta, "cliques": [["b"]]}, arrays)
    with pytest.raises(ReleaseError, match="damaged"):
        from_arrays({"kind": "uniform"}, arrays)


def test_a_custom_base_cannot_be_written() -> None:
    class Own(Base):
        domain = Domain.of({"a": 2})

        def bind(self, cliques: Iterable[Clique]) -> Oracle:
            return Uniform(self.domain).bind(cliques)

        def bytes_of(self, cliques: Sequence[Clique]) -> int:
            return 0

        def tilt(self, potentials: Potentials) -> Tilted:
            return Uniform(self.domain).tilt(potentials)

    assert Own().oracle({("a",): np.zeros(2)})[0] == 0
    with pytest.raises(OptionError, match="Own"):
        to_arrays(Own())


def test_bad_bases_are_refused() -> None:
    domain = Domain.of({"a": 3, "b": 4})
    one, two = domain.project(("a",)), domain.project(("a", "b"))
    with pytest.raises(DomainError, match="one-way"):
        Product([Factor(two, np.ones((3, 4)))])
    with pytest.raises(DomainError, match="two marginals"):
        Product([Factor(one, np.ones(3)), Factor(one, np.ones(3))])
    with pytest.raises(DomainError, match="none negative"):
        Product([Factor(one, np.array([1.0, -1.0, 1.0]))])
    with pytest.raises(DomainError, match="has 2 values"):
        Product([Factor(one, np.ones(3))], domain=Domain.of({"a": 2}))
    with pytest.raises(DomainError, match="one column"):
        PublicRows([[0]], domain)
    with pytest.raises(DomainError, match=r"codes of \['b'\]"):
        PublicRows([[0, 4]], domain)
    with pytest.raises(DomainError, match="whole numbers"):
        PublicRows([[0.5, 1.0]], domain)
    with pytest.raises(DomainError, match="at least one row"):
        PublicRows(np.zeros((0, 2), dtype=int), domain)
    with pytest.raises(DomainError, match="as many weights"):
        PublicRows([[0, 1]], domain, [0.5, 0.5])
    with pytest.raises(OptionError, match="sum to 1"):
        Mixture([(0.5, Uniform(domain)), (0.4, Uniform(domain))])
    with pytest.raises(OptionError, match="at least one"):
        Mixture([])
    with pytest.raises(DomainError, match="share one domain"):
        Mixture([(0.5, Uniform(domain)), (0.5, Uniform(one))])


def test_a_mixture_drops_a_part_that_the_potentials_rule_out() -> None:
    domain = Domain.of({"a": 3, "b": 2})
    base = Mixture([(0.9, PublicRows([[0, 0]], domain)), (0.1, Uniform(domain))])
    fitted = Model.of(base, {("a",): np.array([-np.inf, 0.0, 0.0])})
    np.testing.assert_allclose(fitted.project("a").values, [0, 0.5, 0.5])
    assert (fitted.sample(100, seed=0)[:, 0] > 0).all()
