"""Pushes to a data set on Hugging Face's hub: all files in one commit, and a tag for the revision.

Large files are uploaded first and have no effect until the commit. The manifest in the repository
contains the revision, so the next try detects a commit whose response was lost, and does not repeat
the commit. The commit names its parent, so the hub rejects it if another commit was faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import httpx2
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, and not exported
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import (
    MANIFEST,
    BadTargetError,
    PushResult,
    Shipment,
    ShippedFile,
    TargetRefusedError,
    find_revision,
    list_names,
    read_properties,
    require_ours,
)
from strandline.run.release.push.backoff import CallRefusal, ask_again
from strandline.storage import faults

T = TypeVar("T")
SCHEME = "hf://"
BATCH = 100  # number of files uploaded at a time
MOST_FILES = 20_000  # the hub's limit for one commit
MAIN = "main"
_TARGET = re.compile(r"hf://datasets/([\w.-]+/[\w.-]+)(?:@([\w./-]+))?/?")
_DATASET = "dataset"
# Status codes of temporary errors. 409 and 412 mean that another commit was faster.
_PASSING = frozenset({408, 409, 412, 429, 500, 502, 503, 504})
_TRIES_OF_COMMITS = 5
_REFUSED = frozenset({401, 403})


class HubTarget(NamedTuple):
    """A branch of a data set on the hub."""

    repo: str
    branch: str = MAIN

    @property
    def name(self) -> str:
        """The target in the user's notation."""
        return f"{SCHEME}datasets/{self.repo}@{self.branch}"


def parse_target(text: str) -> HubTarget:
    """Parse a target of the form `hf://datasets/ORG/NAME[@branch]`.

    Raises:
        BadTargetError: if the text has another form.
    """
    found = _TARGET.fullmatch(text)
    if found is None:
        raise BadTargetError(
            f"{text!r} is not the name of a data set; write hf://datasets/ORG/NAME[@branch]"
        )
    return HubTarget(found[1], found[2] or MAIN)


def name_tag(shipment: Shipment) -> str:
    """Return the tag of a revision."""
    return f"strandline-{shipment.revision[:16]}"


def push_to_hub(
    shipment: Shipment,
    contents: Contents,
    target: HubTarget,
    sleep: Callable[[float], None],
    fence: Callable[[], None],
) -> PushResult:
    """Push to the hub, unless the branch already has this revision and all its files.

    A missing repository is created as private.

    Args:
        fence: raises if the pushing attempt no longer has the ledger.

    Raises:
        UnfitForPushError: if a file is missing, or its bytes have changed.
        TargetRefusedError: if the hub rejects the push.
    """
    if len(shipment.files) > MOST_FILES:
        raise TargetRefusedError(
            f"{len(shipment.files):,} files exceed the limit of the hub, {MOST_FILES:,} files in "
            "one commit; set `targetBytes` of the sink to get fewer files"
        )
    hub = _Hub(HfApi(), target, sleep, fence)
    try:
        return _push(hub, shipment, contents)
    except (HfHubHTTPError, httpx2.HTTPError) as error:
        raise TargetRefusedError(_explain(target, error)) from error


def _push(hub: _Hub, shipment: Shipment, contents: Contents) -> PushResult:
    target, tag, uploaded, is_asked = hub.target, name_tag(shipment), 0, False
    hub.make()
    for number in range(_TRIES_OF_COMMITS):
        head = hub.find_head()
        manifest = hub.read_manifest(head)
        owner = read_properties(manifest)
        if owner is not None:  # None for files without a manifest
            require_ours(target.name, shipment.author, owner, "repository")
        # Check the head, which may already have this revision, from a commit whose response was
        # lost. The tag alone proves nothing: a later revision may be the head, or a user may have
        # changed files.
        if find_revision(manifest) == shipment.revision and hub.has_files(head, shipment):
            # If this push has tried to commit, the head is probably that commit, so report a new
            # revision.
            if not is_asked and tag in hub.list_tags():
                return PushResult(target.name, shipment.revision, is_new=False, files=0)
            break
        is_asked = True
        try:
            uploaded = _commit(hub, shipment, contents, head, list_names(manifest))
            break
        except (HfHubHTTPError, httpx2.HTTPError) as error:
            # The error may hide a successful commit, so the next round checks the head again.
            if number + 1 == _TRIES_OF_COMMITS or not judge_answer(error).is_passing:
                raise
            asked = judge_answer(error).seconds
            hub.sleep(2.0**number if asked is None else asked)
    faults.reach("push.committed")
    hub.tag(tag, f"{shipment.pipeline}, run {shipment.run}")
    faults.reach("push.tagged")
    return PushResult(target.name, shipment.revision, is_new=True, files=uploaded)


def _commit(hub: _Hub, shipment: Shipment, contents: Contents, head: str, former: set[str]) -> int:
    """Upload all files and commit. Return the number of files."""
    operations: list[CommitOperationAdd | CommitOperationDelete] = []
    for begin in range(0, len(shipment.files), BATCH):
        files = shipment.files[begin : begin + BATCH]
        with ExitStack() as stack:
            additions = [_add(stack, contents, file) for file in files]
            hub.upload(additions)
            operations += additions
    faults.reach("push.uploaded")
    operations += [CommitOperationAdd(*extra) for extra in shipment.extras.items()]
    # Delete only files that an earlier push listed, because other files belong to users.
    gone = former - {file.name for file in shipment.files}
    if gone:
        there = hub.list_files(head)
        operations += [CommitOperationDelete(name) for name in sorted(gone & there)]
    lines = [f"{name}: {value}" for name, value in shipment.properties.items()]
    hub.commit(operations, head, f"strandline {shipment.revision}", "\n".join(lines))
    return len(shipment.files)


