// Draws the charts of a run and keeps zoom, pan and hidden lines while points arrive. Each message holds the new points
// of every line and how many points come before them; when a message does not fit, the whole set is asked for.

function loadPlotly(address) {
  if (window.Plotly) return Promise.resolve();
  window.digitLabPlotly ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = done;
    script.onerror = () => { window.digitLabPlotly = undefined; failed(new Error(address)); };
    document.head.append(script);
  });
  return window.digitLabPlotly;
}

// Takes a message into the points that are here already. False when something in between is missing.
function merge(live, message) {
  if (message.complete) live.points = new Map();
  else if (live.token !== message.token) return false;
  for (const chart of message.charts)
    for (const line of chart.lines) {
      const key = chart.id + "/" + line.name;
      const points = live.points.get(key) ?? { x: [], y: [] };
      if (line.first > points.x.length) return false;
      for (const axis of ["x", "y"]) {
        points[axis].length = line.first;
        for (const value of line[axis]) points[axis].push(value);
      }
      live.points.set(key, points);
    }
  live.token = message.token;
  live.charts = message.charts;
  live.uirevision = message.uirevision;
  live.config = message.config;
  return true;
}

function colors(element) {
  const style = getComputedStyle(element);
  return { text: style.color, font: style.fontFamily };
}

function faded(color, share) {
  const parts = color.match(/[\d.]+/g) ?? ["128", "128", "128"];
  return `rgba(${parts.slice(0, 3).join(",")},${share})`;
}

function draw(live, chart, element) {
  const { text, font } = colors(live.host);
  const grid = faded(text, 0.14), y = { title: { text: chart.y_title, standoff: 6 }, gridcolor: grid, zerolinecolor: grid,
    type: chart.log ? "log" : "linear", rangemode: chart.from_zero ? "tozero" : "normal", automargin: true };
  // Without it a constant 0.01 is drawn on an axis from -1 to 1.
  if (chart.from_zero) y.autorangeoptions = { include: 0 };
  if (chart.y_format) y.tickformat = chart.y_format;
  // Where there is little room the thin line has no entry of its own: three entries would take three rows.
  const narrow = element.clientWidth < 400;
  const traces = chart.lines.map((line) => {
    const points = live.points.get(chart.id + "/" + line.name);
    return { type: "scatter", uid: line.name.replace(/\W/g, ""), name: line.name, x: points.x.slice(), y: points.y.slice(),
      mode: line.mode === "lines" && points.x.length < 3 ? "lines+markers" : line.mode,  // one point is no line
      line: { color: line.color, dash: line.dash, width: line.width },
      marker: { color: line.color, symbol: line.symbol, size: line.mode === "markers" ? 10 : 6 },
      hovertemplate: line.hover, showlegend: !(narrow && line.width < 1.5) };
  });
  if (chart.log) placeZeros(traces);
  const layout = {
    height: element.clientHeight,
    margin: { l: 56, r: 12, t: 8, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, family: font, size: 12 }, hovermode: "x unified", showlegend: traces.length > 1,
    hoverlabel: { bgcolor: live.background, font: { color: text } },
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)" },  // in a row it would cover the legend
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    xaxis: { title: { text: chart.x_title, standoff: 6 }, gridcolor: grid, zerolinecolor: grid },
    yaxis: y, uirevision: live.uirevision + (chart.log ? "/log" : ""),
  };
  if (traces.length > 1) layout.margin.t = 28;
  if (chart.mark) {
    const [at, words] = chart.mark;
    layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, layer: "below",
      line: { dash: "dash", width: 1, color: faded(text, 0.5) } }];
    layout.annotations = [{ xref: "paper", x: 1, xanchor: "right", y: chart.log ? Math.log10(at) : at, yanchor: "bottom",
      text: words, showarrow: false, font: { size: 11, color: faded(text, 0.75) } }];
  }
  if (live.at) {
    layout.shapes = [...(layout.shapes ?? []), { type: "line", yref: "paper", x0: live.at.x, x1: live.at.x, y0: 0, y1: 1,
      line: { dash: "dot", width: 2, color: faded(text, 0.7) } }];
    layout.annotations = [...(layout.annotations ?? []), { x: live.at.x, yref: "paper", y: 0, yanchor: "bottom", xanchor: "left",
      text: live.at.words, showarrow: false, font: { size: 11, color: faded(text, 0.85) } }];
  }
  window.Plotly.react(element, traces, layout, { responsive: true, ...live.config });
}

