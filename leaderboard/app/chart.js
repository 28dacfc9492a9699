"use strict";

// Figures: a chart with a title, a sentence, and the table behind it. Plotly is read when needed.
(() => {
  const { h } = medhelm;
  const live = new Set();
  const CONFIG = {
    displaylogo: false,
    responsive: true,
    showTips: false,
    // Named one by one: whatever else a release of Plotly offers (it has buttons that send the chart
    // to a service of its maker) stays away.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
  };
  const INK = ["text", "faint", "line", "line-strong", "surface", "accent", "second", "third", "plot-grid", "warn", "accent-ink"];

  const PAPER_PX = 960;
  let isPrinting = false;

  // Paper is white whatever the theme, but the page learns of printing before its styles are.
  function colours(more) {
    const root = document.documentElement;
    const chosen = root.getAttribute("data-theme");
    if (isPrinting) root.setAttribute("data-theme", "light");
    const style = getComputedStyle(root);
    const found = Object.fromEntries([...INK, ...more].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    if (isPrinting && chosen) root.setAttribute("data-theme", chosen);
    else if (isPrinting) root.removeAttribute("data-theme");
    return found;
  }

  /** Return a text of the data for a chart, whose labels would else read some tags. Labels of ours use
   * <br> only: bold would be an inline style, which the policy of the page refuses with an error. */
  medhelm.plotText = (text, limit = 60) =>
    medhelm.plain(text, limit).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  const NARROW_PX = 600;

  /** Return whether there is no room for long labels in a chart. */
  medhelm.isNarrow = () => innerWidth < NARROW_PX;

  /** Return a name for the ticks of a chart: on phones its last part, shortened. */
  medhelm.tickText = (name) => (medhelm.isNarrow() ? medhelm.plotText(name.split("/").pop(), 17) : medhelm.plotText(name, 40));

  /** Return an axis with one line for each name, the first at the top; traces have places for values. */
  medhelm.namesAxis = (names) => ({ tickvals: names.map((_, i) => i), ticktext: names.map(medhelm.tickText), range: [names.length - 0.4, -0.6], zeroline: false, fixedrange: true });

  const INKS = ["accent", "second", "third", "text", "warn"];
  const DASHES = ["solid", "dash", "dot"];

  /** Return line and marker of the trace of one of several models: colours return with another dash after the last. */
  medhelm.traceStyle = (ink, place) => {
    const color = ink[INKS[place % INKS.length]];
    return { line: { color, width: 2, dash: DASHES[Math.floor(place / INKS.length) % DASHES.length] }, marker: { color, size: 7 } };
  };

  /** Return the bars of the intervals of a column of a table, for `error_x` or `error_y`. */
  medhelm.errorBars = (table, rows, name, color) => {
    const { low, high } = table.column(name);
    const gap = (row, end) => (table.get(row, end) === null ? 0 : Math.abs(table.get(row, end) - table.get(row, name)));
    return { type: "data", symmetric: false, array: rows.map((row) => gap(row, high)), arrayminus: rows.map((row) => gap(row, low)), color, thickness: 1, width: 3 };
  };

  function axis(ink, given) {
    return { gridcolor: ink["plot-grid"], linecolor: ink.line, zerolinecolor: ink.line, tickcolor: ink.line, automargin: true, ...given, title: { font: { size: 13, color: ink.faint }, standoff: 10, ...given.title } };
  }

  function layout(ink, given) {
    const axes = {};
    for (const name of Object.keys(given)) if (/^[xy]axis\d*$/.test(name)) axes[name] = axis(ink, given[name]);
    return {
      font: { family: "system-ui, sans-serif", size: 13, color: ink.text },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 56, r: 16, t: 16, b: 48 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: ink.faint, activecolor: ink.accent },
      hoverlabel: { bgcolor: ink.surface, bordercolor: ink.line, font: { color: ink.text }, align: "left", namelength: -1 },
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, traceorder: "normal" },
      xaxis: axis(ink, {}),
      yaxis: axis(ink, {}),
      ...given,
      ...axes,
    };
  }

  let library = null;

  // Plotly's maps add a style element as the script runs, which the policy of the page refuses with
  // an error; no chart here needs it, and the page makes none itself.
  async function load() {
    const make = document.createElement;
    document.createElement = (tag, ...rest) => make.call(document, tag === "style" ? "template" : tag, ...rest);
    try {
      await medhelm.loadScript("plotly.min.js");
    } finally {
      delete document.createElement;
    }
  }

  function draw(chart) {
    const ink = colours(chart.inks);
    const { data, layout: given } = chart.plot(ink);
    const size = isPrinting ? { width: PAPER_PX, height: chart.element.clientHeight } : {};
    return Plotly.react(chart.element, data, { ...layout(ink, given), ...size }, CONFIG);
  }

  async function start(chart) {
    try {
      library = library || load();
      await library;
      if (!chart.element.isConnected) return;
      await draw(chart);
      live.add(chart);
      if (chart.click) chart.element.on("plotly_click", (event) => chart.click(event.points[0]));
      chart.element.dataset.drawn = "true";
    } catch (error) {
      chart.element.replaceChildren(h("p", { class: "note" }, `${error.message} The table below holds what it shows.`));
    }
  }

  /** Return ticks 1, 2, 5, 10, ... of a log axis over some values, labelled in USD. */
  medhelm.logTicks = (values) => {
    const [low, high] = [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
    const steps = high - low > 3 ? [1] : [1, 2, 5];
    const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
    const ticks = powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`)));
    return { tickvals: ticks, ticktext: ticks.map((v) => `$${v >= 1 ? v.toLocaleString("en-US") : v}`) };
  };

  /** Return a figure: title, caption, table (a node), height, plot(colours) -> {data, layout}, click(point), inks (names of further colours of the styles). */
  medhelm.figure = (options) => {
    const title = h("h2", { id: medhelm.newId("figure") }, options.title);
    const element = h("div", { class: "plot", role: "group", "aria-label": `Chart: ${title.textContent}. The table below holds what it shows.` });
    element.style.setProperty("height", `${options.height || 420}px`);
    const chart = { element, plot: options.plot, click: options.click, inks: options.inks || [] };
    document.addEventListener("medhelm:placed", () => element.isConnected && start(chart), { once: true });
    return h(
      "figure",
      { class: "chart", "aria-labelledby": title.id },
      title,
      h("figcaption", null, options.caption),
      element,
      options.table ? h("details", { class: "behind" }, h("summary", null, "Table behind the chart"), options.table) : null,
    );
  };

  document.addEventListener("medhelm:leave", () => {
    for (const chart of live) Plotly.purge(chart.element);
    live.clear();
  });
  document.addEventListener("medhelm:theme", () => live.forEach(draw));

  function onPrint(isNow) {
    isPrinting = isNow;
    live.forEach(draw);
  }

  addEventListener("beforeprint", () => onPrint(true));
  addEventListener("afterprint", () => onPrint(false));

  const SCALE = [
    [68, 1, 84], [72, 26, 108], [71, 47, 125], [65, 68, 135], [57, 86, 140], [49, 104, 142], [42, 120, 142], [35, 136, 142],
    [31, 152, 139], [34, 168, 132], [53, 183, 121], [84, 197, 104], [122, 209, 81], [165, 219, 54], [210, 226, 27], [253, 231, 37],
  ];

  function between(share, stops) {
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((v, i) => Math.round(v + (stops[low + 1][i] - v) * (at - low)));
  }

  function luminance(rgb) {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function paint(rgb) {
    const light = luminance(rgb);
    // The ink with the greater contrast; at worst 4.6 to 1.
    const ink = (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000" : "#fff";
    return { background: `rgb(${rgb.join(",")})`, color: ink };
  }

  /** Return background and ink for a value from 0 to 1, on a scale that colour-blind readers see (viridis). */
  medhelm.scaleColour = (share) => paint(between(share, SCALE));

  const BLUE = [[247, 247, 247], [146, 197, 222], [33, 102, 172]];
  const ORANGE = [[247, 247, 247], [253, 184, 99], [179, 88, 6]];

  const AMBER = [[253, 245, 234], [250, 224, 187], [217, 130, 43], [134, 36, 15]];

  /** Return background and ink for an amount from 0 to 1: the darker the more. */
  medhelm.amountColour = (share) => paint(between(share, AMBER));

  /** Return background and ink for a difference from -1 to 1: orange below 0, blue above. */
  medhelm.differenceColour = (share) => paint(between(Math.abs(share), share < 0 ? ORANGE : BLUE));
})();
