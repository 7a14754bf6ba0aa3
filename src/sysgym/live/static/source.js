"use strict";

/** Where frames come from: a server that simulates, or the recording in the page. */
(() => {
  const LONGEST_PAUSE_MS = 4000;

  /** Unpack the recording of an exported page: see `packed` in export.py. */
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const data = JSON.parse(await new Response(stream).text());
    const sums = (differences) => {
      let sum = 0;
      return differences.map((one) => (sum += one));
    };
    const lanes = data.lanes.map((lane) => {
      const columns = Object.entries(lane.values).map(([key, column]) => {
        if (column.whole) return [key, sums(column.whole)];
        if (column.any) return [key, column.any];
        const wholes = column.wholes.map(sums);
        return [key, data.times.map((_, n) => wholes.map((one) => one[n]))];
      });
      return data.times.map((_, n) => ({
        values: Object.fromEntries(columns.map(([key, column]) => [key, column[n]])),
        events: lane.events[n],
      }));
    });
    const frames = data.times.map((t, n) => ({ n, t, lanes: lanes.map((lane) => lane[n]), changes: data.changes[n] }));
    return { header: data.header, frames };
  }

  /** Connect to the server, again when the connection is lost. */
  function connect(receive) {
    let socket = null;
    let pause = 250;
    const open = () => {
      socket = new WebSocket(`ws://${location.host}/live`);
      socket.addEventListener("open", () => { pause = 250; });
      socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
      socket.addEventListener("close", () => {
        receive({ lost: true });
        setTimeout(open, pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      });
    };
    open();
    return (command) => {
      if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(command));
    };
  }

  Object.assign(Live, { unpack, connect });
})();
