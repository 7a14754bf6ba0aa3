"""Robustness of a deployed policy as tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from sysgym.bench.tables import Table, interval_text, percent
from sysgym.scenarios.units import significant
from sysgym.studies.robustness.study import GATE, Attacked, Robustness


def tables(found: Robustness) -> Iterator[Table]:
    """Yield the tables of the report."""
    of = "of the choices" if found.discrete else "of the range"
    bounds = [
        (group, words, significant(at_zero, 2), significant(at_one, 2))
        for group, (words, at_zero, at_one) in found.bounds.items()
    ]
    factor = found.about["settings"]["bounds"]
    times = f", times {factor:g}" if factor != 1.0 else ""
    yield Table(
        f"Largest errors of measurement{times}", ("feature", "bound", ">± at 0", ">± at 1"), tuple(bounds)
    )
    agreement = (
        ("unchanged", percent(found.agreement)),
        ("random noise", percent(found.agreement_noisy)),
    )
    yield Table(
        f"Agreement on {found.n_observations} observations", ("observations", ">agreement"), agreement
    )
    if found.attacks:
        yield Table(
            f"Attacks on the {found.n_agreeing} observations on which both agree",
            (
                "attack",
                ">twin shifted",
                ">original unchanged",
                ">both (evasion)",
                f">twin minus original, {of}",
            ),
            tuple(
                (
                    attack.name,
                    percent(attack.shifted),
                    percent(attack.unchanged),
                    percent(attack.evades),
                    _gap(attack),
                )
                for attack in found.attacks
            ),
        )
    if found.episodes:
        yield Table(
            f"In episodes, every {_ordinal(found.about['settings']['every'])} decision disturbed",
            ("policy", "disturbance", ">return", ">loss of return"),
            tuple(
                (
                    played.policy,
                    played.disturbance,
                    interval_text(played.episode_return),
                    "" if played.disturbance == "undisturbed" else interval_text(played.loss, 2),
                )
                for played in found.episodes
            ),
        )


def _gap(attack: Attacked) -> str:
    average, most = (significant(100.0 * share, 2) for share in (attack.gap_mean, attack.gap_max))
    return f"mean {average} %, maximum {most} %"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


def sentences(found: Robustness) -> Iterator[str]:
    """Yield sentences that interpret the tables."""
    verdict = "passes" if found.passes else "fails"
    noisy = 100.0 * found.agreement_noisy.value
    yield f"The twin {verdict}: {noisy:.1f} % agreement under random noise, {100.0 * GATE:g} % required."
    if not found.discrete:
        tolerance = found.about["settings"]["tolerance"]
        yield (
            f"Actions count as equal if no element differs by more than"
            f" {100.0 * tolerance['same']:g} % of the action space's range, and as shifted if one differs by"
            f" more than {100.0 * tolerance['shifted']:g} %. On unchanged observations, actions differ by at"
            f" most {100.0 * found.difference_max:.2g} %."
        )
    if not found.attacks:
        yield "Original and twin agree on no observation; there is nothing to attack."


def markdown(found: Robustness) -> str:
    """Return the report as Markdown."""
    about = found.about
    parts = [
        f"# Robustness of {about['agent']} on {about['scenario']}",
        f"Twin: {about['twin']}. Checkpoint `{about['checkpoint']}`,"
        f" SHA-256 `{about['checkpoint_sha256'][:16]}…`.",
        *sentences(found),
    ]
    parts += [one.markdown() for one in tables(found)]
    parts.append("Intervals: 95 %, bootstrap over episodes.")
    return "\n\n".join(parts) + "\n"
