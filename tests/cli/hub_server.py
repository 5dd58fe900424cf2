"""A server with the API calls of the Hugging Face Hub that its client uses for a push.

Data sets, branches, commits, and tags are in memory; large files use the basic LFS transfer. The
server can pretend to be busy, or execute a request and lose the answer. Xet is not supported.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET, socket
from typing import Any

LARGE = (".parquet", ".jsonl")  # the hub stores these files in LFS


@dataclass
class Repo:
    """A data set: commits by id with all their files, heads of branches, and tags."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    is_private: bool = False

    def commit(self, branch: str, files: dict[str, bytes], title: str, text: str = "") -> str:
        seed = f"{len(self.commits)} {title}"
        oid = hashlib.sha1(seed.encode(), usedforsecurity=False).hexdigest()
        self.commits[oid], self.titles[oid], self.texts[oid] = files, title, text
        self.branches[branch] = oid
        return oid

    def head(self, branch: str = "main") -> dict[str, bytes]:
        return self.commits[self.branches[branch]]

    def find(self, revision: str) -> str:
        """Return the commit of a branch, a tag, or a commit id."""
        return self.branches.get(revision) or self.tags.get(revision) or revision


@dataclass
class Fault:
    """A fault for the next calls whose method and path contain a text."""

    path: str
    kind: str  # `busy`, a status, or `lost`, `reset`, `failed` after execution
    times: int = 1


