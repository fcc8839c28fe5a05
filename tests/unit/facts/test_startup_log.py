"""What start-up logs of many versions tell of memory.

The lines have the wording of each version; the numbers are of public logs.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.facts import startup_log
from tidegate.facts.startup_log import StartupLog

GIB = 2**30

# as vLLM 0.32 for CPUs printed it, with KV of a given size
REAL_CPU_GIVEN = """\
(EngineCore pid=19250) INFO 11-29 20:40:54 [utils.py:347] Using LBHNC KV cache layout.
(Worker pid=19399) INFO 11-29 20:40:54 [cpu_worker.py:260] Explicitly set (0.01/23.54) GiB for KV \
cache on node 0.
(EngineCore pid=19250) INFO 11-29 20:40:54 [kv_cache_utils.py:2327] CPU KV cache size: 8,192 \
tokens, Maximum concurrency for 2,048 tokens per request: 4.00x
"""
CPU_AUTO = """\
(Worker pid=7) INFO 11-29 20:40:54 [cpu_worker.py:260] Auto set (9.02/23.54) GiB for KV cache on \
node 0, with 10.0 GiB requested memory for the worker. 0.98 GiB memory was consumed by non-kv usages.
"""
V0_PROFILE = """\
INFO 01-22 08:11:02 model_runner.py:1099] Loading model weights took 14.9595 GB
INFO 01-22 08:11:05 worker.py:241] Memory profiling takes 3.21 seconds
INFO 01-22 08:11:05 worker.py:241] the current vLLM instance can use total_gpu_memory (39.50GiB) x \
gpu_memory_utilization (0.90) = 35.55GiB
INFO 01-22 08:11:05 worker.py:241] model weights take 14.96GiB; non_torch_memory takes 0.10GiB; \
PyTorch activation peak memory takes 9.37GiB; the rest of the memory reserved for KV Cache is \
11.12GiB.
"""
V1_BY_TERM = """\
(Worker_TP0 pid=9) INFO 10-02 11:00:00 [gpu_model_runner.py:2392] Model loading took 30.59 GiB and \
20.1 seconds
(Worker_TP1 pid=10) INFO 10-02 11:00:00 [gpu_model_runner.py:2392] Model loading took 30.60 GiB \
and 20.2 seconds
(Worker_TP0 pid=9) INFO 10-02 11:00:30 [gpu_worker.py:298] Available KV cache memory: 34.49 GiB
(Worker_TP1 pid=10) INFO 10-02 11:00:30 [gpu_worker.py:298] Available KV cache memory: 34.52 GiB
(Worker_TP0 pid=9) INFO 10-02 11:00:50 [gpu_model_runner.py:3480] Graph capturing finished in 12 \
secs, took -0.33 GiB
(Worker_TP0 pid=9) INFO 10-02 11:00:50 [gpu_worker.py:391] Free memory on device (78.68/79.18 GiB) \
on startup. Desired GPU memory utilization is (0.9, 71.26 GiB). Actual usage is 30.59 GiB for \
weight, 5.64 GiB for peak activation, 0.54 GiB for non-torch memory, and -0.33 GiB for CUDAGraph \
memory. Replace gpu_memory_utilization config with `--kv-cache-memory=37000000000` to fit into \
requested memory.
"""
V032 = """\
(Worker pid=9) INFO 11-02 11:00:00 [model_runner.py:425] Model loading took 15.27 GiB memory and \
20.123456 seconds
(Worker pid=9) INFO 11-02 11:00:29 [gpu_model_runner.py:6475] Estimated CUDA graph memory: 0.71 \
GiB total
(Worker pid=9) INFO 11-02 11:00:30 [gpu_worker.py:760] Available KV cache memory: 51.02 GiB
(Worker pid=9) INFO 11-02 11:00:30 [gpu_worker.py:770] CUDA graph memory profiling is enabled \
(default since v0.21.0). The current --gpu-memory-utilization=0.9000 is equivalent to \
--gpu-memory-utilization=0.8910 without CUDA graph memory profiling.
(Worker pid=9) INFO 11-02 11:00:45 [model_runner.py:1128] Graph capturing finished in 12 secs, \
took 0.55 GiB
(Worker pid=9) INFO 11-02 11:00:45 [gpu_worker.py:971] CUDA graph pool memory: 0.55 GiB (actual), \
0.71 GiB (estimated), difference: 0.16 GiB (29.1%).
(Worker pid=9) INFO 11-02 11:00:45 [gpu_worker.py:1013] Free memory on device (78.68/79.18 GiB) on \
startup. Desired GPU memory utilization is (0.9, 71.26 GiB). Actual usage is 15.4 GiB for consumed \
memory (weights + non-torch), 4.84 GiB for peak activation, and 0.55 GiB for CUDAGraph memory. \
Replace gpu_memory_utilization config with `--kv-cache-memory=54000000000` (50.3 GiB) to fit into \
requested memory.
"""
GIVEN = """\
(Worker pid=9) INFO 11-02 11:00:00 [model_runner.py:425] Model loading took 15.27 GiB memory and \
20.1 seconds
(Worker pid=9) INFO 11-02 11:00:30 [gpu_worker.py:657] Initial free memory 78.68 GiB, reserved \
40.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory \
profiling. This does not respect the gpu_memory_utilization config.
(Worker pid=9) INFO 11-02 11:00:45 [model_runner.py:1128] Graph capturing finished in 12 secs, \
took 0.55 GiB
"""


def gib(log: StartupLog) -> dict[str, float]:
    """Return what is told, in GiB to two decimals."""
    return {
        name.removesuffix("_bytes"): round(value / GIB, 2)
        for name, value in vars(log).items()
        if value is not None and name != "is_profiled"
    }


@pytest.mark.parametrize(
    ("text", "told", "is_profiled"),
    [
        (REAL_CPU_GIVEN, {}, False),
        (CPU_AUTO, {"kv": 9.02}, False),
        (
            V0_PROFILE,
            {"weights": 14.96, "activations": 9.37, "non_torch": 0.1, "kv": 11.12, "total": 39.5},
            True,
        ),
        (
            V1_BY_TERM,
            {
                "weights": 30.6,
                "activations": 5.64,
                "non_torch": 0.54,
                "cuda_graphs": 0.0,
                "kv": 34.49,
                "total": 79.18,
            },
            True,
        ),
        (
            V032,
            {
                "weights": 15.27,
                "activations": 4.13,
                "non_torch": 0.13,
                "cuda_graphs": 0.71,
                "kv": 51.02,
                "total": 79.18,
            },
            True,
        ),
        (GIVEN, {"weights": 15.27, "cuda_graphs": 0.55}, False),
        ("", {}, False),
    ],
    ids=["CPU", "CPU by itself", "V0", "V1, two ranks", "0.32", "KV given", "no log"],
)
def test_a_log_is_read_as_its_version_writes_it(text, told, is_profiled):
    read = startup_log.read(text)

    assert gib(read) == told
    assert read.is_profiled == is_profiled


def test_a_log_that_begins_late_tells_only_what_is_left_of_it():
    rest = V032[V032.index("(Worker pid=9) INFO 11-02 11:00:45 [model_runner") :]

    assert startup_log.read(rest).weights_bytes is None
    assert startup_log.read(rest).kv_bytes is None


@given(st.text(max_size=2000))
def test_no_text_is_too_odd(text):
    assert isinstance(startup_log.read(text), StartupLog)


@given(st.text("0123456789.", min_size=1, max_size=400))
@example("9" * 400)
@example("1.2.3")
def test_odd_numbers_are_no_numbers(number):
    text = f"Model loading took {number} GiB memory and 1.0 seconds"
    weights = startup_log.read(text).weights_bytes
    assert weights is None or weights >= 0