// A logarithmic axis has no place for 0: such points lie at the lower edge, each with a mark (as in run_figures.py).
function placeZeros(traces) {
  const positive = traces.flatMap((trace) => trace.y.filter((value) => value > 0));
  const edge = positive.length ? positive.reduce((least, value) => Math.min(least, value)) / 2 : 1e-6, places = [];
  for (const trace of traces)
    trace.y = trace.y.map((value, place) => {
      if (value === null || value > 0) return value;
      places.push(trace.x[place]);
      return edge;
    });
  if (places.length)
    traces.push({ type: "scatter", uid: "edge", name: "0, at the lower edge", x: places, y: places.map(() => edge),
      mode: "markers", marker: { symbol: "triangle-down", color: "#d1495b", size: 9 }, hovertemplate: "0" });
}

// Draws only what a person can see; the rest waits until it comes into view.
// Drawing takes at most a quarter of the browser's time: on a slow machine it would take it from the training.
function drawVisible(live) {
  const began = performance.now();
  if (!window.Plotly || document.hidden || began < live.notBefore) return;
  const { text } = colors(live.host);
  live.background = getComputedStyle(live.host).getPropertyValue("--st-background-color") || "#fff";
  live.drawnText = text;
  for (const chart of live.charts) {
    const figure = live.figures.get(chart.id);
    // A chart that is being dragged is left alone: redrawing it would end the drag. The timer comes back to it.
    if (!figure.visible || figure.drawn === live.version || figure.plot._dragging) continue;
    figure.words.textContent = chart.title;
    figure.note.textContent = chart.note;
    figure.plot.setAttribute("aria-label", chart.alt);
    draw(live, chart, figure.plot);
    figure.drawn = live.version;
  }
  const ended = performance.now();
  live.notBefore = ended + 3 * (ended - began);
}

// A run that trains is heard of every few seconds. When nothing comes, the connection or the server stands still, not the run.
function tellSilence(live) {
  const silent = live.expects ? Math.round((performance.now() - live.heardAt) / 1000) : 0;
  live.silence.textContent = silent > live.expects ? `No news for ${silent} s: the connection or the server stands still.` : "";
}

// The browser's tab says how the run stands, and a notice says when it has ended to whoever looks elsewhere and has asked for it.
function tellOutside(live, told) {
  document.title = told.title;
  if (live.told?.active && !told.active && live.told.run === told.run && document.hidden && wantsNotice() === "granted")
    new Notification(told.title, { body: told.words });
  live.told = told;
  if (live.bell) live.bell.hidden = !told.active || wantsNotice() !== "default";
}

function wantsNotice() {
  return window.Notification?.permission ?? "denied";
}

function makeBell(live) {
  live.bell = document.createElement("button");
  live.bell.type = "button";
  live.bell.textContent = "notifications";
  live.bell.className = "icon";
  live.bell.title = "Tell me when this run ends, while I look elsewhere";
  live.bell.setAttribute("aria-label", live.bell.title);
  live.bell.onclick = () => Notification.requestPermission().then(() => { live.bell.hidden = true; });
  live.bell.hidden = true;
  return live.bell;
}

function makeFigures(live) {
  for (const chart of live.charts) {
    if (live.figures.has(chart.id)) continue;
    const box = document.createElement("figure"), title = document.createElement("figcaption");
    const note = document.createElement("small"), plot = document.createElement("div");
    const words = document.createElement("span"), large = document.createElement("button");
    title.className = "title";
    large.type = "button";
    large.textContent = "open_in_full";
    large.className = "icon";
    large.title = "Enlarge this chart, or make it small again";
    large.setAttribute("aria-label", large.title);
    large.setAttribute("aria-expanded", "false");
    large.onclick = () => {
      large.setAttribute("aria-expanded", box.classList.toggle("large"));
      live.notBefore = 0;
      live.version += 1;  // the height is another one
      drawVisible(live);
      window.Plotly?.Plots.resize(plot);
    };
    const buttons = document.createElement("span");
    if (!live.bell) buttons.append(makeBell(live));
    buttons.append(large);
    title.append(words, buttons);
    plot.className = "plot";
    plot.setAttribute("role", "img");
    plot.dataset.chart = chart.id;
    box.append(title, plot, note);
    live.host.append(box);
    const figure = { words, note, plot, visible: false, drawn: -1 };
    live.figures.set(chart.id, figure);
    live.observer.observe(plot);
    plot.owner = figure;
  }
}

