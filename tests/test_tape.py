import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings

from priory.model.engine import contract, kernels, program, tape
from priory.model.engine.contract import Contraction
from priory.model.engine.layout import Layout
from priory.model.engine.plan import plan
from priory.queries.domain import Domain
from strategies_model import Case, cases


def oracle(domain: Domain, cliques: tuple[tuple[str, ...], ...]) -> Contraction:
    return Contraction(Layout(domain, cliques), plan(domain, cliques))


def a_chain(length: int, size: int = 3) -> tuple[Domain, tuple[tuple[str, ...], ...]]:
    domain = Domain.of({f"a{i}": size for i in range(length)})
    names = domain.attributes
    return domain, tuple(zip(names, names[1:], names[2:], strict=False))


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> tape._Compiler:
    fresh = tape._Compiler()
    monkeypatch.setattr(contract, "COMPILER", fresh)
    return fresh


@settings(max_examples=150)
@given(cases(max_attributes=6))
def test_a_tape_does_what_numpy_does(case: Case) -> None:
    plain = oracle(case.domain, case.cliques)
    theta = plain.layout.pack(case.tables)
    expected = plain(theta)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        # The kernel is ordinary Python too, so its arithmetic is tested where numba is not installed.
        fresh = tape._Compiler()
        fresh.kernel = getattr(kernels._read, "py_func", kernels._read)
        patch.setattr(contract, "COMPILER", fresh)
        patch.setattr(contract, "_SHORTEST_TAPE", 0)
        taped = oracle(case.domain, case.cliques)
        found = taped(theta)
    assert found[0] == pytest.approx(expected[0], abs=1e-11)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-13)


def test_multiplying_and_summing_one_table_becomes_one_pass() -> None:
    domain, cliques = a_chain(20)
    steps = oracle(domain, cliques)._program.forward
    assert len(tape.written(steps)) < len(steps)
    assert (tape.written(steps)[:, 0] == program.FUSED).sum() > 10


def test_the_compiled_kernel_does_what_numpy_does(compiler: tape._Compiler) -> None:
    pytest.importorskip("numba", reason="the extra [fast] is not installed")
    domain, cliques = a_chain(60, 4)
    theta = np.random.default_rng(0).normal(size=64 * 58)
    expected = oracle(domain, cliques)(theta)
    assert compiler.wait() is not None
    fast = oracle(domain, cliques)
    found = fast(theta)
    assert fast._runner is not None
    assert fast._runner._segments is not None
    assert found[0] == pytest.approx(expected[0], abs=1e-11)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-14)


def test_no_call_waits_for_the_compiler(compiler: tape._Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = threading.Event()

    def slow() -> tape.Kernel:
        finish.wait(60)
        return kernels.read

    monkeypatch.setattr(tape, "compiled", slow)
    monkeypatch.setattr(tape, "find_spec", lambda _: True)
    monkeypatch.setattr(contract, "_SECONDS_BEFORE_COMPILING", 0.0)
    domain, cliques = a_chain(20)
    call = oracle(domain, cliques)
    call(np.zeros(27 * 18))
    call(np.zeros(27 * 18))
    assert compiler.state == "compiling"
    finish.set()
    assert compiler.wait() is kernels.read
    assert compiler.state == "ready"


def test_little_work_is_not_worth_compiling_for(compiler: tape._Compiler) -> None:
    domain, cliques = a_chain(20)
    oracle(domain, cliques)(np.zeros(27 * 18))
    assert compiler.state == "asleep"


def test_without_numba_numpy_goes_on(compiler: tape._Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "find_spec", lambda _: None)
    assert compiler.wait() is None
    assert compiler.state == "missing"
    domain, cliques = a_chain(20)
    assert oracle(domain, cliques)(np.zeros(27 * 18))[0] == pytest.approx(0, abs=1e-12)


def test_a_compiler_that_fails_leaves_numpy(compiler: tape._Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tape.Kernel:
        raise ValueError("no such processor")

    monkeypatch.setattr(tape, "find_spec", lambda _: True)
    monkeypatch.setattr(tape, "compiled", broken)
    assert compiler.wait() is None
    assert compiler.state == "missing"


def test_a_cache_folder_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba", reason="the extra [fast] is not installed")
    tried: list[bool] = []

    def njit(*_: str, cache: bool, **__: object) -> object:
        tried.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert kernels._compiled(kernels._read) is kernels._read
    assert tried == [True, False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_does_not_wait_for_its_parents_compiler(compiler: tape._Compiler) -> None:
    compiler.state = "compiling"
    compiler.after_fork()
    assert compiler.state == "missing"
    ready = tape._Compiler()
    ready.state = "ready"
    ready.after_fork()
    assert ready.state == "ready"
