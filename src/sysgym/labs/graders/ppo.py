"""Grader of lab 5, PPO; a policy is read as data and run here, rules are run in the submission's process."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.labs.graders.answers import number, numbers, same_numbers
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.rates import HOME_BPS, STEPS, Act, play_policy, play_rule
from sysgym.labs.submissions import Submission, policy_beside
from sysgym.labs.thresholds import threshold

LEAST_GOODPUT, LONGEST_DELAY_S = 0.8, 0.02
N_WORLDS = 5
LARGEST_POLICY_BYTES = 5_000_000


def prepare() -> None:
    """Compile the code that the parts need."""
    play_rule(lambda known: [0.3, 0.3])


def _worlds(seeds: Seeds, part: str) -> list[tuple[float, int]]:
    """Draw rates of the core link over the whole range, with a seed for each."""
    rng = seeds.rng(part)
    count = seeds.count(N_WORLDS)
    edges = np.linspace(3.2e6, 10e6, count + 1)
    return [
        (float(rng.uniform(*edges[index : index + 2])), int(20_000 + rng.integers(1000)))
        for index in range(count)
    ]


def _reward(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("reward")
    for core_rate_bps in (HOME_BPS, float(rng.uniform(5e6, 8e6))):
        outcomes = {}
        for rate in np.arange(0.05, 1.0, 0.095) * core_rate_bps / HOME_BPS:
            found = play_rule(_constant(float(rate)), core_rate_bps)
            call = f"reward({found.goodput_share:.3f}, {found.delay_s:.4f}, {found.dropped:.3f})"
            value = submission.call("reward", found.goodput_share, found.delay_s, found.dropped)
            outcomes[float(rate)] = (number(value, call), found)
        rate, (_, best) = max(outcomes.items(), key=lambda one: one[1][0])
        if best.goodput_share < LEAST_GOODPUT or best.delay_s > LONGEST_DELAY_S:
            return Outcome(
                0.0,
                f"with {core_rate_bps / 1e6:.1f} Mb/s your reward likes the constant {rate:.2f} best: it uses"
                f" {100 * best.goodput_share:.0f} % with a delay of {1e3 * best.delay_s:.0f} ms (expected at"
                f" least {100 * LEAST_GOODPUT:.0f} % and at most {1e3 * LONGEST_DELAY_S:.0f} ms)",
            )
    return Outcome(1.0, "the best constants use the link and keep the queue short")


def _constant(rate: float) -> Act:
    return lambda known: [rate, rate]


def _rule(submission: Submission, seeds: Seeds) -> Outcome:
    def act(known: dict[str, Any]) -> list[float]:
        return numbers(submission.call("act", known), "act", 2)

    totals = [play_rule(act, rate, seed).total for rate, seed in _worlds(seeds, "rule")]
    return _judged("ppo-rule", "your rule", totals)


def _gap(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("gap")

    def truth(home: Any, away: Any, t: float) -> list[float]:
        differences = home - away
        return [float(differences.mean()), float(t * differences.std(ddof=1) / len(differences) ** 0.5)]

    cases = []
    for count, t in ((5, 2.78), (12, 2.20), (30, 2.05)):
        shared = rng.normal(100.0, 30.0, count)
        cases.append((shared, shared - rng.normal(10.0, 5.0, count), t))
    return same_numbers(submission, "gap", cases, truth, 1e-4)


def _policy(submission: Submission, seeds: Seeds) -> Outcome:
    policy = policy_beside(submission.path)
    if policy is None:
        name = submission.path.name
        return Outcome(
            0.0,
            f"no policy.zip beside {name} (among other students' files: {submission.path.stem}.zip)",
        )
    if policy.stat().st_size > LARGEST_POLICY_BYTES:
        return Outcome(0.0, f"{policy.name} is larger than {LARGEST_POLICY_BYTES / 1e6:g} MB")
    totals = [play_policy(policy, rate, seed).total for rate, seed in _worlds(seeds, "policy")]
    return _judged("ppo-policy", "your policy", totals)


def _judged(name: str, who: str, totals: list[float]) -> Outcome:
    mean, wanted = float(np.mean(totals)), threshold(name)
    message = (
        f"mean return of {who} on {len(totals)} unseen core links: {mean:.1f} of at most {STEPS}"
        f" (expected at least {wanted.limit:.1f}); the worst is {min(totals):.1f}"
    )
    return Outcome(float(wanted.met(mean)), message, {name: mean})


PARTS = (
    Part(
        "reward",
        25,
        ("reward",),
        _reward,
        "subtract something for delay and drops, until the best constant keeps the queue short",
    ),
    Part("rule", 30, ("act",), _rule, "more rate while nothing is marked, less in proportion to marks"),
    Part(
        "gap",
        15,
        ("gap",),
        _gap,
        "differences of the trainings, then np.mean, and t times np.std(ddof=1) over the root of their count",
    ),
    Part("policy", 30, (), _policy, "train on varied(), not on home(), and copy final.zip to policy.zip"),
)
