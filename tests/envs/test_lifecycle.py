"""The life cycle of every environment: order of calls, copies, invalid actions and arguments."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.emulator.packets.transports.searched.neural import N_PARAMETERS, neural_transport
from sysgym.envs.congestion import parallel_env
from sysgym.envs.congestion.flow.flow_cc import FlowCC
from sysgym.envs.lifecycle import ActionError, ArgumentError, ClosedEnvironment, NoEpisode
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

REGISTERED = sysgym.__version__
IDS = list(ENVIRONMENTS)
STEPS = {"control.episode_steps": 6}
SMALL: dict[str, dict[str, Any]] = {
    "sysgym/DatacenterCC-v0": {"scenario": "incast-32", "overrides": STEPS},
    "sysgym/FlowCC-v0": {"scenario": "flow-1g-1ms", "overrides": STEPS},
    "sysgym/JointPlacement-v0": {"overrides": {"joint.candidates": 4, "joint.budget": 2}},
}
VECTORS = [("sysgym/DatacenterCC-v0", {"history": 2}), ("sysgym/FlowCC-v0", {"preset": "orca"})]

NEURAL = neural_transport(np.linspace(-0.2, 0.2, N_PARAMETERS).tolist())

COPIES = [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))]
Copy = Callable[[Any], Any]


def make(env_id: str, **arguments: Any) -> Any:
    """Make a short environment, with Gymnasium's wrappers."""
    return gym.make(env_id, **SMALL.get(env_id, {}) | arguments)


def some_action(env: Any, info: dict[str, Any]) -> Any:
    """Draw an action that is allowed."""
    mask = info.get("action_mask")
    return env.action_space.sample() if mask is None else env.action_space.sample(mask)


def assert_same(one: Any, other: Any) -> None:
    """Compare to the last bit, however deep."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, tuple):
        for each, its in zip(one, other, strict=True):
            assert_same(each, its)
    else:
        np.testing.assert_array_equal(one, other)


def play_to_the_end(env: Any, info: dict[str, Any]) -> Any:
    """Step until the episode is over; returns the last action."""
    over = False
    while not over:
        action = some_action(env, info)
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return action


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("env_id", IDS)
def test_calls_in_a_wrong_order_say_so(env_id: str, wrapped: bool) -> None:
    """With and without Gymnasium's wrappers the error is one of the same class."""
    outer = make(env_id, render_mode="ansi")
    env = outer if wrapped else outer.unwrapped
    action = env.action_space.sample()
    with pytest.raises(gym.error.ResetNeeded):
        env.step(action)
    with pytest.raises(gym.error.ResetNeeded):
        env.render()
    _, info = env.reset(seed=1)
    last = play_to_the_end(env, info)
    assert isinstance(env.render(), str), "the end may be looked at"
    with pytest.raises(NoEpisode, match=r"the episode is over; call reset\(\) before step\(\)"):
        env.step(last)
    env.reset(seed=1)
    for _ in range(2):
        env.close()
    for call in (lambda: env.step(last), env.reset, env.render):
        with pytest.raises(ClosedEnvironment, match="it is closed; make another environment") as raised:
            call()
        assert isinstance(raised.value, SysgymError | gym.error.ClosedEnvironmentError)


def test_before_the_first_reset_it_says_so() -> None:
    for env_id in IDS:
        env = make(env_id).unwrapped
        with pytest.raises(NoEpisode, match=r"no episode has begun; call reset\(\) before step\(\)"):
            env.step(env.action_space.sample())


@pytest.mark.parametrize("env_id", ["sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0"])
def test_there_is_no_network_before_the_first_reset(env_id: str) -> None:
    env = make(env_id).unwrapped
    with pytest.raises(NoEpisode, match=r"no episode has begun; call reset\(\) before network"):
        _ = env.network
    env.reset(seed=0)
    assert env.network.now_s >= 0.0


