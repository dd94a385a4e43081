"""Forecasts: what a fit would take and how far off it would be, from rehearsals without the private table."""

from priory.app.forecast.planner import RUNS, SECONDS, Planner
from priory.app.forecast.rehearsal import Rehearsal
from priory.app.forecast.summary import Forecast, forecast

__all__ = ["RUNS", "SECONDS", "Forecast", "Planner", "Rehearsal", "forecast"]
