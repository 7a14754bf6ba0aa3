"""Report of the determinism study as tables and sentences, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sysgym.bench.statistics import Interval
from sysgym.bench.tables import Table, interval_text, percent
from sysgym.studies.determinism.comparison import TOLERANCE, Determinism, Tools
from sysgym.studies.determinism.study import CONTROL

NOISE = {
    "both": "seeds and tools",
    "algorithmic": "seeds",
    "tooling": "tools",
    "none": "none: control",
}


def _small(interval: Interval) -> str:
    """Return an interval as text; an exact zero is written as 0."""
    return "0" if interval.low == interval.high == 0.0 else interval_text(interval, 3)


def _fine_percent(interval: Interval) -> str:
    return interval_text(Interval(*(100.0 * value for value in interval)), 2) + " %"


def _or_dash(interval: Interval | None, text: Callable[[Interval], str]) -> str:
    """Return an interval as text; a dash if there is none."""
    return "–" if interval is None else text(interval)


def tables(found: Determinism) -> Iterator[Table]:
    """Yield the tables of the report."""
    arms = found.arms.values()
    yield Table(
        f"Returns on {found.about['n_episodes']} episodes of the validation split",
        ("arm", "noise", ">runs", ">mean", ">standard deviation", ">largest of an episode"),
        tuple(
            (
                arm.name,
                NOISE[arm.name],
                str(arm.n_runs),
                f"{arm.return_mean.value:.5g}",
                _small(arm.return_std),
                f"{arm.episode_std_max:.3g}",
            )
            for arm in arms
        ),
    )
    on = f"by pairs, on {found.n_observations} frozen observations"
    yield Table(
        f"Policies, {on if found.n_observations else 'by their files'}",
        ("arm", ">churn", ">mean difference", ">weights, L2", ">relative", "bits"),
        tuple(
            (
                arm.name,
                _or_dash(arm.churn, lambda churn: "0 %" if churn.high == 0.0 else percent(churn)),
                _or_dash(arm.difference, lambda apart: "0" if apart.high == 0.0 else _fine_percent(apart)),
                _or_dash(arm.weights_l2, _small),
                _or_dash(arm.weights_relative, lambda relative: f"{100.0 * relative.value:.3g} %"),
                "equal" if arm.identical else "differ",
            )
            for arm in arms
        ),
    )
    yield Table(
        "Cost of a training",
        ("tools", ">runs", ">wall time, s", ">processor time, s", ">overhead"),
        tuple(
            (
                _words(tools),
                str(tools.n_runs),
                interval_text(tools.wall_s, 3),
                interval_text(tools.cpu_s, 3),
                "" if tools.overhead is None else percent(tools.overhead),
            )
            for tools in found.tools
        ),
    )


def _words(tools: Tools) -> str:
    threads = "1 thread" if tools.n_threads == 1 else f"{tools.n_threads} threads"
    return f"{threads}, {'deterministic operations only' if tools.deterministic else 'any operations'}"


def sentences(found: Determinism) -> Iterator[str]:
    """Yield sentences that interpret the tables."""
    control, tooling = found.arms[CONTROL.name], found.arms["tooling"]
    algorithmic, both = found.arms["algorithmic"], found.arms["both"]
    if found.holds:
        yield f"The control holds: {control.n_runs} trainings in separate processes gave identical policies."
    else:
        yield (
            "The control does NOT hold: trainings with the same seed and tools ended differently. The other"
            " results of this report are not valid until the cause is found."
        )
    threads = found.about["all_threads"]
    if tooling.identical:
        yield (
            f"Tooling noise is zero here: with 1 and {threads} threads, deterministic operations only or any,"
            " trainings gave identical policies."
        )
    else:
        repeats = {
            True: "; runs with the same number gave identical policies, so that the noise is due to the"
            " number only",
            False: "; so did runs with the same number",
            None: "",
        }[found.same_threads_identical]
        yield (
            f"Tooling noise is not zero here: with 1 and {threads} threads trainings ended"
            f" differently{repeats}."
        )
    if both.return_std.value > 0.0:
        shares = (100.0 * arm.return_std.value / both.return_std.value for arm in (algorithmic, tooling))
        yield "Of the standard deviation of both, seeds alone give {:.0f} %, tools alone {:.0f} %.".format(
            *shares
        )
    overhead = found.tools[0].overhead
    assert overhead is not None
    # A small network is slower on several threads, so that determinism can cost nothing.
    yield (
        f"The cost of determinism is {_signed(overhead)} of wall time relative to a free training with all"
        " threads (other work on the machine included), and"
        f" {_signed(found.operations_overhead)} of processor time relative to any operations on 1 thread."
    )
    if found.n_observations == 0:
        yield "The agent has a trainer of its own: its policies are compared by the bytes of their files."
        return
    yield (
        f"Churn: share of observations on which two policies choose differently, or on which an element of"
        f" the action differs by more than {100.0 * TOLERANCE:g} % of the action space's range."
    )


def _signed(share: Interval) -> str:
    return f"{share.value:+.0%} [{share.low:+.0%}, {share.high:+.0%}]"


def markdown(found: Determinism) -> str:
    """Return the report as Markdown."""
    about = found.about
    words = [
        f"# Determinism of {about['agent']} on {about['scenario']}",
        f"{about['n_seeds']} trainings in each arm, {about['total_steps']} steps, {about['n_envs']}"
        " environments.",
        *sentences(found),
    ]
    words += [one.markdown() for one in tables(found)]
    software = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    machine = about["machine"]
    words += [
        "Intervals: 95 %, bootstrap over runs (pairs of them for policies). Hash seeds are random in"
        " every arm.",
        f"{machine['processor']}, {machine['cpus']} CPUs. {software}.",
    ]
    return "\n\n".join(words) + "\n"
