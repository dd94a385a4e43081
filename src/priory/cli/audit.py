"""Audit: the verb that tests the privacy claims."""

import sys
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, write, write_json

NOT_PASSED = 1


def audit(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="The part that takes a minute or two.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the privacy battery and print its table. It needs no data."""
    from priory.audit import run_battery

    findings = []
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
        write_json(
            [{"test": f.test, "figure": f.figure, "limit": f.limit, "verdict": f.verdict} for f in findings],
        )
    else:
        write(f"{len(findings) - len(failed)} of {len(findings)} tests passed.")
    if failed:
        raise typer.Exit(NOT_PASSED)
