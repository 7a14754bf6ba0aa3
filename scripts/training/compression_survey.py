"""Survey of set-ups in which compressing gradients pays, after Agarwal et al. (MLSys 2022).

python scripts/training/compression_survey.py
python scripts/training/compression_survey.py --picture docs/images/compression.png

`sysgym bench compression` prints the same tables and adds them to its report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sysgym.bench.surveys import make
from sysgym.emulator.compression.times import Job, job_of
from sysgym.envs.compression.render import draw_times
from sysgym.envs.compression.survey import ASSUMPTIONS, MODELS, scenario_of


def draw(path: Path) -> None:
    """Draw the time of an iteration against the bandwidth, ResNet-50 on 8 and on 64 workers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.2), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    gradient_bytes, backward_s = MODELS["ResNet-50"]
    job: Job = job_of(scenario_of(gradient_bytes, backward_s, ASSUMPTIONS[0]))
    for axes, workers in zip(figure.subplots(1, 2), (8, 64), strict=True):
        draw_times(axes, job, workers, backward_s, (0.5e9, 100e9))
        axes.set_title(f"ResNet-50, {workers} workers")
    figure.savefig(path)


def main() -> None:
    """Print the tables, or draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="draw times by bandwidth into this file")
    arguments = parser.parse_args()
    if arguments.picture is not None:
        draw(arguments.picture)
        return
    for page in make("compression", Path(), 1, lambda done, of: None):
        print(page.markdown())


if __name__ == "__main__":
    main()
