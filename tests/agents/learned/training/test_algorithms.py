"""Hyperparameters: precedence of the user's, ours and the library's, and their validity."""

from __future__ import annotations

import inspect

import pytest

from sysgym.agents.learned.training.algorithms import ACTION_NOISE_STD, ALGORITHMS, Algorithm, get_algorithm
from sysgym.scenarios.errors import MissingExtra, UnknownName


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_our_settings_are_arguments_of_the_class(name: str) -> None:
    algorithm = get_algorithm(name)
    assert algorithm.name == name
    known = set(inspect.signature(algorithm.load_class().__init__).parameters)
    assert set(algorithm.arguments({})) - {ACTION_NOISE_STD} <= known


def test_the_users_settings_are_over_ours() -> None:
    ours = get_algorithm("ppo").arguments({})
    assert ours["n_steps"] == ALGORITHMS["ppo"].hyper_parameters["n_steps"]
    chosen = get_algorithm("ppo").arguments({"n_steps": 77, "clip_range": 0.3})
    assert (chosen["n_steps"], chosen["clip_range"]) == (77, 0.3)
    assert {key: value for key, value in chosen.items() if key not in ("n_steps", "clip_range")} == {
        key: value for key, value in ours.items() if key != "n_steps"
    }


def test_settings_of_the_network_go_where_the_package_wants_them() -> None:
    arguments = get_algorithm("ppo").arguments(
        {"net_arch": (5, 4), "policy_kwargs": {"ortho_init": False}, "log_std_init": -1.0}
    )
    assert "net_arch" not in arguments
    assert "log_std_init" not in arguments
    assert arguments["policy_kwargs"] == {"net_arch": [5, 4], "log_std_init": -1.0, "ortho_init": False}


def test_asking_does_not_change_the_defaults() -> None:
    get_algorithm("sac").arguments({"net_arch": (2,), "batch_size": 3})["policy_kwargs"]["net_arch"].append(9)
    assert (
        get_algorithm("sac").arguments({})["batch_size"] == ALGORITHMS["sac"].hyper_parameters["batch_size"]
    )
    assert get_algorithm("sac").arguments({})["policy_kwargs"]["net_arch"] == [64, 64]


def test_unknown_names_have_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "td3"'):
        get_algorithm("td4")
    with pytest.raises(UnknownName, match='did you mean "net_arch"'):
        get_algorithm("ppo").arguments({"net_arc": (8,)})
    with pytest.raises(UnknownName, match="hyper-parameter of sac"):
        get_algorithm("sac").arguments({"n_epochs": 3})


def test_a_package_that_is_not_there_is_an_extra() -> None:
    absent = Algorithm("own", "a_package_that_nobody_has", "Own")
    with pytest.raises(MissingExtra, match=r'training own needs .*pip install "sysgym\[train\]"'):
        absent.load_class()