@dataclass
class Hub:
    """The content of the hub, and the calls that it received."""

    repos: dict[str, Repo] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    url: str = ""
    is_recursive: bool = False  # the current call lists a tree recursively

    def count(self, text: str) -> int:
        return sum(text in call for call in self.calls)

    def take_fault(self, call: str) -> Fault | None:
        for fault in self.faults:
            if fault.path in call and fault.times:
                fault.times -= 1
                return fault
        return None

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return the status, and the content as JSON or bytes."""
        for pattern, handle in _ROUTES:
            found = re.fullmatch(pattern, f"{method} {path}")
            if found is not None:
                answer: tuple[int, Any] = handle(self, body, *found.groups())
                return answer
        return 501, {"error": f"{method} {path} is not played"}


def _create(hub: Hub, body: bytes) -> tuple[int, Any]:
    asked = json.loads(body)
    name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
    url = f"{hub.url}/datasets/{name}"
    if name in hub.repos:
        return 409, {"error": "You already created this dataset repo", "url": url}
    repo = hub.repos[name] = Repo(is_private=asked.get("visibility") == "private")
    repo.commit("main", {".gitattributes": b"*.parquet filter=lfs\n"}, "initial commit")
    return 200, {"url": url, "id": name, "name": name}


def _list_refs(hub: Hub, _body: bytes, name: str) -> tuple[int, Any]:
    repo = hub.repos[name]
    kinds = {"branches": ("heads", repo.branches), "tags": ("tags", repo.tags)}
    listed = {
        kind: [
            {"name": ref, "ref": f"refs/{place}/{ref}", "targetCommit": oid}
            for ref, oid in refs.items()
        ]
        for kind, (place, refs) in kinds.items()
    }
    return 200, {**listed, "converts": []}


def _resolve(hub: Hub, _body: bytes, name: str, oid: str, path: str) -> tuple[int, Any]:
    repo = hub.repos[name]
    content = repo.commits[repo.find(oid)].get(path)
    return (404, {"error": "Entry not found"}) if content is None else (200, content)


def _preupload(_hub: Hub, body: bytes, _name: str, _rev: str) -> tuple[int, Any]:
    files = [
        {
            "path": file["path"],
            "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
            "shouldIgnore": False,
        }
        for file in json.loads(body)["files"]
    ]
    return 200, {"files": files}


def _batch(hub: Hub, body: bytes, _name: str) -> tuple[int, Any]:
    objects = []
    for each in json.loads(body)["objects"]:
        actions = {"upload": {"href": f"{hub.url}/lfs/{each['oid']}", "header": {}}}
        more = {} if each["oid"] in hub.large else {"actions": actions}
        objects.append({"oid": each["oid"], "size": each["size"], **more})
    return 200, {"transfer": "basic", "objects": objects}


def _upload(hub: Hub, body: bytes, oid: str) -> tuple[int, Any]:
    assert hashlib.sha256(body).hexdigest() == oid
    hub.large[oid] = body
    return 200, b""


def _commit(hub: Hub, body: bytes, name: str, branch: str) -> tuple[int, Any]:
    repo = hub.repos[name]
    lines = [json.loads(line) for line in body.splitlines()]
    head = lines[0]["value"]
    if head.get("parentCommit", repo.branches[branch]) != repo.branches[branch]:
        return 412, {"error": "A commit has happened since. Please refresh and try again."}
    files = dict(repo.head(branch))
    for line in lines[1:]:
        value = line["value"]
        if line["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            files[value["path"]] = hub.large[value["oid"]]
        else:
            assert line["key"] == "deletedFile"
            del files[value["path"]]
    oid = repo.commit(branch, files, head["summary"], head.get("description", ""))
    return 200, {"commitUrl": f"{hub.url}/datasets/{name}/commit/{oid}", "commitOid": oid}


def _tag(hub: Hub, body: bytes, name: str, revision: str) -> tuple[int, Any]:
    repo, tag = hub.repos[name], json.loads(body)["tag"]
    if tag in repo.tags:
        return 409, {"error": "tag exists"}
    repo.tags[tag] = repo.branches[revision]
    return 200, {}


def _branch(hub: Hub, _body: bytes, name: str, branch: str) -> tuple[int, Any]:
    repo = hub.repos[name]
    if branch in repo.branches:
        return 409, {"error": "Reference already exists"}
    repo.branches[branch] = repo.branches["main"]
    return 200, {}


def _describe(path: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}


def _list_tree(
    hub: Hub, _body: bytes, name: str, revision: str, folder: str | None
) -> tuple[int, Any]:
    """List a folder: all files below if recursive, or else its own files and folders."""
    repo = hub.repos[name]
    files = repo.commits[repo.find(revision)]
    below = f"{folder[1:]}/" if folder else ""
    entries: dict[str, Any] = {}
    for path, content in files.items():
        if not path.startswith(below):
            continue
        first, _, rest = path.removeprefix(below).partition("/")
        if rest and not hub.is_recursive:
            entries[first] = {"type": "directory", "path": below + first, "oid": "0" * 40}
        else:
            entries[path] = _describe(path, content)
    return 200, list(entries.values())


def _describe_paths(hub: Hub, body: bytes, name: str, revision: str) -> tuple[int, Any]:
    repo = hub.repos[name]
    files = repo.commits[repo.find(revision)]
    asked = json.loads(body)["paths"]
    return 200, [_describe(path, files[path]) for path in asked if path in files]


def _find_info(hub: Hub, _body: bytes, name: str, revision: str | None = None) -> tuple[int, Any]:
    if name not in hub.repos:
        return 404, {"error": "Repository not found"}
    revision = revision or "main"
    return 200, {"id": name, "sha": hub.repos[name].find(revision), "siblings": []}


_NAME = r"([\w.-]+/[\w.-]+)"
_ROUTES: list[tuple[str, Any]] = [
    (r"POST /api/repos/create", _create),
    (r"POST /api/validate-yaml", lambda *_: (200, {"warnings": [], "errors": []})),
    (rf"GET /api/datasets/{_NAME}/refs", _list_refs),
    (rf"GET /datasets/{_NAME}/resolve/([^/ ]+)/(.+)", _resolve),
    (rf"POST /api/datasets/{_NAME}/preupload/(\S+)", _preupload),
    (rf"POST /datasets/{_NAME}\.git/info/lfs/objects/batch", _batch),
    (r"PUT /lfs/(\w+)", _upload),
    (rf"POST /api/datasets/{_NAME}/commit/(\S+)", _commit),
    (rf"POST /api/datasets/{_NAME}/tag/(\S+)", _tag),
    (rf"POST /api/datasets/{_NAME}/branch/(\S+)", _branch),
    (rf"GET /api/datasets/{_NAME}/tree/([^/ ]+)(/\S+)?", _list_tree),
    (rf"POST /api/datasets/{_NAME}/paths-info/([^/ ]+)", _describe_paths),
    (rf"GET /api/datasets/{_NAME}(?:/revision/([^/ ]+))?", _find_info),
]


def _answer(hub: Hub, fault: Fault | None, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """Return the status and the content of an answer, changed by the fault."""
    kind = "" if fault is None else fault.kind
    if kind.isdecimal():
        return int(kind), {"error": "no"}
    answer = hub.answer(method, path, body)
    return (500, {"error": "Internal error"}) if kind == "failed" else answer


def _hang_up(connection: socket, kind: str) -> None:
    if kind == "reset":  # then closing resets the connection
        connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve a hub on a free local port."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Suppress the request log."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            hub.calls.append(f"{self.command} {path}")
            fault = hub.take_fault(hub.calls[-1])
            hub.is_recursive = "recursive=True" in self.path or "recursive=true" in self.path
            more: dict[str, str] = {}
            content: Any
            if fault is not None and fault.kind == "busy":
                status, content, more = 429, {"error": "slow down"}, {"Retry-After": "0"}
            else:
                status, content = _answer(hub, fault, self.command, path, body)
            if fault is not None and fault.kind in {"lost", "reset"}:
                self.close_connection = True
                _hang_up(self.connection, fault.kind)
                return
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            if status == 404:
                more = {"X-Error-Code": "EntryNotFound"}
            part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
            if part is not None and status == 200:
                status, raw = 206, raw[int(part[1]) : int(part[2]) + 1]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(raw)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the library's names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
