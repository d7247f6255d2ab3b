"""The explorer's page as someone who uses it sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from support.browser import visit
from support.serve_process import PATIENCE, ServerProcess

TAB, ENTER, ESCAPE, DOWN, UP, RIGHT = "\ue004", "\ue007", "\ue00c", "\ue015", "\ue013", "\ue014"


class Explorer:
    """The page as someone who uses it sees it."""

    def __init__(self, browser: Any, server: ServerProcess) -> None:
        self.browser = browser
        self.server = server

    def open(self, view: str = "", **options: Any) -> None:
        self.browser.get("about:blank")  # another view behind the # alone would not load the page
        visit(self.browser, f"http://{self.server.host}:{self.server.port}/{view}", **options)

    def opened(self, view: str = "", **options: Any) -> Explorer:
        """The page once its first list and its map stand there."""
        self.open(view, **options)
        self.until(lambda: self.all("#page[aria-busy=false]"))
        return self

    def emptied(self, **options: Any) -> Explorer:
        """The page without the example that it opens on."""
        self.opened(**options)
        self.one("#clear").click()
        self.until(lambda: not self.recommended() and not self.history())
        return self

    def until(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.browser.find_element("css selector", "body").text
            time.sleep(0.02)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def one(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        found: list[str] = self.run(script, selector)
        return found

    def history(self) -> list[str]:
        return self.texts("#history li span")

    def recommended(self) -> list[str]:
        return self.texts("#recommendations .name")

    def act(self, row: int, action: str) -> None:
        """Use one of the actions of a recommendation, which its menu opens."""
        (opener,) = self.all(f"#recommendations li:nth-child({row}) .more")
        if opener.get_attribute("aria-expanded") != "true":
            opener.click()
        buttons = self.all(f"#recommendations li:nth-child({row}) .actions button")
        next(one for one in buttons if one.text == action).click()

    def show(self, user: str) -> None:
        """Show a user with the list that belongs to them."""
        self.one("#user").send_keys(user, ENTER)
        self.until(lambda: f"User {user}." in self.said())

    def said(self) -> str:
        """What a screen reader was told last."""
        return self.texts("#said")[0]

    def choose(self, control: str, text: str) -> None:
        """Choose what a select offers by its text."""
        options = self.all(f"#{control} option")
        next(one for one in options if one.text.startswith(text)).click()

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.browser, duration=0).send_keys(key).perform()

    def focused(self) -> str:
        script = "const e = document.activeElement; return e.id || e.ariaLabel || e.textContent"
        return str(self.run(script))

    def press_until(self, key: str, wanted: str) -> None:
        for _ in range(60):
            self.press(key)
            if self.focused() == wanted:
                return
        pytest.fail(f"{wanted} is not reached by {key!r}")

    def severe(self) -> list[str]:
        lines = self.browser.get_log("browser")
        return [line["message"] for line in lines if line["level"] == "SEVERE"]
