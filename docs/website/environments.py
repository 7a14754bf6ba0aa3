"""Pages of environments, made from their classes, declarations, scenarios and published results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from docs.website.markdown import Pages, code, page, section, sections, table, toctree
from docs.website.results import SIGNS, Results, of_scenarios
from sysgym.scenarios import list_scenarios, list_suites, load_suite
from sysgym.scenarios.families import families
from sysgym.scenarios.family import Environment, Family, load_entry

_LISTED = "Registered Configurations"
"""Section of a docstring that the table of scenarios replaces."""

_FIRST_SECTIONS = ("Description", "Action Space", "Observation Space")


def slug(env_id: str) -> str:
    """Return the name of an environment's page and picture: the id without its namespace."""
    return env_id.rpartition("/")[2]


def environments() -> Iterator[tuple[Family, Environment]]:
    """Yield every registered environment with its family."""
    for family in families().values():
        for environment in family.environments:
            yield family, environment


def summary(environment: Environment) -> str:
    """Return the first line of an environment's docstring."""
    return _docstring(environment).partition("\n")[0]


def pages(results: Sequence[Results]) -> Pages:
    """Return the pages of all environments, and the chapter that lists them."""
    made = {
        f"environments/{slug(one.env_id)}.md": _page(family, one, results) for family, one in environments()
    }
    groups = []
    for family in families().values():
        rows = [
            (f"[`{one.env_id}`](/environments/{slug(one.env_id)}.md)", summary(one))
            for one in family.environments
        ]
        links = [f"environments/{slug(one.env_id)}" for one in family.environments]
        groups.append(
            section(
                family.name.capitalize(),
                table(("Environment", "Task"), rows),
                toctree(links, caption=family.name.capitalize(), hidden=True),
            )
        )
    made["environments/index.md"] = page(
        "All environments",
        "Every environment is registered with Gymnasium by `import sysgym`. A scenario, chosen by the"
        " argument `scenario`, describes the world of an episode.",
        *groups,
    )
    return made


def _docstring(environment: Environment) -> str:
    return inspect.getdoc(load_entry(environment.entry_point)) or ""


def _page(family: Family, environment: Environment, results: Sequence[Results]) -> str:
    parts = sections(_docstring(environment))
    parts.pop(_LISTED, None)
    history = parts.pop("Version History", "")
    first = {name: parts.pop(name) for name in _FIRST_SECTIONS if name in parts}
    name = slug(environment.env_id)
    env = gym.make(environment.env_id, disable_env_checker=True)
    try:
        facts, index = _facts(family, environment, env), _index(env)
    finally:
        env.close()
    tagline, _, rest = parts.pop("").partition("\n")
    return page(
        f"{name.partition('-')[0]}",
        tagline,
        f"![One episode of {environment.env_id}, drawn by the environment](/pictures/{name}.gif)",
        facts,
        rest,
        section("Ten Lines to Start", _start(environment.env_id)),
        *(section(title, body) for title, body in first.items()),
        index,
        *(section(title, body) for title, body in parts.items()),
        section("Scenarios", _scenarios(environment.env_id)),
        section("Metrics", _metrics(family, environment)),
        section("Baseline Scores", *_scores(environment.env_id, results)),
        section("Version History", history),
    )


def _facts(family: Family, environment: Environment, env: gym.Env[Any, Any]) -> str:
    modes = env.metadata.get("render_modes", [])
    rows = [
        ("Id", f"`{environment.env_id}`"),
        ("Family", family.name),
        ("Action space", f"`{_short(env.action_space)}`"),
        ("Observation space", f"`{_short(env.observation_space)}`"),
        (
            "Vector form",
            f"`gymnasium.make_vec({environment.env_id!r}, num_envs=...)`"
            if environment.vector_entry_point
            else "`SyncVectorEnv` and `AsyncVectorEnv` of Gymnasium",
        ),
        ("Render modes", ", ".join(f"`{mode}`" for mode in modes)),
    ]
    return table(("Property", "Value"), rows)