def _add(stack: ExitStack, contents: Contents, file: ShippedFile) -> CommitOperationAdd:
    path = stack.enter_context(contents.fetched(file))
    # Read a temporary copy now, because it is deleted before the commit.
    source = str(path) if contents.find_path(file) else path.read_bytes()
    return CommitOperationAdd(file.name, source)


class _Hub:
    """A branch of a data set. All calls except the commit are retried while the hub is busy."""

    def __init__(
        self,
        api: HfApi,
        target: HubTarget,
        sleep: Callable[[float], None],
        fence: Callable[[], None],
    ) -> None:
        self._api = api
        self.target = target
        self.sleep = sleep
        self._fence = fence

    def make(self) -> None:
        repo, branch = self.target
        self._ask(
            lambda: self._api.create_repo(repo, repo_type=_DATASET, private=True, exist_ok=True)
        )
        if branch != MAIN:
            self._ask(
                lambda: self._api.create_branch(
                    repo, repo_type=_DATASET, branch=branch, exist_ok=True
                )
            )

    def list_tags(self) -> set[str]:
        return {ref.name for ref in self._list_refs().tags}

    def find_head(self) -> str:
        heads: dict[str, str] = {ref.name: ref.target_commit for ref in self._list_refs().branches}
        try:
            return heads[self.target.branch]
        except KeyError:
            raise TargetRefusedError(f"{self.target.name}: the branch does not exist") from None

    def read_manifest(self, head: str) -> bytes:
        url = f"{self._api.endpoint}/datasets/{self.target.repo}/resolve/{head}/{MANIFEST}"

        def read() -> bytes:
            answer = get_session().get(url, headers=build_hf_headers(), follow_redirects=True)
            hf_raise_for_status(answer)
            return bytes(answer.content)

        try:
            return self._ask(read)
        except EntryNotFoundError:
            return b""

    def list_files(self, head: str) -> set[str]:
        repo = self.target.repo
        return set(
            self._ask(lambda: self._api.list_repo_files(repo, revision=head, repo_type=_DATASET))
        )

    def has_files(self, head: str, shipment: Shipment) -> bool:
        """Return True if all files of a shipment exist with their sizes."""
        repo, there = self.target.repo, dict[str, int]()

        def list_tree() -> None:
            found = self._api.list_repo_tree(
                repo, recursive=True, revision=head, repo_type=_DATASET
            )
            there.update({item.path: item.size for item in found if isinstance(item, RepoFile)})

        self._ask(list_tree)
        return all(there.get(file.name) == file.size for file in shipment.files)

    def upload(self, additions: list[CommitOperationAdd]) -> None:
        repo, branch = self.target

        def preupload() -> None:
            try:
                self._api.preupload_lfs_files(
                    repo, additions=additions, repo_type=_DATASET, revision=branch
                )
            except RuntimeError as error:
                # Raise the cause of the client's error: it has the hub's response.
                raise error.__cause__ or error from None

        self._ask(preupload)

    def commit(self, operations: list[Any], parent: str, title: str, text: str) -> None:
        repo, branch = self.target
        # Check the lease immediately before the commit, which makes the files visible.
        self._fence()
        self._api.create_commit(
            repo,
            operations,
            commit_message=title,
            commit_description=text,
            repo_type=_DATASET,
            revision=branch,
            parent_commit=parent,
        )

    def tag(self, tag: str, text: str) -> None:
        repo, branch = self.target
        self._ask(
            lambda: self._api.create_tag(
                repo,
                tag=tag,
                tag_message=text,
                revision=branch,
                repo_type=_DATASET,
                exist_ok=True,
            )
        )

    def _list_refs(self) -> Any:  # noqa: ANN401 - the hub's own
        repo = self.target.repo
        return self._ask(lambda: self._api.list_repo_refs(repo, repo_type=_DATASET))

    def _ask(self, call: Callable[[], T]) -> T:
        return ask_again(call, judge_answer, self.sleep)


def judge_answer(error: Exception) -> CallRefusal:
    """Return whether a later call to the hub may succeed, and when to retry."""
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        asked = error.response.headers.get("Retry-After", "")
        # `Retry-After` may also be a date, which this code ignores.
        seconds = float(asked) if asked.isdecimal() else None
        return CallRefusal(status in _PASSING, seconds)
    return CallRefusal(isinstance(error, httpx2.TransportError))


def _explain(target: HubTarget, error: Exception) -> str:
    answer = error.response if isinstance(error, HfHubHTTPError) else None
    what = " ".join(str(error).split())
    if answer is not None and answer.status_code in _REFUSED:
        return (
            f"{target.name}: the hub denies access ({answer.status_code}); set HF_TOKEN to a token "
            "with write access"
        )
    return f"{target.name}: the hub rejected the push ({what})"
