"""The canary: which revision gets how many pods and which share of the requests, and for how long.

Pure. `advance` is the entrance: from the stored state and what is seen to the next state. The
other decisions follow from a state alone: `targets` (pods by revision and pool), `shares` (of the
requests), `timing` (when to look again). `state` and `seen` have the values, `policy` what the
spec wants, `record` the form of the state in the resource's status, `tell` what is said of it.
docs/decisions/0012 says why a rollout has a memory after all.
"""
