"""The scheduler's message, in our words: which resource is missing on how many nodes."""

import re

_TOTAL = re.compile(r"^(\d+)/(\d+) nodes are available: (.*)$", re.DOTALL)
_PREEMPTION = re.compile(r"\s*(?:preemption: .*|no new claims .*)$", re.DOTALL | re.IGNORECASE)
_PART = re.compile(r"(\d+) ([^,]+(?:, [^\d][^,]*)*)")
_LACKS = re.compile(r"Insufficient (\S+)")
_WORDS = (
    (re.compile(r"node\(s\) had untolerated taint \{([\w./-]+).*"), "have the taint {0}"),
    (re.compile(r"node\(s\) had untolerated taint.*"), "have a taint that it does not tolerate"),
    (re.compile(r"node\(s\) didn't match Pod's node affinity/selector"), "are not of the class"),
    (re.compile(r"node\(s\) were unschedulable"), "are cordoned"),
    (re.compile(r"node\(s\) didn't match pod topology spread constraints"), "would unbalance them"),
    (re.compile(r"Too many pods"), "have no place for another pod"),
)


def explain(message: str) -> str:
    """Return what the scheduler says; its own text where it has another form."""
    match = _TOTAL.match(message.strip())
    if match is None:
        return message.strip() or "the scheduler gives no reason"
    total, rest = match[2], _PREEMPTION.sub("", match[3]).strip().rstrip(".")
    parts = [f"{count} {_say(what.strip())}" for count, what in _PART.findall(rest)]
    return f"of {total} nodes {', '.join(parts) or rest}"


def _say(what: str) -> str:
    lacks = _LACKS.fullmatch(what)
    if lacks:
        return f"have too little {lacks[1]} free"
    for pattern, words in _WORDS:
        found = pattern.fullmatch(what)
        if found:
            return words.format(*(group or "" for group in found.groups())).rstrip()
    return what
