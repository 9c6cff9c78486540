"""The page in a real browser: as a file that runs models by itself, and in front of a server."""

import contextlib
import csv
import threading

import pytest

from helpers.browser import Hands, open_browser
from helpers.fitted_models import fitted, of_images
from mpnp.explore.answers import Answers
from mpnp.explore.gallery import Gallery
from mpnp.explore.html import write_html
from mpnp.explore.pictures import Pictures

POINTS = "page.state.points"

HOSTILE = 'second, "or" <img src=x onerror=alert(1)></script>'
"""The name of a model."""


@contextlib.contextmanager
def served(*parts):
    """The address of a server of these parts, while it runs."""
    import uvicorn

    from mpnp.explore import server

    listener = server.listen("127.0.0.1", 0)
    service = uvicorn.Server(uvicorn.Config(server.make_app(*parts), log_level="error"))
    thread = threading.Thread(target=service.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield server.address(listener, "")
    service.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def browser():
    driver = open_browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def models():
    return {"first": fitted("canp"), HOSTILE: fitted("mpnp")}


@pytest.fixture(scope="module")
def file_address(models, tmp_path_factory):
    (path,) = write_html(models, tmp_path_factory.mktemp("page") / "models.html")
    return path.as_uri()


@pytest.fixture(scope="module")
def server_address(models):
    pytest.importorskip("mpnp.explore.server", reason="needs the extra: pip install 'mpnp[explore]'")
    with served(Answers(Gallery(models))) as address:
        yield address


@pytest.fixture(params=["file_address", "server_address"])
def page(request, browser):
    """The page as it opens, in both of its forms."""
    address = request.getfixturevalue(request.param)
    browser.get("about:blank")
    browser.get(address)
    hands = Hands(browser)
    hands.settle()
    hands.complaints()
    yield hands
    assert hands.complaints() == []


def answers(page):
    """Lengths of what each panel shows."""
    return page.run("page.panels.map(({ answer }) => [answer.mean.length > 50, (answer.draws ?? []).length])")


def test_points_are_added_dragged_and_removed(page):
    page.click(-100, -40)
    page.click(60, 30)
    page.settle()
    before = page.run(POINTS)
    assert len(before) == 2 and answers(page) == [[True, 8]] * 2
    page.drag(0, 50, -30)
    page.settle()
    after = page.run(POINTS)
    assert after[0]["x"] > before[0]["x"] and after[0]["y"][0] > before[0]["y"][0] and after[1] == before[1]
    page.click_point(1)
    assert page.run(POINTS) == after[:1]
    page.drag(0, 0, -250)
    assert page.run(POINTS) == []
    page.find("#undo").click()
    assert page.run(f"{POINTS}.length") == 1


def test_the_curve_passes_through_a_moved_point_anew(page):
    mean = "JSON.stringify(page.panels[0].answer.mean)"
    page.click(0, 0)
    page.settle()
    one = page.run(mean)
    page.drag(0, 0, -60)
    page.settle()
    assert page.run(mean) != one


def test_everything_can_be_done_with_keys(page):
    up, right, delete, enter = "\ue013", "\ue014", "\ue017", "\ue007"
    page.run("document.querySelector('svg.chart').focus()")
    page.press(right, right, up, enter)
    (point,) = page.run(POINTS)
    page.run("document.querySelector('.point').focus()")
    page.press(right, up)
    (moved,) = page.run(POINTS)
    assert moved["x"] > point["x"] and moved["y"][0] > point["y"][0]
    page.press(delete)
    assert page.run(POINTS) == []


def test_a_link_restores_the_view(page):
    page.click(-50, 20)
    page.find("input[value=generate] + span").click()
    page.find("#pseudo").click()
    page.settle()
    page.find("#link").click()
    state, address = page.run("page.state"), page.run("location.href")
    assert state["models"] == ["first", HOSTILE]
    page.driver.get("about:blank")
    page.driver.get(address)
    page.settle()
    assert page.run("page.state") == state
    assert page.run("page.panels[1].answer.pseudo.length") == 8


def test_hostile_links_leave_a_working_page(page):
    links = [
        "#points=1:2:3;x:y;:;1e999:1&models=../../etc,<img>&draws=1e9&band=NaN",
        "#group=-1&output=99&seed=1.5",
        "#%E0%A4%A",
    ]
    for link in links:
        page.run(f"void (location.hash = {link!r})")
        page.settle()
        assert page.run("[page.state.points.length, page.state.draws, page.state.band, page.state.models.length]") == [
            0,
            8,
            90,
            2,
        ]


def test_the_posterior_of_a_functional_is_a_histogram(page):
    page.set("#functional", "max")
    page.wait("page.panels[0].posterior.textContent.includes('96 functions')")
    assert page.run("document.querySelectorAll('.panel:first-child .histogram .bar').length") == 32
    page.settle()


def test_csv_and_picture_hold_what_is_shown(page):
    page.click(10, 10)
    page.settle()
    rows = page.run("toCsv(page.state, page.group, page.panels.map((panel) => [panel.model.name, panel.answer]))")
    header, *rows = csv.reader(rows.splitlines())
    series = {tuple(row[:2]) for row in rows}
    assert header == ["model", "series", "x", "y"] and {("", "observed"), ("first", "mean"), (HOSTILE, "function 8")} <= series
    size = page.driver.execute_async_script("picture(page.panels).then((blob) => arguments[0](blob.size))")
    assert size > 20_000


def test_numbers_can_be_typed(page):
    page.click(0, 0)
    page.run("(document.querySelector('details').open = true)")
    page.set("#table input", "33")
    assert page.run(f"{POINTS}[0].x") == 33
    page.settle()


def test_two_tabs_do_not_disturb_each_other(page):
    first, address = page.driver.current_window_handle, page.run("location.href")
    page.click(0, 0)
    page.driver.switch_to.new_window("tab")
    page.driver.get(address.partition("#")[0])
    page.settle()
    page.click(40, 0)
    page.click(-40, 0)
    assert page.run(f"{POINTS}.length") == 2
    page.settle()
    page.driver.close()
    page.driver.switch_to.window(first)
    page.settle()
    assert page.run(f"{POINTS}.length") == 1


@pytest.fixture(scope="module")
def pictures_address():
    pytest.importorskip("mpnp.explore.server", reason="needs the extra: pip install 'mpnp[explore]'")
    with served(None, Pictures.of({"digits": of_images()})) as address:
        yield address


@pytest.fixture
def canvas(browser, pictures_address):
    browser.get("about:blank")
    browser.get(pictures_address)
    hands = Hands(browser)
    hands.address = pictures_address
    hands.wait("page.answer !== null && !page.busy")
    hands.complaints()
    yield hands
    assert hands.complaints() == []


def shown(canvas):
    canvas.wait("!page.busy")
    return canvas.run("[...page.state.pixels]")


def test_pixels_are_revealed_painted_hidden_and_undone(canvas):
    assert len(shown(canvas)) == 79
    before = canvas.run("page.answer.mean")
    canvas.find("#random").click()
    assert len(shown(canvas)) == 79 + 40 and canvas.run("page.answer.mean") != before
    canvas.find("#clear").click()
    canvas.stroke("#given", -20, 0, 30, 0)
    revealed = dict(shown(canvas))
    assert len(revealed) >= 8 and all(canvas.run(f"page.hidden[{place}]") == colours for place, colours in revealed.items())
    canvas.find("input[value=hide] + span").click()
    canvas.stroke("#given", -20, 0, 30, 0)
    assert shown(canvas) == []
    canvas.find("#undo").click()
    assert dict(shown(canvas)) == revealed


def test_pixels_are_painted_with_keys_and_a_link_restores_them(canvas):
    right, enter = "\ue014", "\ue007"
    canvas.find("#clear").click()
    canvas.find("input[value=paint] + span").click()
    canvas.run("find('given').focus()")
    canvas.press(right, right, enter)
    painted = shown(canvas)
    assert len(painted) == 4 and {tuple(colours) for _, colours in painted} == {(255,)}
    canvas.find("#link").click()
    address = canvas.run("location.href")
    canvas.driver.get("about:blank")
    canvas.driver.get(address)
    assert shown(canvas) == painted


def test_hostile_links_leave_a_working_canvas(canvas):
    canvas.driver.get("about:blank")
    canvas.driver.get(canvas.address + "#pixels=-1.5~9999.0~3.300~x~1.2.3&draws=1e9&model=<img>&picture=../..")
    assert shown(canvas) == [] and canvas.run("page.state.draws") == 4
    assert canvas.run("document.documentElement.scrollWidth <= innerWidth")
