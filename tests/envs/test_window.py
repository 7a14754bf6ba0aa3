"""``render_mode="human"``: a window if there is a screen, otherwise one clear error."""

from __future__ import annotations

import copy
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sysgym
from sysgym.envs.window import Window
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios.errors import MissingExtra, SysgymError

REGISTERED = sysgym.__version__
SMALL: dict[str, dict[str, Any]] = {
    "sysgym/DatacenterCC-v0": {"scenario": "iroko-dumbbell-10m"},
    "sysgym/FlowCC-v0": {"scenario": "flow-1g-1ms"},
}


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Any:
    """SDL's screen that is none, so that what is drawn can be read."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pygame's own, of pkg_resources
        pygame = pytest.importorskip("pygame")
    yield pygame.display
    pygame.display.quit()


def some_action(env: Any, info: dict[str, Any]) -> Any:
    mask = info.get("action_mask")
    return env.action_space.sample() if mask is None else env.action_space.sample(mask)


@pytest.mark.parametrize("env_id", list(ENVIRONMENTS))
def test_every_environment_shows_what_it_draws(env_id: str, screen: Any) -> None:
    shown: Any = gym.make(env_id, render_mode="human", **SMALL.get(env_id, {}))
    drawn: Any = gym.make(env_id, render_mode="rgb_array", **SMALL.get(env_id, {}))
    assert not isinstance(shown, gym.wrappers.HumanRendering)
    shown.unwrapped.metadata = {**shown.unwrapped.metadata, "render_fps": 1000}
    for env in (shown, drawn):
        _, info = env.reset(seed=3)
    action = some_action(drawn, info)
    for env in (shown, drawn):
        env.step(action)
    picture = drawn.render()
    seen = sys.modules["pygame"].surfarray.array3d(screen.get_surface()).swapaxes(0, 1)
    np.testing.assert_array_equal(seen, picture)
    assert shown.render() is None
    assert screen.get_caption()[0] == type(shown.unwrapped).__name__
    twin = copy.deepcopy(shown)  # has no window, and opens one when it shows something
    shown.close()
    assert screen.get_surface() is None
    twin.reset(seed=4)
    assert screen.get_surface() is not None
    twin.close()
    shown.close()


def test_a_window_is_as_large_as_its_picture(screen: Any) -> None:
    window = Window("a window")
    for size in ((20, 30, 3), (40, 10, 3)):
        window.show(np.zeros(size, np.uint8), 1000)
        assert screen.get_surface().get_size() == size[1::-1]
    window.close()
    window.close()


def test_without_a_screen_it_says_so(screen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = gym.make("sysgym/ReductionProgram-v0", render_mode="human")
    monkeypatch.setenv("SDL_VIDEODRIVER", "no_such_driver")
    with pytest.raises(SysgymError, match=r'render_mode="human" needs a screen, .*"rgb_array" or "ansi"'):
        env.reset(seed=1)


def test_gymnasium_s_checker_passes_without_a_screen(screen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = gym.make("sysgym/ReductionProgram-v0")
    # SDL falls back on a driver without a screen in silence; where there is a screen, none of this is seen.
    screen.init()
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.setattr(screen, "get_driver", lambda: "offscreen")
    with pytest.warns(UserWarning, match=r"there is no screen, so the window is invisible: use render_mode="):
        check_env(env.unwrapped)


def test_without_pygame_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = gym.make("sysgym/StragglerPrediction-v0", render_mode="human")
    with pytest.raises(MissingExtra, match=r'render_mode="human" needs the extra "human": .*sysgym\[human\]'):
        env.reset(seed=1)
