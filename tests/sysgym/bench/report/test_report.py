"""The report agrees with the rows: leaders, differences, and ties."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

from sysgym.bench import surveys
from sysgym.bench.report import Written, write
from sysgym.bench.results.rows import RESULTS, ResultsFile, Row
from sysgym.bench.statistics import estimate
from sysgym.bench.surveys import Page
from sysgym.errors import SysgymError, UnknownName

MakeRow = Callable[..., Row]
Played = Mapping[str, Mapping[str, Sequence[float]]]

PPO = {"transport": "paced", "agent": "ppo", "learned": True, "checkpoint": "p.zip"}
ORACLE = {"transport": "paced", "agent": "oracle", "privileged": True}
N_SEEDS = 12
NASTY = 'a<b>&"c"|$d$\\1`e`'


def _noisy(base: float, seed: int, share: float = 0.01) -> list[float]:
    return [base * (1.0 + share * x) for x in np.random.default_rng(seed).normal(size=N_SEEDS)]


DCTCP = {"goodput_bps": _noisy(9.5e6, 0), "queue_delay_p99_s": _noisy(1e-3, 1)}
RENO = {"goodput_bps": _noisy(9.0e6, 2), "queue_delay_p99_s": _noisy(8e-3, 3)}
WORSE = {"goodput_bps": _noisy(8.0e6, 4), "queue_delay_p99_s": _noisy(4e-3, 5)}
BETTER = {"goodput_bps": _noisy(9.8e6, 6), "queue_delay_p99_s": _noisy(0.5e-3, 7)}
PERFECT = {"goodput_bps": _noisy(9.9e6, 8), "queue_delay_p99_s": _noisy(0.1e-3, 9)}
SAME = {name: values[::-1] for name, values in DCTCP.items()}


@pytest.fixture
def write_rows(make_row: MakeRow, tmp_path: Path) -> Callable[..., Path]:
    """Write rows made by hand: contender -> metric -> a value for each seed."""

    def make(played: Played, *, name: str = "tiny", **of_contender: Any) -> Path:
        out = tmp_path / "out"
        with ResultsFile(out) as results:
            for contender, metrics in played.items():
                who = {"ppo": PPO | {"checkpoint_sha256": "ab"}, "oracle": ORACLE}.get(contender, {})
                for index in range(max(map(len, metrics.values()))):
                    values = {key: numbers[index] for key, numbers in metrics.items()}
                    results.append(make_row(contender, 200 + index, values, name=name, **who, **of_contender))
        return out

    return make


class _Page(HTMLParser):
    """Reads a page: every tag with what it refers to, the text, the cells of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.labels: list[str] = []
        self.text: list[str] = []
        self.tables: list[list[list[list[str]]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            if name in {"src", "href", "xlink:href", "data", "action", "srcset", "poster"}:
                self.references.append(value or "")
            if name == "aria-label":
                self.labels.append(value or "")
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"a stray </{tag}>"

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if "table" in self.open and {"td", "th"} & set(self.open) and data.strip():
            self.tables[-1][-1][-1].append(data)


def _table_of_html(written: Written) -> dict[str, list[str]]:
    """Contender -> estimate and interval of every column, of the first scenario."""
    table = _Page(written.html.read_text()).tables[1]
    return {cells[0][0]: [" ".join(cell[:2]) for cell in cells[1:]] for cells in table[1:]}


def _table_of_markdown(written: Written) -> dict[str, list[str]]:
    first = written.markdown.read_text().partition("\n## ")[2]  # the summary stands before it
    lines = [line for line in first.splitlines() if line.startswith("| ")]
    cells = [re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |")) for line in lines]
    stop = next((i for i, line in enumerate(cells[2:], 2) if line[0] == "contender"), len(cells))
    return {
        line[0].removesuffix(" (reference)"): [
            cell.partition("<br>")[0].replace("**", "") for cell in line[1:]
        ]
        for line in cells[2:stop]
    }


def _sentences(written: Written) -> str:
    (headline,) = written.headlines
    return "\n".join(headline.sentences)


def test_the_page_loads_nothing(write_rows: Callable[..., Path]) -> None:
    written = write(write_rows({"dctcp": DCTCP, "reno": RENO}))
    text = written.html.read_text()
    page = _Page(text)
    assert page.open == [], "every tag is closed"
    assert {"table", "svg"} <= page.tags
    assert not page.tags & {"link", "img", "iframe", "object", "embed", "video", "base"}
    assert page.references
    inside = {reference[1:] for reference in page.references if reference.startswith("#")}
    assert {reference for reference in page.references if reference[1:] not in inside} == {"results.jsonl"}
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)\)", text))
    assert "@import" not in text
    assert not re.search(r"https?:|//[a-z]", text)
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids)), "ids of two pictures collide"
    assert inside <= set(ids)


