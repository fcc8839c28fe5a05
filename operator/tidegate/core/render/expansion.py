"""Kubernetes replaces `$(NAME)` in arguments and variables; here no text may be a template."""


def literal(text: str) -> str:
    """Return a text that Kubernetes' expansion turns back into the given one.

    Without this, `$(HF_TOKEN)` as a served name would show the token to every client.
    """
    return text.replace("$", "$$")
