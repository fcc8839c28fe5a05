"""The HTTP session to Prometheus: whoever answers there can cost a little time and memory only.

The client library reads whole bodies, follows redirects and takes the environment's proxies. This
session, which it is given, does none of that.
"""

import io
import time
from typing import Any

import requests
import urllib3

MOST_BODY_BYTES = 8 * 2**20
"""Some 30,000 series: more than the pods of any cluster."""
_CHUNK_BYTES = 64 * 1024


class BadAnswer(Exception):
    """An answer that is none of Prometheus; the message never has a part of its body."""


class BoundedSession(requests.Session):
    """Answers are bounded in size and time; no redirect, proxy or encoding is followed."""

    def __init__(self, ca_file: str | None = None) -> None:
        super().__init__()
        self.trust_env = False  # neither proxies nor credentials of a .netrc
        self.verify = ca_file or True
        self.headers["Accept-Encoding"] = "identity"
        self.ends_at = 0.0

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request and read its answer until `ends_at` (monotonic) at most.

        Raises:
            BadAnswer: It is not 200, is encoded, or is too large.
            requests.Timeout: It did not end in time.
            requests.RequestException: The connection could not be made, or broke.
        """
        kwargs |= {"stream": True, "allow_redirects": False, "proxies": {}}
        with super().send(request, **kwargs) as response:
            if response.is_redirect:
                raise BadAnswer(f"status {response.status_code}: redirects are not followed")
            if response.status_code != requests.codes.ok:
                raise BadAnswer(f"status {response.status_code}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise BadAnswer("its answer is compressed, which was not asked for")
            return _whole(response, self._body(response))

    def _body(self, response: requests.Response) -> bytes:
        body = bytearray()
        while chunk := _read(response):
            body += chunk
            if len(body) > MOST_BODY_BYTES:
                raise BadAnswer(f"its answer has over {MOST_BODY_BYTES >> 20} MiB")
            if time.monotonic() > self.ends_at:
                raise requests.Timeout
        return bytes(body)


def _read(response: requests.Response) -> bytes:
    """Return what has come of a body, as soon as anything has."""
    try:
        chunk: bytes = response.raw.read1(_CHUNK_BYTES)
    except urllib3.exceptions.ReadTimeoutError as error:
        raise requests.Timeout from error
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError from error
    return chunk


def _whole(response: requests.Response, body: bytes) -> requests.Response:
    """Return an answer that is all there, for the library to read."""
    whole = requests.Response()
    whole.status_code, whole.headers, whole.url = 200, response.headers, response.url
    whole.raw = io.BytesIO(body)
    return whole
