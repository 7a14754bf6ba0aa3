"""``sysgym study robustness``: twins that pass, and twins that fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.agents.learned.policy import Mlp
from sysgym.errors import SysgymError
from sysgym.scenarios import load_scenario
from sysgym.studies.robustness.study import Settings, examine
from tests.agents.learned.trust.policies import write_policy

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(tiny: Path, tmp_path: Path) -> Path:
    return write_policy(tmp_path / "policy" / "final.zip", load_scenario(tiny), 3)


def shifted_twin(policy: Path, by: float) -> Path:
    """Write a twin whose outputs are off by a constant."""
    found = read_checkpoint(policy)
    network = found.policy
    assert isinstance(network, Mlp)
    *first, last = network.biases
    twin = Mlp(network.weights, (*first, (last + np.float32(by)).astype(np.float32)), network.activations)
    path = policy.with_name("twin.zip")
    write_checkpoint(path, found.meta, twin, b"")
    return path


def test_eight_bits_are_enough_for_a_small_policy(policy: Path, call: Call, tmp_path: Path) -> None:
    small = ("--episodes", "2", "--observations", "16", "--every", "4", "--out", tmp_path / "out")
    code, out, err = call("study", "robustness", policy, *small)
    assert (code, err) == (0, "")
    assert "The twin passes: 100.0 % agreement under random noise, 99 % required." in out
    found = json.loads((tmp_path / "out" / "robustness.json").read_bytes())
    assert found["passes"] is True
    assert 0.0 < found["difference_max"] < 0.01
    assert found["n_agreeing"] == found["n_observations"] == 16
    assert found["bounds"]["rtt"] == ["RTT ±2 %", pytest.approx(0.02), 0.0]
    attacks = {attack["name"]: attack for attack in found["attacks"]}
    assert attacks["diva"]["gap_mean"] > attacks["random"]["gap_mean"]
    played = {(one["policy"], one["disturbance"]): one for one in found["episodes"]}
    assert len(played) == 6
    assert played["original", "undisturbed"]["loss"] == [0.0, 0.0, 0.0]
    assert played["twin", "diva"]["episode_return"] != played["twin", "undisturbed"]["episode_return"]
    page = (tmp_path / "out" / "robustness.md").read_text()
    assert "| diva |" in page
    assert "every 4th decision disturbed" in page


def test_a_twin_that_is_off_fails(policy: Path, call: Call) -> None:
    twin = shifted_twin(policy, 0.5)
    code, out, _ = call("study", "robustness", policy, "--twin", twin, "--episodes", "1", "--every", "0")
    assert code == 1
    assert "The twin fails: 0.0 % agreement" in out
    assert "Original and twin agree on no observation" in out


def test_the_same_call_gives_the_same_figures(policy: Path) -> None:
    settings = Settings(n_episodes=1, n_observations=8, every=5)
    first, again = (examine(policy, settings=settings).to_json() for _ in range(2))
    assert first == again
    # A constant that is off by less than the tolerance moves nothing that the original would not move.
    found = examine(policy, str(shifted_twin(policy, 0.004)), settings)
    assert found.agreement.value == 1.0
    assert all(attack.evades.value == 0.0 for attack in found.attacks)


def test_no_twin_of_another_kind(policy: Path, tiny: Path, tmp_path: Path) -> None:
    other = write_policy(tmp_path / "other.zip", load_scenario("iroko-fattree-10m"), 3)
    with pytest.raises(SysgymError, match=r"no twin of .*, its observation index differs"):
        examine(policy, str(other))
    with pytest.raises(SysgymError, match="but the split test has only 100 seeds"):
        examine(policy, settings=Settings(n_episodes=101))
    placement = write_policy(tmp_path / "placement.zip", load_scenario("placement-unseen"), 3)
    with pytest.raises(SysgymError, match="its observations are exact"):
        examine(placement)
