"""Write the tables of docs/scenarios.md: the included scenarios.

The prose around them is written by hand; a test checks that the tables are up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sysgym.scenarios import (
    CongestionScenario,
    PlacementScenario,
    StragglerScenario,
    list_scenarios,
    load_scenario,
)
from sysgym.scenarios.schema.bursts import BurstScenario
from sysgym.scenarios.schema.collectives import CollectivesScenario
from sysgym.scenarios.schema.compression import CompressionScenario
from sysgym.scenarios.schema.congestion import TopologyTable, WorkloadTable
from sysgym.scenarios.schema.diagnosis import DiagnosisScenario
from sysgym.scenarios.schema.failslow import FailSlowScenario
from sysgym.scenarios.schema.pipelines import PipelineScenario
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.stragglers import GeneratedJobs, TraceJobs
from sysgym.scenarios.schema.tables import Range
from sysgym.scenarios.schema.tuning import TuningScenario

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"


def render(text: str) -> str:
    """Return the page with its tables made anew.

    Args:
        text: The page; a table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
    """
    tables = {
        "shipped": _shipped(),
        "shipped stragglers": _shipped_stragglers(),
        "shipped placement": _shipped_placement(),
        "shipped collectives": _shipped_collectives(),
        "shipped compression": _shipped_compression(),
        "shipped bursts": _shipped_bursts(),
        "shipped tuning": _shipped_tuning(),
        "shipped failslow": _shipped_failslow(),
        "shipped diagnosis": _shipped_diagnosis(),
        "shipped pipelines": _shipped_pipelines(),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        assert begin in text, f"the page has no place for {name}"
        head, _, rest = text.partition(begin)
        tail = rest.partition(end)[2]
        text = "\n".join([head + begin, *lines, "", end + tail])
    return text


def _shipped() -> Iterator[str]:
    yield "| scenario | hosts | links | traffic | buffer | ECN above | decision | episode | varies in test |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("congestion"):
        scenario = load_scenario(info.name, expect=CongestionScenario)
        topology, queue, control = scenario.topology, scenario.queue, scenario.control
        mark = queue.ecn_threshold_bytes
        cells = [
            f"[`{info.name}`](../scenarios/congestion/{info.name}.toml)",
            f"{topology.n_hosts}, {topology.kind.replace('_', ' ')}",
            _links(topology),
            _traffic(scenario.workload),
            f"{_engineering(queue.buffer_bytes)}B",
            "never" if mark is None else f"{_engineering(mark)}B",
            f"{_engineering(control.decision_interval_s)}s",
            f"{control.episode_steps} steps, {_engineering(scenario.horizon_s)}s",
            _varies(scenario),
        ]
        yield f"| {' | '.join(cells)} |"


def _varies(scenario: Scenario) -> str:
    test = scenario.splits.test
    listed = [f"`{key}`: {', '.join(map(str, values))}" for key, values in test.vary.items()]
    drawn = [
        f"`{key}`: {ends.low} to {ends.high}" + (", log" if ends.scale == "log" else "")
        for key, ends in test.ranges.items()
    ]
    return "; ".join([*listed, *drawn])


def _shipped_stragglers() -> Iterator[str]:
    yield "| scenario | jobs | tasks | windows | straggler | spare machines | varies in test |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("stragglers"):
        scenario = load_scenario(info.name, expect=StragglerScenario)
        jobs, straggler, spare = scenario.jobs, scenario.straggler, scenario.mitigation.spare_machines
        cells = [
            f"[`{info.name}`](../scenarios/stragglers/{info.name}.toml)",
            f"generated, {jobs.profile}" if jobs.kind == "generated" else f"trace, {jobs.format}",
            f"{jobs.tasks_min} to {jobs.tasks_max}",
            _windows(jobs),
            f"{straggler.value:g} quantile"
            if straggler.definition == "quantile"
            else f"{straggler.value:g} x median",
            "no limit" if spare < 0 else str(spare),
            _varies(scenario),
        ]
        yield f"| {' | '.join(cells)} |"


def _windows(jobs: GeneratedJobs | TraceJobs) -> str:
    if jobs.kind == "generated":
        return f"{jobs.windows_per_median} in a typical task"
    return "300 s each" if jobs.format == "google-2011" else f"{jobs.warmup_windows} in the warm-up"


def _shipped_placement() -> Iterator[str]:
    yield "| scenario | environment | systems in training | in test | nodes | axes | reductions | sizes |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("placement"):
        scenario = load_scenario(info.name, expect=PlacementScenario)
        problem, splits = scenario.problem, scenario.splits
        systems = [
            split.vary.get("system.preset", (scenario.system.preset,))
            for split in (splits.train, splits.test)
        ]
        nodes = splits.test.vary.get("system.nodes", (scenario.system.nodes,))
        jobs = scenario.jobs
        sizes = (
            (jobs.data_min_bytes, jobs.data_max_bytes)
            if jobs
            else (problem.size_min_bytes, problem.size_max_bytes)
        )
        cells = [
            f"[`{info.name}`](../scenarios/placement/{info.name}.toml)",
            f"`{info.env_id}`",
            *(", ".join(str(name) for name in dict.fromkeys(names)) for names in systems),
            ", ".join(map(str, nodes)),
            "2 in each job" if jobs else _range(problem.axes_min, problem.axes_max),
            f"{_range(jobs.jobs_min, jobs.jobs_max)} jobs"
            if jobs
            else _range(problem.reductions_min, problem.reductions_max),
            f"{_engineering(sizes[0])}B to {_engineering(sizes[1])}B",
        ]
        yield f"| {' | '.join(cells)} |"


def _shipped_collectives() -> Iterator[str]:
    yield "| scenario | systems in training | in test | collectives | sizes | faults in test |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("collectives"):
        scenario = load_scenario(info.name, expect=CollectivesScenario)
        splits, table = scenario.splits, scenario.collective
        systems = [
            split.vary.get("system.topology", (scenario.system.topology,))
            for split in (splits.train, splits.test)
        ]
        sizes = splits.test.ranges.get("collective.size_bytes")
        faults = [
            f"{', '.join(map(str, splits.test.vary[key]))} {what}"
            for key, what in (("faults.failed_cables", "absent"), ("faults.slow_cables", "slow"))
            if key in splits.test.vary
        ]
        cells = [
            f"[`{info.name}`](../scenarios/collectives/{info.name}.toml)",
            *(", ".join(map(str, names)) for names in systems),
            ", ".join(map(str, splits.test.vary.get("collective.operation", (table.operation,)))).replace(
                "_", "-"
            ),
            f"{_engineering(sizes.low)}B to {_engineering(sizes.high)}B, log"
            if sizes
            else f"{_engineering(table.size_bytes)}B",
            "; ".join(faults),
        ]
        yield f"| {' | '.join(cells)} |"


def _shipped_compression() -> Iterator[str]:
    yield (
        "| scenario | gradient in training | in test | sent with | workers in training | in test"
        " | Gbit/s | drifts | critical phases |"
    )
    yield "| --- | --- | --- | ---: | --- | --- | --- | --- | ---: |"
    for info in list_scenarios("compression"):
        scenario = load_scenario(info.name, expect=CompressionScenario)
        network, splits = scenario.network, (scenario.splits.train, scenario.splits.test)
        gradients = [
            _drawn(split.ranges.get("job.gradient_bytes"), split.vary.get("job.gradient_bytes"))
            or f"{_engineering(scenario.job.gradient_bytes)}B"
            for split in splits
        ]
        counts = [split.vary.get("workers.count", (scenario.workers.count,)) for split in splits]
        drifts = {
            "bandwidth": network.log_sd,
            "background traffic": network.background_share,
            "workers": scenario.workers.change_s,
        }
        cells = [
            f"[`{info.name}`](../scenarios/compression/{info.name}.toml)",
            *gradients,
            "16 bits" if scenario.job.half_precision else "32 bits",
            *(", ".join(map(str, numbers)) for numbers in counts),
            f"{network.least_bps / 1e9:g} to {network.most_bps / 1e9:g}",
            ", ".join(name for name, value in drifts.items() if value),
            str(len(scenario.loss.critical_starts)),
        ]
        yield f"| {' | '.join(cells)} |"


def _shipped_bursts() -> Iterator[str]:
    yield (
        "| scenario | environment | GPUs | models in training | in test | batch in training | in test"
        " | error of the profile | drift of the interference |"
    )
    yield "| --- | --- | ---: | --- | --- | --- | --- | ---: | ---: |"
    for info in list_scenarios("bursts"):
        scenario = load_scenario(info.name, expect=BurstScenario)
        job, splits = scenario.job, (scenario.splits.train, scenario.splits.test)
        models = [split.vary.get("job.model", (job.model,)) for split in splits]
        batches = [split.vary.get("job.batch", (job.batch,)) for split in splits]
        cells = [
            f"[`{info.name}`](../scenarios/bursts/{info.name}.toml)",
            scenario.env_id.removeprefix("sysgym/"),
            str(job.gpus),
            *(", ".join(map(str, names)).replace("_", "-") for names in models),
            *(", ".join(map(str, sizes)) for sizes in batches),
            f"{100 * job.profile_log_sd:g} %",
            f"{100 * scenario.background.drift_log_sd:g} %",
        ]
        yield f"| {' | '.join(cells)} |"


def _shipped_tuning() -> Iterator[str]:
    yield "| scenario | models in training | in test | workers in training | in test | Gbit/s | in test |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("tuning"):
        scenario = load_scenario(info.name, expect=TuningScenario)
        job, splits = scenario.job, (scenario.splits.train, scenario.splits.test)
        rates = [split.ranges.get("network.bandwidth_bps") for split in splits]
        cells = [
            f"[`{info.name}`](../scenarios/tuning/{info.name}.toml)",
            *(", ".join(map(str, split.vary.get("job.model", (job.model,)))) for split in splits),
            *(", ".join(map(str, split.vary.get("job.workers", (job.workers,)))) for split in splits),
            *(
                f"{rate.low / 1e9:g} to {rate.high / 1e9:g}"
                if rate
                else f"{scenario.network.bandwidth_bps / 1e9:g}"
                for rate in rates
            ),
        ]
        yield f"| {' | '.join(cells)} |"


def _shipped_failslow() -> Iterator[str]:
    yield (
        "| scenario | replicas in training | in test | stages in training | in test"
        " | slow workers, stages and links an hour in training | in test |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("failslow"):
        scenario = load_scenario(info.name, expect=FailSlowScenario)
        job, faults, splits = scenario.job, scenario.faults, (scenario.splits.train, scenario.splits.test)
        rates = []
        for split in splits:
            ends = [split.ranges.get(f"faults.{kind}_per_hour") for kind in ("worker", "stage", "link")]
            means = (faults.worker_per_hour, faults.stage_per_hour, faults.link_per_hour)
            cells = [
                f"{end.low:g} to {end.high:g}" if end else f"{mean:g}"
                for end, mean in zip(ends, means, strict=True)
            ]
            rates.append("; ".join(cells))
        cells = [
            f"[`{info.name}`](../scenarios/failslow/{info.name}.toml)",
            *(", ".join(map(str, split.vary.get("job.replicas", (job.replicas,)))) for split in splits),
            *(", ".join(map(str, split.vary.get("job.stages", (job.stages,)))) for split in splits),
            *rates,
        ]
        yield f"| {' | '.join(cells)} |"


def _shipped_diagnosis() -> Iterator[str]:
    yield (
        "| scenario | stages in training | in test | data-parallel ranks in training | in test"
        " | microbatches in training | in test | most faults in training | in test |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("diagnosis"):
        scenario = load_scenario(info.name, expect=DiagnosisScenario)
        job, splits = scenario.job, (scenario.splits.train, scenario.splits.test)
        keys = {
            "job.stages": job.stages,
            "job.data_ranks": job.data_ranks,
            "job.microbatches": job.microbatches,
            "faults.most": scenario.faults.most,
        }
        cells = [f"[`{info.name}`](../scenarios/diagnosis/{info.name}.toml)"]
        for key, value in keys.items():
            cells += [", ".join(map(str, split.vary.get(key, (value,)))) for split in splits]
        yield f"| {' | '.join(cells)} |"


def _shipped_pipelines() -> Iterator[str]:
    yield (
        "| scenario | blocks in training | in test | hidden size in training | in test"
        " | stages in training | in test | data-parallel ranks in training | in test |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for info in list_scenarios("pipelines"):
        scenario = load_scenario(info.name, expect=PipelineScenario)
        job, splits = scenario.job, (scenario.splits.train, scenario.splits.test)
        keys = {
            "job.blocks": job.blocks,
            "job.hidden": job.hidden,
            "job.stages": job.stages,
            "job.data_ranks": job.data_ranks,
        }
        cells = [f"[`{info.name}`](../scenarios/pipelines/{info.name}.toml)"]
        for key, value in keys.items():
            cells += [", ".join(map(str, split.vary.get(key, (value,)))) for split in splits]
        yield f"| {' | '.join(cells)} |"


def _drawn(ends: Range | None, values: tuple[bool | int | float | str, ...] | None) -> str:
    if ends is not None:
        return f"{_engineering(ends.low)}B to {_engineering(ends.high)}B"
    return ", ".join(f"{_engineering(float(value))}B" for value in values or ())


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _traffic(workload: WorkloadTable) -> str:
    if workload.kind == "mix":
        return "; ".join(_traffic(part) for part in workload.parts.values())
    if workload.kind == "incast":
        return f"incast, {workload.senders} senders, {_engineering(workload.request_bytes)}B each"
    if workload.kind == "training":
        jobs = f"{workload.jobs} x " if workload.jobs > 1 else ""
        return (
            f"{workload.collective.replace('_', ' ')} of {jobs}{workload.job_hosts} hosts,"
            f" {_engineering(workload.size_bytes)}B"
        )
    pairs = workload.matrix.replace("_", " ")
    if workload.matrix == "stride":
        pairs += f" {workload.stride}"
    if workload.kind == "poisson":
        return f"Poisson arrivals, {workload.flow_sizes} sizes" + ("" if pairs == "random" else f", {pairs}")
    if workload.kind == "on_off":
        return f"bursts of {_engineering(workload.rate_bps)}b/s, {pairs}"
    return f"long-lived, {pairs}"


def _links(topology: TopologyTable) -> str:
    rates: list[float | None] = [topology.link_rate_bps]
    rates += [getattr(topology, key, None) for key in ("core_rate_bps", "uplink_rate_bps")]
    rates += [override.rate_bps for override in topology.overrides]
    shown = dict.fromkeys(f"{_engineering(rate)}b/s" for rate in rates if rate is not None)
    return f"{', '.join(shown)}; {_engineering(topology.link_delay_s)}s"


def _engineering(value: float) -> str:
    """Return the number with a space and the prefix of its unit."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u")):
        if value >= factor * 0.999999:
            return f"{value / factor:.6g} {prefix}"
    return f"{value:g} "


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
