"""`make try` on its node: a worker is killed, and a second attempt resumes."""

from __future__ import annotations

from proving_ground.first_look import NAMESPACE, show
from proving_ground.installation.chart import Installation


def test_a_first_look_shows_a_second_attempt(installation: Installation) -> None:
    shown: list[str] = []
    try:
        story = show(installation, shown.append)
    finally:
        installation.kube.delete("namespace", NAMESPACE)
    first, second = story.attempts
    assert (first["status"]["cause"], second["status"].get("cause")) == ("OOMKilled", None)
    tables = [text for text in shown if text.startswith("$ kubectl get curationattempts\n")]
    assert len(tables) > 3
    assert "OOMKilled" in tables[-1]
    kept = first["status"]["progress"]["finished"]
    assert f"went on from its {kept} finished sources" in shown[-1]
    assert kept >= 3
