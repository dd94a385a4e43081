"""Writing: a release as one HTML file."""

from pathlib import Path

from priory.data.writing import written_whole
from priory.release import Release
from priory.report import sections
from priory.report.contents import Contents
from priory.report.page import Page

STAMP = "NOT PRIVATE: made with test randomness; do not publish"


def page_of(release: Release) -> Page:
    """The report of a release, worked out from the release alone."""
    contents = Contents.of(release)
    optional = (
        sections.quality(contents),
        sections.privacy(contents),
        sections.reading(),
        sections.columns(contents),
        sections.pairs(contents),
        sections.structure(contents),
        sections.spent(contents),
        sections.estimated(contents),
    )
    return Page(
        title=release.statement.dataset,
        kicker="A release under differential privacy",
        lead=sections.lead(contents),
        sections=tuple(section for section in optional if section is not None),
        footer=sections.footer(contents),
        stamp=None if release.statement.is_private else STAMP,
    )


def write_report(release: Release, path: str | Path) -> None:
    """Write the report of a release to `path`, whole or not at all."""
    text = str(page_of(release))
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
