"""Prometheus' address as people are told it: what they may see, without what lets one in."""

from urllib.parse import urlsplit

_LONGEST = 200


def shown(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as brackets that do not close
        return "prometheus.url"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:_LONGEST]
