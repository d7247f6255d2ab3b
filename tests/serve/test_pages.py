from __future__ import annotations

import re

import pytest

from ratiorec.serve.server import read_pages
from support.asgi_client import Client


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_is_html_whose_links_lead_somewhere_here(client: Client, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'(?:href|src)="([^"]*)"', page.body.decode())
    assert links
    for link in links:
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in page.body.decode(), link
        else:
            assert client.get(link).status == 200, link


def test_no_page_asks_for_anything_from_elsewhere() -> None:
    for name, page in read_pages().items():
        assert not re.search(rb"https?:|//[a-z]", page.content.replace(b"// ", b"")), name
        assert b"innerHTML" not in page.content


@pytest.mark.parametrize(
    "name",
    [
        "..%2Fapp.py",
        "%2e%2e%2fapp.py",
        "..",
        "../app.py",
        "..%5Capp.py",
        "%2Fetc%2Fpasswd",
        "page.css%00.js",
        "none.js",
        "",
    ],
)
def test_a_request_can_name_no_other_file(client: Client, name: str) -> None:
    answer = client.get(f"/static/{name}")
    assert answer.status == 404
    assert answer.refusal


def test_scripts_and_styles_have_their_types(client: Client) -> None:
    assert client.get("/static/card.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/static/page.css").headers["content-type"].startswith("text/css")