def test_everyone_and_everything_is_in_both_forms(write_rows: Callable[..., Path]) -> None:
    played = {"dctcp": DCTCP, "reno": RENO, "oracle": PERFECT}
    write_rows(played)
    written = write(write_rows(played, name="other", digest="0" * 64))
    page = _Page(written.html.read_text())
    for table in page.tables[1:3]:
        assert [cells[0][0] for cells in table[1:]] == ["dctcp", "reno", "oracle"]
        heads = [" ".join(cell) for cell in table[0]]
        assert heads[1:] == [
            "Goodput Mb/s, higher is better",
            "Queueing delay, p99 ms, lower is better",
            "Gap to oracle Goodput",
        ]
        assert table[3][0][1:] == ["paced under oracle", "reference"]
    assert len(page.tables) == 4, "a summary, and two scenarios have a table over all"
    assert [cells[0][0] for cells in page.tables[3][1:]] == ["reno", "oracle"]
    pictures = [label for label in page.labels if label.endswith((" on tiny", " on other", "oracle's value"))]
    assert len(pictures) == 5, "two pictures a scenario, and the profiles"
    assert all(name in label for label in pictures for name in played)
    markdown = written.markdown.read_text()
    first_line = (
        "| contender | Goodput (Mb/s, higher is better) | Queueing delay, p99 (ms, lower is better) |"
    )
    assert f"{first_line} Gap to oracle (Goodput) |" in markdown
    for scenario in ("tiny", "other"):
        assert f"\n## {scenario}\n" in markdown
        assert scenario in page.text
        for kind in ("tradeoff", "metrics"):
            picture = written.markdown.parent / "plots" / f"{scenario}-test-{kind}.png"
            assert f"(plots/{picture.name})" in markdown
            assert picture.read_bytes().startswith(b"\x89PNG")


def test_both_forms_have_the_numbers_of_the_rows(write_rows: Callable[..., Path]) -> None:
    played = {"dctcp": DCTCP, "reno": RENO, "ppo": WORSE}
    written = write(write_rows(played))
    table = _table_of_html(written)
    assert _table_of_markdown(written) == table
    assert list(table) == list(played)
    for contender, metrics in played.items():
        for (name, values), shown in zip(metrics.items(), table[contender], strict=True):
            scale = {"goodput_bps": 1e6, "queue_delay_p99_s": 1e-3}[name]
            numbers = [float(text) for text in re.findall(r"[\d.]+", shown)]
            expected = [number / scale for number in estimate(np.array([values]))]
            np.testing.assert_allclose(numbers, expected, atol=0.0051, err_msg=f"{contender} {name}")
            assert numbers[1] <= numbers[0] <= numbers[2]


def test_a_learned_agent_that_loses_is_said_to_lose(write_rows: Callable[..., Path]) -> None:
    written = write(write_rows({"dctcp": DCTCP, "ppo": WORSE}))
    said = _sentences(written)
    assert "Goodput: dctcp leads with 9." in said
    assert "queueing delay, p99: dctcp" in said
    assert re.search(
        r"ppo against dctcp: goodput 1[567] % lower, queueing delay, p99 (3\.9|4\.0) times as much", said
    )
    assert "ppo leads" not in said
    assert "ppo with" not in said
    for text in (" ".join(_Page(written.html.read_text()).text), written.markdown.read_text()):
        for sentence in written.headlines[0].sentences:
            assert sentence in text
    cells = _Page(written.html.read_text()).tables[1]
    assert "best" in cells[1][1]
    assert "best" not in " ".join(cells[2][1] + cells[2][2])


