"""Survey of set-ups in which gradient compression pays off, after Agarwal et al. (MLSys 2022).

A set-up is a model, a number of workers, a bandwidth and a batch; a cell is a set-up with a method. The
paper's abstract reports 6 of over 200 set-ups; its set-ups differ from these, so the counts need not agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compression.times import N_METHODS, NONE, FloatArray, iteration_times_s, job_of
from sysgym.envs.compression.render import LABELS
from sysgym.scenarios import load_scenario
from sysgym.scenarios.family import SurveyPage
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

TEMPLATE = "compression-datacenter"
MODELS = {"ResNet-50": (97e6, 0.122), "ResNet-101": (170e6, 0.240), "BERT-base": (418e6, 0.330)}
"""Assumed: bytes of the gradient, and the backward pass of a V100 at the reference batch."""

WORKERS = (4, 8, 16, 32, 64, 96)
BANDWIDTHS_BPS = (1e9, 5e9, 10e9, 25e9, 100e9)
FAST_BPS = 10e9
BATCHES = (0.25, 0.5, 1.0)
"""Batch over the reference batch; the backward pass is in proportion."""

PUBLISHED = tuple(method for method in range(N_METHODS) if METHODS[method] != "half_precision")
"""Methods of the paper: all but 16 bits per value."""


class Assumption(NamedTuple):
    """One set of assumed constants.

    Attributes:
        name: What differs.
        encoding: Factor of all times of encoding and decoding.
        losses: Whether lost progress counts.
        slowdown: Factor of a backward pass that is overlapped.
        backward: Factor of the backward passes.
        forward: Forward pass, as a share of the backward pass.
        half: Whether no compression means 16 bits per value.
        methods: Methods that compete.
    """

    name: str
    encoding: float = 1.0
    losses: bool = True
    slowdown: float = 1.07
    backward: float = 1.0
    forward: float = 0.0
    half: bool = False
    methods: tuple[int, ...] = PUBLISHED


ASSUMPTIONS = (
    Assumption("as assumed"),
    Assumption("time alone: no method loses progress", losses=False),
    Assumption("encoding twice as slow", encoding=2.0),
    Assumption("encoding twice as fast", encoding=0.5),
    Assumption("encoding ten times as fast", encoding=0.1),
    Assumption("accelerator four times as fast, encoding too", encoding=0.25, backward=0.25),
    Assumption("accelerator four times as fast, encoding not", backward=0.25),
    Assumption("overlap slows nothing", slowdown=1.0),
    Assumption("overlap slows by a quarter", slowdown=1.25),
    Assumption("with a forward pass of half the backward pass", forward=0.5),
    Assumption("no compression has 16 bits a value", half=True),
    Assumption("16 bits a value are a method", methods=tuple(range(N_METHODS))),
)


class Survey(NamedTuple):
    """Gains over no compression, [n models, n workers, n bandwidths, n batches, n methods]."""

    gains: FloatArray

    def winners(self, methods: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the method with the largest gain in every set-up; ties go to no compression."""
        best = self.gains[..., list(methods)].argmax(axis=-1)
        return np.asarray(np.take(methods, best), np.int64)


def scenario_of(gradient_bytes: float, backward_s: float, assumption: Assumption) -> CompressionScenario:
    """Return the scenario of a model under some assumptions."""
    changes = {
        "job.gradient_bytes": gradient_bytes,
        "job.backward_s": backward_s,
        "job.forward_s": assumption.forward * backward_s,
        "job.half_precision": assumption.half,
        "job.overlap_slowdown": assumption.slowdown,
        "network.latency_s": 0.0,
        "encoding.scale": assumption.encoding,
    }
    return load_scenario(TEMPLATE, overrides=changes, expect=CompressionScenario)


