"""Numbers and JSON of files: whatever a text says, it is a number within bounds, or a `ValueError` at once."""

import json
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from priory import bounded

NUMBERS = st.from_regex(r"[-+]?[0-9]{1,30}(\.[0-9]{0,9})?([eE][-+]?[0-9]{1,12})?(/[0-9]{1,9})?", fullmatch=True)


@given(NUMBERS | st.text(max_size=20))
@example("1e4000000000")
@example("-1e-4000000000")
@example("9" * 5000)
@example("1/0")
@example("1/" + "3" * 8000)
@example("nan")
@example("inf")
def test_a_text_is_a_bounded_amount_or_a_value_error(text: str) -> None:
    try:
        amount = bounded.amount(text)
    except ValueError:
        return
    assert amount == Fraction(text)
    assert 0 <= amount <= bounded.LARGEST


@given(st.fractions(0, 10**300))
def test_what_is_written_is_read(amount: Fraction) -> None:
    assert bounded.amount(str(amount)) == amount


@pytest.mark.parametrize("value", [-1, 0.5, 3.0, True, None, "x", "-1", "0x1", "1_0", "\u0665", 2**63, "9" * 5000, []])
def test_what_is_no_whole_number_of_64_bits_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a whole number from 0 to"):
        bounded.whole(value)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "NaN", "-Infinity", "1e4000000000", "9" * 5000, "[" + "{}," * 5_000_000 + "1]"],
)
def test_json_that_is_deep_or_large_or_has_no_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested|needed|too many"):
        bounded.json_of(text)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        st.lists,
    )
)
def test_other_json_is_read_as_it_is(value: object) -> None:
    assert bounded.json_of(json.dumps(value)) == value
