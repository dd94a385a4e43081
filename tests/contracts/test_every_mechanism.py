"""One contract for all mechanisms: `checks.py` has it, the registry its members and what each declares."""

from collections.abc import Callable

import pytest

from checks import MECHANISM_CHECKS
from priory.app.registry import MECHANISMS, Registered


@pytest.mark.parametrize("check", MECHANISM_CHECKS)
@pytest.mark.parametrize("entry", list(MECHANISMS.values()), ids=list(MECHANISMS))
def test_every_mechanism_keeps_its_contract(entry: Registered, check: Callable[[Registered], None]) -> None:
    check(entry)
