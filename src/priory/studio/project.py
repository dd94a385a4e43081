"""Project: what a person has decided so far, as it was typed, in a file that people can read."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

from priory.data import yaml_reader
from priory.data.schema import file
from priory.data.writing import written_whole
from priory.errors import SchemaError
from priory.studio.locking import alone

NAME, VERSION = "priory-project.yaml", 1


@dataclass(frozen=True)
class Settings:
    """The answers of all steps, each as it was typed; empty where there is none.

    What is wrong with one is said when it is shown: nothing that was typed is lost.
    """

    private: str = ""  # the file of the private table
    public: str = ""  # the file of the public one
    name: str = ""  # what the data set is called
    schema: str = "schema.yaml"  # the schema file
    ledger: str = "priory.ledger"  # the book
    rows: str = ""  # about how many rows the private table has, as may be said
    protects: str = "row"  # "row", "person" or "household"
    person: str = ""  # the column that names the person or the household
    max_rows: str = "1"  # how many rows of each count
    relation: str = "add-remove"  # which tables are neighbours
    total_epsilon: str = "3"  # what the ledger is made with
    total_delta: str = ""
    epsilon: str = "1"  # what the next run may spend
    delta: str = ""
    mechanism: str = ""  # by default priory's own choice
    effort: str = "normal"
    discover_epsilon: str = "0.5"  # what a paid look at the columns may spend
    discover_delta: str = ""
    purpose: str = ""  # what the next run is for


NAMES = tuple(field.name for field in fields(Settings))


class SettingsFile:
    """The file of the settings; read each time, for others may write it, too."""

    def __init__(self, path: Path, lock: Path) -> None:
        self._path, self._lock = path, lock
        self._known: tuple[str, Settings] = ("", Settings())  # the text that was read last, and what it says

    def read(self) -> Settings:
        """The settings; those of a new project where there is no file.

        Raises:
            SchemaError: the file was edited and cannot be read.
        """
        if self._path.is_symlink():
            raise SchemaError("it is a link; the project's own file is needed", path=NAME)
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Settings()
        except (OSError, UnicodeDecodeError):
            raise SchemaError("the file cannot be read as UTF-8 text", path=NAME) from None
        known = self._known
        if known[0] != text:
            known = self._known = (text, _parsed(text))
        return known[1]

    def change(self, **typed: str) -> Settings:
        """Write some settings anew; the others stay."""
        with alone(self._lock):
            settings = replace(self.read(), **typed)
            lines = ["# What was decided in priory studio; it may be edited, too.", f"priory-project: {VERSION}"]
            lines += [file.written(name, getattr(settings, name)) for name in NAMES]
            with written_whole(self._path) as draft:
                draft.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
            return settings


def _parsed(text: str) -> Settings:
    given = yaml_reader.read(text, NAME).options(("priory-project", *NAMES), "a project")
    if "priory-project" not in given or given["priory-project"].data != VERSION:
        raise SchemaError(f"a project file begins with 'priory-project: {VERSION}'", path=NAME)
    return Settings(**{name: given[name].written(name) for name in NAMES if name in given})
