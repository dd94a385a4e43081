"""Battery: every test of the audit, in order."""

from collections.abc import Iterator

from priory.audit.accountant import accountant
from priory.audit.attack import end_to_end
from priory.audit.canaries import canaries
from priory.audit.findings import QUICK, WHOLE, Finding, Test
from priory.audit.kills import killed_ledgers
from priory.audit.numbers import bad_numbers
from priory.audit.primitives import planted_bugs, primitives
from priory.audit.public import public_data
from priory.audit.replay import planted_mechanisms, replayed
from priory.audit.samplers import exactness, forks, planted_bias, selection_law, support

TESTS: tuple[Test, ...] = (
    exactness,
    planted_bias,
    selection_law,
    support,
    primitives,
    planted_bugs,
    replayed,
    public_data,
    planted_mechanisms,
    end_to_end,
    canaries,
    killed_ledgers,
    accountant,
    forks,
    bad_numbers,
)


def run_battery(*, quick: bool = False) -> Iterator[Finding]:
    """Every finding, as it comes; `quick` takes a minute or two instead of most of an hour."""
    for test in TESTS:
        yield from test(QUICK if quick else WHOLE)
