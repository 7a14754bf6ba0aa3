from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sysgym.emulator.packets.workloads import FlowSizeDistribution, get_flow_sizes, list_flow_sizes
from sysgym.emulator.packets.workloads.flow_sizes import DATA_FOLDER
from sysgym.scenarios.errors import SysgymError, UnknownName

WEBSEARCH = get_flow_sizes("websearch")


def distribution(size_bytes: list[float], percent: list[float]) -> FlowSizeDistribution:
    return FlowSizeDistribution("made", np.array(size_bytes, dtype=np.float64), np.array(percent) / 100.0)


@st.composite
def distributions(draw: st.DrawFn) -> FlowSizeDistribution:
    """Any points, jumps (a size twice) and gaps (a percentage twice) among them."""
    n = draw(st.integers(2, 12))
    size = sorted(draw(st.lists(st.integers(0, 100_000), min_size=n, max_size=n)))
    weight = draw(st.lists(st.integers(0, 20), min_size=n - 1, max_size=n - 1))
    size[-1] = max(size[-1], 1)
    weight[0] = max(weight[0], 1)
    cumulative = np.concatenate(([0], np.cumsum(weight))) / sum(weight)
    return FlowSizeDistribution("drawn", np.array(size, dtype=np.float64), cumulative)


def test_websearch_is_as_published() -> None:
    assert WEBSEARCH.mean_bytes() == pytest.approx(1_711_250.0, rel=1e-12)
    assert WEBSEARCH.quantile([0.15, 0.53, 0.9, 1.0]).tolist() == pytest.approx([1e4, 8e4, 5e6, 3e7])
    assert WEBSEARCH.cdf([1e4, 8e4, 5e6, 3e7, 4e7]).tolist() == pytest.approx([0.15, 0.53, 0.9, 1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "n_points", "mean_bytes", "quantiles"),
    [
        # Means in closed form from the published points, joined by straight lines as their generator does.
        ("websearch", 12, 1_711_250.0, {0.53: 80_000.0, 0.97: 1e7}),
        ("facebook-hadoop", 20, 120_420.75, {0.5: 700.0, 0.95: 3e5, 0.99: 2e6}),
        ("alibaba-storage", 9, 40_869.8, {0.2293: 4e3, 0.9047: 3.2e4, 0.9677: 1.28e5}),
        ("google-rpc", 843, 2_891.62125, {0.0648826: 3.0, 0.497901: 256.0, 0.99999: 9_710_291.0}),
    ],
)
def test_published_distributions(
    name: str, n_points: int, mean_bytes: float, quantiles: dict[float, float]
) -> None:
    sizes = get_flow_sizes(name)
    assert len(sizes.size_bytes) == n_points
    assert sizes.mean_bytes() == pytest.approx(mean_bytes, rel=1e-8)
    for probability, size_bytes in quantiles.items():
        assert float(sizes.quantile(probability)) == pytest.approx(size_bytes, rel=1e-6)
    drawn = sizes.sample(np.random.default_rng(4), 400_000)
    error = drawn.std() / np.sqrt(len(drawn))
    # Whole bytes are rounded up: half a byte more on average, a matter for calls of a few bytes only.
    assert drawn.mean() == pytest.approx(mean_bytes + 0.5, abs=4 * error + 0.5)


def test_every_data_file_names_its_source_and_can_be_read() -> None:
    assert list_flow_sizes() == ["alibaba-storage", "facebook-hadoop", "google-rpc", "websearch"]
    for name in list_flow_sizes():
        assert get_flow_sizes(name).mean_bytes() > 0
        header = (DATA_FOLDER / f"{name}.csv").read_text(encoding="utf-8").split("size_bytes,")[0]
        assert "Source: " in header
        assert "https://" in header


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(UnknownName, match="websearch"):
        get_flow_sizes("websaerch")
    with pytest.raises(UnknownName):
        get_flow_sizes("../data/websearch")


def test_samples_are_distributed_as_the_points_say() -> None:
    sizes = WEBSEARCH.sample(np.random.default_rng(0), 200_000)
    assert sizes.dtype == np.int64
    assert sizes.min() >= 1
    assert sizes.max() <= 30_000_000
    assert stats.kstest(sizes, WEBSEARCH.cdf).pvalue > 1e-3
    error = sizes.std() / np.sqrt(len(sizes))
    assert sizes.mean() == pytest.approx(WEBSEARCH.mean_bytes(), abs=4 * error)


