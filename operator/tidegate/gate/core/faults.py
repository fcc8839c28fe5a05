"""What is wrong with a request: raised where it is found, answered as it says."""

from tidegate.gate.exchange import Refusal, Why


class Fault(Exception):
    """Reading stops here; holds the answer that the client gets."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def bad_request(message: str, param: str | None = None, status: int = 400) -> Fault:
    """Refuse what the client has to write differently; `param` is the field at fault."""
    return Fault(Refusal(status, Why.BAD_REQUEST, message, param=param))


def too_long(message: str, param: str | None = None) -> Fault:
    """Refuse what no engine of the deployment can ever serve."""
    return Fault(Refusal(400, Why.TOO_LONG, message, param=param))


def too_large(body_bytes: int, limit_bytes: int) -> Fault:
    """Refuse a body over the limit."""
    message = f"The body has {body_bytes} bytes; at most {limit_bytes} are taken."
    return Fault(Refusal(413, Why.TOO_LARGE, message))


def not_found(message: str) -> Fault:
    """Refuse a path."""
    return Fault(Refusal(404, Why.NOT_FOUND, message))


def wrong_method(message: str, allow: str) -> Fault:
    """Refuse a method, and name the one that would do."""
    return Fault(Refusal(405, Why.METHOD, message, allow=allow))


def shift_loop(deployment: str) -> Fault:
    """Refuse a request that came back: a second try would come back, too."""
    message = (
        f"The request was sent on and came back to {deployment}: "
        "the deployments' shift shares point at each other."
    )
    return Fault(Refusal(508, Why.SHIFT_LOOP, message, kind="server_error"))


def unknown_model(message: str) -> Fault:
    """Refuse a model that is not served here."""
    return Fault(Refusal(404, Why.NOT_FOUND, message, param="model"))


def unauthenticated(message: str) -> Fault:
    """Refuse a request without a key that is known."""
    return Fault(Refusal(401, Why.UNAUTHENTICATED, message))


def shown(value: object, most: int = 64) -> str:
    """Quote a client's value for a message: escaped, and cut."""
    text = value if isinstance(value, str) else repr(value)[: most + 1]
    return ascii(text if len(text) <= most else text[:most] + "...")
