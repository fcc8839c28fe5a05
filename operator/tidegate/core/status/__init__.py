"""What the status says: one document from what was planned, decided and seen.

Pure. `make` is the entrance; `seen` has its input, `gates` reads the gates' part of it,
`judge` decides on each condition, `conditions` keeps their times, `deadline` knows when waiting
has lasted too long.
"""

from tidegate.core.status.document import make
from tidegate.core.status.gates import GatesSeen, fault
from tidegate.core.status.judge import lacks_only_gates
from tidegate.core.status.seen import Loop, PoolPods, Seen, Trouble

__all__ = ["GatesSeen", "Loop", "PoolPods", "Seen", "Trouble", "fault", "lacks_only_gates", "make"]
