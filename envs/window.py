"""Window that shows the pictures of an environment. Requires the extra ``human`` (pygame)."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import MissingExtra, SysgymError

_NOWHERE = ("dummy", "offscreen")
"""Drivers of SDL without a screen."""

_ADVICE = 'use render_mode="rgb_array" or "ansi", or `sysgym run SCENARIO --video FILE.gif`'


class Window:
    """Window with one picture, opened when the first picture is shown.

    A copy of an environment opens its own window when it first shows a picture.

    Args:
        title: Title of the window.

    Raises:
        MissingExtra: If the extra ``human`` is not installed.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._screen: Any = None
        self._clock: Any = None

    def show(self, picture: NDArray[np.uint8], frames_per_s: float) -> None:
        """Show a picture, and wait to keep to the frame rate.

        Args:
            picture: Picture, shape (height, width, 3).
            frames_per_s: Highest frame rate.

        Without a screen the window is invisible, and a warning says so.

        Raises:
            SysgymError: If no window can be opened.
        """
        pygame = _pygame()
        height, width = picture.shape[:2]
        if self._screen is None or self._screen.get_size() != (width, height):
            self._open(pygame, (width, height))
        self._screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(frames_per_s)

    def close(self) -> None:
        """Close the window, if it is open."""
        if self._screen is not None:
            _pygame().display.quit()
            self._screen = self._clock = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: the title, without a window."""
        return {"_title": self._title, "_screen": None, "_clock": None}

    def _open(self, pygame: Any, size: tuple[int, int]) -> None:
        try:
            pygame.display.init()
            self._screen = pygame.display.set_mode(size)
        except pygame.error as error:
            pygame.display.quit()
            raise SysgymError(
                f'render_mode="human" needs a screen, and there is none here ({error}): {_ADVICE}'
            ) from None
        if pygame.display.get_driver() in _NOWHERE and "SDL_VIDEODRIVER" not in os.environ:
            # As in Gymnasium's own environments, which its checker also makes where there is no screen.
            gym.logger.warn(f'render_mode="human": there is no screen, so the window is invisible: {_ADVICE}')
        pygame.display.set_caption(self._title)
        self._clock = pygame.time.Clock()


def _pygame() -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError as error:
        raise MissingExtra("human", 'render_mode="human"') from error
    return pygame
