"""Figures of renders and descriptions: new ones, as arrays, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import StorageError, SysgymError
from sysgym.scenarios.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Picture = NDArray[np.uint8]
"""A picture, shape (height, width, 3)."""


def new_figure(width_in: float, height_in: float, dpi: int = 100) -> Figure:
    """Return an empty figure, which needs no window."""
    # Imported here because Matplotlib takes longer to import than all else, and most episodes draw nothing.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def pixels(figure: Figure) -> Picture:
    """Return a figure of :func:`new_figure` as an array, shape (height, width, 3)."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()  # type: ignore[attr-defined]


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure into a file, whose ending is the format: .png, .svg, .pdf.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    try:
        with replacing(path) as file:
            figure.savefig(file, format=path.suffix.removeprefix(".") or None)
    except (StorageError, ValueError) as error:
        reason = error.reason if isinstance(error, StorageError) else error
        raise SysgymError(f"{path}: the picture cannot be written: {reason}") from None
