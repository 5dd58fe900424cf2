"""`kubectl strandline claims`: lists claims of ledgers, including claims of deleted pipelines."""

from __future__ import annotations

import json

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json
from strandline.cli.app.terminal import find_width
from strandline.cli.cluster.claim_list import LedgerClaim, list_ledger_claims
from strandline.cli.cluster.kubectl import Kubectl
from strandline.cli.cluster.objects import PIPELINES
from strandline.cli.commands.cluster.session import open_session, take_cluster
from strandline.cli.views.format import align, escape_text
from strandline_api.names import select_all

_COLUMNS = ("namespace", "claim", "pipeline", "size", "created", "state")


@click.command(
    "claims",
    epilog=show_examples(
        "kubectl strandline claims --deleted --all-namespaces",
        "kubectl strandline claims --deleted --names | xargs -r kubectl delete",
    ),
)
@click.option("--deleted", is_flag=True, help="Only claims that no pipeline uses any more.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List all namespaces.")
@click.option("--names", is_flag=True, help="Print only names, in the form for `kubectl delete`.")
@take_cluster
@take_json
def list_claims(*, deleted: bool, everywhere: bool, names: bool, as_json: bool) -> None:
    """List the claims that were made for ledgers.

    The columns are namespace, claim, pipeline, size, creation time, and state: `in use`, or
    `pipeline deleted` with the pods that still mount the claim. A claim outlives its pipeline so
    that the pipeline can be restored; deleting the claim deletes the ledger, the logs, and the
    outputs on it.
    """
    # `kubectl delete` takes names of a single namespace, so a list for all namespaces could delete
    # the wrong claims.
    if names and (everywhere or as_json):
        msg = "--names can't be combined with --all-namespaces or --json"
        raise click.UsageError(msg)
    claims = _find(open_session().kubectl, everywhere=everywhere)
    shown = [claim for claim in claims if not (deleted and claim.is_used)]
    if as_json:
        for claim in shown:
            write_line(json.dumps(_render(claim)))
    elif names:
        for claim in shown:
            click.echo(f"persistentvolumeclaim/{claim.name}")
    elif shown:
        rows = [_COLUMNS, *map(_make_row, shown)]
        click.echo("\n".join(align(rows, len(_COLUMNS), find_width())))
    else:
        click.echo("no claims")


def _find(kubectl: Kubectl, *, everywhere: bool) -> list[LedgerClaim]:
    scope = ["--all-namespaces"] if everywhere else []
    claims = kubectl.get("persistentvolumeclaims", *scope, "-l", select_all())["items"]
    # Read pipelines after claims. In the opposite order, the claim of a pipeline created between
    # the two requests would seem to belong to a deleted pipeline.
    pipelines = kubectl.get(PIPELINES, *scope)["items"]
    return list_ledger_claims(claims, pipelines, kubectl.get("pods", *scope)["items"])


def _make_row(claim: LedgerClaim) -> tuple[str, ...]:
    state = "in use" if claim.is_used else "pipeline deleted"
    mounted = f", mounted by {', '.join(claim.pods)}" if claim.pods and not claim.is_used else ""
    cells = (claim.namespace, claim.name, claim.pipeline, claim.size, claim.created)
    return (*map(escape_text, cells), f"{state}{escape_text(mounted)}")


def _render(claim: LedgerClaim) -> dict[str, object]:
    """Render a line of `--json`; its keys are stable."""
    return {
        "namespace": claim.namespace,
        "claim": claim.name,
        "pipeline": claim.pipeline,
        "inUse": claim.is_used,
        "size": claim.size,
        "created": claim.created,
        "pods": list(claim.pods),
    }
