"""Plotting: one chart of a release, for a notebook or a file."""

from collections.abc import Sequence

from priory.answer.grid import checked_columns
from priory.errors import OptionError
from priory.release import Release
from priory.report import charts
from priory.report.answered import answered
from priory.report.contents import MOST_COMPARED, MOST_GROUPS, MOST_IN_A_PAIR, MOST_RUNS, associations
from priory.report.places import Attribute, Places


def plotted(release: Release, names: Sequence[str]) -> charts.Chart:
    """A chart of altair: of a column with its intervals, of two columns, or without columns of how all go together."""
    columns = checked_columns(release.columns, names)
    if len(columns) > 2:
        raise OptionError("columns", f"one or two columns make a picture; got {len(columns)}")
    attributes = [Attribute.of(column) for column in columns or release.columns.modelled]
    alone = [MOST_RUNS if each.is_ordered else MOST_GROUPS for each in attributes]
    most = alone if len(columns) == 1 else [MOST_IN_A_PAIR] * len(attributes)
    places = [
        Places.of(each, release.model.project(each.name).values, groups)
        for each, groups in zip(attributes, most, strict=True)
    ]
    if not columns:
        return charts.overview_chart(associations(release.model, places, most=MOST_COMPARED))
    in_order = sorted(places, key=lambda each: release.domain.axis[each.attribute.name])
    [answer] = answered(release, [tuple(in_order)])
    if len(columns) == 1:
        return charts.column_chart(answer)
    # The first column goes down, as it is named first in "sex by age".
    return charts.pair_chart(answer if in_order == places else answer.turned)
