"""RayJobs as an operator might create: three templates with different labels."""

from __future__ import annotations

from recordings import Json


def make_rayjob(name: str = "corpus-1") -> Json:
    """Make a small RayJob whose containers and worker group have names that no recording uses."""
    groups = [{"groupName": "cpu", "replicas": 1, "template": make_template("worker", "main")}]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "annotations": {"example.com/kept": "yes"}},
        "spec": {
            "entrypoint": "true",
            "rayClusterSpec": {
                "rayVersion": "2.60.0",
                "headGroupSpec": {"rayStartParams": {}, "template": make_template("head", "head")},
                "workerGroupSpecs": [{**group, "rayStartParams": {}} for group in groups],
            },
            "submitterPodTemplate": make_template("submitter", "ray-job-submitter"),
        },
    }


def make_template(role: str, container: str) -> Json:
    """Make a pod template with a role label."""
    return {
        "metadata": {"labels": {"example.com/role": role}},
        "spec": {"containers": [{"name": container, "image": "example.com/ray"}]},
    }
