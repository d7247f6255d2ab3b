"""What the site adds to pages that are also read on their own.

The changelog, links to results, blank lines before lists, what is not run, and the notebooks with
what they print.
"""

from __future__ import annotations

import base64
import re
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import jupyter_client
import nbclient
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:results|README|examples|src|lab)[^)]*)\)")
ITEM = re.compile(r" *(-|\d+\.) ")
MARK = re.compile(r"^<!-- (not run|needs|output of one run)(?::\s*([^>]*?))?\s*-->$", re.MULTILINE)
SAID = {
    "not run": "Not run by the tests: {}.",
    "needs": "Run by the tests where {} is installed.",
    "output of one run": "Output of one run; yours will differ.",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The changelog becomes a page, and results that pages point at come with the site."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog.replace("](docs/", "](")))
    pages = [
        Path(page.abs_src_path).read_text(encoding="utf-8") for page in files if _is_page(page)
    ]
    linked = {path for text in pages for _, path in OUTSIDE.findall(text)}
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        for name, content in _notebook_files(notebook).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    for path in sorted(linked):
        if (ROOT / path).is_file() and path.endswith(".json"):
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, files: Files, page: Any, **_: Any) -> str:
    """Links out of the folder go into the site, or become text; marks are shown."""
    up = "../" * page.file.src_uri.count("/")

    def inside(link: re.Match[str]) -> str:
        name, path = link.groups()
        if files.get_file_from_path(path) is not None:
            return f"[{name}]({up}{path})"
        place = path.partition("#")[0]
        return f"`{place}`" if name.strip("`/") == place else f"{name} (`{place}`)"

    shown = MARK.sub(_shown, OUTSIDE.sub(inside, markdown))
    return _with_blank_lines(shown)


def _shown(mark: re.Match[str]) -> str:
    """What is said of the block below, for the reader."""
    said = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(mark[2] or ""))
    return f'<p class="block-note">{SAID[mark[1]].format(said)}</p>\n'


def _notebook_files(path: Path) -> dict[str, str | bytes]:
    """A page with what the notebook prints now, and its pictures; an error ends the build."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        # over TCP a kernel warns that it can be overheard
        kernel = jupyter_client.KernelManager(transport="ipc", ip=f"{folder}/kernel")
        try:
            nbclient.NotebookClient(notebook, km=kernel, timeout=120, resources=where).execute()
        finally:
            kernel.shutdown_kernel(now=True)
    parts, pictures = [], {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            text, picture = _output(output)
            if picture:
                name = f"{path.stem}-{len(pictures)}.png"
                pictures[name] = picture
                text = f"![{path.stem}]({name})"
            parts.append(text)
    title, *others = parts
    download = (
        f"[Download the notebook]({path.name}); what stands below the code is what it prints."
    )
    return {f"{path.stem}.md": "\n\n".join([title, download, *others]) + "\n", **pictures}


def _output(output: Any) -> tuple[str, bytes | None]:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```", None
    data = output.data
    if "image/png" in data:
        return "", base64.b64decode(data["image/png"])
    if "text/html" in data:
        noise = r"<style.*?</style>|\n\s*| border=\"1\""
        html = re.sub(noise, "", data["text/html"], flags=re.DOTALL)
        return f'<div class="output">{html}</div>', None
    return f"```text\n{data['text/plain'].rstrip()}\n```", None


def _is_page(file: File) -> bool:
    return file.src_uri.endswith(".md") and file.abs_src_path is not None


def _with_blank_lines(markdown: str) -> str:
    """A blank line before each list, which Python-Markdown needs."""
    lines: list[str] = []
    in_code = False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        before = lines[-1] if lines else ""
        begins = ITEM.match(line) and before.strip() and not ITEM.match(before)
        if begins and not in_code and not before.startswith((" ", "<!--")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"
