"""A headless Chromium that tells what a page asked for and complained of."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
)
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


def _missing(what: str) -> None:
    """Skip with a reason, or fail where a browser must be."""
    if os.environ.get("MARDA_REQUIRE_BROWSER") == "1":
        pytest.fail(f"MARDA_REQUIRE_BROWSER=1, but {what}", pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium, driven by Selenium."""
    try:
        from selenium import webdriver
    except ImportError:
        _missing("selenium is not installed: pip install 'marda[test]'")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        _missing("there is no Chromium with chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    chrome.set_script_timeout(60)
    chrome.get("about:blank")  # its own first page asks for much, and may do so for a while
    yield chrome
    chrome.quit()


class Page:
    """One file in the browser."""

    def __init__(self, browser, path: Path) -> None:
        self.browser, self.path = browser, path

    def open(self, *, scheme: str = "light", width: int = 1100, height: int = 900) -> None:
        """Load the file afresh and wait until its script has run."""
        preferred = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.command("Emulation.setEmulatedMedia", media="", features=preferred)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        for kind in ("browser", "performance"):
            self.browser.get_log(kind)  # what earlier pages left
        self.browser.get(self.path.as_uri())
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def command(self, name: str, **parameters):
        """Speak to the browser itself."""
        return self.browser.execute_cdp_cmd(name, parameters)

    def run(self, script: str, *arguments):
        """Run a script in the page."""
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition: str, *arguments, seconds: float = 60) -> None:
        """Wait until a condition of the page holds."""
        deadline = time.monotonic() + seconds
        while not self.run(f"return {condition}", *arguments):
            assert time.monotonic() < deadline, f"{self.path.name}: never {condition}"
            time.sleep(0.05)

    def screenshot(self, name: str, height: int | None = None) -> None:
        """Keep the whole page as an image, or its beginning."""
        import base64

        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        sizes = self.run(
            "const e = document.documentElement; return [e.clientWidth, e.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": sizes[0], "height": height or sizes[1], "scale": 1}
        image = self.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(image["data"]))
