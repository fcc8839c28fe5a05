"""What must never be in a bug report is taken out, and what it needs stays."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.bundle import redact

HF = "hf_" + "AbCdEfGhIjKlMnOpQrSt"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl"
RANDOM = "Zm9vYmFyYmF6" * 3 + "9aB"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{RANDOM}\n{RANDOM}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("told", "secret"),
    [
        (f"Authorization: Bearer {RANDOM}", RANDOM),
        ("authorization: Basic cm9iaW46aHVudGVyMg==", "cm9iaW46aHVudGVyMg=="),
        ("Cookie: session=hunter2; other=hunter2", "hunter2"),
        ("pull from https://robin:hunter2@registry.example.com/x", "hunter2"),
        ("s3://bucket/x?X-Amz-Signature=hunter2&expires=60", "hunter2"),
        ("GET /models?token=hunter2&revision=main", "hunter2"),
        ("https://blob.example.com/x?sv=2024&sig=hunter2", "hunter2"),
        ('{"api_key": "hunter2", "model": "m"}', "hunter2"),
        ("password = 'hunter2 with blanks'", "hunter2"),
        ("HF_TOKEN=hunter2 vllm serve", "hunter2"),
        ("client_secret: hunter2", "hunter2"),
        (f"engine said {HF} is no good", HF),
        (f"jwt {JWT} ended", JWT),
        (f"key {PEM} ended", RANDOM),
        (f"cut off {PEM[:60]}", RANDOM[:20]),
        ("non-default args: {'api_key': ['hunter2'], 'model': 'x'}", "hunter2"),
        ("args: Namespace(api_key=['first', 'hunter2'], host=None)", "hunter2"),
        ("api_keys: [first, hunter2", "hunter2"),
        ("vllm serve x --api-key hunter2 --port 8000", "hunter2"),
        ("vllm serve x --api-key first hunter2 --port 8000", "hunter2"),
        ("vllm serve x --api-key 'first hunter2'", "hunter2"),
        ('sh -c "exec vllm serve --api-key hunter2"', "hunter2"),
        ("['vllm', '--api-key', 'first', 'hunter2', '--port', '8000']", "hunter2"),
        ('["vllm","--hf-token","hunter2"]', "hunter2"),
        (r'{"msg": "{\"token\": \"hunter2\"}"}', "hunter2"),
        (r"{'msg': '{\'token\': \'hunter2\'}'}", "hunter2"),
        (r'{"password": "fir\"st hunter2"}', "hunter2"),
        ("AccountName=a;AccountKey=hunter2==;EndpointSuffix=core", "hunter2"),
        ("secretAccessKey: hunter2", "hunter2"),
        ("password: correct horse hunter2", "hunter2"),
        ("DB_PASSWORD=first,hunter2", "hunter2"),
        ("password=first;hunter2", "hunter2"),
        ("postgres://u:p@hunter2@host/db", "hunter2"),
        ("redis://:hunter2@host/0", "hunter2"),
        ("AKIA" + "ABCDEFGHIJKLMNOP is refused", "AKIA" + "ABCDEFGHIJKLMNOP"),
        ("sk-" + "proj-abcdefgh123", "sk-" + "proj-abcdefgh123"),
    ],
)
def test_a_secret_in_a_text_is_taken_out(told, secret):
    cleaned = redact.text(told)

    assert secret not in cleaned
    assert redact.GONE in cleaned


@pytest.mark.parametrize(
    "told",
    [
        "prompt_tokens: 17, kvTokens: 8192, max_tokens=32",
        'tidegate_gate_tokens_total{kind="output",model="m"} 5000.0',
        "bos_token_id=1 token: 42",
        "INFO 11-30 02:00:00 engine.py:1 GPU KV cache size: 8,192 tokens",
        "http://qwen-unified:8000/v1/completions",
        "pods is forbidden: User robin cannot list resource pods",
        "tokenizer=Qwen/Qwen3-32B, revision=0123456789abcdef0123456789abcdef01234567",
        '{"tokenSecretRef": {"name": "hub", "key": "HF_TOKEN"}}',
        "key_value: [a, b], kv_cache: fp8, kv_cache_dtype=auto, key_value_heads=8",
        "stop_token: [1, 2], 'bos_token': None, eos_token=null, token: []",
        "vllm serve m --tokenizer other --max-tokens 32 --kv-cache-dtype fp8 x",
        "vllm serve m --max-num-batched-tokens 4096 --trust-remote-code",
        "--hf-token --port 8000",
        "12 tokens per second of 3 requests, token counts follow",
        "the mail goes to robin@example.com: see http://host:80/a@b",
        "password: null, api_key=None, api_key: []",
    ],
)
def test_what_a_report_needs_stays(told):
    assert redact.text(told) == told


@pytest.mark.parametrize(
    "found",
    [
        {"env": [{"name": "HF_TOKEN", "value": "hunter2"}]},
        {"env": [{"name": "MY_PASSWORD", "value": "hunter2"}]},
        {"env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "hunter2"}]},
        {"env": [{"name": "ODD", "value": f"{RANDOM}hunter2"}]},
        {"env": [{"name": "PROXY", "value": "http://u:hunter2@proxy:3128"}]},
        {"args": ["--api-key", "hunter2"]},
        {"args": ["--api-key=hunter2"]},
        {"args": ["--api-key", "first", "hunter2", "--model", "m"]},
        {"command": ["sh", "-c", "exec vllm serve --api-key hunter2"]},
        {"env": [{"name": "SECRET_KEY_BASE", "value": "hunter2"}]},
        {"env": [{"name": "REDIS_PASSWORDS", "value": "hunter2"}]},
        {"env": [{"name": "API_KEYS", "value": "hunter2"}]},
        {"spec": {"apiKeys": ["hunter2"]}},
        {"command": ["sh", "-c", "TOKEN=hunter2 exec vllm"]},
        {"spec": {"password": "hunter2"}},
        {"metadata": {"annotations": {"example.com/api-key": "hunter2"}}},
        {"metadata": {"annotations": {"example.com/odd": f"{RANDOM}hunter2"}}},
        {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
            }
        },
        {"metadata": {"managedFields": [{"manager": "hunter2"}]}},
        {"kind": "Secret", "data": {"a": "hunter2"}, "stringData": {"b": "hunter2"}},
        {"data": {"settings.yaml": "db:\n  password: hunter2\n"}},
    ],
)
def test_a_secret_in_an_object_is_taken_out(found):
    assert "hunter2" not in str(redact.document(found))


def test_names_of_secrets_and_of_their_keys_stay_since_they_are_no_secrets():
    reference = {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN"}}
    pod = {
        "spec": {
            "serviceAccountName": "qwen",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
            "containers": [
                {
                    "args": ["--max-model-len", "8192", "--max-num-batched-tokens=4096"],
                    "env": [
                        {"name": "HF_TOKEN", "valueFrom": reference},
                        {"name": "VLLM_MAX_TOKENS", "value": "17"},
                        {"name": "HF_HOME", "value": "/cache"},
                    ],
                }
            ],
        },
        "status": {"kvTokens": 8192},
    }
    assert redact.document(pod) == pod


ORDINARY = st.sampled_from(
    (
        *("max_tokens", "num_tokens", "key_value", "kv_cache", "kv_cache_dtype", "token_count"),
        *("tokens_per_second", "prompt_tokens", "tokenizer", "tokenizer_mode", "block_size"),
        *("model", "secretName", "keyword"),
    )
)
VALUES = st.one_of(st.integers(0, 10**6).map(str), st.sampled_from(["auto", "fp8", "on", "slow"]))


@given(
    st.lists(st.tuples(ORDINARY, st.sampled_from(["=", ": ", " "]), VALUES), max_size=8),
    st.sampled_from([" ", ", ", "\n"]),
    st.sampled_from(["", "--"]),
)
def test_ordinary_words_and_numbers_stay(words, between, dashes):
    told = between.join(
        f"{dashes}{name.replace('_', '-') if dashes else name}{equals}{value}"
        for name, equals, value in words
        if not (dashes and name.endswith("tokens") and not value.isdigit())
    )
    assert redact.text(told) == told


@given(ORDINARY, VALUES)
def test_ordinary_fields_stay(name, value):
    found = {"spec": {name: value}}
    if name.endswith("tokens") and not value.isdigit():
        return
    assert redact.document(found) == found


@given(
    st.lists(
        st.sampled_from(
            (
                *("token", "api_key", "password", "--api-key", "=", ": ", "[", "]", "{", "'", '"'),
                *(" ", "\\", ",", ";", "hunter2", "12", "None", "\n", "https://", "@", "/"),
                redact.GONE,
            )
        ),
        max_size=14,
    ).map("".join)
)
def test_what_was_redacted_in_odd_places_is_not_changed_again_either(told):
    once = redact.text(told)
    assert redact.text(once) == once


@given(st.text(max_size=200))
def test_what_was_redacted_once_is_not_changed_again(told):
    once = redact.text(f"{told} token=hunter2 {told}")
    assert redact.text(once) == once


@pytest.mark.parametrize(
    "piece", ["a", "token", "--api-key ", "'", "[", "password: ", '\\"', "k=[", "://"]
)
def test_a_long_line_is_read_in_a_moment(piece):
    began = time.process_time()
    redact.text(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 5
