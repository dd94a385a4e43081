"""Who draws: the operating system's randomness through our samplers, or OpenDP; and what the statement says of it."""

import sys
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from houses import DOMAIN, curated
from priory.app.fit import fit
from priory.cli import main
from priory.data.schema import Schema
from priory.errors import MissingExtra, OptionError
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import NoisyMax
from priory.privacy.encoding import decode_statement, encode_statement
from priory.privacy.ledger import Ledger
from priory.privacy.noise import Gaussian, Laplace, RoundedGaussian
from priory.privacy.randomness import KINDS, OpenDP, OperatingSystem, Randomness, Replay, is_private, source_of
from priory.queries.query import Query
from priory.release import load
from priory.version import __version__

SCHEMA = Schema.coded({"age": 3, "sex": 2}, name="people")
ROWS = "age,sex\n" + "0,1\n2,0\n1,1\n" * 30
AGE = Query.marginal(DOMAIN, "age")


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "rows.csv").write_text(ROWS)
    SCHEMA.save(tmp_path / "schema.yaml")
    return tmp_path / "rows.csv", tmp_path / "schema.yaml"


def test_both_sources_are_private_and_nothing_derived_from_them_is() -> None:
    class Lookalike(OperatingSystem):
        pass

    assert is_private(OperatingSystem())
    assert is_private(OpenDP())
    assert not is_private(Lookalike())
    assert not is_private(Replay())


def test_a_source_is_known_by_its_name() -> None:
    assert source_of(None) == source_of("priory") == OperatingSystem()
    assert source_of("opendp") == OpenDP()
    replay = Replay()
    assert source_of(replay) is replay
    with pytest.raises(OptionError, match="'dice' is none of priory, opendp"):
        source_of("dice")


@pytest.mark.parametrize("source", [OperatingSystem(), OpenDP()])
def test_a_source_draws_every_kind_that_it_declares(source: Randomness) -> None:
    assert KINDS - source.kinds == ({RoundedGaussian.kind} if source.name == "opendp" else set())
    for kind in (Laplace, Gaussian, RoundedGaussian):
        if kind.kind in source.kinds:
            noisy = source.noisy(np.full((3, 2), 10**6), kind(Fraction(3)))
            assert noisy.shape == (3, 2)
            assert noisy.dtype == np.int64
            assert source.noisy(np.array([7]), kind(Fraction(0))).tolist() == [7]
            assert source.noisy(np.zeros(0, dtype=np.int64), kind(Fraction(3))).size == 0
            with pytest.raises(TypeError, match="int64"):
                source.noisy(np.array([1.0]), kind(Fraction(3)))
    assert source.picks(np.array([0, 9, 3]), NoisyMax(Fraction(0)), 2) == [1, 1]


def test_opendp_draws_no_rounded_noise_and_is_asked_for_none_before_it_is_paid() -> None:
    budget = Budget.gaussian(1)
    with curated(budget, randomness=OpenDP()) as curator:
        with pytest.raises(OptionError, match="opendp cannot draw rounded-gaussian"):
            curator.answer([AGE], [budget])
        assert curator.left == budget.amount


def test_a_fit_with_opendp_pays_in_rho_and_says_who_drew(table: tuple[Path, Path], tmp_path: Path) -> None:
    data, schema = table
    release = fit(data, schema, epsilon=3, delta=1e-6, mechanism="independent", randomness="opendp")
    assert release.statement.is_private
    assert release.statement.randomness == "opendp"
    assert release.statement.budget.currency is Currency.ZCDP
    assert {m.noise.kind for m in release.measurements if m.noise is not None} == {"gaussian"}
    assert f"noise: drawn by opendp {version('opendp')}" in release.statement.lines
    release.save(tmp_path / "a.priory")
    assert load(tmp_path / "a.priory").statement == release.statement
    ours = fit(data, schema, epsilon=3, delta=1e-6, mechanism="independent").statement
    assert f"noise: drawn by priory {__version__}" in ours.lines


def test_a_fit_without_the_extra_is_refused_and_costs_nothing(
    table: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, schema = table
    book = Ledger.in_memory(Budget.pure(1), dataset="people", schema=SCHEMA.dump())
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(MissingExtra, match=r"priory\[opendp\]"):
        fit(data, schema, epsilon=1, mechanism="independent", ledger=book, randomness="opendp")
    assert not book.entries()


def test_the_command_line_takes_either_source(table: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    data, schema = table
    output = data.with_suffix(".priory")
    paid = ["fit", data, "--schema", schema, "--epsilon", "1", "--mechanism", "independent", "-o", output]
    for name, code in [("opendp", 0), ("priory", 0), ("dice", 2)]:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, paid), "--randomness", name])
        assert int(ended.value.code or 0) == code
        assert (f"noise: drawn by {name}" in capsys.readouterr().out) == (code == 0)
        output.unlink(missing_ok=True)


def test_a_statement_of_version_0_1_does_not_say_who_drew(table: tuple[Path, Path]) -> None:
    data, schema = table
    described = encode_statement(fit(data, schema, epsilon=1, mechanism="independent").statement)
    del described["randomness"], described["randomness_version"]
    old = decode_statement(described)
    assert old.randomness == "opendp or priory"
    assert "noise: drawn by opendp or priory" in old.lines
