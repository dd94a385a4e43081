"""The studio in a browser that runs no scripts: from files to answers, and what needs a script says so."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from browsing import browsing
from priory.privacy.ledger import Ledger
from studio_site import site, write_tables


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str, Path]]:
    folder = tmp_path_factory.mktemp("scriptless")
    write_tables(folder)
    with browsing() as browser, site(folder) as found:
        context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
        context.set_default_timeout(300_000)
        page = context.new_page()
        page.goto(f"{found.address}/enter?token={found.studio.keys.token}")
        page.wait_for_url("**/table")
        yield page, found.address, folder
        context.close()


def presses(page: Any, name: str) -> None:
    with page.expect_navigation():
        page.get_by_role("button", name=name, exact=True).click()


def looks_until(page: Any, text: str) -> None:
    """Load the page again until it says something."""
    from playwright.sync_api import Error

    for _ in range(3000):
        # A page that waits for something loads itself anew, and may do so just now.
        with suppress(Error):
            if text in page.inner_text("main"):
                return
            page.wait_for_timeout(100)
            page.reload()
    raise AssertionError(text)


def test_from_files_to_answers_without_scripts(page: tuple[Any, str, Path]) -> None:
    browser, address, folder = page
    browser.check("input[name=private][value='people.csv']")
    browser.check("input[name=public][value='public.csv']")
    presses(browser, "Next")
    presses(browser, "Draft from the public table")
    looks_until(browser, "4 columns")
    # Without scripts a column shows the fields of all kinds; a wrong one is said beside it.
    browser.get_by_role("link", name="age", exact=True).click()
    browser.fill("#low", "99999")
    presses(browser, "Save")
    assert browser.locator("#problem-low").count() == 1
    presses(browser, "Forget what was typed")
    browser.goto(f"{address}/table")
    browser.check("input[name=public][value='']")
    presses(browser, "Next")
    browser.goto(f"{address}/persons")
    presses(browser, "Next")
    browser.fill("#rows", "400")
    presses(browser, "Make the ledger")
    assert "need a script" in browser.inner_text("main")
    assert browser.locator("#epsilon-slider").is_visible() is False
    presses(browser, "Next")
    presses(browser, "Pay and start")
    looks_until(browser, "It has ended well")
    with browser.expect_navigation():
        browser.get_by_role("link", name="Explore it", exact=True).click()
    looks_until(browser, "columns are above the noise")
    browser.goto(f"{address}/explore/ask")
    browser.select_option("#what", "share")
    browser.select_option("#column", "colour")
    presses(browser, "Ask")
    looks_until(browser, "Shares of colour")
    assert browser.locator("figure svg[role=img]").count() == 1
    assert len(Ledger.open(folder / "priory.ledger").entries()) == 1
