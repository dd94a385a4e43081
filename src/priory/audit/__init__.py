"""Audit: the battery that makes the privacy claims testable, and the bugs it must catch."""

from priory.audit.battery import run_battery
from priory.audit.findings import Finding

__all__ = ["Finding", "run_battery"]
