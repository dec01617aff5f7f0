#!/usr/bin/env python3
"""The manifests of examples/cluster against Kubernetes' own schemas, and their arguments against
mica: what is mounted, asked for health and told to drain is what mica has.

    kubernetes.py MICA FOLDER
"""
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cluster import EXAMPLES, MICA, MODEL, environment, free_port, skip

FOLDER = sys.argv[2] + "/kubernetes"
if not os.path.isdir(FOLDER):
    skip(f"there is no {FOLDER}: tools/setup-cluster")
sys.path.insert(0, FOLDER)
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402


def status_of(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_for(port, path, status):
    for _ in range(600):
        if status_of(port, path) == status:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} does not become {status}")


def check_schemas(documents):
    versions = ["1.31", kubernetes_validate.latest_version()]
    for version in versions:
        for document in documents:
            kubernetes_validate.validate(document, version, strict=True)
    wrong = dict(documents[0], spec=dict(documents[0]["spec"], replica=2))
    try:
        kubernetes_validate.validate(wrong, versions[0], strict=True)
    except kubernetes_validate.ValidationError:
        return versions
    raise AssertionError("a field that Kubernetes does not know is taken")


def check_server(container, grace):
    """The arguments are taken; the probes see it load, answer and drain."""
    port, events = free_port(), free_port()
    replaced = {"/model": MODEL, "--name=MODEL": "--name=tiny",
                "--kv-events=tcp://ROUTER:5557": f"--kv-events=tcp://127.0.0.1:{events}"}
    words = [replaced.get(word, word) for word in container["args"]]
    process = subprocess.Popen([MICA, "serve", "--port", str(port), *words],
                               env=environment(MICA_API_KEY="sesame"), stderr=subprocess.DEVNULL)
    path = container["readinessProbe"]["httpGet"]["path"]
    assert path == container["startupProbe"]["httpGet"]["path"]
    wait_for(port, path, 200)
    assert status_of(port, "/metrics") == 401  # Prometheus needs the key, a probe does not
    process.send_signal(signal.SIGTERM)
    assert process.wait(grace) == 0


def main():
    with open(EXAMPLES + "kubernetes.yaml", encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    kinds = [document["kind"] for document in documents]
    assert kinds == ["Deployment", "Service", "PodDisruptionBudget", "Job"], kinds
    versions = check_schemas(documents)
    pod = documents[0]["spec"]["template"]
    for document in documents[1:3]:  # they select the deployment's pods
        selector = document["spec"]["selector"]
        assert selector.get("matchLabels", selector) == pod["metadata"]["labels"]
    assert documents[2]["spec"]["minAvailable"] < documents[0]["spec"]["replicas"]
    check_server(pod["spec"]["containers"][0], pod["spec"]["terminationGracePeriodSeconds"])
    job = documents[3]["spec"]
    (words,) = job["template"]["spec"]["containers"][0]["args"]
    assert f"/{job['completions']}\"" in words
    print(f"{len(documents)} manifests are those of Kubernetes {' and '.join(versions)}")


if __name__ == "__main__":
    main()
