"use strict";

/** Pictures of a lane by kind: functions (panel, scene, lane) -> { element, draw(values, events, frame) }. */
Live.panels = {};

(() => {
  const { element, colour, amount } = Live;
  // Of groups, which may be many; their numbers repeat the colours.
  const GROUPS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#a0cbe8", "#ffbe7d", "#8cd17d", "#ff9d9a", "#d4a6c8", "#3c8d87", "#b6992d", "#bab0ac"];

  function fill(style, number) {
    return style === "group" ? GROUPS[number % GROUPS.length] : style === "quiet" ? colour("idle") : colour(style);
  }

  function legend(states) {
    const shown = states.filter(([name]) => name);
    if (shown.length >= GROUPS.length && shown[shown.length - 1][1] === "group") return ""; // the colours repeat
    return element("p", { class: "legend" }, ...shown.map(([name, style]) => {
      const key = element("span", { class: "key" });
      key.style.background = fill(style === "mark" ? "ink" : style, states.findIndex((one) => one[0] === name));
      if (style === "mark") key.style.clipPath = "polygon(50% 0, 100% 100%, 0 100%)";
      return element("span", {}, key, name);
    }));
  }

  /** Bars over time, a row for each task. */
  Live.panels.bars = (panel, scene, lane) => {
    const canvas = element("canvas", { role: "img" });
    const figure = element("figure", {}, element("figcaption", { text: panel.title }), canvas, legend(panel.states));
    return {
      element: figure,
      draw(values, events, frame, most) {
        const longest = Math.max(most(panel.key).high, panel.line ? panel.line * 1.3 : 0); // of all lanes
        const rows = values[panel.key];
        const width = figure.clientWidth || 600;
        const each = Math.max(Math.min(300 / Math.max(panel.n_rows, 1), 14), 1);
        const height = Math.round(each * panel.n_rows + 44);
        const context = Live.prepare(canvas, width, height);
        const [left, right, top] = [8, width - 12, 16];
        const x = (time) => left + (time / (longest || 1)) * (right - left);
        for (const [row, begin, end, state] of rows) {
          const style = panel.states[state][1];
          context.fillStyle = fill(style, state);
          const y = top + row * each;
          if (style === "mark") {
            context.fillStyle = colour("ink");
            context.beginPath();
            context.moveTo(x(begin), y);
            context.lineTo(x(begin) + 4.5, y + Math.max(each, 7));
            context.lineTo(x(begin) - 4.5, y + Math.max(each, 7));
            context.fill();
          } else {
            context.fillRect(x(begin), y, Math.max(x(end) - x(begin), 1), Math.max(each * 0.82, 1));
          }
        }
        axis(context, panel, { x, longest, left, right, bottom: top + each * panel.n_rows + 2, top });
        const words = panel.states.map(([name], state) => [rows.filter((row) => row[3] === state).length, name]);
        const said = words.filter(([n, name]) => n && name).map(([n, name]) => `${n} ${name}`).join(", ");
        canvas.setAttribute("aria-label", `${panel.title} of ${lane.name}: ${said}`);
        Object.assign(figure.dataset, { rows: String(rows.length), said });
      },
    };
  };

  function axis(context, panel, { x, longest, left, right, bottom, top }) {
    context.strokeStyle = colour("quiet");
    context.fillStyle = colour("quiet");
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(left, bottom);
    context.lineTo(right, bottom);
    context.stroke();
    const unit = panel.x_unit === "s" ? Live.timeUnit(longest)[0] : 1;
    const step = Live.steps(unit).find((one) => longest / one <= 6);
    for (let tick = 0; tick <= longest; tick += step || longest || 1) {
      context.textAlign = tick ? "center" : "left";
      context.fillText(amount(tick, panel.x_unit), x(tick), bottom + 14);
      if (!step) break;
    }
    context.textAlign = "right";
    context.fillText(panel.x_label, right, bottom + 26);
    if (panel.line !== null && panel.line !== undefined) {
      context.strokeStyle = colour("ink");
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(x(panel.line), top - 4);
      context.lineTo(x(panel.line), bottom);
      context.stroke();
      context.setLineDash([]);
      context.textAlign = "center";
      context.fillText(panel.line_label, Math.min(Math.max(x(panel.line), 40), right - 40), top - 6);
    }
  }

  /** A horizontal bar for each name. */
  Live.panels.levels = (panel, scene, lane) => {
    const rows = panel.names.map((name) => {
      const bar = element("div", { class: "fill" });
      const number = element("span", { class: "number" });
      const row = element("div", { class: "level" }, element("span", { text: name }),
        element("div", { class: "track", "aria-hidden": "true" }, bar), number);
      return { row, bar, number };
    });
    const title = element("figcaption", { text: panel.title });
    const figure = element("figure", {}, title, element("div", { class: "levels", role: "group", "aria-label": `${panel.title} of ${lane.name}` }, ...rows.map((one) => one.row)));
    return {
      element: figure,
      draw(values, events, frame, most) {
        const numbers = values[panel.key];
        const largest = most(panel.key);
        const share = (value) => {
          if (!value) return 0;
          if (!panel.logarithmic) return value / largest.high;
          return Math.max(Math.log(value / largest.low) / Math.log(largest.high / largest.low || 2), 0) * 0.95 + 0.05;
        };
        rows.forEach(({ bar, number }, i) => {
          bar.style.width = `${(100 * share(numbers[i])).toFixed(1)}%`;
          number.textContent = amount(numbers[i], panel.unit);
        });
        figure.dataset.levels = JSON.stringify(numbers);
      },
    };
  };

  /** A table of coloured cells. */
  Live.panels.grid = (panel, scene, lane) => {
    const canvas = element("canvas", { role: "img" });
    const figure = element("figure", {}, element("figcaption", { text: panel.title }), canvas, legend(panel.states));
    return {
      element: figure,
      draw(values) {
        const cells = values[panel.key];
        const width = figure.clientWidth || 600;
        const context = Live.prepare(canvas, width, 10);
        context.font = "11px system-ui, sans-serif";
        const label = Math.max(...panel.rows.map((name) => context.measureText(name).width), 0) + 8;
        const size = Math.max(Math.min((width - label) / panel.columns.length, 30), 2);
        const tall = Math.max(Math.min(size, 22), 300 / panel.rows.length > 22 ? 22 : 300 / panel.rows.length);
        const head = size >= 14 ? 16 : 2;
        const drawn = Live.prepare(canvas, width, head + tall * panel.rows.length + 4);
        drawn.font = "11px system-ui, sans-serif";
        cells.forEach((state, i) => {
          const [row, column] = [Math.floor(i / panel.columns.length), i % panel.columns.length];
          drawn.fillStyle = fill(panel.states[state][1], state);
          const gap = size > 6 ? 1 : 0;
          drawn.fillRect(label + column * size, head + row * tall, size - gap, tall - gap);
        });
        drawn.fillStyle = colour("quiet");
        drawn.textAlign = "right";
        if (tall >= 10) panel.rows.forEach((name, row) => drawn.fillText(name, label - 5, head + (row + 0.5) * tall + 4));
        drawn.textAlign = "center";
        if (head > 2) panel.columns.forEach((name, column) => drawn.fillText(name, label + (column + 0.5) * size, 12, size));
        const words = panel.states.map(([name], state) => [cells.filter((cell) => cell === state).length, name]);
        const said = words.filter(([n, name]) => n && name).map(([n, name]) => `${n} ${name}`).join(", ");
        canvas.setAttribute("aria-label", `${panel.title} of ${lane.name}: ${said}`);
        figure.dataset.said = said;
      },
    };
  };
})();
