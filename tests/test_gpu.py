from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from priory.errors import MissingExtra, OptionError
from priory.model.bases import Uniform
from priory.model.engine import gpu
from priory.model.engine.gpu import Precision
from priory.queries.domain import Domain
from strategies_model import Case, cases


@pytest.fixture
def torch() -> object:
    return pytest.importorskip("torch", reason="the extra [gpu] is not installed")


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-10), ("float32", 2e-4)])
@settings(max_examples=40)
@given(case=cases(max_attributes=5, scales=(1.0, 5.0)))
def test_torch_does_what_numpy_does(case: Case, precision: Precision, tolerance: float) -> None:
    plain = Uniform(case.domain).bind(case.cliques)
    device = Uniform(case.domain, device="cpu", precision=precision).bind(case.cliques)
    theta = plain.layout.pack(case.tables)
    expected, found = plain(theta), device(theta)
    assert found[0] == pytest.approx(expected[0], abs=100 * tolerance)
    np.testing.assert_allclose(found[1], expected[1], atol=tolerance)


@pytest.mark.usefixtures("torch")
def test_a_cut_bag_on_torch_does_what_numpy_does() -> None:
    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": 8 for i in range(6)})
    cliques = tuple(combinations(domain.attributes, 2))
    theta = rng.normal(size=64 * len(cliques))
    expected = Uniform(domain).bind(cliques)(theta)
    oracle = Uniform(domain, device="cpu").bind(cliques)
    for _ in range(2):
        found = oracle(theta)
        assert found[0] == pytest.approx(expected[0], abs=1e-10)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-12)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_potentials_that_would_underflow_are_done_on_the_cpu(precision: Precision) -> None:
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    potentials = {
        ("a", "b"): np.array([[0.0, 900.0], [0.0, 900.0]]),
        ("b", "c"): np.array([[901.0, 901.0], [0.0, 0.0]]),
    }
    found = Uniform(domain, device="cpu", precision=precision).oracle(potentials)
    assert found[1]["a", "b"].project("b").values[0] == pytest.approx(1 / (1 + np.exp(-1.0)), abs=1e-8)


@pytest.mark.usefixtures("torch")
def test_bad_devices_are_refused() -> None:
    import torch

    domain = Domain.of({"a": 2})
    with pytest.raises(OptionError, match="precision"):
        Uniform(domain, device="cpu", precision="float16").bind([("a",)])  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="no GPU"):
            Uniform(domain, device="cuda").bind([("a",)])


def test_without_torch_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise MissingExtra("torch", "priory[gpu]")

    monkeypatch.setattr(gpu, "_torch", missing)
    with pytest.raises(MissingExtra, match=r"priory\[gpu\]"):
        Uniform(Domain.of({"a": 2}), device="cuda").bind([("a",)])
