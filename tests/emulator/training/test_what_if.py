"""What-if analysis: stragglers that are known are found."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.what_if import WhatIf


@pytest.fixture(scope="module")
def found() -> WhatIf:
    trace = synthetic_trace(5, n_stages=2, n_data_ranks=4, n_steps=4, slow_ranks={6: 2.0})
    return WhatIf.of(trace, graph_of(trace))


def test_the_slow_rank_is_to_blame(found: WhatIf) -> None:
    assert found.worst_ranks().tolist() == [6]
    share = {int(rank): found.share_of(found.operations.rank == rank) for rank in found.operations.ranks}
    assert max(share, key=share.__getitem__) == 6
    assert share[6] > 0.8
    assert found.share_of_worst_ranks() == share[6]
    slowdowns = found.rank_slowdowns()
    assert slowdowns.shape == (8, 4)
    assert (slowdowns.argmax(axis=0) == 6).all()


def test_parts(found: WhatIf) -> None:
    """Everything explains all of the loss, and nothing none of it."""
    everything = np.ones(len(found.operations), np.bool_)
    assert found.share_of(everything) == pytest.approx(1.0)
    assert found.added_by(everything) == pytest.approx(1.0)
    assert found.share_of(~everything) == 0.0
    assert found.added_by(~everything) == 0.0
    assert found.step_without_s(everything) == pytest.approx(found.ideal_step_s)
    assert found.slowdown == found.step_s / found.ideal_step_s > 1.0
    assert found.share_of_last_stage() == found.share_of(found.operations.stage == 1)
