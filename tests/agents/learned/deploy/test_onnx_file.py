"""ONNX files agree with the reference, contain their origin, and run as agents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import onnx
import pytest

from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned import train
from sysgym.agents.learned.checkpoint import CheckpointMeta, read_checkpoint, write_checkpoint
from sysgym.agents.learned.deploy.agreement import check_onnx
from sysgym.agents.learned.deploy.graph import Choice, PolicyGraph
from sysgym.agents.learned.deploy.onnx_file import (
    IR_VERSION,
    LARGEST_MODEL_BYTES,
    OPSET,
    OnnxRunner,
    onnx_bytes,
    onnx_model,
)
from sysgym.agents.learned.deploy.source import read_source
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.stragglers.features import feature_names
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import SysgymError

Script = Callable[..., str]


def exported(checkpoint: Path) -> bytes:
    """Return the ONNX file of a checkpoint, as the command writes it."""
    source = read_source(checkpoint)
    return onnx_bytes(source.graph, source.properties)


def test_it_answers_as_the_reference(graph: PolicyGraph, batch: Any) -> None:
    observations, masks = batch(graph)
    expected = graph(observations, masks)
    runner = OnnxRunner(onnx_model(graph).SerializeToString())
    got = runner(observations, masks)
    assert got.values == pytest.approx(expected.values, rel=1e-5, abs=1e-6)
    assert got.action.dtype == (np.int64 if isinstance(graph.outputs, Choice) else np.float32)
    assert np.array_equal(got.action, expected.action) or not isinstance(graph.outputs, Choice)
    one = runner(observations[:1], None if masks is None else masks[:1])
    assert one.values == pytest.approx(got.values[:1], rel=1e-5, abs=1e-6)
    assert (runner.masked, runner.n_inputs) == (graph.masked, graph.inputs.size)


def test_the_model_says_what_it_is(ppo_run: Path) -> None:
    checkpoint = read_checkpoint(ppo_run / "final.zip")
    model = onnx.load_from_string(exported(checkpoint.path))
    properties = {one.key: one.value for one in model.metadata_props}
    assert properties["env_id"] == "sysgym/DatacenterCC-v0"
    assert properties["scenario"] == "iroko-dumbbell-10m"
    assert json.loads(properties["inputs"]) == checkpoint.meta.observation_index
    assert json.loads(properties["action"])["name"] == "log"
    assert {"sysgym", "torch", "onnx"} <= set(json.loads(properties["versions"]))
    assert len(properties["checkpoint_sha256"]) == 64
    assert model.opset_import[0].version == 17


def test_weights_from_other_files_and_other_operators_are_refused(ppo_run: Path) -> None:
    """The runtime would read any file that the model names."""
    whole = onnx.load_from_string(exported(ppo_run / "final.zip"))
    elsewhere, loops = onnx.ModelProto(), onnx.ModelProto()
    elsewhere.CopyFrom(whole)
    tensor = elsewhere.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    with pytest.raises(SysgymError, match="its weights are in another file, which is not supported"):
        OnnxRunner(elsewhere.SerializeToString())
    loops.CopyFrom(whole)
    loops.graph.node[0].op_type = "Loop"
    with pytest.raises(SysgymError, match=r"operators that no exported policy has \(Loop\)"):
        OnnxRunner(loops.SerializeToString())


def test_what_the_network_is_not_given_is_not_in_the_graph(graph: PolicyGraph) -> None:
    kinds = [node.op_type for node in onnx_model(graph).graph.node]
    assert ("Gather" in kinds) == (graph.inputs.select is not None)
    assert ("Where" in kinds) == graph.masked
    assert ("ArgMax" in kinds) == isinstance(graph.outputs, Choice)


def test_what_is_exported_is_checked(graph: PolicyGraph) -> None:
    data = onnx_model(graph).SerializeToString()
    check_onnx(graph, data)
    if isinstance(graph.network, Mlp):
        worse = replace(graph.network, biases=tuple(bias + 1.0 for bias in graph.network.biases))
        with pytest.raises(SysgymError, match="ONNX Runtime does not give the same results as the policy"):
            check_onnx(replace(graph, network=worse), data)


def test_the_same_checkpoint_gives_the_same_file(ppo_run: Path) -> None:
    checkpoint = ppo_run / "final.zip"
    assert exported(checkpoint) == exported(checkpoint)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_rates_play_as_the_checkpoint_does(
    name: str, request: pytest.FixtureRequest, make_env: Any, tmp_path: Path
) -> None:
    checkpoint = request.getfixturevalue(f"{name}_run") / "final.zip"
    file = tmp_path / "policy.onnx"
    file.write_bytes(exported(checkpoint))
    agent = make_agent("onnx", checkpoint=file)
    assert agent.name == "onnx"
    env = make_env("iroko-dumbbell-10m")
    ours, _ = play_episode(env, agent, options={"episode_seed": 3})
    theirs, _ = play_episode(env, make_agent(name, checkpoint=checkpoint), options={"episode_seed": 3})
    assert ours == pytest.approx(theirs, rel=1e-4)
    with pytest.raises(SysgymError, match="whose observation differs"):
        agent.begin(make_env("dumbbell-10g"))


@pytest.mark.parametrize("name", ["maskable_ppo", "maskable_ppo_set"])
def test_choices_play_as_the_checkpoint_does(name: str, tmp_path: Path) -> None:
    settings = {"n_steps": 32, "batch_size": 32, "n_epochs": 1}
    checkpoint = train(
        name, "placement-unseen", total_steps=64, out=tmp_path, n_envs=2, hyper_parameters=settings
    )
    file = tmp_path / "policy.onnx"
    file.write_bytes(exported(checkpoint))
    scenario = load_scenario("placement-unseen")
    env: Any = gym.make(scenario.env_id, scenario=scenario, split="test", disable_env_checker=True)
    agents = [make_agent("onnx", checkpoint=file), make_agent(name, checkpoint=checkpoint)]
    for seed in range(20000, 20005):
        observation, _ = env.reset(options={"episode_seed": seed})
        for agent in agents:
            agent.begin(env)
        over = False
        while not over:
            ours, theirs = (agent.act(observation) for agent in agents)
            assert ours == theirs
            observation, _, over, _, _ = env.step(ours)


def test_tasks_play_as_the_checkpoint_does(mlp: Any, tmp_path: Path) -> None:
    scenario = load_scenario("google-2011", overrides={"jobs.tasks_min": 20, "jobs.tasks_max": 30})
    env: Any = gym.make(scenario.env_id, scenario=scenario, split="test", disable_env_checker=True)
    names = feature_names(env.unwrapped.counter_names)
    meta = CheckpointMeta(
        "ppo", scenario.env_id, scenario.resolved(), {}, names, {"name": "wait or flag"}, 0, 0.0, 0, 1, {}
    )
    network = mlp(len(names), 8, 2)
    write_checkpoint(tmp_path / "final.zip", meta, network, b"")
    file = tmp_path / "policy.onnx"
    file.write_bytes(exported(tmp_path / "final.zip"))
    returns = [
        play_episode(env, make_agent(name, checkpoint=path), options={"episode_seed": 20_001})
        for name, path in (("onnx", file), ("ppo", tmp_path / "final.zip"))
    ]
    assert returns[0][0] == pytest.approx(returns[1][0])
    assert returns[0][1]["episode_metrics"] == pytest.approx(returns[1][1]["episode_metrics"])


def test_other_files_are_refused(graph: PolicyGraph, tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    with pytest.raises(SysgymError, match=r"policy\.onnx: cannot be read: No such file"):
        OnnxRunner(file)
    os.mkfifo(file)
    with pytest.raises(SysgymError, match=r"policy\.onnx: cannot be read"):
        OnnxRunner(file)
    file.unlink()
    with file.open("wb") as stream:
        stream.truncate(LARGEST_MODEL_BYTES + 1)
    with pytest.raises(SysgymError, match="larger than 256 MB"):
        OnnxRunner(file)
    file.write_bytes(b"something else")
    with pytest.raises(SysgymError, match="not a model that ONNX Runtime reads"):
        OnnxRunner(file)
    file.write_bytes(onnx_model(graph).SerializeToString())
    with pytest.raises(SysgymError, match="not exported from a checkpoint"):
        make_agent("onnx", checkpoint=file)


def test_without_the_extra_it_is_named(script: Script) -> None:
    code = """
    import sys
    import numpy as np
    from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph
    from sysgym.agents.learned.deploy.onnx_file import OnnxRunner, onnx_model
    from sysgym.agents.learned.policy import Mlp
    from sysgym.scenarios.errors import MissingExtra

    one = np.ones((1, 1), np.float32)
    graph = PolicyGraph(Mlp((one,), (one[0],), ("identity",)), Inputs(1), Choice(masked=False))
    for what in (lambda: onnx_model(graph), lambda: OnnxRunner("policy.onnx")):
        try:
            what()
        except MissingExtra as error:
            print(error)
    print(sorted({"torch", "numba", "stable_baselines3"} & set(sys.modules)))
    """
    said = script(code, without=("onnx", "onnxruntime"))
    assert said.count('pip install "sysgym[export]"') == 2
    assert said.strip().endswith("[]")


def model_of(kind: str, *constants: Any, size: int | None = 4) -> bytes:
    """Return a model of one operator, after what a policy is asked with."""
    from onnx import TensorProto, helper, numpy_helper

    held = [numpy_helper.from_array(np.array(one), f"c{place}") for place, one in enumerate(constants)]
    node = helper.make_node(kind, ["observation", *(one.name for one in held)], ["action"])
    shape = [None] if size is None else [None, size]
    taken = helper.make_tensor_value_info("observation", TensorProto.FLOAT, shape)
    given = helper.make_tensor_value_info("action", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "policy", [taken], [given], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    data: bytes = model.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("kind", "constants", "size", "words"),
    [
        ("Tile", [[1, 2_000_000_000]], 4, "would make 8,000,000,000 numbers"),
        ("Identity", [], None, r"not of the shape \(batch, size\)"),
        ("Reshape", [[7, 7, 7]], 4, "cannot be played"),
        ("Reshape", [[-1, 2, 2]], 4, r"have the shape \(2, 2, 2\)"),
        ("Reshape", [[-1]], 4, r"have the shape \(8,\)"),
    ],
)
def test_a_model_of_other_shapes_is_refused(kind: str, constants: Any, size: int | None, words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        OnnxRunner(model_of(kind, *constants, size=size))
