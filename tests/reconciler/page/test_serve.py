"""The page as it is served: one document, held to itself by its headers."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hatchling.builders.wheel import WheelBuilder
from prometheus_client import CollectorRegistry

from ebbtide.service.probes import Health
from ebbtide.service.server import application
from reconciler.page import serve
from reconciler.page.serve import SCRIPTS, headers, page, routes

SOURCES = Path(serve.__file__).parent
# Whatever takes a string for markup or for code, or reaches for what the policy forbids.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML"
    r"|\beval\(|new Function|\.style\b|setTimeout\([\"'`]|localStorage|\bon[a-z]+\s*="
)
LOADING = {"src", "srcset", "action", "formaction", "poster", "background", "data"}


class Shape(HTMLParser):
    """Elements with their attributes, and the text inside of style and script."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("style", "script"):
            self.inside[self._open] = self.inside.get(self._open, "") + data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def shape() -> Shape:
    found = Shape()
    found.feed(page())
    found.close()
    return found


def policy() -> dict[str, str]:
    directives = (directive.partition(" ") for directive in headers()["Content-Security-Policy"].split("; "))
    return {name: value for name, _, value in directives}


async def test_it_is_served_at_the_root_with_its_headers() -> None:
    app = application(CollectorRegistry(), Health(), routes())
    async with TestClient(TestServer(app)) as client, client.get("/") as answer:
        assert (answer.status, answer.content_type, answer.charset) == (200, "text/html", "utf-8")
        assert await answer.text() == page()
        assert {name: answer.headers[name] for name in headers()} == headers()


async def test_nothing_can_be_posted_to_it() -> None:
    app = application(CollectorRegistry(), Health(), routes())
    async with TestClient(TestServer(app)) as client, client.post("/") as answer:
        assert answer.status == 405


def test_the_policy_allows_only_what_the_document_is_made_of(shape: Shape) -> None:
    """By the hash of each, as a browser computes it."""
    for tag in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(shape.inside[tag].encode()).digest()).decode()
        assert policy()[f"{tag}-src"] == f"'sha256-{digest}'"
    assert policy()["default-src"] == "'none'"
    assert policy()["connect-src"] == "'self'"
    assert policy()["frame-ancestors"] == "'none'"
    assert policy()["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers()["Content-Security-Policy"]


def test_browsers_are_told_neither_to_guess_nor_to_tell() -> None:
    told = headers()
    assert told["X-Content-Type-Options"] == "nosniff"
    assert told["Referrer-Policy"] == "no-referrer"
    assert told["X-Frame-Options"] == "DENY"
    assert told["Cache-Control"] == "no-store"


def test_it_loads_nothing_from_anywhere(shape: Shape) -> None:
    for tag, attributes in shape.elements:
        assert not LOADING & attributes.keys(), tag
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
    assert [link["href"] for link in shape.named("link") if not str(link["href"]).startswith("data:")] == []
    assert not re.search(r"@import|url\(", shape.inside["style"])
    addresses = set(re.findall(r"https?://[^\s\"'`]+", page()))
    assert addresses == {"http://www.w3.org/2000/svg"}, "names of namespaces, and nothing that is fetched"


def test_its_own_links_hold_behind_a_proxy_that_adds_a_path(shape: Shape) -> None:
    assert all(not str(link["href"]).startswith("/") for link in shape.named("a"))
    assert 'fetch("api/v1/state"' in shape.inside["script"]


def test_it_has_landmarks_one_title_and_a_heading_for_each_section(shape: Shape) -> None:
    assert shape.named("html")[0]["lang"] == "en"
    assert all(len(shape.named(tag)) == 1 for tag in ("header", "main", "footer", "h1", "title"))
    headings = {heading["id"] for heading in shape.named("h2")}
    assert [section["aria-labelledby"] in headings for section in shape.named("section")] == [True] * 4
    assert shape.named("a")[0] == {"class": "skip", "href": "#main"}
    assert {"role": "status", "aria-live": "polite"}.items() <= next(
        attributes for _, attributes in shape.elements if attributes.get("id") == "news"
    ).items()


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_takes_a_string_for_markup_or_code(name: str) -> None:
    assert not DANGEROUS.search((SOURCES / "script" / f"{name}.js").read_text(encoding="utf-8"))


def test_every_script_is_part_of_the_page() -> None:
    assert {path.stem for path in (SOURCES / "script").iterdir()} == set(SCRIPTS)


def test_no_part_of_it_ends_the_element_that_it_is_put_into(shape: Shape) -> None:
    assert shape.inside["style"] == (SOURCES / "style.css").read_text(encoding="utf-8")
    assert all(
        (SOURCES / "script" / f"{name}.js").read_text(encoding="utf-8") in shape.inside["script"] for name in SCRIPTS
    )


def test_every_part_is_in_the_wheel() -> None:
    """As the builder collects it, without building."""
    root = SOURCES.parents[1]
    collected = {file.distribution_path for file in WheelBuilder(str(root)).recurse_included_files()}
    parts = [path for path in SOURCES.rglob("*") if path.suffix in (".html", ".css", ".js")]
    assert len(parts) == len(SCRIPTS) + 2
    assert {str(path.relative_to(root)) for path in parts} <= collected
