"""What an engine's metrics page says, and that nonsense on it says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.facts import engines
from tidegate.gate.shell import exposition

GOOD = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:num_preemptions_total{engine="0",model_name="tiny"} 1.5e+07
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.7e+09
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 100.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 40.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 7.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",gpu_memory_utilization="0.9",\
kv_cache_max_concurrency="4.0",kv_cache_memory_bytes="None",kv_cache_size_tokens="8192",\
num_gpu_blocks="513"} 1.0
"""


def test_a_page_is_read():
    told = exposition.read(GOOD, 5.0)

    assert (told.at, told.kv_usage, told.num_gpu_blocks) == (5.0, 0.25, 513)
    assert (told.running, told.waiting, told.preemptions) == (3, 2, 1.5e7)
    assert (told.prefix_queries, told.prefix_hits) == (100.0, 40.0)


@pytest.mark.parametrize("version", engines.versions())
def test_every_known_engine_version_exports_what_is_read(version):
    engine = engines.engine(version)

    assert set(exposition.NAMES.values()) <= set(engine.metrics)
    for old, new in exposition.OLD_NAMES.items():
        assert engine.renamed_metric(old) == new


def test_names_of_old_engines_are_read_where_the_new_ones_are_absent():
    assert exposition.read("vllm:gpu_cache_usage_perc 0.5\n", 0).kv_usage == 0.5
    both = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n"
    assert exposition.read(both, 0).kv_usage == 0.25


def test_data_parallel_engines_sum_counts_and_take_the_fullest_cache():
    page = "".join(
        f'vllm:kv_cache_usage_perc{{engine="{i}"}} {usage}\n'
        f'vllm:num_requests_running{{engine="{i}"}} 2\n'
        for i, usage in enumerate((0.25, 0.75))
    )
    told = exposition.read(page, 0)

    assert (told.kv_usage, told.running) == (0.75, 4)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1.5", "x", "1e999", "0x10"])
def test_a_usage_that_cannot_be_is_unknown_and_the_rest_stands(value):
    page = GOOD.replace('tiny"} 0.25', f'tiny"}} {value}')
    told = exposition.read(page, 0)

    assert told.kv_usage is None
    assert told.running == 3


def test_a_series_that_is_there_twice_is_unknown():
    line = 'vllm:num_requests_running{engine="0"} 1\n'
    assert exposition.read(line + line, 0).running is None


def test_one_engine_of_several_that_says_nonsense_makes_the_sum_unknown():
    page = 'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} NaN\n'
    assert exposition.read(page, 0).running is None


@pytest.mark.parametrize("page", ["", "<html>no</html>", "vllm:num_requests_running", "\x00" * 9])
def test_what_a_page_does_not_tell_is_unknown_and_not_zero(page):
    told = exposition.read(page, 0)

    assert told == exposition.Scrape(at=0)


@given(st.text(alphabet=st.sampled_from('vllm:kv_cache_usage_perc{}"=01.eN\\ \n#+-'), max_size=400))
def test_no_page_breaks_it(page):
    told = exposition.read(GOOD + page, 0)
    assert told.kv_usage is None or 0 <= told.kv_usage <= 1
