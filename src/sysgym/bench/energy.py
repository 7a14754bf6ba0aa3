"""Energy and carbon of episodes and trainings: estimates with stated assumptions, not part of the results.

Operational emissions are energy x PUE x the grid's carbon intensity; embodied emissions are the share of a
server's manufacture attributed to the time used (the accounting of Wu et al., Sustainable AI, MLSys 2022).

Carbon intensities of grids are those of facebookresearch/ACT (those of places are from its 2022 file). The
power of a busy hardware thread is a coefficient of Cloud Carbon Footprint, which derives it from SPECpower. A
server's manufacturing emissions, lifetime, utilisation and number of cores are assumptions; they determine
only the order of magnitude of the embodied part.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from sysgym.errors import MissingExtra, SysgymError, UnknownName

CPU_TIME = "cpu-time"
"""Method that multiplies the CPU time of the process by the power of a core."""

CODECARBON = "codecarbon"
"""Method that uses the measurement or estimate of codecarbon, offline; needs the extra ``energy``."""

METHODS = (CPU_TIME, CODECARBON)

GRIDS_G_PER_KWH: Mapping[str, float] = {
    "world": 301.0,
    "europe": 295.0,
    "usa": 380.0,
    "india": 725.0,
    "australia": 597.0,
    "taiwan": 583.0,
    "singapore": 495.0,
    "japan": 485.0,
    "korea": 430.0,
    "brazil": 82.0,
    "iceland": 28.0,
    "coal": 820.0,
    "gas": 490.0,
    "biomass": 230.0,
    "solar": 41.0,
    "geothermal": 38.0,
    "hydro": 24.0,
    "nuclear": 12.0,
    "wind": 11.0,
}
"""Carbon intensity of electricity by place or source, g CO2e/kWh, from facebookresearch/ACT."""

WATTS_PER_CORE: Mapping[str, float] = {
    "sandy-bridge": 8.58,
    "ivy-bridge": 8.25,
    "haswell": 6.01,
    "coffee-lake": 5.42,
    "skylake": 4.19,
    "cascade-lake": 3.97,
    "broadwell": 3.69,
    "epyc-1": 2.55,
    "epyc-2": 1.69,
    "graviton-2": 1.69,
}
"""Power of one busy hardware thread by processor, W, from the coefficients of Cloud Carbon Footprint."""

DEFAULT_PROCESSOR = "skylake"
"""Default processor on every machine, so that rows of different machines are comparable."""

DEFAULT_PUE = 1.1
"""Assumed power usage effectiveness (PUE), typical of a large datacenter."""

SERVER_MANUFACTURE_G = 2_000_000.0
SERVER_LIFE_YEARS = 4.0
SERVER_UTILISATION = 0.45
SERVER_CORES = 64
HOURS_A_YEAR = 8760.0
"""Assumptions of the embodied part: 2 t CO2e per server, four years of life, 45 % utilisation, 64 cores."""

ASSUMPTIONS = (
    f"Embodied emissions rest on assumptions: {SERVER_MANUFACTURE_G / 1e6:.0f} t CO2e to make a server of "
    f"{SERVER_CORES} cores, {SERVER_LIFE_YEARS:.0f} years of life, used {100 * SERVER_UTILISATION:.0f} % of "
    "the time."
)


@dataclass(frozen=True)
class EnergySettings:
    """Measurement of energy, and factors of emissions.

    Attributes:
        method: One of :data:`METHODS`.
        grid: Name of the grid; empty if the carbon intensity was given as a number.
        ci_g_per_kwh: Carbon intensity of the electricity, g/kWh.
        pue: Power usage effectiveness of the building.
        watts_per_core: Power of a busy core, W; used by ``cpu-time`` only.
    """

    method: str = CPU_TIME
    grid: str = "world"
    ci_g_per_kwh: float = GRIDS_G_PER_KWH["world"]
    pue: float = DEFAULT_PUE
    watts_per_core: float = WATTS_PER_CORE[DEFAULT_PROCESSOR]

    @classmethod
    def from_options(
        cls,
        method: str = CPU_TIME,
        grid: str = "world",
        pue: float = DEFAULT_PUE,
        watts_per_core: str = DEFAULT_PROCESSOR,
    ) -> EnergySettings:
        """Return settings from options of the command line.

        Args:
            method: One of :data:`METHODS`.
            grid: A name in :data:`GRIDS_G_PER_KWH`, or a carbon intensity in g/kWh.
            pue: Power usage effectiveness, at least 1.
            watts_per_core: A name in :data:`WATTS_PER_CORE`, or a power in W.

        Raises:
            UnknownName: If there is no such method, grid or processor.
            SysgymError: If a number is out of range.
        """
        if method not in METHODS:
            raise UnknownName("energy measurement", method, METHODS)
        intensity = _number_or_name("grid", grid, GRIDS_G_PER_KWH)
        watts = _number_or_name("processor", watts_per_core, WATTS_PER_CORE)
        for what, value, least in (
            ("grid", intensity, 0.0),
            ("PUE", pue, 1.0),
            ("watts per core", watts, 0.0),
        ):
            if not least <= value < 1e6:
                raise SysgymError(f"{what}: got {value:g}, expected a number of at least {least:g}")
        return cls(method, grid.lower() if grid.lower() in GRIDS_G_PER_KWH else "", intensity, pue, watts)

    @property
    def method_words(self) -> str:
        """Name of the method in rows; rows with different methods are not compared."""
        return f"{CPU_TIME}-{self.watts_per_core:g}W" if self.method == CPU_TIME else self.method

    def account(self, energy_kwh: float, core_hours: float) -> dict[str, Any]:
        """Return the energy record of a row.

        Args:
            energy_kwh: Energy of the machine, without the building's overhead.
            core_hours: Core-hours used, for the embodied part.
        """
        return {
            "energy_kwh": energy_kwh,
            "co2e_operational_g": operational_g(energy_kwh, self.pue, self.ci_g_per_kwh),
            "co2e_embodied_g": embodied_g(core_hours / SERVER_CORES),
            "method": self.method_words,
            "ci_g_per_kwh": self.ci_g_per_kwh,
            "pue": self.pue,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON data."""
        return asdict(self)


