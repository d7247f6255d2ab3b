"""What the site adds to pages that are also read on their own: the changelog, links, lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:results|README|examples|src|lab)[^)]*)\)")
ITEM = re.compile(r" *(-|\d+\.) ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The changelog becomes a page, and results that pages point at come with the site."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog.replace("](docs/", "](")))
    pages = [
        Path(page.abs_src_path).read_text(encoding="utf-8") for page in files if _is_page(page)
    ]
    linked = {path for text in pages for _, path in OUTSIDE.findall(text)}
    for path in sorted(linked):
        if (ROOT / path).is_file() and path.endswith(".json"):
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, files: Files, page: Any, **_: Any) -> str:
    """Links out of the folder go into the site, or become text; lists get their blank line."""
    up = "../" * page.file.src_uri.count("/")

    def inside(link: re.Match[str]) -> str:
        name, path = link.groups()
        found = files.get_file_from_path(path) is not None
        return f"[{name}]({up}{path})" if found else f"{name} (`{path.partition('#')[0]}`)"

    return _with_blank_lines(OUTSIDE.sub(inside, markdown))


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