@pytest.mark.parametrize("duplicate", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("env_id", IDS)
def test_a_copy_keeps_the_episode_and_is_independent(env_id: str, duplicate: Copy) -> None:
    env = make(env_id)
    _, info = env.reset(seed=5)
    first = some_action(env, info)
    _, _, terminated, truncated, info = env.step(first)
    if terminated or truncated:
        _, info = env.reset()
    twin, later = duplicate(env), duplicate(env)
    actions, ours = [], []
    for _ in range(3):
        actions.append(some_action(env, info))
        ours.append(env.step(actions[-1]))
        info = ours[-1][4]
        if ours[-1][2] or ours[-1][3]:
            break
    ours.append(env.reset())
    # The original has gone on, ended and begun again, and the copies have not noticed.
    for each in (twin, later):
        for place, action in enumerate(actions):
            assert_same(each.step(action), ours[place])
        assert_same(each.reset(), ours[-1])
    drawn = [each.action_space.sample() for each in (env, twin, later)]
    assert_same(drawn[1], drawn[2])


@pytest.mark.parametrize("duplicate", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("transport", ["dctcp", "bbr", NEURAL], ids=["dctcp", "bbr", "neural"])
def test_a_copy_under_every_kind_of_law(transport: Any, duplicate: Copy) -> None:
    """Laws that pace, keep timers and read parameters, half way through an incast."""
    env = make("sysgym/DatacenterCC-v0", transport=transport)
    env.reset(seed=2)
    action = np.ones(33, np.float32)
    env.step(action)
    twin = duplicate(env)
    for _ in range(3):
        assert_same(twin.step(action), env.step(action))


@pytest.mark.parametrize("duplicate", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize(("env_id", "arguments"), VECTORS)
def test_a_copy_of_the_vector_form_goes_on(env_id: str, arguments: dict[str, Any], duplicate: Copy) -> None:
    vector = gym.make_vec(
        env_id, 3, vectorization_mode="vector_entry_point", **SMALL[env_id] | arguments, threads=2
    )
    vector.reset(seed=1)
    vector.action_space.seed(1)
    vector.step(vector.action_space.sample())
    twin = duplicate(vector)
    actions = [vector.action_space.sample() for _ in range(8)]
    ours = [vector.step(action) for action in actions]
    for action, expected in zip(actions, ours, strict=True):
        assert_same(twin.step(action), expected)
    vector.close()
    twin.step(actions[0])
    twin.close()
    for call in (lambda: twin.step(actions[0]), twin.reset):
        with pytest.raises(ClosedEnvironment):
            call()


@pytest.mark.parametrize("duplicate", COPIES, ids=["deepcopy", "pickle"])
def test_a_copy_of_the_parallel_form_goes_on(duplicate: Copy) -> None:
    env = parallel_env("dumbbell-10g", overrides=STEPS)
    with pytest.raises(NoEpisode, match="no episode has begun"):
        env.step({})
    env.reset(seed=3)
    actions = [{agent: env.action_space(agent).sample() for agent in env.agents} for _ in range(6)]
    env.step(actions[0])
    twin = duplicate(env)
    for action in actions[1:]:
        assert_same(env.step(action), twin.step(action))
    with pytest.raises(NoEpisode, match="the episode is over"):
        env.step(actions[0])
    assert_same(env.reset(), twin.reset())
    env.close()
    env.close()
    for call in (lambda: env.step(actions[0]), env.reset):
        with pytest.raises(ClosedEnvironment):
            call()
    twin.step({agent: np.zeros(1, np.float32) for agent in twin.agents})


WRONG_NUMBERS = [
    (0.5, "got the float 0.5"),
    ("fast", "got the str 'fast'"),
    (None, "got None"),
    ([["a"]], r"got the list \[\['a'\]\]"),
    (np.zeros(77, np.float32), r"got shape \(77,\)"),
    (np.array([1j]), r"got (the ndarray|shape \(1,\))"),
    ({"rate": 1.0}, "got the dict"),
]


@pytest.mark.parametrize(("action", "got"), WRONG_NUMBERS)
@pytest.mark.parametrize("env_id", IDS)
def test_an_action_that_is_none_says_what_was_expected(env_id: str, action: Any, got: str) -> None:
    env = make(env_id).unwrapped
    env.reset(seed=1)
    with pytest.raises(ActionError, match=f"^action: expected (an array|one|a whole).*{got}"):
        env.step(action)
    assert isinstance(ActionError(""), ValueError)
    env.step(some_action(env, env.reset(seed=1)[1]))


@pytest.mark.parametrize(
    ("env_id", "value", "got"),
    [
        ("sysgym/StragglerPrediction-v0", 2, "from 0 to 1, got 2 at index 7"),
        ("sysgym/StragglerPrediction-v0", 0.5, "from 0 to 1, got 0.5 at index 7"),
        ("sysgym/StragglerPrediction-v0", np.nan, "from 0 to 1, got nan at index 7"),
        ("sysgym/StragglerMitigation-v0", -1, "from 0 to 2, got -1 at index 7"),
        ("sysgym/StragglerMitigation-v0", 3, "from 0 to 2, got 3 at index 7"),
    ],
)
def test_the_first_wrong_value_of_a_choice_for_every_task_is_named(
    env_id: str, value: float, got: str
) -> None:
    env = make(env_id).unwrapped
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape, type(value))
    action[[7, 9]] = value
    with pytest.raises(ActionError, match=got):
        env.step(action)
    with pytest.raises(ActionError, match=r"got shape \(3,\)"):
        env.step(action[:3])


def test_one_number_for_a_flow() -> None:
    env = make("sysgym/FlowCC-v0").unwrapped
    env.reset(seed=1)
    expected = r"one finite number in an array, such as np.array\(\[0.5\], np.float32\), got "
    for action, got in (
        (0.5, "the float 0.5"),
        (np.float32(0.5), "the float"),
        (np.array([np.nan], np.float32), "nan at index 0"),
        (np.zeros(2, np.float32), r"shape \(2,\)"),
    ):
        with pytest.raises(ActionError, match=expected + got):
            env.step(action)
    for good in ([0.5], np.array([1]), np.array([7.0])):  # lists, whole numbers, and what is clipped
        env.step(good)


def test_every_agent_of_the_parallel_form_needs_an_action() -> None:
    env = parallel_env("flow-1g-1ms", overrides={"workload.flows_per_pair": 2})
    env.reset(seed=1)
    good = np.zeros(1, np.float32)
    for actions, message in (
        ({"flow_0": good}, "got none of flow_1"),
        ({"flow_0": good, "flow_1": 0.5}, "flow_1: action: expected one finite number in an array"),
        ([good, good], "expected a dict of every agent's action"),
    ):
        with pytest.raises(ActionError, match=message):
            env.step(actions)


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"scenari": "x"}, 'did you mean "scenario"'),
        ({"spllit": "test"}, 'did you mean "split"'),
        ({"scenario": 5}, "scenario: expected a scenario's name, .*, got 5"),
        ({"split": None}, "split: expected the name of a split"),
        ({"reward": 1.0}, "reward: expected the name of a reward"),
        ({"overrides": ["load"]}, "overrides: expected a dict of dotted keys"),
        ({"split": "tset"}, 'did you mean "test"'),
    ],
)
def test_a_wrong_argument_is_named(env_id: str, argument: dict[str, Any], message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium has its own word for a render mode
        with pytest.raises((UnknownName, ArgumentError), match=message) as raised:
            gym.make(env_id, **argument)
    assert "\n" not in str(raised.value)
    with pytest.raises((UnknownName, ArgumentError), match=message):
        gym.make_vec(env_id, 2, vectorization_mode="sync", **argument)


@pytest.mark.parametrize(("env_id", "arguments"), VECTORS)
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"history_": 2}, 'did you mean "history"'),
        ({"history": "2"}, "history: expected a whole number of intervals, at least 1, got '2'"),
        ({"history": 2.5}, "history: expected a whole number"),
        ({"history": True}, "history: expected a whole number"),
        ({"transport": 3}, "transport: expected the name of a transport"),
        ({"backend": None}, "backend: expected the name of a backend"),
        ({"render_mode": "human"}, "the vector form has no window"),
    ],
)
def test_a_wrong_argument_of_networks_is_named(
    env_id: str, arguments: dict[str, Any], argument: dict[str, Any], message: str
) -> None:
    if "render_mode" not in argument:
        with pytest.raises((UnknownName, ArgumentError), match=message):
            gym.make(env_id, **argument)
    with pytest.raises((UnknownName, ArgumentError), match=message):
        gym.make_vec(env_id, 2, vectorization_mode="vector_entry_point", **argument)


def test_features_are_a_list() -> None:
    with pytest.raises(ArgumentError, match="features: expected a list of feature groups"):
        gym.make("sysgym/DatacenterCC-v0", features="rate")


def test_arguments_by_place_are_counted_and_checked() -> None:
    with pytest.raises(ArgumentError, match="expected at most 10 arguments, got 12"):
        FlowCC(*[None] * 12)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="split: expected"):
        FlowCC("flow-1g-1ms", 7)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="render mode"):
        FlowCC("flow-1g-1ms", "train", None, "paced", None, None, "linear", "packets", None, "sparkle")
    with pytest.raises(SysgymError, match="history: got 0"):
        FlowCC(history=0)
    with pytest.raises(ScenarioError):
        FlowCC("dumbbell-10g", overrides={"nothing": 1})


def test_an_id_without_its_version_or_misspelt() -> None:
    with pytest.warns(UserWarning, match="Using the latest versioned environment `sysgym/DatacenterCC-v0`"):
        gym.make("sysgym/DatacenterCC")
    with pytest.raises(gym.error.NameNotFound, match="Did you mean: `DatacenterCC`"):
        gym.make("sysgym/DatacentreCC-v0")
