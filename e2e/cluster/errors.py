"""The one error of the local cluster: its message is for the person who ran the command."""


class ClusterError(Exception):
    """What went wrong and what to do about it, in one or two lines."""
