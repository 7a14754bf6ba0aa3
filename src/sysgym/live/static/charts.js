"use strict";

/** Curves of all lanes over time, by uPlot; those of the queue can show one port instead of the longest. */
Live.makeCharts = (header, frames, settingAt) => {
  const { element, colour, amount, tickMoment } = Live;
  const CLOSE_SHARE = 0.16;
  const lanes = header.lanes;
  const scene = lanes[0];
  const inSeconds = scene.time_unit === "s";
  const network = scene.panels.find((panel) => panel.kind === "network");
  const holder = document.getElementById("charts");
  holder.replaceChildren();
  const charts = scene.charts.map((chart) => make(chart));

  function make(chart) {
    const keys = lanes.map((lane, i) => {
      const number = element("b", {});
      const key = element("span", {}, `${lane.name} `, number);
      key.style.color = `var(--lane-${i})`;
      return { key, number };
    });
    const title = element("h2", { text: chart.title });
    if (chart.line_of) keys.push({ key: kKey(chart), number: null });
    const head = element("div", { class: "head" }, title, element("div", { class: "keys" }, ...keys.map((one) => one.key)));
    const plot = element("div", { role: "img", "aria-label": `${chart.title} over time` });
    const box = element("div", { class: "chart", "data-chart": chart.key }, head, plot);
    holder.append(box);
    const made = { chart, keys, title, plot, box, uplot: null };
    if (chart.key === "queue" && network) made.select = portSelect(box, head, network);
    build(made);
    return made;
  }

  /** The key of a setting's dashed line. */
  function kKey(chart) {
    const control = scene.controls.find((one) => one.key === chart.line_of);
    return element("span", { class: "quiet", text: `╌ ${control ? control.label : chart.line_of}` });
  }

  /** The choice of a port whose queue is shown, for keyboards as well as for clicks on the picture. */
  function portSelect(box, head, panel) {
    const select = element("select", { "aria-label": "Port whose queue is shown" }, element("option", { value: "-1", text: "longest of all ports" }));
    panel.links.forEach(([a, b], link) => {
      if (panel.nodes[a][3] === "host") return;
      select.append(element("option", { value: String(link), text: `${panel.nodes[a][0]} → ${panel.nodes[b][0]}` }));
    });
    select.addEventListener("change", () => Live.chooseLink(Number(select.value)));
    head.insertBefore(select, head.lastChild);
    return select;
  }

  /** The whole episode, or what is around the present position. */
  function shownTimes() {
    const end = Math.max(scene.end, frames.length ? frames[frames.length - 1].t : 0);
    if (Live.showsAll() || !frames[Live.position]) return [0, end];
    const last = Math.min(Math.max(frames[Live.position].t + 0.04 * end, CLOSE_SHARE * end), end);
    return [last - CLOSE_SHARE * end, last];
  }

  function build(made) {
    const { chart, plot } = made;
    made.uplot?.destroy();
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("rule"), width: 1 }, ticks: { stroke: colour("rule") }, font: "11px system-ui, sans-serif" };
    const series = [{}];
    if (chart.line_of) series.push({ label: "K", stroke: colour("quiet"), width: 2, dash: [7, 5], paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
    lanes.forEach((lane, i) => series.push({ label: lane.name, stroke: colour(`lane-${i}`), width: 1.8, points: { show: false } }));
    made.uplot = new uPlot({
      width: Math.max(plot.clientWidth, 200),
      height: 190,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
      scales: { x: { time: false, range: () => shownTimes() },
        y: { range: (u, low, high) => [0, Math.max(high || 0, 1e-9) * 1.08] } },
      axes: [
        { ...axis, size: 30, space: inSeconds ? 60 : 50, incrs: inSeconds ? Live.steps(Live.timeUnit(scene.end)[0]) : Live.steps(1, 0),
          values: (u, ticks) => ticks.map((tick) => (inSeconds ? tickMoment(tick, scene) : String(tick))) },
        { ...axis, size: 74, values: (u, ticks) => ticks.map((tick) => amount(tick, chart.unit)) },
      ],
      series,
      hooks: { draw: [(u) => marks(u, made)] },
    }, [[], ...series.slice(1).map(() => [])], plot);
    plot.firstChild?.addEventListener?.("click", () => {
      const time = made.uplot.posToVal(made.uplot.cursor.left, "x");
      if (Number.isFinite(time)) Live.seekTime(time);
    });
  }

  /** Lines where settings changed, and a veil over what has not been played yet. */
  function marks(u, made) {
    const { left, top, width, height } = u.bbox;
    const context = u.ctx;
    const ratio = window.devicePixelRatio || 1;
    const at = frames[Live.position] ? u.valToPos(frames[Live.position].t, "x", true) : left;
    context.save();
    context.fillStyle = colour("paper");
    context.globalAlpha = 0.72;
    if (at < left + width) context.fillRect(at, top - 2, left + width - at + 3 * ratio, height + 2);
    context.globalAlpha = 1;
    context.lineWidth = ratio;
    context.strokeStyle = colour("accent");
    context.setLineDash([2 * ratio, 3 * ratio]);
    const [first, last] = shownTimes();
    for (const frame of frames) {
      if (frame.t < first || frame.t > last || !frame.changes.some(([, key]) => key !== "interval")) continue;
      const x = u.valToPos(frame.t, "x", true);
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + height);
      context.stroke();
    }
    context.setLineDash([]);
    context.strokeStyle = colour("ink");
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at, top + height);
    if (frames.length) context.stroke();
    context.restore();
  }

  function number(chart, lane, frame) {
    const values = frame.lanes[lane].values;
    const link = Live.chosenLink();
    if (chart.key !== "queue" || !network || link < 0) return values[chart.key] ?? null;
    const share = values[`${network.key}_queue`][link];
    return (share / 100) * (network.queue_full_bytes || 0);
  }

  function draw(position) {
    const times = frames.map((frame) => frame.t);
    for (const made of charts) {
      const { chart } = made;
      if (made.select) made.select.value = String(Live.chosenLink());
      const rows = [times];
      if (chart.line_of) rows.push(frames.map((_, i) => settingAt(chart.line_of, i)));
      lanes.forEach((_, lane) => rows.push(frames.map((frame) => number(chart, lane, frame))));
      made.uplot.setData(rows);
      const frame = frames[position];
      made.keys.slice(0, lanes.length).forEach((key, lane) => {
        const shown = frame ? number(chart, lane, frame) : null;
        key.number.textContent = amount(shown, chart.unit);
        made.box.dataset[`lane${lane}`] = String(shown);
      });
    }
  }

  function resize() {
    for (const made of charts) {
      const width = Math.max(made.plot.clientWidth, 200);
      if (width !== made.uplot.width) made.uplot.setSize({ width, height: 190 });
    }
  }

  return { draw, resize, recolour: () => charts.forEach(build) };
};
