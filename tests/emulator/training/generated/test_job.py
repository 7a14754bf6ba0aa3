"""Jobs: their ranks, the parts of their models, mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName


def test_ranks_are_numbered_as_in_megatron() -> None:
    job = ParallelJob(data_ranks=3, tensor_ranks=2, stages=4, system="p2-v100")
    ranks = [job.rank(stage, data, tensor) for stage in range(4) for data in range(3) for tensor in range(2)]
    assert ranks == list(range(job.n_ranks))


def test_parts_are_cut_behind_blocks_and_nearly_equal() -> None:
    job = ParallelJob(model="resnet50", data_ranks=1, tensor_ranks=1, stages=4)
    parts = job.parts()
    assert [layer for part in parts for layer in part] == list(range(len(job.layers)))
    assert all(job.layers[part[-1]].last_of_block for part in parts)
    flops = [sum(job.layers[layer].forward_flops for layer in part) for part in parts]
    assert max(flops) < 1.15 * sum(flops) / 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data_ranks": 0}, r"data_ranks.*at least 1"),
        ({"schedule": "interleaved"}, r"virtual_stages.*at least 2, with at least 2 stages"),
        (
            {"schedule": "interleaved", "virtual_stages": 2, "microbatches": 5},
            r"microbatches.*a multiple of the 2 stages",
        ),
        ({"virtual_stages": 2}, r'virtual_stages.*1, unless schedule is "interleaved"'),
        ({"model": "vgg16"}, r"tensor_ranks.*the layers of vgg16 are not divided"),
        ({"slow_ranks": ((8, 1.2),)}, r"slow_ranks.*a rank from 0 to 7"),
        ({"arrangement": "random"}, r'arrangement.*"drawn" or "sorted"'),
        ({"flops_per_s": 0.0}, r"flops_per_s.*more than 0"),
        ({"latency_factor": -1.0}, r"latency_factor.*at least 0"),
        ({"data_ranks": 3}, r"12 ranks do not fill nodes of 8 devices"),
    ],
)
def test_mistakes_say_what_was_expected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SysgymError, match=f"(?s){message}"):
        ParallelJob(**values)


def test_unknown_names_and_too_many_stages_are_errors() -> None:
    with pytest.raises(UnknownName, match="resnet50"):
        ParallelJob(model="resnet")
    with pytest.raises(UnknownName, match="1f1b"):
        ParallelJob(schedule="1f1")
    job = ParallelJob(model="vgg16", data_ranks=1, tensor_ranks=1, stages=24)
    with pytest.raises(ScenarioError, match=r"(?s)stages.*at most 16 parts, the blocks of vgg16"):
        job.parts()
