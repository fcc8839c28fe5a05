"""Log lines: one JSON object each, on standard error, written by a thread of their own.

A reader of the log that is slow must not hold up requests: lines beyond the bound are dropped.
"""

import contextlib
import logging
import logging.handlers
import queue
import sys
import time
from typing import Any

import orjson

_MOST_WAITING = 10_000
_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON; what `extra` holds stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class _Dropping(logging.handlers.QueueHandler):
    """Puts records into the queue while there is room; never waits, never complains."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Take a record, or drop it."""
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave formatting to the thread that writes."""
        return record


def to_stderr(level: str) -> logging.handlers.QueueListener:
    """Send every log line to standard error as JSON; stop what is returned to have all written."""
    records: queue.Queue[logging.LogRecord] = queue.Queue(_MOST_WAITING)
    writing = logging.StreamHandler(sys.stderr)
    writing.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[_Dropping(records)], force=True)
    listener = logging.handlers.QueueListener(records, writing)
    listener.start()
    return listener
