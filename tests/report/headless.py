"""A headless Chromium, controlled by its DevTools protocol: pages, keys, colors, and errors."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NAMED = "STRANDLINE_CHROMIUM"
ANSWER_SECONDS = 60.0
START_TRIES = 600
Json = dict[str, Any]


class NoBrowserError(Exception):
    """No browser was found; the message names the remedy."""


def find_browser() -> str:
    """Return the program of a browser.

    Raises:
        NoBrowserError: if there is none.
    """
    named = os.environ.get(NAMED)
    found = [named] if named else [shutil.which(name) for name in NAMES]
    for program in filter(None, found):
        return program
    msg = f"there is no Chromium; `make browser` installs it, or {NAMED} names one"
    raise NoBrowserError(msg)


class Page:
    """A page of the browser; every call waits for its response.

    Attributes:
        troubles: errors of the page: log entries, blocked actions, and external requests.
    """

    def __init__(self, run: Callable[..., Any], socket: aiohttp.ClientWebSocketResponse) -> None:
        self._run, self._socket = run, socket
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._seen: set[str] = set()
        self.troubles: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "CSS"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Json:
        """Send a command to the browser and return its response."""
        answer: Json = self._run(self._call(method, params))
        return answer

    def open(self, path: Path, *, width: int = 1280, height: int = 900, scheme: str) -> None:
        """Load a file with a window width and a color scheme."""
        self.set_size(width, height)
        self.set_media(scheme=scheme)
        self._seen.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._run(self._wait_for("Page.loadEventFired"))

    def set_size(self, width: int, height: int = 900) -> None:
        """Set the window size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def set_media(self, media: str = "screen", *, scheme: str) -> None:
        """Emulate a medium with light or dark colors."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    async def _call(self, method: str, params: Json) -> Json:
        number = next(self._numbers)
        message: Json = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            heard = await self._hear()
            if heard.get("id") == number:
                if "error" in heard:
                    raise RuntimeError(heard["error"])
                answer: Json = heard["result"]
                return answer

    async def _wait_for(self, event: str) -> None:
        while event not in self._seen:
            await self._hear()

    async def _hear(self) -> Json:
        message: Json = await self._socket.receive_json(timeout=ANSWER_SECONDS)
        method, params = message.get("method"), message.get("params", {})
        if method:
            self._seen.add(method)
        if method == "Runtime.exceptionThrown":
            self.troubles.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.troubles.append(str(params["args"]))
        elif method == "Log.entryAdded":
            self.troubles.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.troubles.append(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.troubles.append(f"fetched {url}")
        return message


@contextmanager
def opened_page(folder: Path) -> Iterator[Page]:
    """Open a page of a browser for the duration of the block, with its files in a folder."""
    # Chromium's sandbox does not run as root, and the pages are ours.
    own = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [
        find_browser(),
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--hide-scrollbars",
        *own,
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    loop = asyncio.new_event_loop()
    try:
        address = loop.run_until_complete(_find_address(folder, process))
        session = loop.run_until_complete(_open_session())
        try:
            socket = loop.run_until_complete(session.ws_connect(address, max_msg_size=0))
            yield Page(loop.run_until_complete, socket)
        finally:
            loop.run_until_complete(session.close())
    finally:
        process.terminate()
        process.wait(300)
        loop.close()


async def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


async def _find_address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address that the browser writes to a file once it listens."""
    told = folder / "DevToolsActivePort"
    for _ in range(START_TRIES):
        lines = told.read_text().split() if told.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        if process.poll() is not None:
            msg = f"the browser ended with {process.returncode}"
            raise NoBrowserError(msg)
        await asyncio.sleep(0.1)
    msg = "the browser does not listen after a minute"
    raise NoBrowserError(msg)