def test_a_learned_agent_that_wins_is_said_to_win(write_rows: Callable[..., Path]) -> None:
    said = _sentences(write(write_rows({"dctcp": DCTCP, "ppo": BETTER})))
    assert "Goodput: ppo leads with 9.8" in said
    assert "p99: ppo leads with 0." in said
    assert re.search(
        r"ppo against dctcp: goodput 3(\.\d)? % higher, queueing delay, p99 (49|50|51) % lower", said
    )


def test_what_the_seeds_cannot_tell_is_no_lead(write_rows: Callable[..., Path]) -> None:
    written = write(write_rows({"dctcp": DCTCP, "ppo": SAME}))
    said = _sentences(written)
    assert "leads" not in said
    assert said.count("not significantly different from") == 2
    assert "goodput not significantly different, queueing delay, p99 not significantly different" in said
    cells = _Page(written.html.read_text()).tables[1]
    assert cells[2][1][-1] == "≈ dctcp"
    assert sorted(word for row in cells[1:] for word in row[1] if "best" in word) == ["= best", "best"]


def test_little_delay_of_who_sends_little_is_no_lead(write_rows: Callable[..., Path]) -> None:
    lazy = {"goodput_bps": _noisy(1e6, 10), "queue_delay_p99_s": _noisy(1e-5, 11)}
    said = _sentences(write(write_rows({"dctcp": DCTCP, "reno": RENO, "lazy": lazy})))
    assert re.search(r"p99: dctcp leads with .*\(of those with at least 90 % of the most goodput\)", said)


def test_a_reference_does_not_compete(write_rows: Callable[..., Path]) -> None:
    written = write(write_rows({"dctcp": DCTCP, "reno": RENO, "oracle": PERFECT}))
    said = _sentences(written)
    assert "oracle" not in said
    assert said.count("dctcp leads") == 2
    row = _Page(written.html.read_text()).tables[1][3]
    assert row[0][0] == "oracle"
    assert "best" not in " ".join(row[1] + row[2])


