"""What engines tell of their memory, kept and used again.

Pure. `configuration` tells equal engines from others, `measurement` is what is known of one,
`learn` makes it from what a pod says, `store` keeps many in a ConfigMap, `basis` says which of
them a plan rests on, and `drift` holds the plan against what was measured.
"""
