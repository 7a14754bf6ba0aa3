"""The page in a real browser: headless Chromium draws it, and its sliders act on the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sysgym.live.export import exported_page
from sysgym.live.server import app_of_session
from sysgym.live.session import Session
from tests.browser import started_browser
from tests.sysgym.live.conftest import MakeRun
from tests.sysgym.live.test_run_and_recording import frames_of
from tests.sysgym.live.test_server import served

# One browser serves the whole file, so one worker takes it.
pytestmark = [pytest.mark.xdist_group("live-browser"), pytest.mark.slow]

TIMEOUT_MS = 20_000
K_SLIDER = "#setting-queue-ecn-threshold-bytes"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start one browser for all tests."""
    with started_browser() as made:
        yield made


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Open a page that fails the test at its first error."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, reduced_motion="reduce")
    made = context.new_page()
    made.set_default_timeout(TIMEOUT_MS)
    errors: list[str] = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield made
    context.close()
    assert errors == []


@pytest.fixture
def live(make_run: MakeRun) -> Iterator[str]:
    """Serve a run that waits; its address."""
    session = Session(make_run("dctcp", "neural"), paused=True, speed=4.0)
    session.start()
    with served(lambda port: app_of_session(session, "127.0.0.1", port)) as port:
        yield f"http://127.0.0.1:{port}/"
    session.stop()


def data(page: Any, selector: str, name: str) -> str:
    value: str = page.get_attribute(selector, f"data-{name}")
    return value


def wait(page: Any, condition: str) -> None:
    """Wait until an expression is true; playwright's own way needs `eval`, which the page forbids."""
    deadline_s = time.monotonic() + TIMEOUT_MS / 1e3
    while not page.evaluate(f"Boolean({condition})"):
        assert time.monotonic() < deadline_s, condition
        time.sleep(0.02)


def test_the_page_plays_pauses_and_steps(page: Any, live: str) -> None:
    page.goto(live)
    wait(page, "document.body.dataset.ready === 'yes'")
    assert page.locator("article.lane").count() == 2
    assert "dctcp and neural" in page.title()
    page.keyboard.press("Space")
    wait(page, "Number(document.body.dataset.frame) > 60 && document.body.dataset.state === 'playing'")
    page.keyboard.press("Space")
    wait(page, "document.body.dataset.state === 'paused'")
    page.wait_for_timeout(200)
    before = int(data(page, "body", "frame"))
    page.click("#step")
    wait(page, f"document.body.dataset.frame === '{before + 1}'")
    page.keyboard.press("ArrowLeft")
    wait(page, f"document.body.dataset.frame === '{before}'")
    assert page.is_visible("#latest")
    page.click("#latest")
    wait(page, f"document.body.dataset.frame === '{before + 1}'")
    for lane in ("0", "1"):
        figure = f"[data-lane='{lane}'] figure"
        assert 0 <= float(data(page, figure, "use")) <= 100
        assert data(page, figure, "busiest")
        assert "Busiest link" in page.get_attribute(f"{figure} canvas", "aria-label")
    assert float(data(page, "[data-chart='queue']", "lane0")) >= 0.0


def test_a_slider_acts_while_it_runs(page: Any, live: str) -> None:
    page.goto(live)
    wait(page, "document.body.dataset.ready === 'yes'")
    assert page.inner_text(f"[for='{K_SLIDER[1:]}'].number") == "97.5 kB"
    page.focus(K_SLIDER)
    for _ in range(3):
        page.keyboard.press("PageDown")
    page.click("#play")
    wait(
        page,
        "document.querySelector('[data-key=\"queue.ecn_threshold_bytes\"]').classList.contains('changed')",
    )
    threshold = page.inner_text(f"[for='{K_SLIDER[1:]}'].number")
    assert threshold != "97.5 kB"
    wait(page, f"document.getElementById('log').textContent.includes('ECN threshold K: {threshold}')")
    page.select_option("#setting-law-1", "cubic")
    wait(page, "document.getElementById('log').textContent.includes('Law of neural: cubic')")


