"""The built site in Chromium: no error, no other host, themes, copy, diagrams, phones, print."""

import functools
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from site_project import Project

pytestmark = pytest.mark.browser

PHONE, DESK = {"width": 400, "height": 850}, {"width": 1400, "height": 900}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(built: Project) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(built.site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of the size and theme that the test asks for; it fails on any console error."""
    options = {"viewport": DESK, **getattr(request, "param", {})}
    context = browser.new_context(**options)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened, errors, asked = context.new_page(), [], []
    opened.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda r: asked.append(r.url))
    opened.on("requestfailed", lambda r: errors.append(f"failed: {r.url}"))
    yield opened
    assert errors == []
    assert [url for url in asked if "//127.0.0.1" not in url and not url.startswith("data:")] == []
    context.close()


def open_demo(page: Any, address: str, path: str = "") -> None:
    page.goto(address + path)
    page.wait_for_load_state("networkidle")


def shown_charts(page: Any) -> list[str]:
    return [
        image.get_attribute("src").rpartition("#")[2]
        for image in page.locator("#result-demo-squares .tabbed-block").first.locator("img").all()
        if image.is_visible()
    ]


SIZES = [{"viewport": PHONE}, {"viewport": PHONE, "color_scheme": "dark"}, {"viewport": DESK}]


@pytest.mark.parametrize("page", SIZES, indirect=True)
@pytest.mark.parametrize("path", ["", "more/indexes/"])
def test_no_page_is_wider_than_its_screen(page: Any, address: str, path: str) -> None:
    open_demo(page, address, path)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_the_toggle_switches_the_chart(page: Any, address: str) -> None:
    open_demo(page, address)
    assert shown_charts(page) == ["only-light"]
    for _ in range(2):  # from the system's theme to the light, then to the dark one
        page.locator("form[data-md-component=palette] label:visible").click()
    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"
    assert shown_charts(page) == ["only-dark"]


@pytest.mark.parametrize("page", [{"color_scheme": "dark"}], indirect=True)
def test_print_and_the_system_theme(page: Any, address: str) -> None:
    open_demo(page, address)
    assert shown_charts(page) == ["only-dark"]
    page.emulate_media(media="print")
    assert shown_charts(page) == ["only-light"]
    assert page.get_by_text("Not measured on this machine").first.is_visible()
    assert page.locator("#result-demo-squares .tabbed-block").nth(1).is_visible()


@pytest.mark.parametrize("page", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_results_are_readable(page: Any, address: str) -> None:
    page.goto(address)
    assert shown_charts(page) == ["only-light"]
    page.locator("label[for=tabs-demo-squares-2]").click()
    assert page.locator("#result-demo-squares .tabbed-block").nth(1).is_visible()
    assert page.locator("math").first.is_visible()


def test_a_snippet_is_copied_whole(page: Any, address: str, built: Project) -> None:
    open_demo(page, address)
    code = page.locator("#result-demo-squares details.il-code")
    code.locator("summary").click()
    code.locator("button.md-code__button, button.md-clipboard").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "lab.record(" in copied
    compile(copied, "copied", "exec")


def test_a_diagram_is_drawn_in_the_palette(page: Any, address: str) -> None:
    open_demo(page, address)
    page.wait_for_selector("figure.il-diagram div.mermaid")
    figure = page.locator("figure.il-diagram")
    assert figure.bounding_box()["height"] > 100
    assert page.evaluate("typeof mermaid") == "object"


def test_search_finds_a_result(page: Any, address: str) -> None:
    open_demo(page, address)
    page.keyboard.press("/")
    page.keyboard.type("square")
    page.wait_for_selector(".md-search-result__link", timeout=15_000)
    assert page.locator(".md-search-result__link").count() > 0
