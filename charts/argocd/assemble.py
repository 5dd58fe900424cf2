"""Writes argocd-cm.yaml, a patch of Argo CD's settings, from the health scripts beside it.

The scripts lie as in Argo CD's own repository, `<group>/<kind>/health.lua`, and are tested there.
"""

import argparse
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SCRIPTS = "resource_customizations"
HEADER = """\
# Made by `python charts/argocd/assemble.py` from the scripts in resource_customizations.
# It adds to what is there:
#   kubectl patch configmap argocd-cm --namespace argocd --patch-file charts/argocd/argocd-cm.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
  namespace: argocd
  labels:
    app.kubernetes.io/name: argocd-cm
    app.kubernetes.io/part-of: argocd
data:
"""


def assemble(folder: Path) -> str:
    """Spell the ConfigMap with every `<group>/<kind>/health.lua` below the folder.

    Raises:
        ValueError: there is no script.
    """
    scripts = sorted((folder / SCRIPTS).glob("*/*/health.lua"))
    if not scripts:
        raise ValueError(f"no health.lua in {folder / SCRIPTS}")
    return HEADER + "".join(spell_entry(script) for script in scripts)


def spell_entry(script: Path) -> str:
    """Spell one key of the settings: group and kind, and the script as a block of text."""
    kind = script.parent
    lines = script.read_text(encoding="utf-8").splitlines()
    text = "".join(f"    {line}".rstrip() + "\n" for line in lines)
    return f"  resource.customizations.health.{kind.parent.name}_{kind.name}: |\n{text}"


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Write the file, or with `--check` exit 1 where it is out of date."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: charts/argocd/assemble.py --check"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    is_check = parser.parse_args(arguments).check
    target, wanted = folder / "argocd-cm.yaml", assemble(folder)
    if target.is_file() and target.read_text(encoding="utf-8") == wanted:
        return 0
    if is_check:
        sys.stderr.write(f"{target.name} is out of date; run: python charts/argocd/assemble.py\n")
        return 1
    target.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
