"""The rollout: how many pods of every slice are asked for now.

Pure and without a memory: each pass decides anew from what is there. `decide` is the entrance,
`slices` has its values, `room` the free GPUs, `board` what may be taken without harm, and `moves`
the steps of a rolling update. docs/concepts/reconcile.md states the rules.
"""