def test_a_refused_value_goes_back_and_is_said(page: Any, live: str) -> None:
    page.goto(live)
    wait(page, "document.body.dataset.ready === 'yes'")
    # 32 senders of 76.8 kB do not fit into 1.8 ms: the schema refuses the second value.
    for key, place in (("workload-request-bytes", 1000), ("workload-period-s", 0)):
        page.evaluate(
            f"(() => {{ const one = document.getElementById('setting-{key}'); one.value = {place};"
            " one.dispatchEvent(new Event('input')); one.dispatchEvent(new Event('change')); })()"
        )
    wait(page, "document.getElementById('state').classList.contains('bad')")
    assert "less traffic" in page.inner_text("#state")
    wait(
        page, "document.querySelector('[for=\"setting-workload-period-s\"].number').textContent === '2.10 ms'"
    )


def test_the_exported_page_opens_from_the_disk(page: Any, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("dctcp", "neural")
    path = tmp_path / "run.html"
    path.write_text(exported_page(run.header, frames_of(run)), encoding="utf-8")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    wait(page, "Number(document.body.dataset.frames) > 700")
    assert data(page, "body", "state") == "paused"  # the reader asks for reduced motion
    page.keyboard.press("Home")
    wait(page, "document.body.dataset.frame === '0'")
    page.select_option("#speed", "4")
    page.click("#play")
    wait(page, "Number(document.body.dataset.frame) > 80")
    page.click("#play")
    page.evaluate(
        "(() => { const s = document.getElementById('seek'); s.value = 500;"
        " s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change')); })()"
    )
    wait(page, "Math.abs(Number(document.querySelector('.lane').dataset.time) - 0.004) < 2e-5")
    last = run._last[0].values
    page.keyboard.press("End")
    wait(
        page, f"document.querySelector('[data-lane=\"0\"] [data-fact=done]').textContent === '{last['done']}'"
    )
    assert not page.is_visible("#settings")
    assert {url.partition(":")[0] for url in requests} <= {"file", "data"}


@pytest.mark.parametrize(
    ("scenario", "contenders"),
    [
        ("google-2011-mitigation", ("nurd", "oracle")),
        ("p2-systems", ("default", "random")),
        ("program-p2", ("default", "random")),
        ("joint-unseen", ("random",)),
        ("multi-job-small", ("greedy", "random")),
        ("collectives-small", ("ring", "tacos")),
        ("tuning-buckets", ("25_mb", "random")),
        ("pipeline-gpt", ("unchanged", "critical_path")),
        ("diagnosis-jobs", ("longest", "narrowing")),
        ("failslow-hybrid", ("never", "payback")),
        ("compression-drift", ("never", "crossover")),
        ("burst-plan", ("data_parallel", "dynamic_program")),
        ("burst-mux", ("aimd_background", "model_background")),
    ],
)
def test_other_families_are_drawn_at_every_width(
    page: Any, make_run: MakeRun, tmp_path: Path, scenario: str, contenders: tuple[str, ...]
) -> None:
    run = make_run(*contenders, scenario=scenario, overrides={})
    path = tmp_path / "run.html"
    path.write_text(exported_page(run.header, frames_of(run)), encoding="utf-8")
    page.goto(path.as_uri())
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 900})
        wait(page, "Number(document.body.dataset.frames) > 1")
        page.keyboard.press("End")
        wait(page, "document.body.dataset.frame === String(Number(document.body.dataset.frames) - 1)")
        # Curves take their new width when the page has noticed its own, some frames later.
        wait(page, f"document.documentElement.scrollWidth <= {width}")
        painted = (
            "[...document.querySelectorAll('.lane canvas, .chart canvas')].every(c => c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data.some(one => one > 0))"
        )
        assert page.evaluate(painted)
    assert page.evaluate("[...document.querySelectorAll('canvas[role=img]')].every(c => c.ariaLabel)")
    now, _, end = page.inner_text("#clock").partition(" of ")
    assert not end or float(now.split()[0]) <= float(end.split()[0])
    words = page.inner_text("main")
    for wrong in ("NaN", "undefined", "-0 "):
        assert wrong not in words
    assert not page.is_visible("#queues")
    bars = "[...document.querySelectorAll('.level')].every(one => one.textContent)"
    assert page.evaluate(bars)