def test_names_with_special_characters_are_only_names(
    write_rows: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows with such names are refused; the report does not rely on that.
    monkeypatch.setattr("sysgym.bench.results.rows.check_row", lambda data: None)
    written = write(write_rows({"dctcp": DCTCP, NASTY: RENO}))
    text = written.html.read_text()
    page = _Page(text)
    assert "a<b>" not in text
    assert str(Markup.escape(NASTY)) in text
    assert _Page(text).tables[1][2][0][0] == NASTY
    assert sum(NASTY in label for label in page.labels) == 2, "it is in the descriptions of both pictures"
    shown = [words for words in page.text if words.strip() == NASTY]
    assert len(shown) == 4, "in both tables, at its point and at its row of the dot plot"
    markdown = _table_of_markdown(written)
    assert re.sub(r"\\(.)", r"\1", list(markdown)[1]).replace("&amp;", "&") == NASTY
    assert [len(cells) for cells in markdown.values()] == [2, 2]


def test_a_metric_that_a_contender_lacks_is_a_dash(write_rows: Callable[..., Path]) -> None:
    written = write(write_rows({"dctcp": DCTCP, "reno": {"goodput_bps": RENO["goodput_bps"]}}))
    assert _table_of_html(written)["reno"][1] == "–"
    assert _table_of_markdown(written) == _table_of_html(written)
    assert "reno" not in _sentences(written).partition("queueing")[2]


def test_runs_of_an_agent_are_put_together(write_rows: Callable[..., Path]) -> None:
    write_rows({"dctcp": DCTCP, "ppo": BETTER})
    # A second training, far worse than the first: the interval has to be wide.
    out = write_rows({"again": WORSE})
    lines = (out / RESULTS).read_text().splitlines(keepends=True)
    ppo = next(line for line in lines if '"name":"ppo"' in line)
    who = re.search(r'"contender":\{.*?"parameters":\{\}\}', ppo)
    assert who is not None
    second = who[0].replace('"checkpoint_sha256":"ab"', '"checkpoint_sha256":"cd"')
    lines = [re.sub(r'"contender":\{"name":"again".*?"parameters":\{\}\}', second, line) for line in lines]
    lines = [re.sub(r',"sha256":"[0-9a-f]+"', "", line) for line in lines]  # the digest of other words
    (out / RESULTS).write_text("".join(lines))
    written = write(out)
    assert "ppo has one checkpoint" not in written.markdown.read_text()
    assert "ppo: the interval is over training runs and episodes" in written.markdown.read_text()
    value, low, high = map(float, re.findall(r"[\d.]+", _table_of_html(written)["ppo"][0]))
    assert low < 8.2
    assert high > 9.6
    assert 8.5 < value < 9.3
    assert "ppo against dctcp: goodput not significantly different" in _sentences(written)


def test_constants_are_stated(write_rows: Callable[..., Path]) -> None:
    out = write_rows({"dctcp": DCTCP, "ppo": BETTER})
    lines = (out / RESULTS).read_text()
    own = re.sub(r'("contender":\{"name":"ppo".*?"parameters":\{)\}', r'\1"target":1.5}', lines)
    (out / RESULTS).write_text(re.sub(r',"sha256":"[0-9a-f]+"', "", own))  # the digest of other words
    written = write(out)
    for text in (written.markdown.read_text(), written.html.read_text()):
        assert "Constants that are not the defaults: ppo (target = 1.5)." in text
    assert "ppo has one checkpoint in each scenario" in written.markdown.read_text()


def test_a_reader_is_warned(write_rows: Callable[..., Path], make_row: MakeRow) -> None:
    few = {"dctcp": {name: values[:3] for name, values in DCTCP.items()}}
    out = write_rows(few)
    with ResultsFile(out) as results:
        results.append(make_row("dctcp", 203, row_versions={"sysgym": "0.0.1"}))
        results.append(make_row("reno", 203, digest="1" * 64))
    written = write(out)
    for text in (written.markdown.read_text(), written.html.read_text()):
        assert "different versions or sources of sysgym" in text
        assert "tiny: the rows are of 2 different scenarios of this name" in text
        assert "4 seeds are too few" in text


def test_the_reference_can_be_chosen(write_rows: Callable[..., Path]) -> None:
    out = write_rows({"dctcp": DCTCP, "reno": RENO, "ppo": WORSE})
    assert "ppo against reno: goodput 11 % lower" in _sentences(write(out, reference="reno"))
    with pytest.raises(UnknownName, match='did you mean "dctcp"'):
        write(out, reference="dctpc")


def test_the_same_rows_give_the_same_report(write_rows: Callable[..., Path]) -> None:
    out = write_rows({"dctcp": DCTCP, "reno": RENO})
    written = write(out)
    first = [path.read_bytes() for path in (written.html, written.markdown)]
    again = write(out)
    assert [path.read_bytes() for path in (again.html, again.markdown)] == first


def test_a_survey_is_part_of_both_forms(write_rows: Callable[..., Path]) -> None:
    folder = write_rows({"dctcp": DCTCP, "reno": RENO})
    write(folder)
    assert "Range of <placements>" not in (folder / "report.md").read_text()
    surveys.write(folder, [Page("Range of <placements>", "What `it` is.", ("row", "x"), (("2x16", "448"),))])
    written = write(folder)
    page, twin = written.html.read_text(), written.markdown.read_text()
    assert "Range of &lt;placements&gt;" in page
    assert "What <code>it</code> is." in page
    assert ["2x16"] in [row[0] for row in _Page(page).tables[1]]
    assert "| 2x16 | 448 |" in twin


def test_without_rows_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=r"no results\.jsonl in this folder"):
        write(tmp_path)
    assert not (tmp_path / "report.html").exists()
    (tmp_path / RESULTS).touch()
    with pytest.raises(SysgymError, match="no rows"):
        write(tmp_path)


def test_a_played_folder_says_how_it_was_made(played: Path) -> None:
    written = write(played)
    text = written.markdown.read_text()
    assert text.startswith("# Small\n")
    assert "- command: `sysgym bench small`" in text
    assert "- seeds: tiny: 200 to 201 (test split)" in text
    assert "4 episodes" in text
    assert "<code>sysgym bench small</code>" in written.html.read_text()
