"""FlowCC: both checkers, formulas by hand, and known results."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import pickle
import re
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from hypothesis import given
from hypothesis import strategies as st

import sysgym
from sysgym.envs.congestion.flow.flow_cc import FlowCC
from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL
from sysgym.envs.congestion.flow.metrics import EPISODE_METRICS, INTERVAL_METRICS
from sysgym.envs.congestion.flow.presets import PRESETS, REWARDS
from sysgym.envs.congestion.flow.presets.aurora import AURORA
from sysgym.envs.congestion.flow.presets.datacenter import DATACENTER
from sysgym.envs.congestion.flow.presets.orca import ORCA
from sysgym.envs.congestion.stepping.flow_kernels import FLOW_PACE
from sysgym.scenarios import CongestionScenario, list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/FlowCC-v0"
SHORT = {"control.episode_steps": 12}
SCENARIOS = [info.name for info in list_scenarios() if info.env_id == ENV_ID]
FORMS = [*((name, None) for name in SCENARIOS), ("flow-1g-1ms", "aurora"), ("flow-1g-1ms", "orca")]


def short_env(scenario: str = "flow-1g-1ms", **arguments: Any) -> FlowCC:
    overrides = SHORT | arguments.pop("overrides", {})
    env = gym.make(ENV_ID, scenario=scenario, overrides=overrides, **arguments).unwrapped
    assert isinstance(env, FlowCC)
    return env


def rollout(env: Any, seed: int, steps: int = 12) -> list[Any]:
    rng = np.random.default_rng(0)
    trace: list[Any] = [env.reset(seed=seed)]
    for _ in range(steps):
        action = rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)
        trace.append(env.step(action))
    return trace


def digest(trace: list[Any]) -> str:
    sha = hashlib.sha256()
    for observation, *rest in trace:
        sha.update(observation.tobytes())
        sha.update(json.dumps(rest, sort_keys=True).encode())
    return sha.hexdigest()


@pytest.mark.parametrize(("scenario", "preset"), FORMS)
def test_both_checkers_accept_it(scenario: str, preset: str | None) -> None:
    # Not at the top: another process, too, loads this file, and torch takes it longer than all else.
    from stable_baselines3.common.env_checker import check_env as check_with_sb3

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_with_gymnasium(short_env(scenario, preset=preset), skip_render_check=True)
        check_with_sb3(short_env(scenario, preset=preset))
    # Aurora's actions are wider than [-1, 1]; training rescales them.
    assert [str(warning.message) for warning in caught if "symmetric" not in str(warning.message)] == []


@pytest.mark.parametrize(("scenario", "preset"), FORMS)
def test_equal_seeds_give_equal_bytes(scenario: str, preset: str | None) -> None:
    env = short_env(scenario, preset=preset)
    first = digest(rollout(env, 7))
    rollout(env, 8, steps=5)
    assert digest(rollout(env, 7)) == first, "a reset leaves something behind"
    assert digest(rollout(short_env(scenario, preset=preset), 7)) == first


def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import runpy, sys\n"
        "here = runpy.run_path(sys.argv[1])\n"
        "print(here['digest'](here['rollout'](here['short_env']('aurora-links'), 3)),"
        " here['digest'](here['rollout'](here['short_env']('flow-datacenter'), 3)))"
    )
    command = [sys.executable, "-c", code, __file__]
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    expected = [digest(rollout(short_env(name), 3)) for name in ("aurora-links", "flow-datacenter")]
    assert done.stdout.split() == expected


def test_it_survives_pickling() -> None:
    env = short_env("flow-incast", history=4)
    again = pickle.loads(pickle.dumps(env))
    assert digest(rollout(again, 5)) == digest(rollout(env, 5))


def test_observations_and_actions_of_every_preset() -> None:
    for name, preset in PRESETS.items():
        env = short_env(preset=name)
        n = preset.history * len(preset.features)
        assert env.observation_space.shape == (n,) == (len(env.observation_index),)
        assert env.action_space == gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        for observation, *_ in rollout(env, 1):
            assert env.observation_space.contains(observation), observation
    assert short_env(history=5).observation_space.shape == (35,)
    assert short_env(overrides={"flow.history": 3}).observation_space.shape == (21,)


def test_the_newest_interval_comes_first() -> None:
    env = short_env(history=3)
    before, _ = env.reset(seed=0)
    after, *_ = env.step(np.array([0.5], np.float32))
    assert np.array_equal(after[7:], before[:14])
    assert not np.array_equal(after[:7], before[:7])


# Formulas, against numbers worked out by hand.


def interval(**values: float) -> Any:
    """Return an interval: 10 Mb/s line, 8 Mb/s link, 10 ms base RTT, packets of 1500 bytes."""
    numbers = {
        "duration_s": 0.05,
        "base_rtt_s": 0.01,
        "line_rate_bps": 10e6,
        "least_rate_bps": 10e3,
        "slowest_link_bps": 8e6,
        "packet_bits": 12_000.0,
        "payload_share": 0.9,
        "rate_bps": 1e6,
        "asked_bps": 1e6,
        "action_step": 0.025,
    } | values
    (out,) = np.zeros(1, FLOW_INTERVAL).view(np.recarray)
    for name, value in numbers.items():
        setattr(out, name, value)
    return out


def features(name: str, **values: float) -> list[float]:
    preset = PRESETS[name]
    out = np.zeros(len(preset.features), np.float32)
    preset.observe(interval(**values), out)
    found: list[float] = out.tolist()
    return found


def terms(name: str, **values: float) -> list[float]:
    reward = REWARDS[name]
    out = np.zeros(len(reward.terms))
    reward.pay(interval(**values), reward.weight_array({}), out)
    found: list[float] = out.tolist()
    return found


def test_aurora_sees_what_its_paper_says() -> None:
    # RTT grows by 2 ms within 50 ms; 15 ms against a least of 12 ms; 3 Mb/s sent, 2 Mb/s back.
    heard = {"rtt_change_s": 0.002, "rtt_s": 0.015, "least_rtt_s": 0.012, "samples": 9.0}
    assert features("aurora", sent_bps=3e6, arrived_bps=2e6, **heard) == pytest.approx([0.04, 1.25, 1.5])
    assert features("aurora", sent_bps=3e6) == [0.0, 1.0, 1.0], "nothing came back"
    # A thousandfold send ratio reads 1 in the reference too.
    assert features("aurora", sent_bps=3e6, arrived_bps=2e3, **heard)[2] == 1.0


def test_aurora_is_paid_as_its_simulator_pays() -> None:
    # 200 packets/s, 150 ms, 5 % lost: 0.001 * (10 * 200 - 1000 * 0.15 - 2000 * 0.05).
    paid = terms("aurora", arrived_bps=200 * 12_000.0, rtt_s=0.15, loss_fraction=0.05)
    assert paid == pytest.approx([2.0, -0.15, -0.1])
    assert sum(paid) == pytest.approx(1.75)


def test_aurora_s_action_is_as_large_up_as_down() -> None:
    assert AURORA.decide(interval(asked_bps=1e6), 2.0) == pytest.approx(1.05e6)
    assert AURORA.decide(interval(asked_bps=1e6), -2.0) == pytest.approx(1e6 / 1.05)


@given(st.floats(1e3, 1e9), st.floats(-10.0, 10.0))
def test_aurora_s_action_is_undone_by_its_opposite(rate_bps: float, action: float) -> None:
    before = interval(asked_bps=rate_bps)
    there = AURORA.decide(before, action)
    assert AURORA.decide(interval(asked_bps=there), -action) == pytest.approx(rate_bps)
    assert AURORA.ask(before, there) == pytest.approx(action, abs=1e-9)


def test_a_datacenter_s_features() -> None:
    seen = features(
        "datacenter",
        mark_fraction=0.25,
        rtt_s=0.02,
        samples=4.0,
        rtt_change_s=-0.005,
        rate_bps=1e6,
        arrived_bps=2.5e6,
        in_flight_bits=300e3,
        loss_fraction=0.1,
    )
    # 1 Mb/s is two of the three decades from 10 kb/s to 10 Mb/s; 300 kb are three times 10 Mb/s x 10 ms.
    assert seen == pytest.approx([0.25, 0.5, -0.5, 2 / 3, 0.25, 0.75, 0.1])


def test_a_datacenter_s_reward() -> None:
    # A quarter of 8 Mb/s x 0.9 payload; a queue of two base RTTs; a tenth lost.
    paid = terms("datacenter", goodput_bps=1.8e6, rtt_s=0.03, samples=1.0, loss_fraction=0.1)
    assert paid == pytest.approx([0.25, -0.5 * 2 / 3, -0.1])
    # Where no ACK came, the smoothed round trip is the last that is known.
    assert terms("datacenter", srtt_s=0.02)[1] == pytest.approx(-0.25)


@given(st.floats(-1.0, 1.0))
def test_log_rates_and_back(action: float) -> None:
    ends = interval(least_rate_bps=1e6, line_rate_bps=1e9)
    rate_bps = DATACENTER.decide(ends, action)
    assert 1e6 * (1 - 1e-9) <= rate_bps <= 1e9 * (1 + 1e-9)
    assert DATACENTER.ask(ends, rate_bps) == pytest.approx(action, abs=1e-9)


def test_orca_s_state_and_reward() -> None:
    values = {
        "arrived_bps": 4e6,
        "best_bps": 5e6,
        "rate_bps": 6e6,
        "lost_bps": 0.1e6,
        "samples": 8.0,
        "cwnd_packets": 16.0,
        "srtt_s": 0.025,
        "least_rtt_s": 0.01,
    }
    # The delay metric: 1.25 x 10 ms over 25 ms.
    assert features("orca", **values) == pytest.approx([0.8, 1.2, 0.1, 0.5, 2.0, 0.4, 0.5])
    assert terms("orca", **values) == pytest.approx([0.8 * 0.5, -0.1 * 0.5])
    calm = values | {"srtt_s": 0.012}
    assert features("orca", **calm)[6] == 1.0
    assert [ORCA.decide(interval(), action) for action in (-1.0, 0.0, 0.5, 1.0)] == [0.25, 1.0, 2.0, 4.0]


# The world.


def settle(env: FlowCC, action: float, steps: int = 12) -> dict[str, float]:
    env.reset(options={"episode_seed": 5})
    for _ in range(steps):
        info = env.step(np.array([action], np.float32))[4]
    found: dict[str, float] = info["metrics"]
    return found


def test_a_flow_alone_gets_its_link() -> None:
    metrics = settle(short_env(), 1.0)
    assert metrics["rate_bps"] == pytest.approx(1e9)
    # All of the link but headers.
    assert metrics["goodput_bps"] == pytest.approx(1e9 * 1460 / 1500, rel=0.01)
    assert metrics["loss_fraction"] == 0.0


@pytest.mark.parametrize("action", [0.0, 0.5, 0.9])
def test_the_rate_is_what_is_sent(action: float) -> None:
    metrics = settle(short_env(), action)
    assert metrics["rate_bps"] == pytest.approx(1e9 * 0.001 ** (0.5 - 0.5 * action), rel=1e-5)
    assert metrics["sent_bps"] == pytest.approx(metrics["rate_bps"], abs=12e6)  # a packet an interval
    # On an empty path the round trip is the base one, and both hosts' jitter of at most a packet's time.
    assert 187e-6 <= metrics["rtt_mean_s"] <= 187e-6 + 24e-6


def test_too_much_fills_the_queue_and_loses_the_rest() -> None:
    overrides = {"topology.core_rate_bps": 0.5e9, "control.episode_steps": 40}
    metrics = settle(short_env(overrides=overrides), 1.0, steps=40)
    # 250 kB at 0.5 Gb/s are 4 ms; half of what is sent is lost.
    assert metrics["rtt_mean_s"] == pytest.approx(4e-3, rel=0.1)
    assert metrics["loss_fraction"] == pytest.approx(0.5, abs=0.05)


def test_the_gradient_shows_a_queue_that_grows() -> None:
    overrides = {"topology.core_rate_bps": 0.9e9, "queue.buffer_bytes": 2_000_000}
    env = short_env(preset="aurora", overrides=overrides)
    env.reset(seed=0)
    for _ in range(10):
        observation, *_ = env.step(np.array([10.0], np.float32))
    # At 1 Gb/s into 0.9 Gb/s the delay grows by a ninth of the time, and halves are half an interval apart.
    assert env.sender.rate_bps == pytest.approx(1e9)
    assert observation[0] == pytest.approx(0.5 / 9, rel=0.15)


def test_intervals_follow_the_round_trip() -> None:
    env = short_env("aurora-links")
    env.reset(options={"episode_seed": 5})
    rtt_s = env.step(np.zeros(1, np.float32))[4]["metrics"]["rtt_mean_s"]
    metrics = env.step(np.zeros(1, np.float32))[4]["metrics"]
    assert metrics["interval_s"] == pytest.approx(0.5 * rtt_s)


def test_aurora_s_links_are_within_its_ranges() -> None:
    scenario = load_scenario("aurora-links", expect=CongestionScenario)
    for seed in range(100):
        drawn = scenario.draw("train", seed)
        topology = drawn.topology
        assert topology.kind == "dumbbell"
        assert 100 <= topology.core_link_rate_bps / 12_000 <= 500
        assert 0.05 <= 3 * topology.link_delay_s + 1e-6 <= 0.5 + 2e-6
        assert 2 <= drawn.queue.buffer_bytes / 1500 <= 2981
        assert 1.0 - (1.0 - drawn.faults.loss_probability) ** 3 <= 0.05
        assert drawn.flow is not None
        assert 0.3 <= drawn.flow.start_rate <= 1.5


def test_genet_s_buffer_is_a_multiple_of_the_link() -> None:
    env = short_env("genet-links")
    env.reset(options={"episode_seed": 8})
    drawn = env.scenario.draw("train", 8)
    assert drawn.flow is not None
    assert drawn.flow.buffer_bdp is not None
    path = env.sender.interval
    product_bytes = path["slowest_link_bps"] * path["base_rtt_s"] / 8
    expected = max(drawn.flow.buffer_bdp * product_bytes, 3000)
    assert env.network.scenario.queue.buffer_bytes == pytest.approx(expected, rel=1e-3)


def test_orca_moves_the_window_and_the_law_goes_on() -> None:
    windows = []
    for action in (-1.0, 0.0, 1.0):
        # A round trip of 60 ms: in an interval of 1 ms the law itself does next to nothing.
        env = short_env(
            preset="orca", overrides={"flow.base_transport": "reno", "topology.link_delay_s": 10e-3}
        )
        env.reset(seed=0)
        assert env.transport.name == "reno"
        for _ in range(5):
            env.step(np.zeros(1, np.float32))
        env.step(np.array([action], np.float32))
        windows.append(env.sender.interval["cwnd_packets"] / 10)
    assert windows[1] > 1.0
    assert windows[0] == pytest.approx(0.25 * windows[1], rel=0.1)
    assert windows[2] == pytest.approx(4.0 * windows[1], rel=0.1)


def test_the_neutral_action_of_orca_is_the_law_alone() -> None:
    env = short_env(preset="orca", transport="cubic")
    delivered = []
    env.reset(options={"episode_seed": 5})
    for _ in range(12):
        env.step(env.uncapped_action)
    delivered.append(env.network.flows().delivered_bytes[0])
    now_s = env.network.now_s
    env.network.reset(5)
    env.network.advance(now_s)
    delivered.append(env.network.flows().delivered_bytes[0])
    assert delivered[0] == delivered[1] > 0


def test_a_flow_among_others_of_its_host_has_a_rate_of_its_own() -> None:
    """Host 0 of flow-datacenter sends web-search flows too, which the agent's rate leaves alone."""
    env = short_env("flow-datacenter", overrides={"control.episode_steps": 60})
    env.reset(options={"episode_seed": 20_000})
    assert env.sender.stepper.rows["sets"][0] == FLOW_PACE
    sent = [env.step(np.array([0.2], np.float32))[4]["metrics"] for _ in range(60)]
    rate_bps = sent[-1]["rate_bps"]
    mean_bps = float(np.mean([one["sent_bps"] for one in sent[5:]]))
    # A packet that waits for those of the host's other flows delays the ones behind it.
    assert 0.7 * rate_bps < mean_bps < 1.02 * rate_bps
    assert env.network.hosts().sent_bytes[0] > env.network.flows().delivered_bytes[0] * 1500 / 1460


