"""What `helm test` runs: has the API server review two resources, and store neither.

Both are dry runs. One is good and must be let in; the other cannot work on any GPU, and must be
refused by the webhook with its reason. Each line that is printed begins with `ok` or `FAILED`.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECONDS = 30


def resource(name, tensor_parallel):
    """Return a small LLMDeployment; whether it fits the nodes here is no matter of the test."""
    return {
        "apiVersion": "tidegate.io/v1alpha1",
        "kind": "LLMDeployment",
        "metadata": {"name": name, "annotations": {"tidegate.io/admission": "Warn"}},
        "spec": {
            "model": {"id": "Qwen/Qwen3-0.6B"},
            "engine": {"image": os.environ["ENGINE_IMAGE"], "maxModelLen": 4096},
            "pools": {"unified": {"replicas": 1, "tensorParallel": tensor_parallel}},
        },
    }


def dry_run(server, token, context, namespace, document):
    """Ask the API server to create it, and say how that went: the status and the message."""
    path = f"/apis/tidegate.io/v1alpha1/namespaces/{namespace}/llmdeployments?dryRun=All"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps(document).encode()
    request = urllib.request.Request(server + path, body, headers, method="POST")
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with direct.open(request, timeout=SECONDS) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            return error.code, json.loads(text)["message"]
        except (ValueError, KeyError, TypeError):
            return error.code, text
    except OSError as error:
        return 0, f"the API server cannot be reached: {error}"


def judged(status, message, is_good):
    """Return whether the answer is the right one, and a sentence."""
    if is_good:
        if status == 201:
            return True, "a good LLMDeployment is let in (dry run)"
        return False, f"a good LLMDeployment is not let in: {status} {message}"
    if status == 201:
        return False, "an LLMDeployment that cannot work is let in: nobody reviews it"
    if "ParallelismInvalid" in message:
        return True, f"one that cannot work is refused, with its reason:\n{message}"
    return False, f"one that cannot work is refused, but not by the webhook: {status} {message}"


def main():
    """Run both; 0 when all is well."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    token = (ACCOUNT / "token").read_text()
    namespace = os.environ["NAMESPACE"]
    context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    cases = [("tidegate-test-good", 1, True)]
    if os.environ["REVIEWS"] == "true":
        cases.append(("tidegate-test-bad", 3, False))  # three does not divide the model's heads
    right = True
    for name, tensor_parallel, is_good in cases:
        answer = dry_run(server, token, context, namespace, resource(name, tensor_parallel))
        is_right, sentence = judged(*answer, is_good)
        print("ok    " if is_right else "FAILED", sentence, flush=True)
        right = right and is_right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
