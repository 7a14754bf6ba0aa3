"""The study of random links: who plays, what is kept, what the tables count, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.bench.contenders import Contender, parse_contender
from sysgym.emulator.packets.transports import get_transport
from sysgym.envs.congestion.random_links import SHARED_PACKETS, draw_shared_link
from sysgym.envs.congestion.random_networks import PACKET_BITS
from sysgym.envs.congestion.sharing import measure_sharing
from sysgym.errors import SysgymError
from sysgym.studies.kept_rows import run_kept
from sysgym.studies.random_links.picture import draw
from sysgym.studies.random_links.study import RandomLinks
from sysgym.studies.random_links.tables import LinkRows, markdown, tables, verdicts


def laws(*texts: str) -> list[Contender]:
    return [parse_contender(text, (), "congestion") for text in texts]


def test_every_law_plays_every_link_once_and_more_links_go_on(tmp_path: Path) -> None:
    own, beside = laws("gentle=swift,beta=0.4", "dctcp"), laws("dctcp", "reno")
    few = run_kept(RandomLinks(own, beside, 1, 1, seed=4), tmp_path, n_workers=1)
    told: list[tuple[int, int]] = []
    settings = RandomLinks(own, beside, 2, 1, seed=4)
    rows = run_kept(settings, tmp_path, n_workers=1, tell=lambda done, of: told.append((done, of)))
    assert told[0] == (len(few), len(rows)), "rows are kept"
    played = [(row["law"], row["beside"], row["link"]) for row in rows]
    pairs = [("gentle", "dctcp"), ("gentle", "reno"), ("dctcp", "reno")]
    crowd = [("gentle", None, 0), ("dctcp", None, 0)]
    assert played == [*crowd, *((*pair, number) for number in (0, 1) for pair in pairs)]

    link = draw_shared_link(np.random.default_rng([4, 1]))
    expected = measure_sharing(
        link.scenario, get_transport("dctcp"), get_transport("reno"), link.duration_s, seed=1
    )
    assert rows[-1]["share"] == expected.share
    found = LinkRows(settings, rows)
    text = markdown(settings, list(tables(found)), verdicts(found))
    assert "| gentle | reno | 2 |" in text
    assert "| dctcp | dctcp |" not in text
    assert draw(found).png.startswith(b"\x89PNG")


def row(law: str, beside: str | None, share: float, jain: float, queue: float = 1e4) -> dict[str, Any]:
    return {
        "law": law, "beside": beside, "share": share, "jain_index": jain, "queue_mean_bytes": queue,
        "buffer_bytes": 100_000, "packets_an_ack": 1,
    }  # fmt: skip


def test_tables_count_links() -> None:
    settings = RandomLinks(laws("swift"), laws("dctcp"), 5, 3)
    beside = [row("swift", "dctcp", share, 0.5) for share in (0.1, 0.66, 0.67, 1.33, 1.9)]
    own = [row("swift", None, 1.0, jain, queue) for jain, queue in ((0.99, 5.9e4), (0.95, 6.1e4), (0.3, 0.0))]
    found = LinkRows(settings, [*own, *beside])
    shares, crowds = tables(found)
    assert shares.rows == (("swift", "dctcp", "5", "2", "1", "1", "0.67"),)
    assert crowds.rows == (("swift", "1", "3", "1", "2", "1", "0.300"),)
    assert verdicts(found) == [
        "swift: a fair share on 2 of 5 with dctcp; Jain's index of its own flows at least 0.98 on 1 of 3."
    ]


def test_keys_are_set_on_all_links() -> None:
    own, beside, path_delay = laws("swift"), laws("dctcp"), {"transport.path_delay": "least_seen"}
    settings = RandomLinks(own, beside, 2, 2, overrides=path_delay)
    assert {job.scenario["transport"]["path_delay"] for job in settings.jobs()} == {"least_seen"}
    plain = RandomLinks(own, beside, 2, 2)
    assert not {job.key for job in plain.jobs()} & {job.key for job in settings.jobs()}


def test_a_rate_that_is_set_changes_the_length_of_episodes() -> None:
    settings = RandomLinks(laws("swift"), laws("dctcp"), 1, 0, overrides={"topology.link_rate_bps": 1e9})
    assert settings.jobs()[0].duration_s == pytest.approx(SHARED_PACKETS * PACKET_BITS / 1e9)


def test_pairs_that_cannot_share_are_named() -> None:
    settings = RandomLinks(laws("hpcc", "reno"), laws("dcqcn", "dctcp"), 1, 0)
    rows = [row(job.law.name, job.other.name if job.other else None, 1.0, 1.0) for job in settings.jobs()]
    assert "cannot share a link with dcqcn" in verdicts(LinkRows(settings, rows))[0]
    more = RandomLinks(laws("homa"), laws("dctcp"), 1, 0, overrides={"queue.classes": 8})
    assert [(law.name, other.name) for law, other in more.pairs()] == [("homa", "dctcp")]


ODD = {"topology.hosts_per_side": 3, "workload.flows_per_pair": 1}


@pytest.mark.parametrize(
    ("own", "beside", "numbers", "overrides", "words"),
    [
        (["a=reno", "a=cubic"], ["dctcp"], (1, 1), {}, "a appears twice; -c NAME=WHO"),
        (["reno"], ["dctcp", "dctcp"], (1, 1), {}, "dctcp appears twice"),
        (["fixed_fair"], ["dctcp"], (1, 1), {}, "not a law of single flows"),
        (["reno"], ["dctcp"], (0, 0), {}, "expected --links or --crowds of 1 or more"),
        (["swift:aimd"], ["dctcp"], (1, 1), {}, "the agent aimd sets its rates"),
        (["dctcp=reno"], ["dctcp"], (1, 1), {}, "two laws are named dctcp"),
        (["dctcp"], ["dctcp"], (1, 0), {}, "no two of the laws can share a link: dctcp beside dctcp"),
        (["homa"], ["dctcp"], (1, 1), {}, "queue.classes"),
        (["reno"], ["dctcp"], (1, 1), ODD, "3 flows with these keys; expected an even number"),
        (["reno"], ["dctcp"], (5, 5), {"queue.buffer_bytes": 98_000}, "whose other keys are drawn"),
        (["reno"], ["dctcp"], (1, 1), {"queue.bufer_bytes": 1}, "bufer_bytes"),
    ],
)
def test_what_cannot_play_is_refused(
    own: list[str], beside: list[str], numbers: tuple[int, int], overrides: dict[str, Any], words: str
) -> None:
    with pytest.raises(SysgymError, match=words):
        RandomLinks(laws(*own), laws(*beside), *numbers, overrides=overrides)