DEFAULT = EnergySettings()
"""Default settings: CPU time and the world's mean carbon intensity."""


def _number_or_name(what: str, text: str, names: Mapping[str, float]) -> float:
    try:
        return float(text)
    except ValueError:
        if text.lower() in names:
            return names[text.lower()]
        raise UnknownName(what, text, names, hint="or write a number") from None


def operational_g(energy_kwh: float, pue: float, ci_g_per_kwh: float) -> float:
    """Return the emissions of electricity, g CO2e.

    For example, 65 W for one hour with a PUE of 1.1 and 301 g/kWh cause 21.5 g.
    """
    return energy_kwh * pue * ci_g_per_kwh


def embodied_g(
    server_hours: float,
    *,
    manufacture_g: float = SERVER_MANUFACTURE_G,
    life_years: float = SERVER_LIFE_YEARS,
    utilisation: float = SERVER_UTILISATION,
) -> float:
    """Return the share of a server's manufacturing emissions attributed to hours of use, g CO2e.

    With the defaults (2 t over four years at 45 % utilisation), this is 127 g per hour.
    """
    return manufacture_g * server_hours / (life_years * HOURS_A_YEAR * utilisation)


def total_g(account: Mapping[str, Any]) -> float:
    """Return the sum of operational and embodied emissions, g CO2e."""
    return float(account["co2e_operational_g"]) + float(account["co2e_embodied_g"])


def measured_alike(account: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values that must be equal for two energy records to be comparable."""
    return (account["method"], account["ci_g_per_kwh"], account["pue"])


def alike_words(account: Mapping[str, Any]) -> str:
    """Return a short description of how a record was measured."""
    method, intensity, pue = measured_alike(account)
    return f"{method}, {intensity:g} g/kWh, PUE {pue:g}"


class Meter(Protocol):
    """Meter of the energy that this process has used since the meter was started."""

    def read(self) -> dict[str, Any]:
        """Return the energy record up to now."""


def start_meter(settings: EnergySettings) -> Meter:
    """Return a meter that starts now.

    Raises:
        MissingExtra: If codecarbon is requested and not installed.
    """
    return _CodecarbonMeter(settings) if settings.method == CODECARBON else _CpuTimeMeter(settings)


class _CpuTimeMeter:
    def __init__(self, settings: EnergySettings) -> None:
        self._settings = settings
        self._began_s = _cpu_s()

    def read(self) -> dict[str, Any]:
        hours = (_cpu_s() - self._began_s) / 3600.0
        return self._settings.account(hours * self._settings.watts_per_core / 1000.0, hours)


class _CodecarbonMeter:
    """Meter that sums the energy of a codecarbon tracker's tasks.

    All meters of a process share one tracker, because its first task takes seconds to start.
    """

    _tracker: Any = None
    _total_kwh = 0.0
    _n_tasks = 0

    def __init__(self, settings: EnergySettings) -> None:
        self._settings = settings
        self._began_kwh = self._reading_kwh()
        self._began_s = _cpu_s()

    def read(self) -> dict[str, Any]:
        hours = (_cpu_s() - self._began_s) / 3600.0
        return self._settings.account(max(self._reading_kwh() - self._began_kwh, 0.0), hours)

    @classmethod
    def _reading_kwh(cls) -> float:
        if cls._tracker is None:
            cls._tracker = _new_tracker()
        else:
            cls._total_kwh += float(cls._tracker.stop_task().energy_consumed)
        cls._n_tasks += 1
        cls._tracker.start_task(f"part {cls._n_tasks}")
        return cls._total_kwh


def _new_tracker() -> Any:
    check_method(CODECARBON)
    tracker = import_module("codecarbon").OfflineEmissionsTracker
    logging.getLogger("codecarbon").setLevel(logging.ERROR)  # it logs before it applies log_level
    return tracker(
        country_iso_code="USA",  # required, but only the energy is used
        tracking_mode="process",
        save_to_file=False,
        log_level="error",
        allow_multiple_runs=True,
    )


def check_method(method: str) -> None:
    """Check that the library of a method of measurement is installed.

    Raises:
        MissingExtra: If the library is missing.
    """
    if method == CODECARBON and find_spec("codecarbon") is None:
        raise MissingExtra("energy", "--energy codecarbon")


def _cpu_s() -> float:
    """Return the CPU time of this process with all its threads, and of its children that have ended, s."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
