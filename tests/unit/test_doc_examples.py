"""The examples of the documents: every ```console block and every doctest is run, outputs compared exactly.

    $ perfkit show latest        a command, run by bash in a folder of its own, up to the next "$ " line
    ...                          what it prints on stdout and stderr, at 120 columns

`$ echo $?` gives the exit code of the command before it. Only what needs no GPU may stand in such a block;
other commands stand in a plain one. The folder holds `examples/`, as `perfkit-runs/` the runs of
tests/data/runs/programs and `held`, and as `reports/` the programs' reports alone.

`python tests/unit/test_doc_examples.py` writes today's outputs into the documents: look at the difference
before you commit it.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from perfkit.cli import app

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "data" / "runs" / "programs"
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def names(pattern: re.Pattern[str]) -> list[str]:
    """The documents in which `pattern` is found, relative to the repository."""
    found = [one for one in DOCUMENTS if one.is_file() and pattern.search(one.read_text(encoding="utf-8"))]
    return [str(one.relative_to(ROOT)) for one in found]


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a block with the text that it is said to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        last = next(index for index, line in enumerate(lines) if not line.endswith("\\\n"))
        yield "".join(lines[: last + 1]).rstrip("\n"), "".join(lines[last + 1 :])


class Shell:
    """Runs the commands of one document, one after the other, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = 0
        # A copy: a command that writes into an example must not write into the repository.
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copytree(PROGRAMS, folder / "perfkit-runs")
        (folder / "perfkit-runs" / "held").symlink_to(PROGRAMS.parent / "held")
        (folder / "reports").mkdir()
        for report in PROGRAMS.glob("*/profile.ncu-rep*"):
            shutil.copy(report, folder / "reports" / f"{report.parent.name}{report.suffix}")

    def __call__(self, command: str) -> str:
        """What `command` prints, without blanks at the ends of lines."""
        if command == "echo $?":
            return f"{self.code}\n"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        self.code = done.returncode
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERFKIT_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
        return kept | {"COLUMNS": "120", "NO_COLOR": "1", "PATH": path, "LC_ALL": "C.UTF-8"}


def outputs(text: str, run: Callable[[str], str]) -> str:
    """`text` with every console block as `run` says."""

    def again(match: re.Match[str]) -> str:
        return "".join(f"$ {command}\n{run(command)}" for command, _ in commands(match.group()))

    return BLOCK.sub(again, text)


@pytest.mark.parametrize("name", names(BLOCK))
def test_console_blocks_print_what_the_document_says(name: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for block in BLOCK.findall((ROOT / name).read_text(encoding="utf-8")):
        for command, expected in commands(block):
            assert f"$ {command}\n{shell(command)}" == f"$ {command}\n{expected}"


@pytest.mark.parametrize("name", names(re.compile(r"^>>> ", re.MULTILINE)))
def test_python_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Shell(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFKIT_RUNS", raising=False)
    result = doctest.testfile(
        str(ROOT / name), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert (result.attempted > 0, result.failed) == (True, 0)


def test_the_documents_hold_examples() -> None:
    held = {name: len(BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))) for name in names(BLOCK)}
    assert len([name for name in held if name.startswith("docs/cookbook/")]) >= 5
    assert "docs/python.md" in names(re.compile(r"^>>> ", re.MULTILINE))


def known_options() -> dict[str, set[str]]:
    """The options of every command, as a user may spell them."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return {
        name: {word for one in command.params for word in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}
        for name, command in group.commands.items()
    }


def wrong_options(text: str, known: dict[str, set[str]]) -> list[str]:
    """`perfkit COMMAND --option` of a text, in code or in prose, that do not exist."""
    wrong = []
    for command, rest in re.findall(r"\bperfkit ([a-z]+)\b([^`\n]*)", text):
        ours = re.split(r"\s(?:--|\||&&|#)\s", rest)[0]
        used = re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", ours)
        if command in known:
            wrong += [f"perfkit {command} {one}" for one in used if one not in known[command]]
    return wrong


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_option_in_the_documents_exists(document: Path) -> None:
    assert wrong_options(document.read_text(encoding="utf-8"), known_options()) == []


def test_an_option_that_does_not_exist_is_noticed() -> None:
    text = "`perfkit show --sett x -k y`\nperfkit profile --list -- ./app --own\nperfkit check --ruls x | wc"
    assert wrong_options(text, known_options()) == ["perfkit show --sett", "perfkit check --ruls"]


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    block = "$ echo one \\\n  two\none two\n$ false\n$ echo $?\n1\n"
    shell = Shell(tmp_path)
    assert [(command, shell(command)) for command, _ in commands(block)] == list(commands(block))
    assert outputs("```console\n$ echo 1\n2\n```\n", shell) == "```console\n$ echo 1\n1\n```\n"


class _Again(doctest.DocTestRunner):
    """Takes note of what the examples print today: (line, lines of the old output, the new one)."""

    def __init__(self) -> None:
        super().__init__(optionflags=doctest.NORMALIZE_WHITESPACE)
        self.changes: list[tuple[int, int, str]] = []

    def report_failure(self, out: object, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        """Called by doctest for an output that differs."""
        del out, test
        start = example.lineno + example.source.count("\n")
        self.changes.append((start, example.want.count("\n"), got))


def doctests(text: str) -> str:
    """`text` with every doctest's output as it is today."""
    runner, lines = _Again(), text.splitlines(keepends=True)
    runner.run(doctest.DocTestParser().get_doctest(text, {}, "document", None, 0), out=lambda _: None)
    for start, count, got in reversed(runner.changes):
        lines[start : start + count] = [got]
    return "".join(lines)


def test_a_wrong_doctest_is_written_anew() -> None:
    assert doctests(">>> 1 + 1\n3\n>>> 5\n5\n") == ">>> 1 + 1\n2\n>>> 5\n5\n"


if __name__ == "__main__":
    for document in DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            after = outputs(before, Shell(Path(folder)))
            os.chdir(folder)
            after = doctests(after) if ">>> " in after else after
            os.chdir(ROOT)
        if after != before:
            document.write_text(after, encoding="utf-8")
            sys.stdout.write(f"wrote {document.relative_to(ROOT)}\n")
