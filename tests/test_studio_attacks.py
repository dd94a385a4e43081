"""Attacks on the studio: each is refused or harmless, and changes nothing."""

import http.client
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import DataError
from priory.studio.folder import Folder
from priory.studio.forecasts import REHEARSER
from priory.studio.jobs import PRIORY
from priory.studio.security import MOST_BYTES
from studio_site import CANARY, Browser, Site, prepare, site, write_tables

SCRIPT = "<script>alert(1)</script>"
PAGES = (
    "/table",
    "/columns",
    "/columns/yaml",
    "/columns/edit/1",
    "/persons",
    "/budget",
    "/run",
    "/explore",
    "/history",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "project"
    folder.mkdir()
    write_tables(folder)
    (folder.parent / "secret.csv").write_text("a\n1\n")
    (folder / "link.csv").symlink_to(folder.parent / "secret.csv")
    (folder / "link.priory").symlink_to(folder.parent / "secret.csv")
    (folder / "out").symlink_to(folder.parent)
    return folder


@pytest.fixture(scope="module")
def studio(place: Path) -> Iterator[Site]:
    with site(place) as found:
        prepare(found.browser())
        yield found


@pytest.fixture(scope="module")
def browser(studio: Site) -> Browser:
    return studio.browser()


def state(studio: Site) -> dict[str, bytes]:
    """Everything below the folder, to see that nothing was changed."""
    root = studio.studio.folder.root
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def sent_raw(studio: Site, *lines: str) -> bytes:
    """What comes back for a request that no library would send."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return connection.recv(4096)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}", ""]
)
def test_another_host_is_refused(host: str, studio: Site, browser: Browser) -> None:
    answer = browser.get("/table", headers={"host": host.format(port=studio.port)})
    assert answer.status_code in (400, 421)
    assert "people" not in answer.text


def test_two_hosts_are_refused(studio: Site) -> None:
    own = f"Host: 127.0.0.1:{studio.port}"
    assert b" 200 " not in sent_raw(studio, "GET /table HTTP/1.1", own, "Host: evil.example").split(b"\r\n")[0]
    assert b" 200 " not in sent_raw(studio, "GET /table HTTP/1.1", "X-Forwarded-Host: evil", "Host: evil.example")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", ""]
)
def test_another_origin_changes_nothing_and_sees_nothing(origin: str, studio: Site, browser: Browser) -> None:
    before, token = state(studio), browser.csrf()
    headers = {"origin": origin.format(port=studio.port)}
    sent = browser.post("/table", data={"csrf": token, "private": "", "public": "", "name": "x"}, headers=headers)
    assert sent.status_code == 403
    assert state(studio) == before
    if origin:
        assert browser.get("/table", headers=headers).status_code == 403


def test_a_form_without_an_origin_changes_nothing(studio: Site, browser: Browser) -> None:
    before = state(studio)
    assert browser.post("/table", data={"csrf": browser.csrf(), "name": "x"}).status_code == 403
    assert state(studio) == before


@pytest.mark.parametrize("where", ["cross-site", "same-site"])
def test_what_another_page_of_the_browser_asks_is_refused(where: str, browser: Browser) -> None:
    assert browser.get("/table", headers={"sec-fetch-site": where}).status_code == 403


@pytest.mark.parametrize("path", [*PAGES, "/", "/static/studio.css", "/budget/forecast.json", "/files/schema.yaml"])
def test_without_the_cookie_nothing_is_shown(path: str, studio: Site) -> None:
    stranger = studio.browser(enters=False)
    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "people" not in answer.text
    stranger.cookies.set(f"priory-{studio.port}", "guess")
    assert stranger.get(path).status_code == 403


def test_the_token_lets_in_once_and_the_cookie_is_for_this_site_alone(studio: Site) -> None:
    first, token = studio.browser(enters=False), studio.studio.keys.token
    entered = first.get(f"/enter?token={token}", follow_redirects=False)
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    second = studio.browser(enters=False)
    assert second.get(f"/enter?token={token}").status_code == 403
    assert second.get("/enter?token=").status_code == 403
    assert second.get("/table").status_code == 403


@pytest.mark.parametrize("token", ["", "guess"])
def test_a_form_without_its_token_changes_nothing(token: str, studio: Site, browser: Browser) -> None:
    before = state(studio)
    for path in ("/table", "/columns/draft", "/budget", "/run/start", "/run/0001/cancel", "/run/more/start"):
        data = {"csrf": token, "private": "people.csv", "name": "x", "go": "make"}
        assert browser.post(path, data=data, headers={"origin": browser.address}).status_code == 403
    assert state(studio) == before


def test_every_page_forbids_what_it_does_not_need(browser: Browser) -> None:
    for path in (*PAGES, "/nowhere", "/static/studio.css"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_no_page_has_anything_inline_or_from_outside(browser: Browser) -> None:
    for path in PAGES:
        page = browser.get(path).text
        assert "<style" not in page
        assert " style=" not in page
        assert " onclick=" not in page
        assert all("src=" in piece.split(">")[0] for piece in page.split("<script")[1:])
        assert "//" not in page.replace("http://www.w3.org/2000/svg", "").replace("://www.w3.org", "")


OUT = [
    "../secret.csv",
    "..%2Fsecret.csv",
    "%2e%2e/secret.csv",
    "/etc/passwd",
    "//etc/passwd",
    "link.csv",
    "link.priory",
]


@pytest.mark.parametrize("name", [*OUT, "out/secret.csv", "people.csv", "priory.ledger", ".priory-studio/columns.json"])
def test_no_file_outside_and_no_private_one_is_given_out(name: str, browser: Browser) -> None:
    for path in (f"/files/{name}", f"/files/{quote(name, safe='')}", f"/static/{name}", f"/static/../../{name}"):
        answer = browser.get(path)
        assert answer.status_code >= 400, path
        assert "root:" not in answer.text
        assert CANARY not in answer.text


@pytest.mark.parametrize(
    "name", ["../secret.csv", "/etc/passwd", "link.csv", "out/secret.csv", ".priory-studio", "a\0b"]
)
def test_a_table_outside_the_folder_is_not_read(name: str, tmp_path: Path, place: Path) -> None:
    write_tables(tmp_path)
    (tmp_path / "link.csv").symlink_to(place.parent / "secret.csv")
    (tmp_path / "out").symlink_to(place.parent)
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="people.csv", public=name, name="people")
        assert browser.submit("/columns/draft").status_code == 400
        browser.submit("/table", private=name, public="", name="people")
        assert browser.submit("/columns/names", header="yes").status_code == 400
        assert not (tmp_path / "schema.yaml").exists()
        assert browser.submit("/table", private="people.csv", public="public.csv", name="people").status_code == 200
        assert "link.csv" not in browser.get("/table").text
        assert browser.get("/run").text.count("choose the private table") == 0


@given(
    st.text(max_size=20)
    | st.lists(st.sampled_from(["..", ".", "a", "/", "link", "\\", "out"]), max_size=6).map("/".join)
)
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "inside"
        root.mkdir()
        (root / "out").symlink_to(place)
        (root / "link").symlink_to(Path(place) / "other")
        folder = Folder.of(root)
        try:
            path = folder.path(name)
        except DataError:
            return
        assert Path(os.path.realpath(path)).is_relative_to(folder.root)


def test_scripts_in_names_levels_files_and_errors_are_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / f"{SCRIPT.replace('/', '')}.csv").write_text("a\n1\n")
    header = f'"{SCRIPT}","b"'
    rows = "\n".join(f'"{SCRIPT}{i % 3}","x{i % 2}"' for i in range(50))
    for file in ("people.csv", "public.csv"):
        (tmp_path / file).write_text(f"{header}\n{rows}\n")
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="people.csv", public="public.csv", name=SCRIPT)
        seen = [browser.submit("/columns/draft").text]
        seen += [browser.get(path).text for path in (*PAGES, "/columns/edit/2")]
        seen.append(browser.submit("/columns/edit/1", kind="integer", low=SCRIPT, high="9").text)
        seen.append(browser.submit("/columns/yaml", text=f"priory: 1\nname: x\ncolumns:\n  {SCRIPT}: {SCRIPT}").text)
        seen.append(browser.submit("/budget", rows=SCRIPT, total_epsilon=SCRIPT, epsilon=SCRIPT, delta=SCRIPT).text)
        seen.append(browser.submit("/persons", protects="person", person=SCRIPT, max_rows=SCRIPT, relation=SCRIPT).text)
        seen.append(browser.get(f"/run/{quote(SCRIPT, safe='')}").text)
        seen.append(browser.get(f"/table?note={quote(SCRIPT)}").text)
        forecast = browser.get(f"/budget/forecast.json?epsilon={quote(SCRIPT)}")
        assert forecast.headers["content-type"] == "application/json"
    assert not any("<script>" in page for page in seen)
    assert any("&lt;script&gt;" in page for page in seen)


def test_what_looks_like_an_option_is_no_option(tmp_path: Path) -> None:
    write_tables(tmp_path)
    (tmp_path / "people.csv").rename(tmp_path / "--help.csv")
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="--help.csv", public="public.csv", name="--people")
        browser.submit("/columns/draft")
        browser.submit("/persons", protects="row", relation="add-remove")
        browser.submit("/budget", rows="400", total_epsilon="3", total_delta="1e-6", epsilon="1", go="make")
        page = browser.get("/run").text
        assert "priory fit ./--help.csv" in page


def test_a_declared_upload_of_two_gigabytes_is_refused_before_it_is_sent(studio: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=10)
    connection.putrequest("POST", "/columns/yaml", skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{studio.port}")
    connection.putheader("Origin", studio.address)
    connection.putheader("Cookie", f"priory-{studio.port}={studio.studio.keys.session}")
    connection.putheader("Content-Type", "multipart/form-data; boundary=x")
    connection.putheader("Content-Length", str(2 << 30))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_a_streamed_upload_of_two_gigabytes_is_refused_early_and_not_stored(kind: str, studio: Site) -> None:
    browser, sent = studio.browser(), 0
    before = {path.name for path in Path(tempfile.gettempdir()).iterdir()}

    def body() -> Iterator[bytes]:
        nonlocal sent
        yield (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.yaml"\r\n\r\n'
            if "multi" in kind
            else b"a="
        )
        for _ in range(2 << 11):
            sent += 1 << 20
            yield b"a" * (1 << 20)

    headers = {"origin": browser.address, "content-type": kind}
    try:
        answer = browser.post("/columns/yaml", content=body(), headers=headers)
        assert answer.status_code == 413
    except httpx.TransportError:
        pass  # the connection was ended while we were still sending
    assert sent < 16 * MOST_BYTES
    after = {path.name for path in Path(tempfile.gettempdir()).iterdir()}
    assert not {name for name in after - before if "upload" in name or "multipart" in name}
    assert browser.get("/table").status_code == 200


def test_other_methods_and_protocols_are_refused(studio: Site, browser: Browser) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        answer = browser.request(method, "/table", headers={"origin": browser.address})
        assert answer.status_code in (400, 403, 405)
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")
    cookie = f"Cookie: priory-{studio.port}={studio.studio.keys.session}"
    host = f"Host: 127.0.0.1:{studio.port}"
    assert b" 101 " not in sent_raw(studio, "GET /table HTTP/1.1", host, cookie, *upgrade)


def test_no_page_shows_a_private_cell_or_a_path_outside_the_folder(studio: Site, browser: Browser) -> None:
    pages = [browser.get(path).text for path in (*PAGES, "/nowhere", "/run/9999", "/explore?release=none.priory")]
    pages += [browser.submit("/columns/yaml", text="priory: [").text, browser.get("/files/none.yaml").text]
    for page in pages:
        assert CANARY not in page
        assert str(studio.studio.folder.root.parent) not in page
        assert "site-packages" not in page
        assert "Traceback" not in page


@pytest.mark.parametrize("other", ["people.csv/", "hard.csv", "soft.csv", "sub/../people.csv", "./people.csv"])
def test_the_private_table_by_another_name_is_no_public_one(other: str, tmp_path: Path) -> None:
    write_tables(tmp_path)
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "people.csv")
    (tmp_path / "soft.csv").symlink_to(tmp_path / "people.csv")
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="people.csv", public=other, name="people")
        assert browser.submit("/columns/draft").status_code == 400
        assert not (tmp_path / "schema.yaml").exists()
        browser.submit("/table", private="people.csv", public="public.csv", name="people")
        browser.submit("/columns/draft")
        browser.submit("/table", private="people.csv", public=other, name="people")
        assert CANARY not in "".join(browser.get(path).text for path in (*PAGES, "/columns/edit/3"))
        assert 'name="plan"' not in browser.get("/run").text
        browser.submit("/budget", rows="400")
        assert browser.get("/budget/forecast.json").json()["state"] == "wrong"


def test_links_in_the_place_of_the_studio_s_own_files_are_refused(tmp_path: Path) -> None:
    folder, outside = tmp_path / "project", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.yaml").write_text("password: hunter2\n")
    (folder / "priory-project.yaml").symlink_to(outside / "secret.yaml")
    with site(folder) as found:
        browser = found.browser(enters=False)
        assert browser.get(f"/enter?token={found.studio.keys.token}").status_code == 200
        page = browser.get("/")
        assert page.status_code == 400
        assert "hunter2" not in page.text
        assert "password" not in page.text
        assert str(outside) not in page.text
    (folder / "priory-project.yaml").unlink()
    for path in sorted((folder / ".priory-studio").rglob("*"), reverse=True):
        path.rmdir()
    (folder / ".priory-studio").rmdir()
    (folder / ".priory-studio").symlink_to(outside)
    with pytest.raises(DataError, match="leads out"), site(folder):
        pass


def test_the_processes_of_the_studio_do_not_import_from_the_folder() -> None:
    assert "-P" in PRIORY
    assert "-P" in REHEARSER