def test_the_background_does_not_depend_on_the_agent() -> None:
    starts = []
    for action in (-1.0, 1.0):
        env = short_env("flow-incast")
        env.reset(options={"episode_seed": 3})
        for _ in range(12):
            env.step(np.array([action], np.float32))
        starts.append(env.network.flows().start_s)
        assert env.network.flows().src[0] == 17
    assert np.array_equal(starts[0], starts[1])


def test_the_last_step_has_the_episode_s_metrics() -> None:
    for scenario in SCENARIOS:
        env = short_env(scenario)
        *_, truncated, info = rollout(env, 3)[-1]
        assert truncated
        assert set(info["metrics"]) == set(INTERVAL_METRICS)
        # Of sizes the table describes the median, and says that there is a 99th percentile too.
        described = {
            name.replace("_p99_", "_p50_") if name.startswith("fct_") else name
            for name in info["episode_metrics"]
        }
        assert described <= set(EPISODE_METRICS)
        assert all(map(math.isfinite, info["episode_metrics"].values()))
        assert sum(info["reward_terms"].values()) == rollout(env, 3)[-1][1]


def test_any_network_of_flows_that_never_end_will_do() -> None:
    env = short_env("dumbbell-10g")
    assert len(rollout(env, 0)) == 13


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"preset": "arora"}, UnknownName, 'did you mean "aurora"'),
        ({"transport": "cubik"}, UnknownName, 'did you mean "cubic"'),
        ({"reward": "orka"}, UnknownName, 'did you mean "orca"'),
        ({"split": "tests"}, UnknownName, 'did you mean "test"'),
        ({"history": 0}, SysgymError, "expected 1 or more"),
        ({"overrides": {"flow.background": "dctpc"}}, UnknownName, 'did you mean "dctcp"'),
        ({"overrides": {"flow.sender": 1}}, ScenarioError, "sender and receiver"),
        ({"overrides": {"flow.sender": 0, "flow.receiver": 0}}, ScenarioError, "another host"),
        ({"overrides": {"flow.sender": 0, "flow.receiver": 2}}, ScenarioError, "less than the 2 hosts"),
        ({"overrides": {"flow.base_transport": "paced"}, "preset": "orca"}, SysgymError, "has none"),
        ({"overrides": {"flow.base_transport": "swift"}, "preset": "orca"}, SysgymError, "derives it from"),
        ({"scenario": "incast-32"}, ScenarioError, "sender and receiver"),
    ],
)
def test_wrong_settings_are_told(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        short_env(**arguments)


@pytest.mark.parametrize("action", [np.array([np.nan], np.float32), np.ones(2, np.float32)])
def test_impossible_actions_are_errors(action: Any) -> None:
    env = short_env()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected one finite number"):
        env.step(action)


def test_step_before_reset_is_an_error() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        short_env().step(np.zeros(1, np.float32))


def test_a_scenario_may_weigh_the_terms() -> None:
    env = short_env(overrides={"reward.weights": {"queueing": 0.0}})
    assert all(step[4]["reward_terms"]["queueing"] == 0.0 for step in rollout(env, 0)[1:])
    with pytest.raises(UnknownName, match="queueing"):
        short_env(overrides={"reward.weights": {"queing": 0.0}})


def test_it_renders_a_line() -> None:
    env = short_env(render_mode="ansi")
    env.reset(seed=0)
    assert re.match(r"flow-1g-1ms, datacenter: 1\.000 ms, rate 500\.000 Mb/s, goodput", str(env.render()))


# The documentation.

TEXT = inspect.getdoc(FlowCC) or ""


def section(heading: str) -> str:
    return re.split(r"^## ", TEXT.split(f"## {heading}\n")[1], flags=re.M)[0]


def rows(heading: str) -> list[list[str]]:
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_tables_are_what_the_presets_say() -> None:
    features = [
        [f"`{name}`", f"`{one.name}`", one.meaning, one.unit, f"{one.low:g}", f"{one.high:g}"]
        for name, preset in PRESETS.items()
        for one in preset.features
    ]
    assert rows("Observation Space") == features
    actions = [
        [f"`{name}`", "a" if preset.action_limit == 1.0 else f"{preset.action_limit:g} a", preset.meaning]
        for name, preset in PRESETS.items()
    ]
    assert rows("Action Space") == actions
    paid = {name.strip("`"): re.findall(r"`(\w+)`:", words) for name, words in rows("Rewards")}
    assert paid == {name: list(reward.terms) for name, reward in REWARDS.items()}


def test_every_argument_and_scenario_is_described() -> None:
    table = {line[0].strip("`"): line[2].strip("`").strip('"') for line in rows("Arguments")}
    parameters = list(inspect.signature(FlowCC.__init__).parameters.values())[1:]
    assert table == {parameter.name: str(parameter.default) for parameter in parameters}
    assert all(f"`{name}`" in section("Registered Configurations") for name in SCENARIOS)


def played(scenario: str, **overrides: Any) -> dict[str, float]:
    env = FlowCC(scenario, overrides=overrides)
    env.reset(seed=1)
    over = False
    while not over:
        *_, over, info = env.step(np.array([-1.0], np.float32))
    metrics: dict[str, float] = info["episode_metrics"]
    return metrics


def test_links_that_fail_leave_no_steady_fair_share() -> None:
    steady = {"control.episode_steps": 3}
    assert "fair_share" in played("dumbbell-10g", **steady)
    fails = [{"link": "west->east", "down_s": 0.001, "up_s": 0.002}]
    assert "fair_share" not in played("dumbbell-10g", **steady, **{"faults.links": fails})


def test_flows_of_ten_megabytes_count_where_arrivals_end() -> None:
    """As in the environment of the whole network."""
    overrides = {
        "flow": {"sender": 0, "receiver": 9},
        "workload.load": 0.3, "workload.flow_sizes": "fixed", "workload.fixed_bytes": 10_000_000,
        "workload.last_arrival_s": 0.01, "control.episode_steps": 100, "control.decision_interval_s": 1e-3,
    }  # fmt: skip
    metrics = played("fattree-k4-websearch-drained", **overrides)
    assert metrics["fct_slowdown_p50_huge"] == metrics["fct_slowdown_p50_large"] >= 1.0