function start(host) {
  const live = { host, points: new Map(), charts: [], figures: new Map(), token: null, version: 0, asked: null, notBefore: 0 };
  live.silence = document.createElement("div");
  live.silence.className = "digit-lab-silence";
  live.silence.setAttribute("role", "status");
  host.before(live.silence);
  live.observer = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.target.owner.visible = entry.isIntersecting;
    drawVisible(live);
  }, { rootMargin: "200px" });
  // A hidden tab's timers stand still: what was not heard meanwhile is no silence.
  live.onVisible = () => { live.heardAt = performance.now(); drawVisible(live); };
  document.addEventListener("visibilitychange", live.onVisible);
  live.timer = setInterval(() => {
    if (!host.isConnected) end(live);
    // A change of theme changes the text colour and sends no message.
    else if (live.charts.length) {
      tellSilence(live);
      if (colors(host).text !== live.drawnText) live.version += 1;
      drawVisible(live);
    }
  }, 500);
  return live;
}

// Not given to Streamlit as a clean-up function: 1.67 calls that one also when a second message overtakes the first.
function end(live) {
  clearInterval(live.timer);
  live.observer.disconnect();
  document.removeEventListener("visibilitychange", live.onVisible);
  if (window.Plotly) for (const figure of live.figures.values()) window.Plotly.purge(figure.plot);
  live.silence.remove();
  document.title = "Digit Lab";
  live.host.replaceChildren();
  live.host.digitLab = undefined;
}

// One complete figure, redrawn in place: the browser then needs one copy of plotly.js for the whole page.
function drawFigure(data, host) {
  const { text, font } = colors(host), figure = JSON.parse(data.figure), grid = faded(text, 0.14);
  const axis = (given) => ({ gridcolor: grid, zerolinecolor: grid, ...given });
  const layout = { ...figure.layout, template: null, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, family: font, size: 12 } };
  layout.xaxis = axis(layout.xaxis);
  layout.yaxis = axis(layout.yaxis);
  for (const [name, value] of Object.entries(layout)) if (/^[xy]axis\d+$/.test(name)) layout[name] = axis(value);
  for (const menu of layout.updatemenus ?? []) Object.assign(menu, { bgcolor: faded(text, 0.1), bordercolor: faded(text, 0.3) });
  for (const slider of layout.sliders ?? []) slider.bordercolor = slider.tickcolor = faded(text, 0.3);
  const traces = [...figure.data, ...(figure.frames ?? []).flatMap((frame) => frame.data)];
  for (const trace of traces) if (trace.meta === "page-text") trace.textfont = { ...trace.textfont, color: text };
  const config = { responsive: true, displayModeBar: false };
  window.Plotly.react(host, { data: figure.data, layout, frames: figure.frames, config });
  host.drawnText = text;
  host.timer ??= setInterval(() => {
    if (!host.isConnected) { clearInterval(host.timer); window.Plotly.purge(host); }
    else if (colors(host).text !== host.drawnText) host.redraw();
  }, 500);
  host.redraw = () => drawFigure(data, host);
}

export default function ({ data, parentElement, setTriggerValue, setStateValue }) {
  const host = parentElement.querySelector(".digit-lab-charts, .digit-lab-figure");
  if (data.figure) {
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", data.alt);
    host.clicked = (event) => setTriggerValue("clicked", event.points[0].id ?? event.points[0].x);
    loadPlotly(data.plotly).then(() => {
      drawFigure(data, host);
      if (!data.clicks || host.listens) return;
      host.listens = true;
      host.on("plotly_click", (event) => host.clicked(event));
    }, () => setStateValue("failed", true));
    return;
  }
  const live = (host.digitLab ??= start(host));
  if (data.id !== live.lastMessage) {
    live.lastMessage = data.id;
    live.heardAt = performance.now();
    live.expects = data.expects;
    live.at = data.at;
    tellOutside(live, data.told);
    if (merge(live, data)) {
      live.asked = null;
      live.version += 1;
      makeFigures(live);
    } else if (live.asked !== data.token || performance.now() > live.askedAt + 2000) {
      live.asked = data.token;
      live.askedAt = performance.now();
      setTriggerValue("resend", data.id);
    }
  }
  loadPlotly(data.plotly).then(() => drawVisible(live), () => setStateValue("failed", true));
}
