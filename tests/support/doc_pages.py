"""Runs the code blocks of a page in order, and puts what they print into the page.

`sh` and `python` blocks are run, `toml` and `json` are parsed; a `text` block is what the block
above it prints. A comment right above a block changes that: `<!-- not run: why -->`, which the site
shows, `<!-- run by: tests/FILE.py -->`, `<!-- needs: MODULE -->` (run where that is installed),
`<!-- exit: 2 -->`, and `<!-- output of one run -->`, whose first and last line count.

    PYTHONPATH=tests python -m support.doc_pages     # writes what the blocks print now
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratiorec.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>not run|run by|needs|exit|output of one run)"
    r"(?::\s*(?P<said>[^>]*?))?\s*-->\n)?"
    r"(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
VARIES = re.compile(r"\b\d+\.\d\b|\d+(?= s\b| MB\b)|(?<=\"model\": \")\w+|(?<=\d\.\d{3})\d+")
BAR = re.compile(r"^.*(search|refit) epoch \d+: .*\n", re.MULTILINE)
"""Lines that a terminal shows as a bar."""
PARSED: dict[str, Callable[[str], object]] = {"toml": tomllib.loads, "json": json.loads}
SERVED_AT = "127.0.0.1:8000"
SHELL = re.compile(r"[|<>&$;*]")


def start_page() -> Path:
    return DOCS / "start.md"


def other_pages() -> list[Path]:
    """All others: they take the log and the model of the first one as given."""
    return [page for page in sorted(DOCS.rglob("*.md")) if page != start_page()]


@dataclass
class Runner:
    """A folder in which blocks run one after the other, in processes of their own if `real`.

    A time budget of a second will do where a run is `quick`.
    """

    folder: Path
    real: bool = False
    quick: bool = True
    names: dict[str, Any] = field(default_factory=dict)
    address: str = SERVED_AT
    _server: subprocess.Popen[str] | None = None

    def page(self, text: str) -> str:
        """The page with what its blocks print now."""
        printed, parts, end = None, [], 0
        for block in BLOCK.finditer(text):
            parts.append(text[end : block.start()])
            end, whole = block.end(), block.group()
            if block["mark"] == "not run":
                assert block["said"], f"no reason: {whole}"
            elif block["mark"] == "run by":
                assert (DOCS.parent / block["said"]).is_file(), f"no such test: {whole}"
            elif block["mark"] == "needs" and importlib.util.find_spec(block["said"]) is None:
                printed = None
            elif block["language"] == "text":
                assert printed is not None, f"nothing was run before {whole}"
                if block["mark"] is None or not _same_ends(block["code"], printed):
                    whole = text[block.start() : block.start("code")] + printed + "```"
            else:
                printed = self._run(block["language"], block["code"], _exit_code(block))
                printed = BAR.sub("", printed)
            parts.append(whole)
        return "".join([*parts, text[end:]])

    def _run(self, language: str, code: str, code_wanted: int) -> str:
        if self.quick:
            code = re.sub(r"(max[-_]seconds[ =])\d+", r"\g<1>1", code)
        if language == "python":
            return self._python(code)
        if language in PARSED:
            PARSED[language](code)
            return ""
        assert language == "sh", f"neither run nor marked as not run: {language} {code}"
        if code.startswith("ratiorec serve"):
            return self._serve(code)
        if self.real or "<<" in code:
            return self._shell(code, code_wanted)
        lines = code.replace("\\\n", " ").splitlines()
        return "".join(self._line(line, code_wanted) for line in lines)

    def _line(self, line: str, code_wanted: int) -> str:
        if line.startswith("ratiorec ") and not SHELL.search(line):
            return self._command(line, code_wanted)
        return self._shell(line, code_wanted)

    def _python(self, code: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other libraries, and hints that no page is about
            exec(compile(code, "page", "exec", dont_inherit=True), self.names)
        return out.getvalue()

    def _command(self, line: str, code_wanted: int) -> str:
        """A command line in this process, which spares the start of another."""
        before, out = sys.argv, io.StringIO()
        code: str | int = 0
        sys.argv = shlex.split(line, comments=True)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                main()
        except SystemExit as stopped:
            code = stopped.code or 0
        finally:
            sys.argv = before
        assert code == code_wanted, f"{line}\n{out.getvalue()}"
        return out.getvalue()

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}

    def _shell(self, code: str, code_wanted: int) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", code.replace(SERVED_AT, self.address)],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code_wanted, f"{code}\n{done.stdout}"
        return done.stdout

    def _serve(self, code: str) -> str:
        """A server at a free port, which is there until the end of the page."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", *shlex.split(code, comments=True), "--port", str(port)]
        self._server = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._server.stdout is not None
        return self._server.stdout.readline().replace(self.address, SERVED_AT)

    def close(self) -> None:
        """End the server, if there is one, as a supervisor does."""
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            assert self._server.wait(30) == 0
            assert self._server.stdout is not None
            self._server.stdout.close()


@contextlib.contextmanager
def runner(folder: Path, *, real: bool = False, quick: bool = True) -> Iterator[Runner]:
    """A runner in its folder, which is the working folder meanwhile."""
    found = Runner(folder, real, quick)
    with contextlib.chdir(folder):
        try:
            yield found
        finally:
            found.close()


def _exit_code(block: re.Match[str]) -> int:
    return int(block["said"]) if block["mark"] == "exit" else 0


def without_what_varies(text: str) -> str:
    """Seconds, megabytes, versions of models and the digits after the third left out."""
    return VARIES.sub("#", text)


def _same_ends(shown: str, printed: str) -> bool:
    return all(shown.split("\n")[place] == printed.split("\n")[place] for place in (0, -2))


def prepare(folder: Path) -> None:
    """The log of the first page without its bad rows, and a model of it."""
    with runner(folder) as first:
        making = next(BLOCK.finditer(start_page().read_text(encoding="utf-8")[_log_at() :]))
        first._shell(making["code"], 0)
        rows = (folder / "shop.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        good = [row for row in rows if row.count(",") == 4 and ",," not in row and "yes" not in row]
        (folder / "clicks.csv").write_text("".join(good), encoding="utf-8")
        first._command("ratiorec fit clicks.csv -o model --preset ease", 0)


def _log_at() -> int:
    return start_page().read_text(encoding="utf-8").index("## 2")


def write_all() -> None:
    """Every page with what its blocks print now."""
    for path in [start_page(), *other_pages()]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if path != start_page():
                prepare(folder)
            first = path == start_page()
            with runner(folder, real=first, quick=not first) as page:
                before = path.read_text(encoding="utf-8")
                after = page.page(before)
        if without_what_varies(after) != without_what_varies(before):
            path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    write_all()
