"use strict";

// What the benchmarks can tell apart: MDE, every two models, and where in the ranking each may stand.
(() => {
  const { h } = medhelm;

  /** Return the models of a scoring in the order of the ranking over all benchmarks. */
  async function order(view) {
    const whole = medhelm.site.views.find((v) => v.scoring === view.scoring && !v.suite && !v.access && !v.category);
    if (!whole) return [];
    const table = medhelm.reader((await medhelm.load(whole.key)).half);
    return table.rows.map((row) => table.get(row, "model"));
  }

  function title(benchmark) {
    const line = medhelm.benchmarks.get(benchmark);
    return line ? line.title : benchmark;
  }

  function ranked(scores) {
    const found = new Map();
    for (const row of scores.rows) {
      if (!scores.get(row, "is_main") || scores.get(row, "status") !== "ranked" || scores.get(row, "normalised") === null) continue;
      const name = scores.get(row, "benchmark");
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(row);
    }
    return found;
  }

  // The place of a point is the distance of two scores; as numbers only the scores are shown.
  function gaps(scores, rows) {
    const text = (row) => `${medhelm.plotText(scores.get(row, "model"), 40)} ${medhelm.valueText(scores.column("normalised"), scores.get(row, "normalised"))}`;
    return rows.flatMap((one, place) => rows.slice(place + 1).map((other) => [Math.abs(scores.get(one, "normalised") - scores.get(other, "normalised")), `${text(one)}<br>${text(other)}`]));
  }

  function observed(scores, benchmarks) {
    const found = ranked(scores);
    const points = benchmarks.flatMap((name, place) => gaps(scores, found.get(name) || []).map(([gap, text]) => ({ gap, text: `${medhelm.plotText(title(name))}<br>${text}`, place })));
    return points;
  }

  function mdePlot(mde, scores) {
    const rows = [...mde.rows].filter((row) => mde.get(row, "mde") !== null).sort((a, b) => mde.get(a, "mde") - mde.get(b, "mde"));
    const names = rows.map((row) => mde.get(row, "benchmark"));
    const points = observed(scores, names);
    const places = rows.map((_, i) => i);
    const text = (row, name) => medhelm.valueText(mde.column(name), mde.get(row, name));
    return (ink) => ({
      data: [
        { type: "scatter", mode: "markers", name: "difference of two models", cliponaxis: false, x: points.map((p) => p.gap), y: points.map((p) => p.place), text: points.map((p) => p.text), hoverinfo: "text", marker: { size: 7, color: ink.accent, opacity: 0.45 } },
        { type: "scatter", mode: "markers", name: "MDE", x: rows.map((row) => mde.get(row, "mde")), y: places, text: rows.map((row) => `${medhelm.plotText(title(mde.get(row, "benchmark")))}<br>MDE ${text(row, "mde")}, SD ${text(row, "mde_sd")}<br>median ${text(row, "mde_median")}, n ${medhelm.count(mde.get(row, "n"))}`), hoverinfo: "text",
          marker: { symbol: "line-ns", size: 16, color: ink.second, line: { color: ink.second, width: 3 } } },
        { type: "scatter", mode: "markers", name: "MDE, clustered", x: rows.map((row) => mde.get(row, "mde_clustered")), y: places, text: rows.map((row) => `${medhelm.plotText(title(mde.get(row, "benchmark")))}: clustered MDE ${text(row, "mde_clustered")}`), hoverinfo: "text", marker: { symbol: "diamond-open", size: 10, color: ink.third, line: { width: 2 } } },
      ],
      layout: {
        xaxis: { title: { text: "difference of normalised scores" }, rangemode: "tozero" },
        yaxis: medhelm.namesAxis(names.map(title)),
        hovermode: "closest", margin: { l: 60, r: 24, t: 40, b: 56 },
      },
    });
  }

  function mdeTable(view, mde) {
    return medhelm.dataTable(mde, {
      columns: [
        { name: "benchmark", cell: (row) => medhelm.link(medhelm.benchmarkHash(view, mde.get(row, "benchmark")), null, medhelm.name(title(mde.get(row, "benchmark")))) },
        "metric", "n", { name: "clusters", heading: "clusters" }, "pairs", "mde", "mde_sd", "mde_median", { name: "mde_clustered", missing: "instances are independent, or the metric is no mean" }, "method",
      ],
      head: "benchmark", view, key: "mde", sort: "mde", caption: "Minimum detectable effect by benchmark", file: "mde", unit: "benchmark",
    });
  }

  function mdeSection(view, mde, scores) {
    if (!mde || !scores) return null;
    if (!mde.rows.some((row) => mde.get(row, "mde") !== null)) return [h("h2", null, "Minimum detectable effect"), medhelm.nothing("It needs two ranked models and two instances in common."), mdeTable(view, mde)];
    const power = 1 - mde.settings.get("mde_beta");
    return medhelm.figure({
      title: "Minimum detectable effect beside the observed differences",
      caption: `Each point is the distance of two ranked models on a benchmark; left of the bar (the MDE: two-sided alpha ${medhelm.number(mde.settings.get("mde_alpha"), 2)}, power ${medhelm.number(power, 2)}, mean over pairs) it is smaller than what the benchmark can detect.`,
      height: 120 + 24 * mde.rows.length, plot: mdePlot(mde, scores), table: mdeTable(view, mde),
    });
  }

  function signed(column, value) {
    const text = medhelm.valueText(column, value);
    return value > 0 ? `+${text}` : text;
  }

  /** Return what a row of the table says of two models in the given order. */
  function pairOf(pairs, row, first) {
    const column = pairs.column("difference");
    const isAsked = pairs.get(row, "model_a") === first;
    const turn = (value) => (value === null ? null : isAsked ? value : -value);
    const [low, high] = [turn(pairs.get(row, "low")), turn(pairs.get(row, "high"))];
    const ends = low === null || high === null ? "" : `[${signed(column, isAsked ? low : high)}, ${signed(column, isAsked ? high : low)}]`;
    return { value: turn(pairs.get(row, "difference")), text: signed(column, turn(pairs.get(row, "difference"))), ends };
  }

  function pairDetails(pairs, row, first, second) {
    const found = pairOf(pairs, row, first);
    const p = (name) => medhelm.valueText(pairs.column(name), pairs.get(row, name));
    return [
      h("p", null, h("span", { class: "strong" }, medhelm.name(first)), " less ", h("span", { class: "strong" }, medhelm.name(second))),
      h("dl", { class: "facts tight" },
        h("dt", null, "Difference"), h("dd", null, `${found.text} ${found.ends}`),
        h("dt", null, "p, Holm"), h("dd", null, p("p_holm")),
        h("dt", null, "p"), h("dd", null, p("p")),
        h("dt", null, "Benchmarks"), h("dd", null, medhelm.count(pairs.get(row, "n_benchmarks")))),
    ];
  }

  function pairCell(pairs, row, first, second, most, alpha, spots) {
    if (first === second) return h("td", { class: "cell diagonal" }, h("span", { "aria-hidden": "true" }, "·"));
    if (!row) return h("td", { class: "cell" }, h("span", { class: "spot empty" }, medhelm.DASH));
    const found = pairOf(pairs, row, first);
    const isTold = pairs.get(row, "p_holm") !== null && pairs.get(row, "p_holm") < alpha;
    const colours = isTold ? medhelm.differenceColour(most ? found.value / most : 0) : null;
    const spot = h("span", { class: isTold ? "spot strong" : "spot untold", style: colours ? { "background-color": colours.background, color: colours.color } : null }, found.text, isTold ? null : h("span", { class: "unseen" }, " (not told apart)"));
    spots.set(spot, [row, first, second]);
    return h("td", { class: "cell" }, spot);
  }

  function matrix(pairs, models, alpha) {
    const found = new Map();
    const note = (a, b, row) => {
      if (!found.has(a)) found.set(a, new Map());
      found.get(a).set(b, row);
    };
    for (const row of pairs.rows) {
      note(pairs.get(row, "model_a"), pairs.get(row, "model_b"), row);
      note(pairs.get(row, "model_b"), pairs.get(row, "model_a"), row);
    }
    const own = models.filter((m) => found.has(m));
    const most = Math.max(...pairs.rows.map((row) => Math.abs(pairs.get(row, "difference"))));
    const spots = new Map();
    const name = (model) => h("div", { class: "head" }, medhelm.name(model));
    const rows = own.map((a) => h("tr", null, h("th", { scope: "row" }, name(a)), own.map((b) => pairCell(pairs, found.get(a).get(b), a, b, most, alpha, spots))));
    const element = h("table", { class: "heat" }, h("caption", { class: "unseen" }, "Differences of macro-averages, row less column"), h("thead", null, h("tr", null, h("th", { scope: "col" }, "row less column"), own.map((m) => h("th", { scope: "col" }, name(m))))), h("tbody", null, rows));
    medhelm.tips(element, ".spot:not(.empty)", (spot) => pairDetails(pairs, ...spots.get(spot)));
    medhelm.arrows(element, ".spot");
    return medhelm.scroller("Pairwise comparison", element);
  }

  function pairsSection(view, pairs, models) {
    const head = h("h2", { id: "pairs" }, "Every two models");
    if (!pairs || !pairs.rows.length) return [head, medhelm.nothing("It needs two ranked models with a benchmark in common.")];
    const alpha = 1 - pairs.settings.get("confidence");
    return [
      head,
      h("p", { class: "faint" }, `Paired difference of macro-averages over the benchmarks that all ranked models share: row less column, above 0 the row is better. Blue and orange: told apart at ${medhelm.number(alpha, 2)} after Holm's correction over all pairs. Interval and p show on hover and focus.`),
      matrix(pairs, models, alpha),
      medhelm.lazyDetails("The same as a list, to sort and download", () => medhelm.dataTable(pairs, { columns: ["model_a", "model_b", "difference", "p", "p_holm", "n_benchmarks"], view, key: "pairs", caption: "Pairs of models", file: "pairs", unit: "pair" })),
    ];
  }

  function rankCells(ranks) {
    const found = new Map();
    for (const row of ranks.rows) {
      const model = ranks.get(row, "model");
      if (!found.has(model)) found.set(model, new Map());
      found.get(model).set(ranks.get(row, "rank"), row);
    }
    return found;
  }

  function rankPlot(ranks, models, found) {
    const places = models.map((_, i) => i);
    const column = ranks.column("share");
    return (ink) => ({
      data: models.map((_, place) => {
        const rank = place + 1;
        const rows = models.map((m) => found.get(m).get(rank));
        const colour = medhelm.scaleColour(1 - place / Math.max(1, models.length - 1));
        return {
          type: "bar", orientation: "h", name: `rank ${rank}`, y: places, x: rows.map((row) => (row ? 100 * ranks.get(row, "share") : 0)),
          marker: { color: colour.background, line: { color: ink["line-strong"], width: 1 } }, // The ends of the scale are like the page, dark or light.
          text: rows.map((row) => (row && ranks.get(row, "share") >= 0.08 ? String(rank) : "")), textposition: "inside", insidetextanchor: "middle", textangle: 0, insidetextfont: { color: colour.color },
          hovertext: rows.map((row, i) => `${medhelm.plotText(models[i])}<br>rank ${rank}: ${row ? medhelm.valueText(column, ranks.get(row, "share")) : medhelm.DASH} of the draws`), hoverinfo: "text",
        };
      }),
      layout: { barmode: "stack", bargap: 0.3, xaxis: { title: { text: "share of the draws, %" }, range: [0, 100] }, yaxis: medhelm.namesAxis(models), margin: { l: 60, r: 24, t: 40, b: 56 } },
    });
  }

  function rankTable(ranks, models, found) {
    const column = ranks.column("share");
    const head = h("tr", null, h("th", { scope: "col", class: "text" }, "model"), models.map((_, i) => h("th", { scope: "col", class: "number" }, `rank ${i + 1}`)));
    const rows = models.map((model) => h("tr", null, h("th", { scope: "row" }, h("div", { class: "head" }, medhelm.name(model))), models.map((_, i) => {
      const row = found.get(model).get(i + 1);
      return h("td", { class: "number" }, row ? medhelm.valueText(column, ranks.get(row, "share")) : medhelm.DASH);
    })));
    return medhelm.scroller("Share of the draws by model and rank", h("table", null, h("caption", { class: "unseen" }, "Share of the draws by model and rank"), h("thead", null, head), h("tbody", null, rows)));
  }

  function ranksSection(ranks, models) {
    if (!ranks || !ranks.rows.length) return [h("h2", null, "Ranks"), medhelm.nothing("No model is ranked.")];
    const found = rankCells(ranks);
    const own = [...models.filter((m) => found.has(m)), ...[...found.keys()].filter((m) => !models.includes(m))];
    return medhelm.figure({
      title: "Ranks in the draws", caption: "Share of the bootstrap draws in which a model has each rank by win rate, instances resampled within each benchmark; the number in a bar is the rank. Too narrow at near ties: which ranks a model may have is on the overview.",
      height: 110 + 34 * own.length, plot: rankPlot(ranks, own, found), table: rankTable(ranks, own, found),
    });
  }

  async function render(view) {
    const names = ["mde", "benchmarks", "pairs", "ranks"];
    const [models, ...tables] = await Promise.all([order(view), ...names.map((name) => medhelm.tableOf(view.scoring, name))]);
    const [mde, scores, pairs, ranks] = tables;
    return [
      h("h1", null, "Statistics"),
      h("p", { class: "lead" }, "How small a difference each benchmark can detect, which models can be told apart, and how sure the ranking is. " + (medhelm.site.first_suite ? `Over the suite ${medhelm.site.first_suite}.` : "Over all benchmarks of this site.")),
      medhelm.site.scorings.length > 1 ? h("section", { class: "filters", "aria-label": "Filters" }, medhelm.scoringSelect(view)) : null,
      pairsSection(view, pairs, models),
      ranksSection(ranks, models),
      mdeSection(view, mde, scores),
      medhelm.notes(mde, pairs, ranks),
    ];
  }

  medhelm.page("statistics", { title: "Statistics", render });
})();
