"""The README and the documentation: what they show works, and what they list is complete."""

import itertools
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from priory import errors
from priory.data.schema import Schema

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: the word after the fence.
        text: what is inside.
        line: where the text begins, counted from 1.
        output: the text of a `text` block that follows with nothing in between.
    """

    language: str
    text: str
    line: int
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    source = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(source))
    for match, after in itertools.zip_longest(found, found[1:]):
        follows = after is not None and after[1] == "text" and not source[match.end() : after.start()].strip()
        line = source.count("\n", 0, match.start(2)) + 1
        yield Block(match[1], match[2], line, after[2] if after is not None and follows else None)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_python_and_the_commands_of_a_page_run_in_order_and_print_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            # Empty lines in front make a traceback name the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)  # noqa: S102 - our own pages
            printed = capsys.readouterr().out
        elif block.language == "sh":
            printed = commanded(block, page, tmp_path)
        else:
            continue
        if block.output is not None:
            assert printed == block.output, f"{named(page)}, line {block.line}"


def commanded(block: Block, page: Path, folder: Path) -> str:
    """What the commands of a block print; blocks in `bash` are only shown, those in `sh` are run."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash to run commands with")
    python = shlex.quote(sys.executable)
    commands = f'priory() {{ {python} -m priory "$@"; }}; python() {{ {python} "$@"; }}; set -eu\n{block.text}'
    # A process started here has no terminal: it is not to wait for an answer.
    ended = subprocess.run(
        ["bash", "-c", commands],  # noqa: S607 - whichever bash the reader has
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode == errors.MissingExtra.exit_code and find_spec("altair") is None:
        pytest.skip("the extra [report] is not installed")
    assert ended.returncode == 0, f"{named(page)}, line {block.line}: {ended.stderr}"
    return ended.stdout


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_whole_schema_on_a_page_is_a_good_one(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml" and re.search("^priory:", block.text, re.MULTILINE):
            schema = Schema.parse(block.text, path=f"{named(page)}, after line {block.line - 1}")
            assert Schema.parse(schema.dump()) == schema


def test_the_readme_has_python_with_its_output() -> None:
    assert any(block.language == "python" and block.output for block in blocks(ROOT / "README.md"))


def test_the_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_every_dependency_has_its_sentence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    wanted = {re.split(r"[<>=\[]", requirement)[0] for requirements in lists for requirement in requirements}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == wanted


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE))
    leaves = errors.PrioryError.__subclasses__()
    assert documented == {str(leaf.exit_code): leaf.__name__ for leaf in leaves}


def test_no_page_speaks_of_a_path_on_somebodys_machine() -> None:
    texts = [*PAGES, *ROOT.glob("*.md"), ROOT / "CITATION.cff", ROOT / "mkdocs.yml"]
    for text in texts:
        assert not re.search(r"/(home|Users|work|root)/", text.read_text(encoding="utf-8")), named(text)
