"""Private: the one place that says what is wrong with a private table.

It names what the schema wants and never what the table has: its header may be somebody's record, and what a library
says of an error may quote a cell.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from priory.errors import DataError, PrioryError


@contextmanager
def guarded(what: str = "the table") -> Iterator[None]:
    """Let nothing out of the block that may quote a cell: no error that is not ours, nor one that hangs on such a one.

    What libraries warn of in it is not shown.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BaseException as error:  # noqa: BLE001 - panics of libraries in Rust are no exceptions
        _raise_alone(_ours(error, what))


def position(have: Sequence[object], name: str) -> int:
    """Where the column `name` is among those the data have; a `DataError` if it is missing or there twice."""
    places = [i for i, other in enumerate(have) if isinstance(other, str) and other == name]
    if not places:
        said = "name it there as the schema does; where a file has no header, the schema says reading: {header: false}"
        raise DataError(f"the data have no such column; {said}", column=name)
    if len(places) > 1:
        raise DataError(f"the data have this column {len(places)} times; rename or drop all but one", column=name)
    return places[0]


def _ours(error: BaseException, what: str) -> BaseException:
    if isinstance(error, MemoryError):
        # NumPy's says for how many rows there was no room.
        return MemoryError()
    is_panic = type(error).__name__ == "PanicException"
    if isinstance(error, PrioryError) or not (isinstance(error, Exception) or is_panic):
        return error
    # Where it came from are lines of code, which quote nothing.
    reason = f"{what}: it cannot be read as a table ({type(error).__name__})"
    return DataError(reason).with_traceback(error.__traceback__)


def _raise_alone(error: BaseException) -> NoReturn:
    """Raise an error without those that it came of."""
    try:
        raise error  # noqa: TRY301 - raising it is what ties it to the others
    except BaseException:
        error.__cause__ = error.__context__ = None
        raise
