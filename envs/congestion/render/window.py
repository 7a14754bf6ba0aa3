"""Time window of an episode shown by a frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.render.frame import span_end

FloatArray = NDArray[np.float64]

WINDOW_INTERVALS, WINDOW_STEPS = 160, 5
"""Number of intervals in a window, and number of steps in which the window moves by its own length."""


def window(time_s: FloatArray, end_s: float | None) -> tuple[float, float]:
    """Return the time window of a frame, which slides through a long episode and finally covers all of it.

    The window moves in steps, because each move redraws the axes. Short episodes are shown as a whole.

    Args:
        time_s: Ends of the intervals so far, shape (n,).
        end_s: End of the episode; None: unknown, so that the window covers all intervals.
    """
    begin_s, now_s, last_s = float(time_s[0]), float(time_s[-1]), span_end(time_s, end_s)
    # Sums of intervals have rounding errors.
    if len(time_s) < 2 or end_s is None or now_s >= end_s - 1e-6 * (end_s - begin_s):
        return begin_s, last_s
    interval_s = float(f"{(now_s - begin_s) / (len(time_s) - 1):.5g}")
    width_s = WINDOW_INTERVALS * interval_s
    if last_s - begin_s <= 1.5 * width_s:
        return begin_s, last_s
    step_s = width_s / WINDOW_STEPS
    begin_s += step_s * max(float(np.ceil((now_s - begin_s - width_s) / step_s - 1e-6)), 0.0)
    return begin_s, begin_s + width_s
