"""Energy of a training over its steps, from which the energy to reach a score is determined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sysgym.bench.energy import EnergySettings, measured_alike, start_meter
from sysgym.bench.results.records import EnergyPoints, read_record
from sysgym.errors import SysgymError
from sysgym.scenarios.files import write_atomically

ENERGY = "energy.json"
POINTS_A_TRAINING = 100
ADDED = ("energy_kwh", "co2e_operational_g", "co2e_embodied_g")


class EnergyRecord:
    """Recorder of a training's energy over its steps and all its sessions, in ``energy.json``.

    Args:
        folder: Folder of the training.
        settings: Measurement of energy in this session.
        total_steps: Steps of the whole training.
    """

    def __init__(self, folder: Path, settings: EnergySettings, total_steps: int) -> None:
        self._path = folder / ENERGY
        self._every = max(total_steps // POINTS_A_TRAINING, 1)
        self._points = read_energy(folder)
        nothing = settings.account(0.0, 0.0)
        self._base = self._points[-1][1] if self._points else nothing
        # Records of an earlier session that was measured in another way cannot be continued.
        self.whole = measured_alike(self._base) == measured_alike(nothing)
        self._meter = start_meter(settings)

    def _now(self) -> dict[str, Any]:
        account = self._meter.read()
        return account | {name: account[name] + self._base[name] for name in ADDED}

    def note(self, steps: int) -> None:
        """Store a record if enough steps have passed since the last one."""
        if self.whole and (not self._points or steps >= self._points[-1][0] + self._every):
            self._add(steps)

    def end(self, steps: int) -> dict[str, Any] | None:
        """Return the record of the whole training; None if the measurement differed between sessions."""
        if not self.whole:
            return None
        # Algorithms finish whole rollouts or generations and can exceed the requested number of steps.
        self._add(max([steps, *(point for point, _ in self._points)]))
        return self._points[-1][1]

    def _add(self, steps: int) -> None:
        self._points.append((steps, self._now()))
        write_atomically(self._path, json.dumps(self._points).encode())


def read_energy(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the pairs (number of steps, energy record) in a training's folder; empty if there are none."""
    try:
        return [(steps, account) for steps, account in read_record(EnergyPoints, folder / ENERGY)]
    except SysgymError:
        return []
