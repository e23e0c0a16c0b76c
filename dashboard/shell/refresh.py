"""How often pages refresh themselves, by how many watch."""

import math
from time import monotonic

from dashboard.shell.policy_session import session_id

_last_seen: dict[str, float] = {}
_REFRESHES_A_SECOND, _SLOWEST = 5, 10  # of all pages together; seconds between those of one
_GONE_AFTER = 25.0  # seconds


def refresh_seconds() -> float:
    """Seconds between the refreshes of a page on which something changes: 1, and more when more than five watch.

    A refresh takes the server some 20 ms: thirty viewers at one a second would leave the training half its speed.
    """
    now = monotonic()
    _last_seen[session_id()] = now
    for viewer, seen in list(_last_seen.items()):
        if now - seen > _GONE_AFTER:
            _last_seen.pop(viewer, None)
    return float(min(_SLOWEST, max(1, math.ceil(len(_last_seen) / _REFRESHES_A_SECOND))))
