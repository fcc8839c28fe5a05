"""What users write and read: pydantic models of the wire, nothing else.

Imports no cluster, no clock and no other part of Tidegate but the error tree.
"""
