"""Products in blocks are those of NumPy, and no call of BLAS is long enough to start a thread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.estimate.products import dot
from priory.model.engine.blocks import matrices

sizes = st.one_of(st.integers(0, 40), st.integers(8_180, 8_200), st.integers(16_370, 50_000))


@given(sizes, st.integers(0, 100), st.sampled_from([np.float64, np.float32]))
def test_products_of_vectors_are_those_of_numpy(size: int, seed: int, kind: type[np.floating]) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, size)).astype(kind)
    accuracy = 1e-12 if kind is np.float64 else 1e-4
    assert dot(a, b) == pytest.approx(float(np.sum(a.astype(float) * b)), rel=accuracy)


@given(st.integers(1, 3), *[st.integers(1, 90)] * 3, st.integers(0, 100))
def test_products_of_matrices_are_those_of_numpy(batch: int, m: int, k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(batch, m, k)), rng.normal(size=(batch, k, n))
    np.testing.assert_allclose(matrices(a, b), a @ b, atol=1e-12)
    np.testing.assert_allclose(matrices(a.swapaxes(1, 2), a), a.swapaxes(1, 2) @ a, atol=1e-12)


class Spy(np.ndarray):
    """An array that notes how many numbers each call of `matmul` and `vecdot` takes at once."""

    longest = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        plain = [np.asarray(each) for each in inputs]
        if ufunc is np.vecdot:
            Spy.longest = max(Spy.longest, plain[0].shape[-1])
        if ufunc is np.matmul:
            Spy.longest = max(Spy.longest, int(np.prod(plain[-1].shape[-2:])))
        return getattr(ufunc, method)(*plain, **options)


@pytest.mark.parametrize("size", [1_000, 10_000, 100_000])
def test_no_call_of_blas_is_long_enough_for_threads(size: int) -> None:
    vector = np.ones(size).view(Spy)
    Spy.longest = 0
    dot(vector, vector)
    assert 0 < Spy.longest <= 9_216
