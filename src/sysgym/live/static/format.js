"use strict";

/** Parts of the page; the scripts of this folder add to it, in the order in which the page has them. */
const Live = {};

/** Texts of numbers with their units, and small helpers. */
(() => {
  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const TIMES = [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

  function digits(value, n = 3) {
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value)));
    const text = value.toFixed(Math.min(Math.max(n - 1 - size, 0), 6));
    return Number(text) === 0 ? "0" : text;
  }

  /** The unit of times up to an end: seconds and name. */
  function timeUnit(end) {
    return TIMES.find(([least]) => end >= 2 * least) || TIMES[TIMES.length - 1];
  }

  /** Distances between ticks, in growing order, that are round numbers of a unit. */
  function steps(unit, least = -12) {
    const powers = Array.from({ length: 16 - least }, (_, i) => 10 ** (least + i));
    return powers.flatMap((power) => [1, 2, 5].map((m) => Number((m * power * unit).toPrecision(12))));
  }

  /** A number with its unit: "97.5 kB", "9.41 Gbit/s", "312 µs", "48". */
  function amount(value, unit = "") {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (unit === "s") {
      const [scale, name] = TIMES.find(([least]) => size >= least) || TIMES[TIMES.length - 1];
      return size === 0 ? "0 s" : `${digits(value / scale)} ${name}`;
    }
    if (unit === "bytes" || unit === "bit/s") {
      const [scale, prefix] = PREFIXES.find(([least]) => size >= least) || [1, ""];
      return `${digits(value / scale)} ${prefix}${unit === "bytes" ? "B" : unit}`;
    }
    const number = Number.isInteger(value) ? (value || 0).toLocaleString("en") : digits(value); // -0 is 0
    return unit === "x" ? `${number}×` : unit ? `${number} ${unit}` : number;
  }

  /** A time of the scene, all with the unit that fits its end. */
  function moment(time, scene) {
    if (scene.time_unit !== "s") return `${scene.time_unit.replace(/s$/, "")} ${Math.round(time)}`;
    const [scale, name] = timeUnit(scene.end);
    return `${(time / scale).toFixed(scene.end / scale >= 100 ? 1 : 2)} ${name}`;
  }

  /** The same for a tick, whose round number needs no zeros. */
  function tickMoment(time, scene) {
    const [scale, name] = timeUnit(scene.end);
    return `${Number((time / scale).toPrecision(4))} ${name}`;
  }

  /** An element with attributes and children; texts stay texts. */
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") made.textContent = value;
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  /** A colour of the style sheet. */
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;

  // From faint to strong, monotone in lightness, so that they can be told apart in grey too.
  const LIGHT_RAMP = [[221, 226, 231], [252, 205, 120], [241, 140, 44], [196, 66, 16], [110, 12, 20]];
  const DARK_RAMP = [[52, 60, 69], [110, 48, 38], [200, 78, 30], [250, 160, 60], [255, 240, 170]];

  /** The colour of a share from 0 to 1. */
  function ramp(share) {
    const stops = dark() ? DARK_RAMP : LIGHT_RAMP;
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    const part = place - below;
    return `rgb(${stops[below].map((one, i) => Math.round(one + (stops[below + 1][i] - one) * part)).join(" ")})`;
  }

  function rampGradient() {
    return `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(ramp).join(", ")})`;
  }

  /** A canvas for a width of the page and a height, sharp on every screen; returns its context. */
  function prepare(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  Object.assign(Live, { amount, moment, tickMoment, timeUnit, steps, element, colour, dark, ramp, rampGradient, prepare });
})();
