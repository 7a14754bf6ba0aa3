"use strict";

/** The page: player, settings, lanes, charts and events; the same for a live run and a recorded one. */
(() => {
  const { element, amount, moment, colour } = Live;
  const MOST_FRAMES = 4000;
  const LOG_LINES = 6;
  const SPEEDS = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16];
  const ICONS = {
    play: "M4 2l10 6-10 6z", pause: "M3 2h4v12H3zM9 2h4v12H9z", step: "M3 2l7 6-7 6zM11 2h2v12h-2z",
    back: "M13 2L6 8l7 6zM3 2h2v12H3z", again: "M3 2h2v12H3zM14 2L6 8l8 6z",
  };
  const $ = (id) => document.getElementById(id);
  const recording = $("recording");
  const isLive = !recording;

  let header = null;
  let frames = [];
  let lanes = [];
  let charts = null;
  let send = () => {};
  let status = { paused: true, speed: 1, over: false, late: false };
  let following = true; // the newest frame of a live run is shown
  let chosen = -1;
  let settings = [];
  let extremes = {};
  let anchor = null; // of a recording: wall time and frame time from which it is played
  let wanted = false;
  Live.position = -1;

  function icon(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", ICONS[name]);
    svg.append(path);
    return svg;
  }

  // ---------------------------------------------------------------- scene

  function begin(given) {
    header = given;
    frames = [];
    extremes = {};
    valuesOf = {};
    Live.position = -1;
    following = true;
    chosen = -1;
    const names = header.lanes.map((lane) => lane.name).join(" and ");
    document.title = `${header.scenario}: ${names}`;
    $("title").textContent = header.title;
    $("subtitle").textContent = `${header.scenario}, ${header.split} seed ${header.seed}: the same for ${names}`;
    const isQueued = (panel) => panel.kind === "network" && panel.queue_full;
    $("queues").hidden = !header.lanes.some((lane) => lane.panels.some(isQueued));
    $("lanes").replaceChildren(...header.lanes.map(makeLane));
    makeSettings();
    makeStrips();
    $("extent").value = header.lanes[0].interval ? "close" : "all";
    charts = Live.makeCharts(header, frames, settingAt);
    $("charts").hidden = header.lanes[0].charts.length === 0;
    document.body.dataset.ready = "yes";
  }

  function makeLane(lane, number) {
    if (number === 0) lanes = [];
    const facts = lane.facts.map((fact) => {
      const value = element("dd", { "data-fact": fact.key });
      return { fact, value, row: element("div", {}, element("dt", { text: fact.label }), value) };
    });
    const panels = lane.panels.map((panel) => Live.panels[panel.kind](panel, lane, lane));
    const name = element("span", { class: "name", text: lane.name });
    const parts = element("span", { class: "quiet", text: lane.parts === lane.name ? "" : lane.parts });
    const head = element("div", { class: "head" }, element("h2", {}, name, " ", parts));
    for (const control of lane.controls.filter((one) => one.own)) {
      if (isLive) head.append(makeSetting(control, number, lane));
    }
    const box = element("article", { class: "lane", "aria-label": `Contender ${lane.name}`, "data-lane": String(number) },
      head, ...panels.map((panel) => panel.element), element("dl", { class: "facts" }, ...facts.map((one) => one.row)));
    box.style.setProperty("--own", `var(--lane-${number})`);
    lanes.push({ lane, facts, panels, box });
    return box;
  }

  // ---------------------------------------------------------------- settings

  function makeSettings() {
    settings = settings.filter((one) => one.lane !== null && document.contains(one.row));
    const common = header.lanes[0].controls.filter((one) => !one.own);
    const holder = $("settings");
    holder.hidden = !isLive || common.length === 0;
    holder.replaceChildren(...common.map((control) => makeSetting(control, null, header.lanes[0])));
  }

  function makeSetting(control, lane, scene) {
    const id = `setting-${control.key.replace(/[^a-z0-9]/gi, "-")}${lane === null ? "" : `-${lane}`}`;
    const number = element("output", { class: "number", for: id });
    const acts = element("span", { class: "acts", text: `acts: ${control.acts}` });
    const label = element("label", { for: id, text: control.label });
    let input;
    let show;
    if (control.choices.length) {
      input = element("select", { id, title: `acts: ${control.acts}`, "aria-label": lane === null ? null : `${control.label} of ${scene.name}` },
        ...control.choices.map((choice) => element("option", { value: choice, text: choice })));
      show = (value) => { input.value = value; };
      input.addEventListener("change", () => change(control, lane, input.value));
    } else {
      const scale = control.logarithmic && control.low > 0;
      const toPlace = (value) => (scale
        ? (1000 * Math.log(value / control.low)) / Math.log(control.high / control.low)
        : (1000 * (value - control.low)) / (control.high - control.low));
      const toValue = (place) => {
        const value = scale ? control.low * (control.high / control.low) ** (place / 1000) : control.low + ((control.high - control.low) * place) / 1000;
        const kept = control.whole ? Math.round(value) : Number(value.toPrecision(3));
        return Math.min(Math.max(kept, control.low), control.high);
      };
      const step = control.whole && !scale ? 1000 / Math.max(control.high - control.low, 1) : 1;
      input = element("input", { id, type: "range", min: "0", max: "1000", step: String(step > 1 ? "any" : 1) });
      show = (value) => {
        input.value = String(toPlace(value));
        number.textContent = amount(value, control.unit);
        input.setAttribute("aria-valuetext", amount(value, control.unit));
      };
      input.addEventListener("input", () => { number.textContent = amount(toValue(Number(input.value)), control.unit); });
      input.addEventListener("change", () => change(control, lane, toValue(Number(input.value))));
      if (step > 1) {
        input.addEventListener("keydown", (event) => {
          const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
          if (!by) return;
          event.preventDefault();
          const value = Math.min(Math.max(toValue(Number(input.value)) + by, control.low), control.high);
          show(value);
          change(control, lane, value);
        });
      }
    }
    show(control.value);
    const row = element("div", { class: "setting", "data-key": control.key }, element("div", { class: "top" }, label, number), input, acts);
    settings.push({ control, lane, row, show, value: control.value });
    return row;
  }

  function change(control, lane, value) {
    send({ do: "change", lane, key: control.key, value });
  }

  let valuesOf = {};

  /** The value of a common setting at a frame. */
  function settingAt(key, position) {
    const known = (valuesOf[key] ||= []);
    while (known.length <= position) {
      const first = header.lanes[0].controls.find((one) => one.key === key);
      let value = known.length ? known[known.length - 1] : first ? first.value : null;
      for (const [, changed, now] of frames[known.length].changes) if (changed === key) value = now;
      known.push(value);
    }
    return known[position];
  }

  function showChanges(frame) {
    for (const [lane, key, value] of frame.changes) {
      for (const setting of settings) {
        if (setting.control.key !== key || (setting.lane !== null && setting.lane !== lane)) continue;
        setting.value = value;
        setting.show(value);
        setting.row.classList.toggle("changed", value !== setting.control.value);
      }
    }
  }

  // ---------------------------------------------------------------- events

  let strips = [];
  function makeStrips() {
    const kinds = Object.entries(header.lanes[0].events);
    $("events").hidden = kinds.length === 0;
    strips = [];
    $("strips").replaceChildren(...kinds.map(([kind, [, many]]) => {
      const canvases = element("span", { class: "tracks", "aria-hidden": "true" });
      const counts = element("span", { class: "counts" });
      header.lanes.forEach((lane, number) => {
        const canvas = element("canvas", {});
        const count = element("span", { class: "number", title: lane.name, "data-kind": kind, "data-lane": String(number) });
        count.style.color = `var(--lane-${number})`;
        canvases.append(canvas);
        counts.append(count);
        strips.push({ kind, number, canvas, count });
      });
      return element("div", { class: "strip" }, element("span", { class: "what", text: many }), canvases, counts);
    }));
  }

  function counted(frame, lane, kind) {
    let sum = 0;
    for (const [which, , count] of frame.lanes[lane].events) if (which === kind) sum += count;
    return sum;
  }

  function drawStrips() {
    const end = Math.max(header.lanes[0].end, frames.length ? frames[frames.length - 1].t : 0);
    for (const { kind, number, canvas, count } of strips) {
      const width = canvas.parentElement.clientWidth || 300;
      const columns = new Float64Array(Math.max(width, 1));
      let total = 0;
      frames.forEach((frame, n) => {
        const sum = counted(frame, number, kind);
        if (!sum) return;
        columns[Math.min(Math.floor((frame.t / end) * width), width - 1)] += sum;
        if (n <= Live.position) total += sum;
      });
      const context = Live.prepare(canvas, width, 11);
      const most = Math.max(...columns, 1);
      context.fillStyle = colour(`lane-${number}`);
      const now = frames[Live.position] ? (frames[Live.position].t / end) * width : 0;
      columns.forEach((sum, x) => {
        if (!sum) return;
        context.globalAlpha = (x <= now ? 1 : 0.3) * (0.35 + 0.65 * (sum / most));
        context.fillRect(x, 0, 1.5, 11);
      });
      count.textContent = total.toLocaleString("en");
    }
  }

  function drawLog() {
    const lines = [];
    for (let n = Live.position; n >= 0 && lines.length < LOG_LINES && n > Live.position - 400; n -= 1) {
      const frame = frames[n];
      for (const [lane, key, value] of frame.changes) {
        if (key === "interval") continue;
        const control = header.lanes[lane ?? 0].controls.find((one) => one.key === key);
        const who = lane === null ? "" : ` of ${header.lanes[lane].name}`;
        const line = element("li", { class: "change", text: `${moment(frame.t, header.lanes[0])}  ${control ? control.label : key}${who}: ${typeof value === "number" ? amount(value, control?.unit) : value}` });
        lines.push(line);
      }
      frame.lanes.forEach((one, number) => {
        const lane = header.lanes[number];
        const byKind = {};
        for (const [kind, place, count] of one.events) {
          if (kind === "mark") continue; // too many to read
          const found = (byKind[kind] ||= { sum: 0, most: 0, place });
          found.sum += count;
          if (count > found.most) Object.assign(found, { most: count, place });
        }
        for (const [kind, { sum, place }] of Object.entries(byKind)) {
          const words = lane.events[kind][sum === 1 ? 0 : 1];
          const line = element("li", { text: `${moment(frame.t, lane)}  ${lane.name}: ${sum} ${words}, ${lane.places[place] ?? ""}` });
          line.style.setProperty("--own", `var(--lane-${number})`);
          lines.push(line);
        }
      });
    }
    $("log").replaceChildren(...lines.slice(0, LOG_LINES));
  }

  // ---------------------------------------------------------------- drawing

  /** Least and largest number of a panel in all lanes and frames so far, so that lanes have one scale. */
  function note(frame) {
    for (const { lane } of lanes) {
      for (const panel of lane.panels) {
        if (panel.kind !== "levels" && panel.kind !== "bars") continue;
        const found = (extremes[panel.key] ||= { low: Infinity, high: 0 });
        const ends = (numbers) => (panel.kind === "bars" ? numbers.map((bar) => bar[2]) : numbers);
        frame.lanes.forEach((one) => ends(one.values[panel.key] || []).forEach((value) => {
          if (value > 0) found.low = Math.min(found.low, value);
          found.high = Math.max(found.high, value);
        }));
      }
    }
  }

  const most = (key) => extremes[key] || { low: 1, high: 1 };

  function show(position) {
    if (!frames.length) return;
    Live.position = Math.min(Math.max(position, 0), frames.length - 1);
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      draw();
    });
  }

  let drawnAll = 0;
  let charted = -1;
  function draw() {
    const frame = frames[Live.position];
    if (!frame) return;
    lanes.forEach(({ facts, panels, box }, number) => {
      const { values, events } = frame.lanes[number];
      panels.forEach((panel) => panel.draw(values, events, frame.n, most));
      for (const { fact, value } of facts) {
        const text = amount(values[fact.key], fact.unit);
        if (value.textContent !== text) value.textContent = text;
      }
      box.dataset.frame = String(frame.n);
      box.dataset.time = String(frame.t);
    });
    const scene = header.lanes[0];
    const end = Math.max(scene.end, frames[frames.length - 1].t);
    $("seek").max = String(Math.round(1000 * Math.max(end / (scene.end || 1), 1)));
    if (document.activeElement !== $("seek") || !dragging) $("seek").value = String(Math.round((1000 * frame.t) / (scene.end || 1)));
    $("seek").setAttribute("aria-valuetext", moment(frame.t, scene));
    $("clock").textContent = scene.time_unit === "s" ? `${moment(frame.t, scene)} of ${moment(end, scene)}` : moment(frame.t, scene);
    document.body.dataset.frame = String(frame.n);
    document.body.dataset.frames = String(frames.length);
    // Curves and strips are looked at more slowly than the pictures.
    const now = performance.now();
    if (now - drawnAll > 90 || !playing() || charted > Live.position) {
      drawnAll = now;
      charted = Live.position;
      charts.draw(Live.position);
      if (strips.length) {
        drawStrips();
        drawLog();
      }
    }
    showState();
  }

  const playing = () => !status.paused && (isLive ? following : true);

  function showState() {
    const play = $("play");
    const name = playing() ? "pause" : "play";
    if (play.dataset.icon !== name) {
      play.dataset.icon = name;
      play.replaceChildren(icon(name));
      play.setAttribute("aria-label", name === "pause" ? "Pause" : "Play");
    }
    $("latest").hidden = !isLive || following;
    document.body.dataset.state = playing() ? "playing" : "paused";
    if (isLive && !lost) {
      const words = status.over ? "The episode is over." : status.late ? "As fast as this machine can." : following ? "" : "Looking back; the run goes on.";
      say(words);
    }
  }

  let lost = false;
  let saidUntil = 0;
  function say(words, bad = false, forMs = 0) {
    if (!bad && performance.now() < saidUntil) return;
    saidUntil = performance.now() + forMs;
    const state = $("state");
    if (state.textContent !== words) state.textContent = words;
    state.classList.toggle("bad", bad);
  }

  // ---------------------------------------------------------------- player

  let dragging = false;

  function toggle() {
    if (isLive && !following) return latest();
    if (isLive && status.over) return restart();
    if (isLive) return send({ do: status.paused ? "play" : "pause" });
    if (status.paused && Live.position >= frames.length - 1) Live.position = 0;
    status.paused = !status.paused;
    anchor = null;
    return show(Live.position);
  }

  function move(by) {
    const next = Live.position + by;
    if (isLive && by > 0 && next >= frames.length) {
      following = true;
      send({ do: "step" });
      return;
    }
    if (isLive && following && by < 0) send({ do: "pause" });
    if (!isLive) status.paused = true;
    anchor = null;
    following = next >= frames.length - 1;
    show(next);
  }

  function seekTime(time) {
    if (!frames.length) return;
    const newest = frames[frames.length - 1].t;
    if (isLive && time > newest) {
      following = true;
      send({ do: "run_to", time });
      return;
    }
    let low = 0;
    let high = frames.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (frames[middle].t < time) low = middle + 1;
      else high = middle;
    }
    following = low >= frames.length - 1;
    anchor = null;
    show(low);
  }

  function latest() {
    following = true;
    show(frames.length - 1);
  }

  function restart() {
    if (isLive) send({ do: "restart" });
    else {
      anchor = null;
      show(0);
    }
  }

  function setSpeed(speed) {
    status.speed = Math.min(Math.max(speed, SPEEDS[0]), SPEEDS[SPEEDS.length - 1]);
    anchor = null;
    if (isLive) send({ do: "speed", value: status.speed });
    showSpeed();
  }

  function showSpeed() {
    const select = $("speed");
    const value = String(status.speed);
    if (![...select.options].some((one) => one.value === value)) select.append(element("option", { value, text: `${Number(status.speed.toPrecision(3))}×` }));
    select.value = value;
  }

  /** Play a recording by the clock; frames that come too late are left out. */
  function tick() {
    requestAnimationFrame(tick);
    if (isLive || status.paused || !frames.length || dragging) return;
    const now = performance.now() / 1000;
    const scene = header.lanes[0];
    if (!anchor) anchor = [now, frames[Live.position].t];
    const time = anchor[1] + ((now - anchor[0]) * status.speed * scene.end) / header.episode_s;
    let next = Live.position;
    while (next < frames.length - 1 && frames[next + 1].t <= time) next += 1;
    if (next !== Live.position) show(next);
    if (next >= frames.length - 1) {
      status.paused = true;
      anchor = null;
      show(next);
    }
  }

  function listen() {
    $("speed").append(...SPEEDS.map((one) => element("option", { value: String(one), text: one < 1 ? `1/${1 / one}×` : `${one}×` })));
    $("speed").addEventListener("change", (event) => setSpeed(Number(event.target.value)));
    $("extent").addEventListener("change", () => {
      drawnAll = 0;
      show(Live.position);
    });
    for (const name of ["back", "step", "again"]) $(name).append(icon(name));
    $("play").addEventListener("click", toggle);
    $("back").addEventListener("click", () => move(-1));
    $("step").addEventListener("click", () => move(1));
    $("again").addEventListener("click", restart);
    $("latest").addEventListener("click", latest);
    const seek = $("seek");
    seek.addEventListener("input", () => {
      dragging = true;
      const time = (Number(seek.value) / 1000) * header.lanes[0].end;
      if (!isLive || time <= frames[frames.length - 1]?.t) seekTime(time);
    });
    seek.addEventListener("change", () => {
      dragging = false;
      seekTime((Number(seek.value) / 1000) * header.lanes[0].end);
    });
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const tag = event.target.tagName;
      const typing = tag === "SELECT" || (tag === "INPUT" && event.target !== seek);
      const pressing = tag === "BUTTON" || tag === "A";
      if (typing || (pressing && (event.key === " " || event.key === "Enter"))) return;
      const at = SPEEDS.indexOf(status.speed);
      const actions = {
        " ": toggle, k: toggle, ArrowLeft: () => move(-1), ArrowRight: () => move(1),
        Home: () => { following = false; anchor = null; show(0); }, End: latest,
        "+": () => setSpeed(SPEEDS[Math.min(at + 1, SPEEDS.length - 1)] || 1), "=": () => setSpeed(SPEEDS[Math.min(at + 1, SPEEDS.length - 1)] || 1),
        "-": () => setSpeed(SPEEDS[Math.max(at - 1, 0)] || 1),
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
    new ResizeObserver(() => {
      charts?.resize();
      if (frames.length) {
        drawnAll = 0;
        show(Live.position);
      }
    }).observe($("lanes"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      charts?.recolour();
      drawnAll = 0;
      show(Live.position);
    });
    requestAnimationFrame(tick);
  }

  Live.seekTime = seekTime;
  Live.showsAll = () => $("extent").value === "all";
  Live.chosenLink = () => chosen;
  Live.chooseLink = (link) => {
    chosen = link === chosen ? -1 : link;
    drawnAll = 0;
    show(Live.position);
  };

  // ---------------------------------------------------------------- frames

  function add(frame) {
    frames.push(frame);
    note(frame);
    showChanges(frame);
    if (frames.length > MOST_FRAMES) {
      // Every other frame goes; its events and changes stay, with the next one.
      const kept = [];
      frames.forEach((one, n) => {
        if (n % 2 && n < frames.length - 1) {
          const next = frames[n + 1];
          next.changes = [...one.changes, ...next.changes];
          next.lanes.forEach((lane, i) => { lane.events = [...one.lanes[i].events, ...lane.events]; });
        } else kept.push(one);
      });
      frames.splice(0, frames.length, ...kept);
      Live.position = Math.min(Live.position >> 1, frames.length - 1);
      valuesOf = {};
    }
  }

  function receive(message) {
    if (message.lost) {
      lost = true;
      say("The connection is lost; is sysgym live still running? Trying again …", true);
      return;
    }
    lost = false;
    if (message.header) begin(message.header);
    if (message.history) {
      message.history.forEach(add);
      if (frames.length) show(frames.length - 1);
    }
    if (message.status) {
      status = message.status;
      showSpeed();
      drawnAll = 0;
      if (frames.length) show(Live.position);
      showState();
    }
    if (message.error) {
      say(message.error, true, 6000);
      settings.forEach((setting) => setting.show(setting.value)); // what was refused is not in force
    }
    if (message.frame) {
      add(message.frame);
      if (following) show(frames.length - 1);
    }
  }

  listen();
  if (isLive) {
    $("save").hidden = false;
    $("save").href = "saved.html";
    send = Live.connect(receive);
  } else {
    Live.unpack(recording.textContent).then((run) => {
      begin(run.header);
      run.frames.forEach(add);
      status.paused = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const start = /[#&]t=([0-9.e-]+)/.exec(location.hash);
      showSpeed();
      show(status.paused ? Math.floor(frames.length / 2) : 0);
      if (start) {
        status.paused = true;
        seekTime(Number(start[1]));
      }
    }).catch((error) => say(`This recording cannot be shown: ${error.message}`, true));
  }
})();
