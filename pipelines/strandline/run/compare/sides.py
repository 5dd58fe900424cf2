"""Finds what an argument of a comparison names: a pipeline, a publication, a folder, or a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strandline.data.files.globs import is_url
from strandline.data.files.opening import open_binary
from strandline.data.shipments.shipment import MANIFEST as PUSHED
from strandline.ledger.access.session import opened_to_read
from strandline.ledger.checks.counts import StageTotals, count_finished, count_sources
from strandline.ledger.output_root import list_out, read_output_root
from strandline.ledger.store.fingerprints import read_fingerprint
from strandline.ledger.store.recipes import count_older
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import DROPPED
from strandline.run.attempt.phases.publisher import METRICS, RECIPE
from strandline.run.attempt.sources.published_outputs import find_ledger
from strandline.run.compare.comparison import ComparedSide
from strandline.run.manifest.manifest import read_manifest
from strandline.run.manifest.positions import NAME_MARK
from strandline.run.release.push.folder import LATEST
from strandline.storage.access.protocols import find_lack
from strandline.storage.layout import PipelineFolder, list_folders
from strandline.storage.outputs import manifest
from strandline.storage.outputs.ownership import Owner, read_owner
from strandline.storage.outputs.remote import resolve_location
from strandline.storage.volume import published
from strandline_api.outcome.exit_codes import ExitCode

# Matches `data/corpus@3`, `data/corpus@0003/p0007`, and the path of a publication.
_VERSION = re.compile(r"(.+?)(?:@|/attempts/)0*([1-9][0-9]*)(?:/p0*([1-9][0-9]*))?/?")


class UnknownSideError(StrandlineError):
    """Raised if an argument names nothing that can be compared."""

    exit_code = ExitCode.BAD_SPEC


def find_side(name: str, volume: Path) -> ComparedSide:
    """Read the recipe and the counts of an argument of a comparison.

    Args:
        name: a pipeline file; a folder of a pipeline, a publication, outputs, or a push; or a
            pipeline as `VOLUME/NAME`, optionally followed by `@ATTEMPT` or `@ATTEMPT/PUBLICATION`.
        volume: volume with the ledgers of output folders.

    Raises:
        UnknownSideError: the argument names nothing that can be compared.
        LedgerError, SpecError, VolumeError: a ledger, file, or folder can't be read.
    """
    lack = find_lack(name)
    if lack is not None:
        raise UnknownSideError(f"{name}: {lack.message}; {lack.hint}")
    if is_url(name):
        return _read_folder(name, name, volume)
    if Path(name.partition(NAME_MARK)[0]).is_file():
        parts = read_manifest(Path(name), volume=volume).plan.fingerprint.parts
        return ComparedSide(name, "pipeline file", parts, no_rows="a pipeline file has no rows")
    # `latest` is a link to a publication.
    path = Path(os.path.realpath(name) if Path(name).exists() else name).absolute()
    version = _VERSION.fullmatch(str(path))
    folder = _find_pipeline(Path(version[1]) if version else path)
    if folder is None:
        return _read_folder(name, resolve_location(name), volume)
    if version is None:
        return _read_pipeline(name, folder)
    return _read_version(name, folder, [int(each) for each in version.groups()[1:] if each])


def _find_pipeline(path: Path) -> PipelineFolder | None:
    folders = list_folders(path)
    return next((each for each in folders if each.ledger.is_dir() or each.attempts.is_dir()), None)


def _read_pipeline(name: str, folder: PipelineFolder) -> ComparedSide:
    """Read the present state of a pipeline from its ledger."""
    with opened_to_read(folder.ledger) as store:
        counts, older = count_finished(store), count_older(store)
        fingerprint, location = read_fingerprint(store), read_output_root(store)
        sources = {str(state): number for state, number in count_sources(store).items()}
        attempt = (store.read_meta("lease") or {}).get("attempt", 0)
    notes = ((older, "were finished by an older recipe"), (counts.uncounted, "have no row counts"))
    return ComparedSide(
        name,
        f"pipeline {folder.path.parent.name}/{folder.path.name}, attempt {attempt}",
        fingerprint and fingerprint.parts,
        sources,
        counts.stages,
        counts.data.rows,
        location or str(folder.output),
        lambda: _list_outputs(folder),
        notes=tuple(f"{number:,} sources {what}" for number, what in notes if number),
    )


def _list_outputs(folder: PipelineFolder) -> Iterator[manifest.ListedOutput]:
    with opened_to_read(folder.ledger) as store:
        yield from list_out(store)


def _read_version(name: str, folder: PipelineFolder, wanted: Sequence[int]) -> ComparedSide:
    """Read a publication, or the newest publication of an attempt."""
    known = published.list_publication_ids(folder)
    matching = (each for each in known if [*each][: len(wanted)] == wanted)
    complete = (published.read_publication(folder, each) for each in matching)
    found = next(filter(None, complete), None)
    if found is None:
        listed = ", ".join(each.name for each in known[:10]) or "none"
        raise UnknownSideError(f"{name}: no such publication is complete; publications: {listed}")
    if found.facts.get("isFinal") and found.identity == known[0]:
        with opened_to_read(folder.ledger) as store:
            last = store.read_meta("lease") or {}
        # The outputs are those of the publication if no attempt has started since.
        if last.get("attempt") == found.attempt:
            return _read_pipeline(name, folder)
    return _read_publication(name, found)


def _read_publication(name: str, found: published.Publication) -> ComparedSide:
    metrics = _read_json(str(found.path / METRICS)) or {}
    stages, known = tuple(_read_stages(metrics.get("stages", {}))), metrics.get("sources", {})
    states = ("finished", "failed", "quarantined")
    sources = {state: known[state] for state in states if known.get(state) is not None}
    skipped = known.get("skipped") or 0
    # The ledger counts sources of earlier attempts as finished, too.
    sources |= {"finished": sources.get("finished", 0) + skipped}
    return ComparedSide(
        name,
        f"publication {found.identity.name} of {found.facts.get('pipeline')}",
        _read_json(str(found.path / RECIPE)),
        sources,
        stages,
        stages[-1].rows_in if stages else 0,
        no_rows="a publication has counts but no rows, and later work may have replaced its "
        "outputs; to keep the rows of a version, push it to a folder",
        notes=(f"rows exclude {skipped:,} sources of earlier attempts",) if skipped else (),
    )


def _read_stages(stages: Mapping[str, Mapping[str, Any]]) -> Iterator[StageTotals]:
    # The first stage lists the sources, and has no rows.
    for name, each in [*stages.items()][1:]:
        counters = each["counters"].items()
        reasons = ((key.removeprefix(DROPPED), n) for key, n in counters if key.startswith(DROPPED))
        dead = each.get("dead", 0)
        yield StageTotals(name, each["rows_in"], each["rows_out"], dead, tuple(reasons))


def _read_folder(name: str, location: str, volume: Path) -> ComparedSide:
    """Read a folder of outputs, or of a push; both may be in a store."""
    try:
        latest = _read_json(f"{location}/{LATEST}")
        location = f"{location}/{latest['revision']}" if latest else location
        pushed = _read_json(f"{location}/{PUSHED}")
        if pushed is not None:
            return _read_push(name, location, pushed)
    except (KeyError, TypeError) as error:
        raise UnknownSideError(f"{name}: {LATEST} or {PUSHED} there is not of a push") from error
    owner = read_owner(location)
    folder = owner and _find_owner(owner, location, volume)
    if folder is not None:
        return _read_pipeline(name, folder)
    try:
        rows = sum(each.rows for each in manifest.read_manifest(location))
    except FileNotFoundError:
        raise UnknownSideError(
            f"{name}: nothing to compare there; name a pipeline file, VOLUME/NAME of a pipeline, "
            "or a folder of outputs, of a push, or of a publication"
        ) from None
    return ComparedSide(
        name,
        f"outputs of {owner.pipeline}" if owner else "outputs",
        rows=rows,
        location=location,
        list_outputs=lambda: manifest.read_manifest(location),
        notes=(f"no ledger on the volume {volume} (--volume) writes there",),
    )


def _find_owner(owner: Owner, location: str, volume: Path) -> PipelineFolder | None:
    """Return the folder of the pipeline that writes to a location, if its ledger is known."""
    # The default folder of outputs is `VOLUME/NAMESPACE/NAME/output`.
    for each in (*([] if is_url(location) else Path(location).parents[2:3]), volume):
        ledger = find_ledger(each, owner)
        if ledger is not None:
            with opened_to_read(ledger) as store:
                current = read_output_root(store) or str(ledger.parent / "output")
            # The ledger does not describe a copy of its outputs, which has the same owner's file.
            if os.path.realpath(current) == os.path.realpath(location):
                return PipelineFolder(ledger.parent)
    return None


def _read_push(name: str, location: str, pushed: Mapping[str, Any]) -> ComparedSide:
    files = pushed["files"].items()
    outputs = [manifest.ListedOutput(path, each["size"], each["rows"]) for path, each in files]
    return ComparedSide(
        name,
        f"revision {pushed['revision']} of {pushed['pipeline']}",
        pushed.get("recipe"),
        rows=pushed["rows"],
        location=location,
        list_outputs=lambda: outputs,
    )


def _read_json(path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a JSON file, or None if the file is missing."""
    try:
        with open_binary(path) as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise UnknownSideError(f"{path}: not valid JSON, so the file is damaged") from error
