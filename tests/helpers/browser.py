"""A page in headless Chromium, and hands for it."""

import shutil
import tempfile
import time

import pytest

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))

# Without these, Chromium looks for updates and accounts, on networks that a test must not use.
FLAGS = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
FLAGS += ("disable-component-update", "disable-sync")

PATIENCE = 120
"""Seconds to wait for what must happen."""


def open_browser(width: int = 1300, height: int = 1000):
    """A driver of Chromium; skips the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, which drives a browser")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.add_argument(f"--window-size={width},{height}")
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


class Hands:
    """What a person does with the page."""

    def __init__(self, driver) -> None:
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.by import By

        self.driver, self._actions, self._css = driver, ActionChains, By.CSS_SELECTOR

    def run(self, script: str):
        """The value of an expression of the page."""
        return self.driver.execute_script(f"return {script}")

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"{script} never became true"
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until every panel has its answer."""
        self.wait("page.panels.every((panel) => !panel.busy)")

    def find(self, selector: str):
        return self.driver.find_element(self._css, selector)

    def click(self, x: int, y: int) -> None:
        """Click on the first chart, so many pixels from its centre."""
        self._actions(self.driver).move_to_element_with_offset(self.find("svg.chart"), x, y).click().perform()

    def drag(self, number: int, x: int, y: int) -> None:
        """Drag a point by so many pixels."""
        point = self.driver.find_elements(self._css, ".panel:first-child .point")[number]
        self._actions(self.driver).move_to_element(point).click_and_hold().move_by_offset(x, y).release().perform()

    def stroke(self, selector: str, x: int, y: int, right: int, down: int) -> None:
        """Press the mouse so far from the centre of an element, and move it by so many pixels."""
        start = self._actions(self.driver).move_to_element_with_offset(self.find(selector), x, y)
        start.click_and_hold().move_by_offset(right, down).release().perform()

    def click_point(self, number: int) -> None:
        self._actions(self.driver).move_to_element(
            self.driver.find_elements(self._css, ".panel:first-child .point")[number]
        ).click().perform()

    def set(self, selector: str, value: str) -> None:
        """Give a field a value, as typing or choosing does."""
        self.driver.execute_script(
            "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('change'));",
            selector,
            value,
        )

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self._actions(self.driver).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        """What the browser logged."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