@pytest.mark.parametrize("payload_bytes", [1, 1000, 1460, 8960])
def test_mean_packets_agrees_with_samples(payload_bytes: int) -> None:
    short = distribution([0, 3_000, 50_000], [0, 60, 100])
    sizes = short.sample(np.random.default_rng(1), 200_000)
    packets = -(-sizes // payload_bytes)
    error = packets.std() / np.sqrt(len(packets))
    assert packets.mean() == pytest.approx(short.mean_packets(payload_bytes), abs=4 * error)


@pytest.mark.parametrize(("size_bytes", "packets"), [(1, 1), (1459, 1), (1460, 1), (1461, 2), (146_000, 100)])
def test_one_fixed_size(size_bytes: int, packets: int) -> None:
    fixed = FlowSizeDistribution.fixed(size_bytes)
    assert fixed.mean_bytes() == size_bytes
    assert fixed.mean_packets(1460) == packets
    assert set(fixed.sample(np.random.default_rng(0), 100).tolist()) == {size_bytes}
    assert fixed.quantile([0.0, 0.3, 1.0]).tolist() == [size_bytes] * 3
    assert fixed.cdf([size_bytes - 1, size_bytes, size_bytes + 1]).tolist() == [0.0, 1.0, 1.0]


def test_jumps_and_gaps() -> None:
    # A tenth of the flows has 100 bytes, the rest 200 to 400.
    mixed = distribution([100, 100, 200, 400], [0, 10, 10, 100])
    assert mixed.mean_bytes() == pytest.approx(0.1 * 100 + 0.9 * 300)
    assert mixed.cdf([99, 100, 150, 200, 300]).tolist() == pytest.approx([0.0, 0.1, 0.1, 0.1, 0.55])
    assert mixed.quantile([0.0, 0.05, 0.1, 0.55, 1.0]).tolist() == pytest.approx([100, 100, 100, 300, 400])
    sizes = mixed.sample(np.random.default_rng(2), 100_000)
    assert np.mean(sizes == 100) == pytest.approx(0.1, abs=0.004)
    assert not np.any((sizes > 100) & (sizes <= 200))


def test_empty_flows_are_one_byte() -> None:
    assert distribution([0, 0, 9], [0, 100, 100]).sample(np.random.default_rng(0), 5).tolist() == [1] * 5


@given(sizes=distributions(), probability=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_quantile_is_the_inverse_of_the_distribution(
    sizes: FlowSizeDistribution, probability: list[float]
) -> None:
    p = np.sort(probability)
    quantile = sizes.quantile(p)
    assert np.all(np.diff(quantile) >= -1e-9 * sizes.size_bytes[-1])
    assert np.all((quantile >= sizes.size_bytes[0]) & (quantile <= sizes.size_bytes[-1]))
    # Rounding may put a quantile just below a jump, where the distribution function is lower by all of it.
    nudge = 1e-9 * sizes.size_bytes[-1]
    assert np.all(sizes.cdf(quantile + nudge) >= p - 1e-9)
    assert np.all(sizes.cdf(quantile - nudge) <= p + 1e-9)


@given(sizes=distributions())
@settings(max_examples=100, deadline=None)
def test_mean_is_the_integral_of_the_quantile(sizes: FlowSizeDistribution) -> None:
    # The midpoint rule is exact on lines; each of the points' corners spoils one of 20000 strips.
    strips = 20_000
    middle = (np.arange(strips) + 0.5) / strips
    corner = sizes.size_bytes[-1] / strips
    assert sizes.quantile(middle).mean() == pytest.approx(
        sizes.mean_bytes(), abs=len(sizes.size_bytes) * corner
    )


@given(sizes=distributions(), payload_bytes=st.integers(1, 9000), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_packets_are_no_fewer_than_bytes_need(
    sizes: FlowSizeDistribution, payload_bytes: int, seed: int
) -> None:
    packets, filled = sizes.mean_packets(payload_bytes), sizes.mean_bytes() / payload_bytes
    assert filled - 1e-9 <= packets <= filled + 1.0 + 1e-9
    drawn = sizes.sample(np.random.default_rng(seed), 50)
    assert np.all((drawn >= 1) & (drawn <= sizes.size_bytes[-1]))


@pytest.mark.parametrize(
    ("size_bytes", "percent", "reason"),
    [
        ([0, 10], [0, 90], "0 to 100"),
        ([0, 10], [10, 100], "0 to 100"),
        ([0, 10, 20], [0, 60, 50], "0 to 100"),
        ([0, 10, 20, 30], [0, 60, 50, 100], "0 to 100"),
        ([0, 20, 10], [0, 50, 100], "sizes do not ascend"),
        ([-1, 10], [0, 100], "sizes do not ascend"),
        ([0, 0], [0, 100], "sizes do not ascend"),
        ([0], [0], "two or more points"),
        ([0, float("nan")], [0, 100], "finite"),
        ([0, float("inf")], [0, 100], "finite"),
    ],
)
def test_what_is_no_distribution_is_refused(
    size_bytes: list[float], percent: list[float], reason: str
) -> None:
    with pytest.raises(SysgymError, match=reason):
        distribution(size_bytes, percent)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_impossible_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(SysgymError, match="between 0 and 1"):
        WEBSEARCH.quantile(probability)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected the line"),
        ("0,0\n10,100\n", "expected the line"),
        ("size_bytes,cumulative_percent\n0,0\nten,100\n", "two numbers"),
        ("size_bytes,cumulative_percent\n0,0\n10\n", "two numbers"),
        ("size_bytes,cumulative_percent\n0,0,0\n10,100,0\n", "two numbers"),
        ("size_bytes,cumulative_percent\n", "two numbers"),
        ("size_bytes,cumulative_percent\n0,0\n10,99\n", "0 to 100"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SysgymError, match=reason) as caught:
        FlowSizeDistribution.from_csv(path)
    assert "sizes.csv" in str(caught.value)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(
        "# mine\n\nsize_bytes,cumulative_percent\n# half\n0,0\n100,50\n\n300,100\n", encoding="utf-8"
    )
    assert FlowSizeDistribution.from_csv(str(path)).mean_bytes() == pytest.approx(125.0)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().partition(b"\n\n")[2])
    assert FlowSizeDistribution.from_csv(path).mean_bytes() == pytest.approx(125.0)
