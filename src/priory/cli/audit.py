"""Audit: the verb that tests the privacy claims."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from priory.cli.output import AsJson, say, write, write_json
from priory.cli.progress import working

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from priory.audit.findings import Finding

NOT_PASSED = 1


def audit(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="The part that takes a minute or two.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the privacy battery and print its table. It needs no data."""
    from priory.audit import run_battery

    findings = []
    with working("testing"):
        for finding in run_battery(quick=quick):
            findings.append(finding)
            if as_json:
                say(f"{finding.verdict}  {finding.test}")
            else:
                write(f"{finding.verdict}  {finding.test}: {finding.figure} (limit: {finding.limit})")
            # The whole battery takes minutes; whoever reads it through a pipe wants to see it go on.
            sys.stdout.flush()
    failed = [finding for finding in findings if not finding.passed]
    if as_json:
        write_json([_described(finding) for finding in findings])
    else:
        for line in tables(findings):
            write(line)
        write(f"{len(findings) - len(failed)} of {len(findings)} tests passed.")
    if failed:
        raise typer.Exit(NOT_PASSED)


def _described(finding: "Finding") -> dict[str, object]:
    facts = {name: getattr(finding, name) for name in ("test", "figure", "limit", "verdict")}
    return {**facts, "seconds": round(finding.seconds, 2)}


def tables(findings: "Sequence[Finding]") -> "Iterator[str]":
    """What caught each planted bug and after how long, and the bounds of each mechanism, as tables in Markdown."""
    from priory.audit.findings import BUG_PREFIX, END_PREFIX

    yield from ("", "| planted bug | caught by | seconds |", "|---|---|---|")
    for bug in findings:
        if bug.test.startswith(BUG_PREFIX):
            caught_by = bug.figure if bug.passed else f"NOT CAUGHT: {bug.figure}"
            yield f"| {bug.test.removeprefix(BUG_PREFIX)} | {caught_by} | {bug.seconds:.1f} |"
    yield from ("", "| end to end | bounds | claim | seconds |", "|---|---|---|---|")
    for attack in findings:
        if attack.test.startswith(END_PREFIX):
            name = attack.test.removeprefix(END_PREFIX)
            yield f"| {name} | {attack.figure} | {attack.limit} | {attack.seconds:.0f} |"
    yield ""
