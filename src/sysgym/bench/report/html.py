"""Report as a self-contained HTML page that runs only its own script and escapes all texts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from sysgym.bench.report import tables
from sysgym.bench.report.content import facts, overall_guide, reading_guide, seeds_text
from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult
from sysgym.bench.report.data.carbon import Cost, guide, is_measured
from sysgym.bench.report.data.headlines import Headline
from sysgym.bench.report.data.overall import Overall
from sysgym.bench.report.data.verdict import verdict
from sysgym.bench.report.pictures.gallery import Gallery
from sysgym.bench.report.pictures.plots import Style
from sysgym.bench.report.texts import printable
from sysgym.bench.surveys import Page

MOST_OF_A_SCENARIO = 20_000
"""Maximum length of a text in the page, such as that of a scenario, characters."""


def page(
    benchmark: BenchmarkResult,
    headlines: Sequence[Headline],
    gallery: Gallery,
    totals: Sequence[Overall],
    looks: Mapping[str, Style],
    surveyed: Sequence[Page] = (),
    trainings: Sequence[Cost] = (),
    rows_file: str = "results.jsonl",
    episodes: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """Return the report as an HTML page.

    Args:
        benchmark: Results to report.
        headlines: One headline for each result.
        gallery: The pictures.
        totals: Rows of the table over all scenarios.
        looks: Contender -> style.
        surveyed: Pages of the suite's survey.
        trainings: Costs of trainings.
        rows_file: Name of the file of rows in the same folder.
        episodes: Slug of a result -> address and text of the link to the live page of an episode.
    """
    measured = is_measured(benchmark, list(trainings))
    keys = {name: f"k{index}" for index, name in enumerate(looks)}
    style = Markup(_asset("page.css") + _key_styles(keys, looks))
    script = Markup(_asset("page.js"))
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value, MOST_OF_A_SCENARIO),
    )
    environment.filters["drawn"] = (
        Markup  # pictures come from make_picture, which builds them from its own tree
    )
    return environment.from_string(_asset("page.html.jinja")).render(
        benchmark=benchmark,
        verdict=verdict(benchmark),
        summary=tables.summary_table(benchmark),
        guide=[*reading_guide(benchmark), *guide(benchmark, list(trainings))],
        surveys=[(one, tables.survey_table(one)) for one in surveyed],
        results=[
            (result, tables.contest_table(result, measured=measured), said.sentences)
            for result, said in zip(benchmark.results, headlines, strict=True)
        ],
        overall=tables.overall_table(benchmark, totals) if totals else None,
        overall_guide=overall_guide(benchmark),
        training=tables.training_table(trainings, measured=measured) if trainings else None,
        facts=list(facts(benchmark)),
        gallery=gallery,
        keys=keys,
        rows_file=rows_file,
        episodes=episodes or {},
        seeds_text=seeds_text,
        scenario_text=_scenario_text,
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _asset(name: str) -> str:
    return resources.files("sysgym.bench.report").joinpath("page", name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the digest of a content in the form used by a Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _key_styles(keys: Mapping[str, str], looks: Mapping[str, Style]) -> str:
    rules = [
        f".{key} {{ border-color: {looks[name].colour}; "
        f"background: {looks[name].colour if looks[name].filled else 'none'}; }}\n"
        for name, key in keys.items()
    ]
    return "".join(rules)


def _scenario_text(result: ScenarioResult) -> str:
    return json.dumps(result.resolved, indent=1, ensure_ascii=False, default=str)
