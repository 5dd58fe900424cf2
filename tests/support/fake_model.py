"""A fake model behind the OpenAI API, with random but reproducible faults.

Clients use HTTP, or call the model in this process to save time. The model counts requests.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from vendor_replies import USAGE, choose, give, refuse

MODEL = "fake-1"
KEY = "sk-secret-of-the-tests"
PROBE = "."

# Transient faults, after which the client repeats the request.
PASSING = (
    "busy",
    "busy for a while",
    "500",
    "503",
    "reset",
    "half",
    "late",
    "no JSON",
    "no choices",
)
# Permanent faults, after which the row gets no good answer.
LASTING = ("cut short", "refused", "filtered", "too long")
# Name of a fault, a reply, or None for a good answer.
Fault = str | Reply | UnansweredRequest | None


@dataclass
class FakeModel:
    """Answers a prompt with `echo: ` and its last line, unless `choose` returns a fault.

    Attributes:
        choose: function that returns the fault for the nth request of a prompt, counted from 1.
        answer: function that returns the answer to a prompt.
        key: required API key, or None to accept every client.
        usage: token usage that the answers report.
        asked: number of requests per prompt, including probes.
        answered: prompts that got a good answer, in order.
        bodies, headers: the requests, and their headers over HTTP with names in lower case.
    """

    choose: Callable[[str, int], Fault] = lambda prompt, time: None
    answer: Callable[[str], str] = lambda prompt: f"echo: {prompt}"
    key: str | None = None
    model: str = MODEL
    asked: Counter[str] = field(default_factory=Counter)
    answered: list[str] = field(default_factory=list)
    usage: object = field(default_factory=lambda: USAGE)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, path: str, body: bytes, key: str | None = None) -> Reply | UnansweredRequest:
        """Return the response to a request."""
        request = json.loads(body)
        prompts = read_prompts(request)
        with self.lock:
            self.asked.update(prompts)
            self.bodies.append(request)
            faults = [self.choose(prompt, self.asked[prompt]) for prompt in prompts]
            fault = next((each for each in faults if each is not None), None)
        if self.key is not None and key != f"Bearer {self.key}":
            return refuse(401, f"Incorrect API key provided: {(key or '')[7:]}", "invalid_api_key")
        if request["model"] != self.model:
            return refuse(404, f"The model {request['model']} does not exist", "model_not_found")
        if fault is not None:
            return make_fault(fault) if isinstance(fault, str) else fault
        with self.lock:
            self.answered.extend(prompts)
        return give(self._build(path, prompts))

    def _build(self, path: str, prompts: list[str]) -> dict[str, Any]:
        if path.endswith("embeddings"):
            parts = [
                {"embedding": [float(len(prompt)), 0.5], "index": at}
                for at, prompt in enumerate(prompts)
            ]
            # The order of parts is arbitrary in the protocol.
            return {"data": parts[::-1], "model": self.model, "usage": self.usage}
        text = self.answer(prompts[0])
        if path.endswith("chat/completions"):
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        else:
            choice = {"text": text, "finish_reason": "stop"}
        return {"choices": [choice], "model": self.model, "usage": self.usage}


class Direct:
    """A client that calls the model without a network."""

    def __init__(self, model: FakeModel) -> None:
        self._model = model

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        return self._model.reply(path, body)


def read_prompt(request: Mapping[str, Any]) -> str:
    """Return the content of a request's last message, or its first text."""
    return read_prompts(request)[0]


def read_prompts(request: Mapping[str, Any]) -> list[str]:
    """Return the texts of a request: several only for embeddings."""
    if "messages" not in request:
        texts = request.get("prompt", request.get("input"))
        return [str(each) for each in texts] if isinstance(texts, list) else [str(texts)]
    content = request["messages"][-1]["content"]
    return [content if isinstance(content, str) else str(content[-1]["text"])]


