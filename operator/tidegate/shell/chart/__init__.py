"""The Helm chart's generated half: values, their schema and page, permissions and definitions.

`values` is the one source of what can be set. Nothing here runs in the cluster.
"""
