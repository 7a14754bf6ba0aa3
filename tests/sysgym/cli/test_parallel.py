"""Episodes on all cores: their order, their errors, and jobs that are not begun after one."""

from __future__ import annotations

import gc
import signal
import threading
import time

import numba
import pytest

from sysgym.cli.parallel import in_parallel


def test_results_have_the_order_of_the_jobs() -> None:
    def play(number: int) -> int:
        time.sleep(0.01 * (4 - number))  # the first one ends last
        return number * number

    assert in_parallel(play, range(4), "squares") == [0, 1, 4, 9]
    assert in_parallel(play, iter(()), "none") == []


def test_it_plays_as_many_jobs_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(numba.get_num_threads(), timeout=30)
    assert len(in_parallel(lambda _: together.wait(), range(numba.get_num_threads()), "together")) > 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_or_ctrl_c_no_other_job_is_begun(error: type[BaseException]) -> None:
    """Also if an earlier job has not ended yet."""
    begun = []

    def play(number: int) -> None:
        begun.append(number)
        if number == 1:
            if error is KeyboardInterrupt:
                signal.raise_signal(signal.SIGINT)  # noted by the main thread
                return
            raise error("broken")
        time.sleep(0.5 if number == 0 else 0.02)

    gc.disable()  # a callback of the collector, where the main thread may note the signal, cannot raise
    try:
        with pytest.raises(error):
            in_parallel(play, range(1000), "[/errors]")
    finally:
        gc.enable()
    n_ended = len(begun)
    assert n_ended < 500
    time.sleep(0.1)
    assert len(begun) == n_ended
