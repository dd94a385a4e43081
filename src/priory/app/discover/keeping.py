"""Keeping: what a discovery has learnt so far, in the partial files of its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from priory.app.discover.columns import Found
from priory.app.discover.discovery import Discovery
from priory.data.drafting.columns import MOST_LEVELS
from priory.privacy.journal import Entry
from priory.privacy.outputs import PartialText, tried
from priory.privacy.record_file import RESERVE
from priory.queries.query import Query

_LEFT = "move it away, and use it as the schema, or give it as the schema of a run that learns the columns still open"
# What is learnt of a column takes no more bytes than this, with levels of so many letters, all but a few tables' ones.
_BYTES_A_COLUMN = 4096 + 64 * MOST_LEVELS


class LearntSoFar:
    """The journal of a discovery: before each look there is room for what it can tell, and after it that is kept."""

    def __init__(self, begun: Discovery, outputs: Mapping[str, Path], files: dict[str, PartialText]) -> None:
        self._begun, self._outputs, self._files = begun, outputs, files
        self.recorded: Discovery | None = None

    @classmethod
    def beside(cls, begun: Discovery, outputs: Mapping[str, str | Path | None]) -> "LearntSoFar":
        """Make the partial files of the outputs that are given; an `OptionError` leaves no trace."""
        room = _BYTES_A_COLUMN * len(begun.opened.open)
        texts, files = _texts(begun), dict[str, PartialText]()
        partials = tried(outputs, 2 * (len(texts["output"]) + room + RESERVE), left=_LEFT)
        try:
            for option, path in partials.items():
                files[option] = PartialText.create(path, texts[option], room, option)
        except BaseException:
            for file in files.values():
                file.remove()
            raise
        return cls(begun, {option: Path(path) for option, path in outputs.items() if path is not None}, files)

    def make_room(self, queries: Sequence[Query], draws: int = 0) -> None:
        for file in self._files.values():
            file.make_room(_BYTES_A_COLUMN * (len(queries) + draws))

    def write(self, entry: Entry) -> None:
        """What was answered is kept as what follows from it."""

    def keep(self, found: dict[str, Found]) -> None:
        """Keep what was learnt so far."""
        self.recorded = replace(self._begun, found=found)
        for option, text in _texts(self.recorded).items():
            if option in self._files:
                self._files[option].save(text)

    def leave(self) -> Path | None:
        for file in self._files.values():
            if self.recorded is None:
                file.remove()
            else:
                file.leave()
        first = next(iter(self._files.values()), None)
        return None if first is None or self.recorded is None else first.path

    def how_to_go_on(self, path: Path) -> str:
        return f"What it had learnt is in {path}: {_LEFT}"

    def finish(self, learnt: Discovery) -> None:
        """Make the partial files the outputs."""
        for option, text in _texts(learnt).items():
            if option in self._files:
                self._files[option].finish(text, self._outputs[option])
                del self._files[option]


def _texts(learnt: Discovery) -> dict[str, str]:
    return {"output": learnt.dump(), "counts": learnt.dump_counts()}
