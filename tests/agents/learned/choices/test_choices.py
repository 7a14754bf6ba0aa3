"""Choices: order of rows, masks, and environments that sb3-contrib accepts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env

from sysgym.agents.learned.choices.problem import Choices, ChoiceVectors
from sysgym.agents.learned.choices.reading import choice_names
from sysgym.agents.learned.placement.reading import READING, choice_parts
from sysgym.scenarios import load_scenario

SCENARIOS = ["placement-unseen", "program-unseen", "joint-unseen"]


def make(scenario: str) -> Any:
    return gym.make(load_scenario(scenario).env_id, scenario=scenario, disable_env_checker=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rows_are_choices_and_say_whether_they_may_be_chosen(scenario: str) -> None:
    env = make(scenario)
    shape = ChoiceVectors(env, READING).shape
    assert shape.n_actions == env.action_space.n
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            rows, context = choice_parts(observation)
            assert rows.shape == (shape.n_rows, shape.row_size)
            assert context.shape == (shape.context_size,)
            # Whatever may be chosen exists.
            mask = env.unwrapped.action_masks().reshape(shape.heads, shape.n_rows)
            assert (rows[mask.any(axis=0), 0] == 1.0).all()
            vector = READING.vector(observation)
            assert vector.shape == (shape.observation_size,)
            assert np.isfinite(vector).all()
            observation, _, over, _, _ = env.step(env.action_space.sample(mask.ravel().astype(np.int8)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_wrapped_environment_is_one(scenario: str) -> None:
    env = ChoiceVectors(make(scenario), READING)
    check_env(env, warn=False)
    env.reset(seed=0)
    assert np.array_equal(env.action_masks(), env.unwrapped.action_masks())  # type: ignore[attr-defined]


def test_axes_that_change_places_change_rows() -> None:
    env = make("placement-unseen")
    observation, _ = env.reset(seed=3)
    order = [1, 0, 2, 3]
    moved = {key: value.copy() for key, value in observation.items()}
    for key in ("axes", "matrix", "action_mask"):
        moved[key] = observation[key][order]
    moved["reductions"][:, 2:] = observation["reductions"][:, 2:][:, order]
    rows, context = choice_parts(observation)
    moved_rows, moved_context = choice_parts(moved)
    assert np.array_equal(moved_rows, rows[order])
    assert np.array_equal(moved_context, context)


def test_environments_that_a_policy_cannot_play_alike_have_other_names() -> None:
    names = [tuple(choice_names(make(scenario).observation_space)) for scenario in SCENARIOS]
    assert len(set(names)) == len(SCENARIOS)
    problem = Choices(load_scenario("placement-unseen"), READING)
    assert tuple(problem.observation_index()) == names[0]
    assert problem.set_shape is not None
    assert problem.action_meaning() == {"name": "choice"}