def _short(space: gym.Space[Any]) -> str:
    """Return a space in one line; the bounds of arrays are those of all elements."""
    if isinstance(space, gym.spaces.Box):
        return f"Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})"
    if isinstance(space, gym.spaces.MultiDiscrete):
        if np.unique(space.nvec).size == 1:
            return f"MultiDiscrete([{space.nvec.flat[0]}] * {space.nvec.size})"
        return f"MultiDiscrete({space.nvec.tolist()})"
    if isinstance(space, gym.spaces.Dict):
        return f"Dict({', '.join(space.spaces)})"
    return str(space)


def _start(env_id: str) -> str:
    lines = (
        "import gymnasium as gym",
        "import sysgym  # registers the environments",
        "",
        f'env = gym.make("{env_id}")',
        "observation, info = env.reset(seed=0)",
        "over = False",
        "while not over:",
        "    action = env.action_space.sample()",
        "    observation, reward, terminated, truncated, info = env.step(action)",
        "    over = terminated or truncated",
        'print(info["episode_metrics"])',
    )
    return code("\n".join(lines), "python")


def _index(env: gym.Env[Any, Any]) -> str:
    """Return the observation index by index, or key by key, in the default scenario."""
    space = env.observation_space
    meanings = getattr(env.unwrapped, "observation_index", None)
    if isinstance(space, gym.spaces.Box) and meanings is not None:
        low, high = space.low.ravel(), space.high.ravel()
        rows: list[tuple[object, ...]] = [
            (number, f"`{meaning}`", f"{low[number]:g}", f"{high[number]:g}")
            for number, meaning in enumerate(meanings)
        ]
        body = table(("Index", "Value", "Min", "Max"), rows)
        title = f"Observation, index by index: {len(rows)} values in the default scenario"
    elif isinstance(space, gym.spaces.Dict):
        rows = [(f"`{key}`", f"`{_short(one)}`", one.shape) for key, one in space.spaces.items()]
        body = table(("Key", "Space in the default scenario", "Shape"), rows)
        title = "Observation, key by key, in the default scenario"
    else:
        return ""
    return f"````{{dropdown}} {title}\n\n{body}\n````"


def _scenarios(env_id: str) -> str:
    infos = [info for info in list_scenarios() if info.env_id == env_id]
    return table(
        ("Scenario", "World"), [(f"[`{one.name}`](/scenarios/{one.name}.md)", one.title) for one in infos]
    )


def _metrics(family: Family, environment: Environment) -> str:
    evaluation = family.evaluation_of(environment.env_id)
    meanings = evaluation.metric_meanings()
    better = {one.name: "higher" if one.higher_is_better else "lower" for one in evaluation.metrics}
    compared = ", ".join(f"`{one.name}` ({better[one.name]} is better)" for one in evaluation.metrics)
    return "\n\n".join(
        [
            f"The last step's `info['episode_metrics']` has these. Reports compare contenders by {compared}.",
            table(
                ("Metric", "Meaning and unit"), [(f"`{name}`", meaning) for name, meaning in meanings.items()]
            ),
        ]
    )


def _scores(env_id: str, results: Sequence[Results]) -> Iterator[str]:
    scenarios = {info.name for info in list_scenarios() if info.env_id == env_id}
    found = of_scenarios(results, scenarios)
    if not found:
        suites = [
            info.name
            for info in list_suites()
            if any(task.scenario in scenarios for task in load_suite(info.name).tasks)
        ]
        listed = ", ".join(f"[{name}](/suites/{name}.md)" for name in suites)
        yield (
            f"There are no published results yet; the scenarios are in the suites {listed}."
            if suites
            else "No suite has these scenarios; `sysgym bench SUITE --scenario NAME` adds one to a suite."
        )
        return
    yield f"{SIGNS} A reference reads more than the observation."
    for one in found:
        yield section(
            f"{one.scenario}, suite {one.suite}",
            f"{one.about[:1].upper()}{one.about[1:]}." if one.about else "",
            table(("Contender", *one.metrics), [(name, *row) for name, row in one.rows.items()], texts=1),
            one.origin(),
            level=3,
        )
