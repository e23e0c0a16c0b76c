// The training loop beside its curves: pointing at a line lights up all lines that do the same and the charts they feed, and
// says what they caused; pointing at a chart lights up the lines that feed it.

function build(panel, data) {
  panel.lines.replaceChildren();
  panel.version = data.version;
  for (const { html, does } of data.lines) {
    const line = document.createElement("div"), share = document.createElement("span"), code = document.createElement("code");
    line.className = "line";
    share.className = "share";
    // Two characters for each level, and what does not fit goes on a little further in than where it began.
    const indent = html.length - html.trimStart().length;
    code.innerHTML = html.trimStart() || "&nbsp;";
    code.style.paddingLeft = `${indent / 2 + 3}ch`;
    code.style.textIndent = "-2ch";
    if (does) {
      line.dataset.does = does;
      line.tabIndex = 0;
      line.onmouseenter = line.onfocus = () => light(panel, [does]);
    }
    line.append(share, code);
    panel.lines.append(line);
  }
  panel.lines.onmouseleave = () => light(panel, []);
}

function update(panel, facts) {
  panel.facts = facts;
  const first = new Set();
  for (const line of panel.lines.children) {
    const does = line.dataset.does, fact = facts[does], share = line.firstChild;
    // The share stands at the first line that does it: twice the same number would look like twice the time.
    const shown = fact && fact.share !== null && !first.has(does);
    if (does) first.add(does);
    share.textContent = shown ? `${(100 * fact.share).toFixed(fact.share < 0.1 ? 1 : 0)} %` : "";
    share.style.setProperty("--share", shown ? fact.share : 0);
    line.title = fact?.words ?? "";
  }
  if (panel.lit?.length) tell(panel);
}

function light(panel, kinds) {
  panel.lit = kinds;
  for (const line of panel.lines.children) line.classList.toggle("lit", kinds.includes(line.dataset.does));
  const charts = new Set(kinds.flatMap((does) => panel.facts?.[does]?.charts ?? []));
  for (const plot of document.querySelectorAll("[data-chart]"))
    plot.closest("figure").classList.toggle("lit", panel.byChart ? false : charts.has(plot.dataset.chart));
  tell(panel);
}

function tell(panel) {
  const fact = panel.lit.length === 1 ? panel.facts?.[panel.lit[0]] : null;
  panel.words.textContent = fact ? fact.words : "Point at a line, or at a chart.";
}

function start(host) {
  const panel = { host, lines: host.querySelector(".lines"), words: host.querySelector(".words") };
  const charts = (event) => event.target.closest?.(".digit-lab-charts figure")?.querySelector("[data-chart]")?.dataset.chart;
  panel.over = (event) => {
    const chart = charts(event);
    if (chart === panel.chart) return;
    panel.chart = chart;
    panel.byChart = true;
    light(panel, chart ? Object.keys(panel.facts ?? {}).filter((does) => panel.facts[does].charts.includes(chart)) : []);
    panel.byChart = false;
  };
  document.addEventListener("mouseover", panel.over);
  panel.timer = setInterval(() => {
    if (host.isConnected) return;
    clearInterval(panel.timer);
    document.removeEventListener("mouseover", panel.over);
    for (const figure of document.querySelectorAll(".digit-lab-charts figure.lit")) figure.classList.remove("lit");
  }, 1000);
  return panel;
}

export default function ({ data, parentElement }) {
  const host = parentElement.querySelector(".digit-lab-code");
  const panel = (host.digitLab ??= start(host));
  if (panel.version !== data.version) build(panel, data);
  update(panel, data.facts);
}
