"""The manifests of deploy/kubernetes: read as they are, or rendered by kubectl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
COMPONENTS = KUBERNETES / "components"
OVERLAYS = sorted(path.parent for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"))

Resource = dict[str, Any]


def tool(name: str) -> str | None:
    """Return the path of a command that `make e2e` installs, or that the machine has."""
    return shutil.which(str(ROOT / ".venv-peers" / "kubernetes" / "bin" / name)) or shutil.which(name)


def read(path: Path) -> Any:
    """Read a file of one YAML document."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def files() -> list[Path]:
    """Return every YAML file of the manifests."""
    return sorted(KUBERNETES.rglob("*.yaml"))


def base(kind: str) -> Resource:
    """Return the only resource of a kind in the base."""
    (resource,) = [read(path) for path in BASE.glob("*.yaml") if read(path)["kind"] == kind]
    found: Resource = resource
    return found


def server(deployment: Resource) -> Resource:
    """Return the container of the server."""
    (container,) = pod(deployment)["containers"]
    found: Resource = container
    return found


def pod(deployment: Resource) -> Resource:
    """Return the specification of a deployment's pods."""
    found: Resource = deployment["spec"]["template"]["spec"]
    return found


def render(kubectl: str, folder: Path) -> list[Resource]:
    """Render a base or an overlay."""
    run = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    # What kustomize says besides, such as a deprecated field.
    assert run.stderr == ""
    return list(yaml.safe_load_all(run.stdout))
