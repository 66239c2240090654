"""Moves this process' clock by CHAOS_CLOCK_OFFSET seconds; only the storm's workers have this folder on their path.

`datetime` is C and stays: LangGraph's ids, which decide what the newest checkpoint is, come from `time.time_ns`.
"""

import os
import time

_offset = float(os.environ.get("CHAOS_CLOCK_OFFSET", "0"))
if _offset:
    _time, _time_ns, _offset_ns = time.time, time.time_ns, int(_offset * 1e9)
    time.time = lambda: _time() + _offset
    time.time_ns = lambda: _time_ns() + _offset_ns