def make_fault(fault: str) -> Reply | UnansweredRequest:
    """Return the response for a fault."""
    replies: dict[str, Reply | UnansweredRequest] = {
        "cut short": choose("and then", "length"),
        "refused": choose(None, refusal="No."),
        "filtered": choose("a", "content_filter"),
        "busy": refuse(429, "slow down", "rate_limit_exceeded"),
        "busy for a while": refuse(429, "slow down", "rate_limit_exceeded", {"retry-after": "7"}),
        "busy for a moment": refuse(429, "slow down", "rate_limit_exceeded", {"retry-after": "1"}),
        "busy for a day": refuse(429, "come back", "rate_limit_exceeded", {"retry-after": "86400"}),
        "500": refuse(500, "CUDA error", "server_error"),
        "503": Reply(503, {}, b"<html>no upstream</html>"),
        "late": UnansweredRequest("no answer in 600 s", is_late=True),
        "reset": UnansweredRequest("the connection was reset"),
        "half": UnansweredRequest("the peer closed the connection before the end"),
        "no JSON": Reply(200, {}, b'{"choices": [{"mess'),
        "no choices": give({"choices": []}),
        "too long": refuse(400, "maximum context length is 8", "context_length_exceeded"),
        "no quota": refuse(429, "You exceeded your quota", "insufficient_quota"),
        "unknown parameter": refuse(400, "Unrecognized argument: seeed", "invalid_request"),
        "gone": refuse(404, "The model fake-1 does not exist", "model_not_found"),
        "moved": Reply(307, {"location": "https://elsewhere.example.com"}, b""),
        "no route": Reply(404, {}, b"default backend - 404"),
        "forbidden": refuse(403, "No access to this input", "permission_denied"),
        "moderated": refuse(403, "This input is flagged", "moderation"),
        "too dear": refuse(402, "This request needs more credits", "payment"),
        "busy for no time": refuse(429, "slow down", "rate_limit_exceeded", {"retry-after": "0"}),
        "busy since long": refuse(
            429,
            "slow down",
            "rate_limit_exceeded",
            {
                "retry-after": "Thu, 26 Nov 2026 10:00:00 GMT",
                "date": "Thu, 26 Nov 2026 10:00:30 GMT",
            },
        ),
    }
    return replies[fault]


def draw_faults(
    seed: int, share: float, *, most: int = 3, passing: Sequence[str] = PASSING
) -> Callable[[str, int], Fault]:
    """Choose faults for a share of the prompts: permanent for some, a few transient for others."""

    def choose(prompt: str, time: int) -> Fault:
        dice = random.Random(f"{seed} {prompt}")
        if prompt == PROBE:
            return None
        if dice.random() < share / 4:
            return dice.choice(LASTING)
        number = dice.randint(0, most) if dice.random() < share else 0
        drawn = dice.choices(passing, k=number)
        return drawn[time - 1] if time <= len(drawn) else None

    return choose


class AnsweringHandler(BaseHTTPRequestHandler):
    """HTTP handler that sends complete and partial replies."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # send header and body in one packet, to avoid a delayed acknowledgment

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def send_reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def send_half(self) -> None:
        """Send half of an answer, and close the connection."""
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"choices"')
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


class AnsweringServer(ThreadingHTTPServer):
    """A server with a long accept queue, so that clients may open many connections at a time."""

    request_queue_size = 128
    daemon_threads = True


@contextmanager
def serve(model: FakeModel, delay: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Serve a model locally, and yield its URL; `delay` is called before each response."""

    class Handler(AnsweringHandler):
        def do_POST(self) -> None:
            model.headers.append({name.lower(): value for name, value in self.headers.items()})
            found = model.reply(self.path, self.read_body(), self.headers["authorization"])
            delay()
            if isinstance(found, UnansweredRequest):
                self.send_half()
            else:
                self.send_reply(found)

        def handle(self) -> None:
            with suppress(ConnectionError, TimeoutError):  # the client was killed
                super().handle()

    server = AnsweringServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def list_prompts(count: int) -> Sequence[str]:
    return [f"prompt {number}" for number in range(count)]
