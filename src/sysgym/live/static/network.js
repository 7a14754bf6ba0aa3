"use strict";

/**
 * Picture of a network: links coloured by use, and in each switch a bar for the queue of every port.
 *
 * A switch is a box as wide as its ports. Ports to nodes below are in its lower half, the others in its upper
 * half, each in the order of what they lead to, so that links cross little.
 */
Live.panels.network = (panel, scene, lane) => {
  const { element, colour, ramp } = Live;
  const canvas = element("canvas", { role: "img", tabindex: "-1" });
  const caption = element("figcaption", {});
  const figure = element("figure", {}, canvas, legend(), caption);
  const isHost = panel.nodes.map((node) => node[3] === "host");
  const tiers = Math.max(...panel.nodes.map((node) => node[2])) + 1;
  const names = panel.links.map(([a, b]) => `${panel.nodes[a][0]} → ${panel.nodes[b][0]}`);
  let places = null;
  let width = 0;
  let captioned = 0;

  function legend() {
    const scale = element("span", { class: "scale" });
    scale.style.background = Live.rampGradient();
    const bar = element("span", { class: "key" });
    bar.style.background = "var(--queue)";
    const drop = element("span", { class: "key" });
    drop.style.background = "var(--bad)";
    const use = element("span", {}, scale, "link use 0 to 100 %");
    if (!panel.queue_full) return element("p", { class: "legend" }, use);
    return element("p", { class: "legend" }, use,
      element("span", {}, bar, `queue of a port (full: ${panel.queue_full})`),
      element("span", {}, drop, "port drops packets"));
  }

  // Where all ports lead downwards, they have the whole box.
  const boxHeight = (nUpper) => (nUpper ? 52 : 62);
  const height = () => 60 + 110 * (tiers - 1);

  /** Positions of nodes, ports and ends of links for the present width. */
  function layout() {
    const margin = Math.max(18, Math.min(28, width / 36));
    const h = height();
    const y = (tier) => h - 24 - (tier / Math.max(tiers - 1, 1)) * (h - 76);
    const x = (share) => margin + share * (width - 2 * margin);
    const nodes = panel.nodes.map(([, px, tier]) => ({ x: x(px), y: y(tier), tier }));
    const below = panel.nodes.map(() => []);
    const above = panel.nodes.map(() => []);
    const side = panel.nodes.map(() => [[], []]);
    panel.links.forEach(([a, b], link) => {
      if (isHost[a]) return;
      if (nodes[b].tier < nodes[a].tier) below[a].push(link);
      else if (nodes[b].tier > nodes[a].tier) above[a].push(link);
      else side[a][nodes[b].x > nodes[a].x ? 1 : 0].push(link);
    });
    const ports = panel.links.map(() => null);
    const boxes = panel.nodes.map((_, node) => {
      if (isHost[node]) return null;
      const byTarget = (p, q) => nodes[panel.links[p][1]].x - nodes[panel.links[q][1]].x;
      const upper = [...side[node][0], ...above[node].sort(byTarget), ...side[node][1]];
      const lower = below[node].sort(byTarget);
      const siblings = nodes.filter((other, i) => !isHost[i] && other.tier === nodes[node].tier).length;
      const room = (width - 2 * margin) / siblings - 10;
      const most = Math.max(upper.length, lower.length, 1);
      const pitch = Math.min(Math.max(room / most, 1.5), 24);
      const box = { w: Math.max(pitch * most + 8, 18), h: boxHeight(upper.length) };
      if (siblings === 1 && lower.length > 8) box.w = width - 2 * margin + 26;
      box.x = Math.min(Math.max(nodes[node].x - box.w / 2, 2), width - box.w - 2);
      box.y = nodes[node].y - box.h / 2;
      for (const [list, half] of [[upper, 0], [lower, 1]]) {
        const step = (box.w - 8) / Math.max(list.length, 1);
        list.forEach((link, i) => {
          const middle = siblings === 1 && lower.length > 8 && half === 1
            ? Math.min(Math.max(nodes[panel.links[link][1]].x, box.x + 10), box.x + box.w - 10)
            : box.x + 4 + (i + 0.5) * step;
          const single = !upper.length || !lower.length;
          const room = (single ? box.h : box.h / 2) - 5;
          const foot = box.y + (half || single ? box.h - 3 : box.h / 2 - 1);
          ports[link] = { x: middle, w: Math.max(Math.min(step * 0.72, 14), 1.2), room, foot };
        });
      }
      return box;
    });
    const ends = panel.links.map(([a, b], link) => {
      const reverse = panel.links.findIndex(([c, d]) => c === b && d === a);
      const from = end(a, link, nodes, boxes, ports, b);
      const to = end(b, reverse, nodes, boxes, ports, a);
      const [dx, dy] = [to.x - from.x, to.y - from.y];
      const far = Math.hypot(dx, dy) || 1;
      const gap = boxes.length > 60 ? 1 : 2;
      return [from.x - (dy / far) * gap, from.y + (dx / far) * gap, to.x - (dy / far) * gap, to.y + (dx / far) * gap];
    });
    places = { nodes, boxes, ports, ends, hosts: isHost.filter(Boolean).length };
  }

  function end(node, port, nodes, boxes, ports, other) {
    if (isHost[node]) return { x: nodes[node].x, y: nodes[node].y - 5 };
    const box = boxes[node];
    const place = port >= 0 ? ports[port] : null;
    if (nodes[other].tier === nodes[node].tier) {
      return { x: nodes[other].x > nodes[node].x ? box.x + box.w : box.x, y: box.y + box.h / 4 };
    }
    return { x: place ? place.x : nodes[node].x, y: nodes[other].tier < nodes[node].tier ? box.y + box.h : box.y };
  }

  function draw(values, events) {
    const wanted = figure.clientWidth || 600;
    if (!places || wanted !== width) {
      width = wanted;
      layout();
    }
    const use = values[panel.key];
    const queue = values[`${panel.key}_queue`];
    const context = Live.prepare(canvas, width, height());
    const dropping = new Set(events.filter(([kind]) => kind === "drop").map(([, place]) => place));
    const chosen = Live.chosenLink();
    context.lineCap = "round";
    // The busiest links last, on top of the others.
    const order = use.map((_, link) => link).sort((p, q) => use[p] - use[q]);
    const thin = panel.links.length > 200 ? 0.6 : 1;
    for (const link of order) {
      const [x0, y0, x1, y1] = places.ends[link];
      context.strokeStyle = ramp(use[link] / 100);
      context.lineWidth = thin * (1.2 + (use[link] / 100) * 2.6) + (link === chosen ? 2.5 : 0);
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    }
    drawNodes(context, queue, dropping, chosen);
    const busiest = use.reduce((best, one, link) => (one > use[best] ? link : best), 0);
    const longest = queue.reduce((best, one, link) => (one > queue[best] ? link : best), 0);
    const ofQueue = panel.queue_full ? ` Longest queue: ${names[longest]}, ${queue[longest]} % full.` : "";
    const words = `Busiest link: ${names[busiest]}, ${use[busiest]} %.${ofQueue}`;
    canvas.setAttribute("aria-label", `Network of ${lane.name}. ${words}`);
    const now = performance.now();
    if (now - captioned > 250 || document.body.dataset.state !== "playing") {
      caption.textContent = words; // at a pace that can be read
      captioned = now;
    }
    Object.assign(figure.dataset, {
      use: String(use[busiest]), busiest: names[busiest], queue: String(queue[longest]), dropping: String(dropping.size),
    });
  }

  /** A name that links behind it do not hide. */
  function halo(context, text, x, y, paper) {
    const fill = context.fillStyle;
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = paper;
    context.strokeText(text, x, y);
    context.fillStyle = fill;
    context.fillText(text, x, y);
  }

  function drawNodes(context, queue, dropping, chosen) {
    const [ink, paper, rule] = [colour("ink"), colour("paper"), colour("quiet")];
    const [blue, bad, idle] = [colour("queue"), colour("bad"), colour("idle")];
    context.font = "11px system-ui, sans-serif";
    const widest = Math.max(...panel.nodes.map(([name], node) => (isHost[node] ? context.measureText(name).width : 0)));
    const allNamed = (width - 50) / Math.max(places.hosts - 1, 1) > widest + 2;
    panel.nodes.forEach(([name], node) => {
      const { x, y } = places.nodes[node];
      const box = places.boxes[node];
      context.fillStyle = isHost[node] ? ink : paper;
      context.strokeStyle = rule;
      context.lineWidth = 1;
      context.beginPath();
      if (box) context.roundRect(box.x, box.y, box.w, box.h, 6);
      else context.arc(x, y, places.hosts > 64 ? 1.8 : places.hosts > 20 ? 3 : 4.5, 0, 7);
      context.fill();
      if (box) context.stroke();
      context.textAlign = "center";
      context.fillStyle = rule;
      if (isHost[node] && (allNamed || node === 0 || node === places.hosts - 1)) {
        const half = context.measureText(name).width / 2;
        context.fillText(name, Math.min(Math.max(x, half), width - half), y + 17);
      }
      if (box && box.w > context.measureText(name).width && places.nodes.length <= 80) {
        context.textAlign = "left";
        halo(context, name, box.x + 1, box.y - 4, paper);
      }
    });
    places.ports.forEach((port, link) => {
      if (!port) return;
      const { room, foot } = port;
      const tall = Math.max((queue[link] / 100) * room, queue[link] > 0 ? 1 : 0);
      context.fillStyle = idle;
      context.fillRect(port.x - port.w / 2, foot - room, port.w, room);
      context.fillStyle = dropping.has(link) ? bad : blue;
      context.fillRect(port.x - port.w / 2, foot - tall, port.w, tall);
      if (dropping.has(link)) context.fillRect(port.x - port.w / 2, foot - room, port.w, room);
      if (link === chosen) {
        context.strokeStyle = ink;
        context.lineWidth = 1.5;
        context.strokeRect(port.x - port.w / 2 - 1.5, foot - room - 1.5, port.w + 3, room + 3);
      }
    });
  }

  /** The link whose port or line is nearest to a point of the picture. */
  function linkAt(px, py) {
    let [best, least] = [-1, 14];
    places.ports.forEach((port, link) => {
      if (!port) return;
      const y = port.foot - port.room / 2;
      const far = Math.max(Math.abs(px - port.x) - port.w / 2, 0) + Math.max(Math.abs(py - y) - port.room / 2, 0);
      if (far < least) [best, least] = [link, far];
    });
    places.ends.forEach(([x0, y0, x1, y1], link) => {
      const [dx, dy] = [x1 - x0, y1 - y0];
      const part = Math.min(Math.max(((px - x0) * dx + (py - y0) * dy) / (dx * dx + dy * dy || 1), 0), 1);
      const far = Math.hypot(px - x0 - part * dx, py - y0 - part * dy);
      if (far < least) [best, least] = [link, far];
    });
    return best;
  }

  canvas.addEventListener("click", (event) => {
    const frame = canvas.getBoundingClientRect();
    const link = linkAt(event.clientX - frame.left, event.clientY - frame.top);
    if (link >= 0) Live.chooseLink(link);
  });
  return { element: figure, draw };
};
