"use strict";

// How sure models are of their options, on the page of a benchmark: reliability and abstention.
(() => {
  function byModel(bins, benchmark) {
    const found = new Map();
    for (const row of bins.rows) {
      if (bins.get(row, "benchmark") !== benchmark) continue;
      const model = bins.get(row, "model");
      if (!found.has(model)) found.set(model, []);
      found.get(model).push(row);
    }
    return found;
  }

  function trace(bins, ink, [model, rows], place, x, y) {
    const text = (row, name) => medhelm.valueText(bins.column(name), bins.get(row, name));
    return {
      type: "scatter", mode: "lines+markers", name: medhelm.tickText(model), cliponaxis: false, ...medhelm.traceStyle(ink, place),
      x: rows.map((row) => bins.get(row, x)), y: rows.map((row) => bins.get(row, y)), hoverinfo: "text",
      text: rows.map((row) => `${medhelm.plotText(model)}<br>sure ${text(row, "confidence")}, right ${text(row, "right")} ${medhelm.intervalText(bins, row, bins.column("right"))}<br>n ${medhelm.count(bins.get(row, "n"))}; of the ${text(row, "coverage")} at least as sure ${text(row, "kept")} right`),
    };
  }

  function reliability(bins, models) {
    return (ink) => ({
      data: [
        { type: "scatter", mode: "lines", name: "as sure as right", x: [0, 1], y: [0, 1], hoverinfo: "skip", line: { color: ink["line-strong"], width: 1, dash: "dash" } },
        ...models.map((own, place) => {
          const found = trace(bins, ink, own, place, "confidence", "right");
          return { ...found, error_y: medhelm.errorBars(bins, own[1], "right", found.line.color) };
        }),
      ],
      layout: { xaxis: { title: { text: "confidence: mean probability of the chosen option" }, range: [0, 1] }, yaxis: { title: { text: "share right" }, range: [0, 1] }, hovermode: "closest", margin: { l: 60, r: 24, t: 40, b: 56 } },
    });
  }

  function abstention(bins, models) {
    return (ink) => ({
      data: models.map((own, place) => trace(bins, ink, own, place, "coverage", "kept")),
      layout: { xaxis: { title: { text: "share answered, the surest first" }, range: [0, 1], tickformat: ".0%" }, yaxis: { title: { text: "share right of these" }, range: [0, 1] }, hovermode: "closest", margin: { l: 60, r: 24, t: 40, b: 56 } },
    });
  }

  /** Return the figures of a benchmark's runs that asked for log-probabilities; null where there are none. */
  medhelm.calibrationFigures = async (view, benchmark) => {
    const bins = await medhelm.tableOf(view.scoring, "reliability");
    const models = bins ? [...byModel(bins, benchmark)] : [];
    if (!models.length) return null;
    const rows = models.flatMap(([, own]) => own);
    const table = (key) => medhelm.dataTable(bins, { columns: ["model", "bin", "n", "confidence", "right", "coverage", "kept"], rows, head: "model", view, key, caption: "Confidence and share right by bin", file: `reliability_${benchmark.replace(/\W+/g, "_")}`, unit: "bin" });
    return [
      medhelm.figure({
        title: "How sure models are, and how often right", height: 440, plot: reliability(bins, models), table: table("reliability"),
        caption: "Answers by the probability that the model gives to the option it chooses, in bins of as many answers each, with the interval of the share right. Below the dashed line a model is surer than it may be.",
      }),
      medhelm.figure({
        title: "Where the less sure answers are withheld", height: 400, plot: abstention(bins, models), table: table("abstention"),
        caption: "The share right of the answers that are left, from all of them (right end) to the surest bin. A model whose confidence tells nothing has a level line.",
      }),
    ];
  };
})();
