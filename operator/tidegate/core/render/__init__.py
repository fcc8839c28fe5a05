"""From a plan to objects: what the cluster must hold for one deployment, as plain documents.

Pure and deterministic: the same spec, plan and scale give the same bytes. `render` is the entrance;
`flags`, `extra_args` and `environment` decide what the engine is told, `pod` and `network` shape
the rest, `templates` turns it into documents.
"""
