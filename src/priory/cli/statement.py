"""Statement: the verb that prints what a release promises."""

from pathlib import Path
from typing import Annotated, Any

import typer

from priory.cli.output import AsJson, say, write, write_json, write_statement
from priory.errors import OptionError
from priory.privacy.encoding import encode_statement
from priory.release import load
from priory.release.registry import registry_entry, yaml_text


def statement(
    release: Annotated[Path, typer.Argument(help="The release file.")],
    *,
    registry: Annotated[
        bool, typer.Option("--registry", help="Write an entry for the public registry of deployments, as YAML.")
    ] = False,
    as_json: AsJson = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print the result as YAML.")] = False,
) -> None:
    """Print the privacy statement of a release, or an entry for the public registry of deployments."""
    if as_json and as_yaml:
        raise OptionError("--yaml", "give either --json or --yaml, not both")
    loaded = load(release)
    if registry:
        entry = registry_entry(loaded)
        _print(entry.fields, as_json=as_json)
        say("Fill in by hand, where the entry says TO FILL:\n" + "\n".join(f"  {path}" for path in entry.blanks))
    elif as_json or as_yaml:
        _print(encode_statement(loaded.statement), as_json=as_json)
    else:
        write_statement(loaded.statement)


def _print(data: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(data)
    else:
        write(yaml_text(data))
