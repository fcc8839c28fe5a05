"""What the status says: one document from what was planned, decided and seen.

Pure. `make` is the entrance; `seen` has its input, `judge` decides on each condition, `conditions`
keeps their times, `deadline` knows when waiting has lasted too long.
"""

from tidegate.core.status.document import make
from tidegate.core.status.seen import PoolPods, Seen, Trouble

__all__ = ["PoolPods", "Seen", "Trouble", "make"]
