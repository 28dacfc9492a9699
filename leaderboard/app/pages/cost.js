"use strict";

// What performance costs: win rate against total cost, the Pareto front, and who was paid.
(() => {
  const { h } = medhelm;
  const KINDS = new Map([
    ["", { own: "cost_usd", jury: "jury_cost_usd", total: "total_cost_usd", says: "actual cost: tokens as counted" }],
    ["upper", { own: "cost_upper_usd", jury: "jury_cost_upper_usd", total: "total_cost_upper_usd", says: "upper bound: every answer at its output limit" }],
  ]);
  const UNKNOWN = "price or usage is unknown";
  const WEIGHTS = [["open", "Open weights", "circle"], ["closed", "Closed weights", "square"], ["none", "Baselines", "diamond"]];

  function weightsOf(model) {
    const card = medhelm.models.get(model);
    return card ? card.weights : "closed";
  }

  /** Return the rows that no cheaper or equally cheap row matches or beats, by cost. */
  function front(rows, cost, worth) {
    const ordered = [...rows].sort((a, b) => cost(a) - cost(b) || worth(b) - worth(a));
    let best = -Infinity;
    return ordered.filter((row) => {
      if (worth(row) <= best) return false;
      best = worth(row);
      return true;
    });
  }

  function columnsOf(view) {
    const by = medhelm.winRate(view);
    const kind = KINDS.get(view.get("cost")) || KINDS.get("");
    return { by, kind };
  }

  function hover(table, row, by, kind, isFront) {
    const text = (name) => medhelm.valueText(table.column(name), table.get(row, name));
    return [
      `${medhelm.plotText(table.get(row, "model"))}`,
      `win rate ${text(by.name)} [${text(by.low)}, ${text(by.high)}]`,
      `cost ${text(kind.total)} USD`,
      isFront ? "on the Pareto front" : "",
    ].filter(Boolean).join("<br>");
  }

  // On the side with more room, above the front or below it; on a phone of the front alone.
  function labels(table, own, rows, kind, isOnFront) {
    const place = (row) => Math.log(table.get(row, kind.total));
    const [low, high] = [Math.min(...rows.map(place)), Math.max(...rows.map(place))];
    const hasRoom = (row) => !medhelm.isNarrow() || isOnFront(row);
    return {
      // A space keeps the name off its point.
      text: own.map((row) => (hasRoom(row) ? `\u00a0${medhelm.tickText(table.get(row, "model"))}\u00a0` : "")),
      textposition: own.map((row) => `${isOnFront(row) ? "top" : "bottom"} ${place(row) > low + 0.6 * (high - low) ? "left" : "right"}`),
    };
  }

  function points(table, rows, by, kind, isOnFront, ink) {
    return WEIGHTS.map(([id, name, symbol]) => {
      const own = rows.filter((row) => weightsOf(table.get(row, "model")) === id);
      const get = (column) => own.map((row) => table.get(row, column));
      const values = get(by.name);
      return {
        type: "scatter", mode: "markers+text", name, showlegend: own.length > 0,
        x: get(kind.total), y: values, ...labels(table, own, rows, kind, isOnFront), textfont: { size: 11, color: ink.faint }, cliponaxis: false,
        hovertext: own.map((row) => hover(table, row, by, kind, isOnFront(row))), hoverinfo: "text",
        customdata: get("model"),
        error_y: { type: "data", symmetric: false, array: get(by.high).map((v, i) => (v === null ? 0 : Math.max(0, v - values[i]))), arrayminus: get(by.low).map((v, i) => (v === null ? 0 : Math.max(0, values[i] - v))), color: ink["line-strong"], thickness: 1, width: 3 },
        marker: { symbol, size: 11, color: own.map((row) => (isOnFront(row) ? ink.accent : ink.surface)), line: { color: ink.accent, width: 2 } },
      };
    }).filter((trace) => trace.x.length);
  }

  function scatter(table, rows, by, kind, best) {
    const isOnFront = (row) => best.includes(row);
    return (ink) => ({
      data: [
        { type: "scatter", mode: "lines", name: "Pareto front", x: best.map((row) => table.get(row, kind.total)), y: best.map((row) => table.get(row, by.name)), line: { shape: "hv", color: ink.second, width: 2, dash: "dot" }, hoverinfo: "skip" },
        ...points(table, rows, by, kind, isOnFront, ink),
      ],
      layout: {
        xaxis: { type: "log", title: { text: "total cost, USD (log axis)" }, ...medhelm.logTicks(rows.map((row) => table.get(row, kind.total))) },
        yaxis: { title: { text: "win rate" }, rangemode: "tozero" },
        hovermode: "closest", margin: { l: 60, r: 40, t: 40, b: 56 },
      },
    });
  }

  function split(table, rows, kind) {
    const ordered = [...rows].sort((a, b) => table.get(b, kind.total) - table.get(a, kind.total));
    const places = ordered.map((_, i) => i);
    const bar = (name, column, color) => ({
      type: "bar", orientation: "h", name, y: places, x: ordered.map((row) => table.get(row, column)), marker: { color },
      hovertext: ordered.map((row) => `${medhelm.plotText(table.get(row, "model"))}<br>${name}: ${medhelm.valueText(table.column(column), table.get(row, column))} USD`), hoverinfo: "text", textposition: "none",
    });
    return (ink) => ({
      data: [bar("answers", kind.own, ink.accent), bar("judges", kind.jury, ink.second)],
      layout: { barmode: "stack", bargap: 0.35, xaxis: { title: { text: "USD" }, tickprefix: "$" }, yaxis: medhelm.namesAxis(ordered.map((row) => table.get(row, "model"))), margin: { l: 60, r: 24, t: 32, b: 48 } },
    });
  }

  function costTable(view, table, rows, by, kind, best) {
    return medhelm.dataTable(table, {
      columns: [
        "model",
        medhelm.winColumn(table, by),
        { name: kind.total, heading: "total, USD", missing: UNKNOWN },
        { name: kind.own, heading: "answers, USD", missing: UNKNOWN },
        { name: kind.jury, heading: "judges, USD", missing: "no judge that is a model, or price or usage is unknown" },
        { name: "front", heading: "Pareto front", isText: true, cell: (row) => (table.get(row, kind.total) === null ? medhelm.dash(UNKNOWN) : best.includes(row) ? "yes" : "no"), sort: (row) => Number(!best.includes(row)) },
      ],
      rows, head: "model", sort: kind.total, view, caption: "Win rate and cost of models", file: "cost", unit: "model",
    });
  }

  function unpriced(table, rows, kind) {
    const parts = [
      [rows.filter((row) => table.get(row, kind.total) === null), UNKNOWN],
      [rows.filter((row) => table.get(row, kind.total) === 0), "a cost of 0 has no place on a log axis"],
    ].filter(([found]) => found.length);
    if (!parts.length) return null;
    return h("p", { class: "note" }, "Not on the chart: ", parts.map(([found, why], i) => [i ? "; " : "", found.map((row, j) => [j ? ", " : "", medhelm.name(table.get(row, "model"))]), ` (${why})`]), ".");
  }

  function figures(view, table, by, kind) {
    const rows = table.rows.filter((row) => medhelm.passesWeights(view, table.get(row, "model")) && table.get(row, "ranked"));
    const placed = rows.filter((row) => table.get(row, kind.total) > 0 && table.get(row, by.name) !== null);
    const known = rows.filter((row) => table.get(row, kind.total) !== null);
    const best = front(known.filter((row) => table.get(row, by.name) !== null), (row) => table.get(row, kind.total), (row) => table.get(row, by.name));
    const onChart = best.filter((row) => placed.includes(row));
    medhelm.say(`${medhelm.many(known.length, "model")} with a known cost`);
    const behind = costTable(view, table, rows, by, kind, best);
    if (!placed.length) return [h("h2", null, "Win rate against total cost"), medhelm.nothing("No model of the selection has both a win rate and a known cost above 0, so there is no chart."), rows.length ? behind : null, unpriced(table, rows, kind)];
    return [
      medhelm.figure({ title: "Win rate against total cost", caption: `Each point is a ranked model with the interval of its win rate; filled points are on the Pareto front: no model costs as little and wins as often. ${kind.says[0].toUpperCase()}${kind.says.slice(1)}, answers and judges together.`, height: 480, plot: scatter(table, placed, by, kind, onChart), table: behind }),
      unpriced(table, rows, kind),
      medhelm.figure({ title: "Who was paid", caption: `Cost of the models' answers and of the judges that rated them (${kind.says}). What is unknown has no bar.`, height: Math.max(200, 70 + 34 * known.length), plot: split(table, known, kind), table: splitTable(table, rows) }),
    ];
  }

  function splitTable(table, rows) {
    return medhelm.dataTable(table, {
      columns: ["model",
        ...[...KINDS.values()].flatMap((kind, i) => [
          { name: kind.own, heading: i ? "answers at most" : "answers, USD", missing: UNKNOWN },
          { name: kind.jury, heading: i ? "judges at most" : "judges, USD", missing: "no judge that is a model, or unknown" },
          { name: kind.total, heading: i ? "total at most" : "total, USD", missing: UNKNOWN },
        ])],
      rows, head: "model", sort: "-total_cost_usd", caption: "Cost of answers and judges", file: "cost_split", unit: "model",
    });
  }

  function spending(view, table) {
    if (!table) return null;
    const isTotal = (row) => table.get(row, "level") === "all";
    const columns = ["runs", "requests", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "usage_unknown", "requests_lost", "jury_input_tokens", "jury_output_tokens", "cost_usd", "jury_cost_usd", "total_cost_usd", "total_cost_upper_usd", "price_input", "price_cached", "price_output", { name: "price_date", className: "nowrap" }];
    return [
      h("h2", null, "Tokens, prices and USD of all runs"),
      h("p", { class: "faint" }, "Sums over every run of this site under this scoring, whatever the filters above say. Prices are USD per million tokens."),
      medhelm.dataTable(table, {
        columns: [{ name: "model", cell: (row) => (isTotal(row) ? "all models" : medhelm.name(table.get(row, "model"))) }, "weights", ...columns],
        head: "model", view, key: "costs", sort: "model", isTotal, rowClass: (row) => (isTotal(row) ? "total" : null), caption: "Tokens, prices and USD by model", file: "spending",
      }),
    ];
  }

  async function render(view) {
    const [tables, costs] = await Promise.all([medhelm.viewTables(view), medhelm.tableOf(view.scoring, "cost")]);
    const { by, kind } = columnsOf(view);
    return [
      h("h1", null, "Cost and performance"),
      h("p", { class: "lead" }, "How often a model wins, for what its answers and their judges cost on the chosen benchmarks."),
      medhelm.filters(view, { weights: true, extra: [medhelm.winSwitch(view), medhelm.switcher(view, "cost", "Cost", [["", "Actual"], ["upper", "Upper bound"]])] }),
      tables ? figures(view, tables[by.table], by, kind) : medhelm.nothing("No benchmark with runs passes the filters."),
      spending(view, costs),
      tables ? medhelm.notes(tables[by.table], costs) : null,
    ];
  }

  medhelm.page("cost", { title: "Cost", render });
})();
