"""Sources of the documentation site: a page for everything that has a name, made from what declares it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from gymnasium.envs.registration import load_env_creator

from docs.website import catalogue, chapters
from docs.website.build import ROOT
from docs.website.environments import environments, slug
from docs.website.links import Links
from docs.website.markdown import Pages, outside_code, sections
from docs.website.pictures import played
from docs.website.results import published
from sysgym.agents import agent_info, list_agents
from sysgym.emulator.packets.transports import get_transport, list_transports
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios import list_scenarios

pytestmark = pytest.mark.xdist_group("docs site")  # the pages are made once, in one worker

SITE_LINK = re.compile(r"\]\(/([^)#\s]+)")
ENTRY = re.compile(r"^ *(/\S+) *$", re.MULTILINE)


def prose(text: str) -> str:
    return "".join(piece for is_prose, piece in outside_code(text) if is_prose)


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_an_environment_has_a_page_with_everything(pages: Pages, env_id: str) -> None:
    text = pages[f"environments/{slug(env_id)}.md"]
    found = sections(text)
    wanted = ("Ten Lines to Start", "Action Space", "Observation Space", "Rewards", "Arguments", "Scenarios")
    for name in (*wanted, "Metrics", "Baseline Scores", "Version History"):
        assert found[name], name
    assert f"/pictures/{slug(env_id)}.gif" in text
    for info in list_scenarios():
        assert (f"(/scenarios/{info.name}.md)" in found["Scenarios"]) == (info.env_id == env_id)


def test_baseline_scores_are_those_of_the_published_tables(pages: Pages) -> None:
    published_tables = published(ROOT / "docs")
    homes = {info.name: info.env_id for info in list_scenarios()}
    assert {one.suite for one in published_tables} >= {"quick", "transports", "stragglers", "placement"}
    for one in published_tables:
        scores = sections(pages[f"environments/{slug(homes[one.scenario])}.md"])["Baseline Scores"]
        for contender, cells in one.rows.items():
            assert f"| {' | '.join([contender, *cells])} |" in scores


def test_every_environment_with_published_results_shows_them(pages: Pages) -> None:
    with_results = {one.scenario for one in published(ROOT / "docs")}
    for info in list_scenarios():
        if info.name in with_results:
            assert info.name in sections(pages[f"environments/{slug(info.env_id)}.md"])["Baseline Scores"]


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_every_name_has_a_page_in_its_chapter(pages: Pages, kind: str) -> None:
    listed = pages[f"{kind}/index.md"]
    for name in catalogue.KINDS[kind]():
        assert f"[`{name}`](/{kind}/" in listed
    made = [path for path in pages if path.startswith(f"{kind}/") and not path.endswith("index.md")]
    assert len(made) == len(catalogue.KINDS[kind]())


def test_a_transport_page_has_what_the_transport_declares(pages: Pages) -> None:
    for transport in map(get_transport, list_transports()):
        text = pages[f"transports/{transport.name}.md"]
        assert transport.reference in text
        assert f"| `ecn_capable` | `{transport.ecn_capable}` |" in text
    assert "`on_ack`" in pages["transports/dctcp.md"]
    assert "**9.71** [9.70, 9.72]" in pages["transports/dctcp.md"]


def test_an_agent_page_has_what_the_agent_declares(pages: Pages) -> None:
    for info in map(agent_info, list_agents()):
        text = pages[f"agents/{info.family or 'general'}/{info.short_name}.md"]
        assert info.summary[1:] in text
        assert ("it needs a checkpoint" in text) == info.learned
        assert ("reads more than the observation" in text) == info.privileged
    # Two families have an oracle, and each has the scores of its own.
    assert "google-2011" in pages["agents/stragglers/oracle.md"]
    assert "google-2011" not in pages["agents/placement/oracle.md"]


def test_nothing_is_described_in_two_places(pages: Pages) -> None:
    """Sphinx would not know where links lead; ``:no-index:`` marks the other places."""
    directive = re.compile(r"^\.\. auto\w+:: (\S+)\n(?! *:no-index:)", re.MULTILINE)
    found = Counter(name for text in pages.values() for name in directive.findall(text))
    assert [name for name, count in found.items() if count > 1] == []


def test_links_lead_to_pages(pages: Pages) -> None:
    pictures = {f"pictures/{slug(env_id)}.gif" for env_id in ENVIRONMENTS}
    images = {f"images/{path.name}" for path in (ROOT / "docs" / "images").iterdir()}
    targets = {(path, target) for path, text in pages.items() for target in SITE_LINK.findall(prose(text))}
    assert len(targets) > 500
    assert [pair for pair in targets if pair[1] not in {*pages, *pictures, *images}] == []


def test_every_page_is_in_the_contents_once(pages: Pages) -> None:
    listed = Counter(
        entry
        for text in pages.values()
        for block in re.findall(r"(?:```\{toctree\}|\.\. toctree::)(.*?)(?:```|\Z)", text, re.DOTALL)
        for entry in ENTRY.findall(block)
    )
    expected = {f"/{path.rpartition('.')[0]}" for path, text in pages.items() if "orphan: true" not in text}
    assert set(listed) == expected - {"/index"}
    assert set(listed.values()) == {1}


def test_nothing_in_the_sources_is_loaded_from_elsewhere(pages: Pages) -> None:
    loaded = re.compile(r"!\[[^\]]*\]\((?:https?:)?//|<(?:script|link|img|iframe)\b", re.IGNORECASE)
    assert [
        path for path, text in pages.items() if loaded.search(re.sub(r"`[^`\n]*`", "", prose(text)))
    ] == []


def test_a_page_that_no_chapter_names_has_a_place(tmp_path: Path) -> None:
    (tmp_path / "something-new.md").write_text("# New\n")
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "first.ipynb").write_text("{}")
    found = {one.name: one.pages for one in chapters.chapters(tmp_path)}
    assert "something-new" in found[chapters.DEFAULT]
    assert found["lessons"] == ("labs/first",)


def test_links_of_the_repository_lead_to_places_on_the_site(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "entry").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n")
    (tmp_path / "tool.py").write_text('"""A tool."""\n')
    (tmp_path / "entry" / "README.md").write_text("[the tool](../tool.py)\n")
    links = Links(tmp_path, {"docs/a.md": "a.md"})
    code = "```\n[a](a.md)\n```\n"
    text = links.on_site(f"[a](a.md#b) [entry](../entry) [web](https://example.org)\n{code}", "docs/b.md")
    assert text == f"[a](/a.md#b) [entry](/source/entry/README.md.md) [web](https://example.org)\n{code}"
    made = links.sources()
    assert set(made) == {"source/entry/README.md.md", "source/tool.py.md"}
    assert '"""A tool."""' in made["source/tool.py.md"]
    assert "[the tool](/source/tool.py.md)" in made["source/entry/README.md.md"]
    with pytest.raises(FileNotFoundError, match=r"missing\.md"):
        links.on_site("[gone](missing.md)", "docs/b.md")


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_every_environment_can_be_drawn(env_id: str) -> None:
    family, environment = next(pair for pair in environments() if pair[1].env_id == env_id)
    scenario, agent = played(family, environment)
    assert next(info for info in list_scenarios() if info.name == scenario).env_id == env_id
    assert agent_info(agent, family.name).env_id in ("", env_id)
    creator = load_env_creator(ENVIRONMENTS[env_id])
    assert "rgb_array" in creator.metadata["render_modes"]  # type: ignore[union-attr]