def survey(assumption: Assumption) -> Survey:
    """Return the gain in progress per second of every cell."""
    shape = (len(MODELS), len(WORKERS), len(BANDWIDTHS_BPS), len(BATCHES), N_METHODS)
    gains = np.empty(shape)
    places = list(itertools.product(WORKERS, BANDWIDTHS_BPS))
    workers = np.array([place[0] for place in places])
    bandwidths_bps = np.array([place[1] for place in places])
    for model, (gradient_bytes, reference_s) in enumerate(MODELS.values()):
        for batch, share in enumerate(BATCHES):
            backward_s = assumption.backward * share * reference_s
            scenario = scenario_of(gradient_bytes, backward_s, assumption)
            times_s = iteration_times_s(
                job_of(scenario), bandwidths_bps, workers, np.full(len(places), backward_s)
            )
            kept = kept_progress(scenario) if assumption.losses else np.ones(N_METHODS)
            gains[model, :, :, batch] = (kept * times_s[:, :1] / times_s - 1.0).reshape(
                len(WORKERS), len(BANDWIDTHS_BPS), N_METHODS
            )
    return Survey(gains)


def kept_progress(scenario: CompressionScenario) -> FloatArray:
    """Return the progress of an iteration by method, outside critical phases."""
    return 1.0 - np.array([0.0, *(getattr(scenario.loss, method) for method in METHODS[1:])])


def pages(folder: Path, n_workers: int, progress: Callable[[int, int], None]) -> list[SurveyPage]:
    """Return the tables: set-ups won under each assumption, and by bandwidth and workers.

    Args:
        folder: Results folder; not used, as the work is short.
        n_workers: Number of processes; one suffices.
        progress: Callback with the number of finished assumptions and of all.
    """
    found = []
    for number, assumption in enumerate(ASSUMPTIONS):
        progress(number, len(ASSUMPTIONS))
        found.append(survey(assumption))
    progress(len(ASSUMPTIONS), len(ASSUMPTIONS))
    n_setups, n_methods = found[0].gains[..., 0].size, len(PUBLISHED) - 1
    setups = (
        f"{n_setups} set-ups: {', '.join(MODELS)}; {', '.join(map(str, WORKERS))} workers;"
        f" {', '.join(f'{b / 1e9:g}' for b in BANDWIDTHS_BPS)} Gbit/s;"
        f" batch {', '.join(map(str, BATCHES))} of the reference batch."
        f" With each of {n_methods} methods: {n_setups * n_methods} cells."
    )
    columns = ("constants", "set-ups won", "at 10 Gbit/s or more", "cells won", "won by")
    rows = tuple(_row(*pair) for pair in zip(ASSUMPTIONS, found, strict=True))
    won = found[0].winners(PUBLISHED) != NONE
    of = won.shape[0] * won.shape[3]
    by_place = tuple(
        (
            f"{bandwidth_bps / 1e9:g} Gbit/s",
            *(f"{won[:, count, place].sum()} of {of}" for count in range(len(WORKERS))),
        )
        for place, bandwidth_bps in enumerate(BANDWIDTHS_BPS)
    )
    return [
        SurveyPage("Set-ups in which a method is faster than no compression", setups, columns, rows),
        SurveyPage(
            "Set-ups won by bandwidth and workers",
            "Constants as assumed.",
            ("bandwidth", *(f"{count} workers" for count in WORKERS)),
            by_place,
        ),
    ]


def _row(assumption: Assumption, found: Survey) -> tuple[str, ...]:
    winners = found.winners(assumption.methods)
    competing = [method for method in assumption.methods if method != NONE]
    cells = found.gains[..., competing] > 0.0
    counts = {method: int((winners == method).sum()) for method in competing}
    by = ", ".join(f"{LABELS[one]} {count}" for one, count in counts.items() if count)
    won, fast = winners != NONE, np.array(BANDWIDTHS_BPS) >= FAST_BPS
    counted = (f"{one.sum()} of {one.size}" for one in (won, won[:, :, fast], cells))
    return (assumption.name, *counted, by)
