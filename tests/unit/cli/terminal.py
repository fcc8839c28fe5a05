"""A real terminal (a pseudo-terminal of the kernel's) with a command in it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")
_IN_TERMINAL = (
    "import os, sys; os.login_tty(0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'tidegate', *sys.argv[1:]])"
)
TAKEN, GIVEN_BACK, CURSOR_SHOWN = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def _environment():
    """Return this process's environment without what would belie the terminal's own size."""
    kept = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
    return {**kept, "TERM": "xterm-256color"}


class Terminal:
    """A command that runs in a terminal; `written` is all that it has written."""

    def __init__(self, *arguments, columns=120, lines=40, environment=()):
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, lines)
        self.settings = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**_environment(), **dict(environment)},
        )
        self.written = ""

    def resize(self, columns, lines):
        """Change the size, as who drags the window's corner does."""
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def press(self, keys):
        """Press keys."""
        os.write(self._ours, keys.encode())

    def until(self, condition, seconds=60):
        """Read on until something is so."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"it was never so; the end: {self.written[-3000:]}"
            self._read()

    def shows(self, text, seconds=60):
        """Wait until the frame that is on the screen has a text."""
        self.until(lambda: text in self.frame(), seconds)

    def frame(self):
        """Return what was last drawn whole, from the upper left corner on, without escapes.

        What follows the last move to that corner may be a part of a picture.
        """
        *_, whole, _ = ["", *self.written.split("\x1b[H")]
        return _ESCAPES.sub("", whole).replace("\r", "")

    def end(self, seconds=60):
        """Wait until the command has ended, and return its code."""
        self.until(lambda: self.process.poll() is not None, seconds)
        while self._read():
            pass
        return self.process.returncode

    def is_as_before(self):
        """Tell whether the terminal's settings are those from before the command."""
        return termios.tcgetattr(self._theirs) == self.settings

    def close(self):
        """End everything."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self):
        if not select.select([self._ours], [], [], 0.1)[0]:
            return False
        self.written += os.read(self._ours, 65536).decode("utf-8", "replace")
        return True
