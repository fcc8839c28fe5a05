"""A pass, a tick or a rollout over ports in memory, with a scripted clock.

Where each fault of a rollout has its test; those of flow need a cluster in memory, those of
core/canary and core/analysis (in tests/unit) a decision or a judgement alone.

What other rollouts were seen to do:

- an empty answer indexes out of range and aborts:
  flow/test_canary_lessons.py::test_an_empty_answer_takes_nothing_back_and_advances_nothing
- a division by zero at low traffic counts as failure:
  core/analysis/test_faults.py::test_without_traffic_a_canary_neither_goes_on_nor_back
- no data needs a human though data came back:
  flow/test_canary.py::test_no_traffic_pauses_and_goes_on_by_itself_when_it_comes
- the analysis runs before traffic and passes on no evidence:
  flow/test_canary_lessons.py::test_an_analysis_begins_with_traffic_and_not_with_pods
- a selector measures the stable pods:
  core/canary/test_answers.py::test_what_the_stable_pods_did_is_no_evidence_of_the_canary
- the deadline is looked at only after a call that fails:
  flow/test_canary_lessons.py::test_a_deadline_counts_though_gates_can_not_be_told_of_weights
- an abort while paused loops:
  flow/test_canary.py::test_paused_stays_and_abort_while_paused_ends
- a retry takes the old analysis again, and a failed revision needs an edit to be tried again:
  flow/test_canary.py::test_a_failed_revision_is_not_tried_again_until_somebody_says_so
- after a failure nothing is tried any more:
  flow/test_canary_lessons.py::test_after_a_failed_revision_another_spec_is_tried_at_once
- a third revision sends all to a stable one that was scaled down:
  flow/test_canary.py::test_a_third_revision_in_mid_promotion_never_sends_all_to_a_scaled_down_stable
- a scaler's change restarts the analysis:
  flow/test_canary.py::test_a_change_of_replicas_does_not_restart_the_analysis
- a new revision resumes the analysis of the former:
  flow/test_canary.py::test_a_new_revision_in_mid_analysis_restarts_against_the_same_stable
- a fix can not be rolled out while stable is down:
  flow/test_canary.py::test_a_fix_is_rolled_out_at_once_when_stable_is_down
- it advances after traffic stopped:
  flow/test_canary.py::test_traffic_that_stops_in_the_middle_advances_nothing
- one error at low traffic is a large percentage:
  flow/test_canary_lessons.py::test_one_error_among_few_requests_takes_nothing_back
- of several series the last one is taken:
  flow/test_canary_lessons.py::test_several_series_where_one_was_expected_are_an_error_that_names_them
- prefill and decode are updated on their own:
  flow/test_canary.py::test_a_pair_is_one_revision_and_gets_its_share_only_when_both_halves_are_ready
- success is reported in the middle:
  flow/test_canary_lessons.py::test_promoted_is_not_said_before_the_last_old_pod_is_gone
- a quick second update restarts all decoders:
  flow/test_canary_lessons.py::test_a_quick_second_change_of_a_pair_restarts_none_of_its_decoders
- a revert in the middle deletes the pods that serve:
  flow/test_canary.py::test_going_back_to_stable_in_the_middle_is_instant_and_deletes_no_serving_pod

What happens to clusters:

- Prometheus is away at each step:
  flow/test_canary.py::test_prometheus_gone_at_each_step_waits_and_says_so_and_goes_on_afterwards
- pods never get ready (image missing, KV too small, OOM at load):
  flow/test_canary_faults.py::test_a_canary_that_never_gets_ready_goes_back_at_the_deadline_with_its_cause
- engines end again and again (OOM on long prompts):
  flow/test_canary_faults.py::test_engines_that_end_again_and_again_take_the_canary_back_though_requests_end_well
- the KV cache is off its plan:
  flow/test_canary_lessons.py::test_a_canary_whose_kv_cache_is_off_its_plan_is_taken_back_though_it_serves_well
- a node is lost under the canary:
  flow/test_canary_faults.py::test_a_node_lost_under_the_canary_sends_its_users_to_stable_and_it_comes_back
- stable loses pods:
  flow/test_canary_faults.py::test_stable_that_loses_pods_in_mid_rollout_gets_them_back_and_nothing_is_skipped
- the spec changes three times in ten seconds:
  flow/test_canary.py::test_three_changes_in_ten_seconds_leave_only_the_last
- back to a revision from two back:
  flow/test_canary_faults.py::test_a_revision_from_two_back_is_a_canary_like_any_other
- a deletion in the middle:
  flow/test_canary_faults.py::test_a_deployment_that_is_deleted_in_mid_rollout_is_left_to_its_end
- the API server is away for a minute at each step:
  flow/test_canary_faults.py::test_an_api_server_that_is_away_for_a_minute_changes_nothing_at_any_step
- the operator is killed after each write:
  flow/test_canary_crash.py::test_an_operator_killed_after_each_write_of_a_rollout_changes_nothing
- more GPUs than the budget:
  flow/test_canary.py::test_a_rollout_never_has_more_gpus_than_its_budget

e2e/scenarios/canary plays a sample of them on real nodes, with real gates and a real Prometheus.
"""
