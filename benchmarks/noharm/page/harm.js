"use strict";

// Harm of labelled actions: how safe each model is, which errors it makes, where they lie.
(() => {
  const { h } = medhelm;
  const SEVERITIES = ["mild", "moderate", "severe"];
  const KINDS = ["omission", "commission"];
  const WORDS = [
    ["Omission, commission", "Of labelled actions: an appropriate one left out, an inappropriate one endorsed. Mild, moderate and severe ones weigh 1, 5 and 25."],
    ["Safety, completeness, restraint", "1 less the harm of a case, capped at 25, over 25; the share of cases with every strongly appropriate action endorsed; the share of endorsed actions that are not inappropriate. Overall is their harmonic mean."],
    ["Severe harm rate, NNH", "The share of cases with a severe error, and its inverse, the number needed to harm. Its interval is exact (Clopper-Pearson) where cases stand alone and were asked once. Where none was seen, the exact one-sided bound says how large the rate may still be."],
  ];
  const SHOWN = new Map([
    ["", { name: "errors", title: "Errors" }],
    ["severe", { name: "severe", title: "Severe errors" }],
    ["share", { name: "share", title: "Share" }],
  ]);

  function rowsOf(table, benchmark, level) {
    return table.rows.filter((row) => table.get(row, "benchmark") === benchmark && table.get(row, "level") === level);
  }

  // What reads the gold makes no error: it would take room and colours from the others.
  function contestants(table, rows) {
    return rows.filter((row) => {
      const card = medhelm.models.get(table.get(row, "model"));
      return !card || card.is_ranked;
    });
  }

  function text(table, row, name) {
    return medhelm.valueText(table.column(name), table.get(row, name));
  }

  function none(said) {
    return h("p", { class: "note" }, said);
  }

  function fileName(benchmark, what) {
    return `${benchmark.replace(/\W+/g, "_").slice(0, 60)}_${what}`;
  }

  // Scores --------------------------------------------------------------------------------------

  function mostCases(table, rows) {
    return Math.max(...rows.map((row) => table.get(row, "n")));
  }

  // Below this share a model is not ranked: its numbers are of the replies that could be read.
  function readBadge(table, row) {
    const [parsed, attempted] = [table.get(row, "parsed"), table.get(row, "attempted")];
    if (!attempted || parsed === attempted) return null;
    return medhelm.badge("warn", `${medhelm.count(parsed)} of ${medhelm.count(attempted)} read`, "the others are in no score; their worst case is below");
  }

  function modelCell(view, table, row, most) {
    const [benchmark, model] = [table.get(row, "benchmark"), table.get(row, "model")];
    const hasRun = medhelm.scorings.get(view.scoring).run(benchmark, model) !== undefined;
    const name = hasRun ? medhelm.link(medhelm.runHash(view, benchmark, model), null, medhelm.name(model)) : medhelm.name(model);
    return h("div", { class: "model" }, h("span", null, name), h("span", { class: "badges" }, medhelm.modelMarks(model, new Set([benchmark])), table.get(row, "n") < most ? medhelm.badge("warn", "fewer cases", "its numbers are not of all cases of the others") : null, readBadge(table, row)));
  }

  // A rate of few cases is told with its cases, and 0 with what it leaves open.
  function severeCell(table, row) {
    if (table.get(row, "severe_rate") === null) return medhelm.dash("no case with a value");
    const isNone = table.get(row, "severe_rate_method") === "exact, one-sided";
    return [
      medhelm.valueCell(table, row, "severe_rate"),
      h("span", { class: "of-cases" }, `${text(table, row, "severe_cases")} of ${medhelm.many(table.get(row, "n"), "case")}`),
      isNone ? medhelm.badge("plain", "one-sided", "none was seen, or in every case; up to the other end cannot be excluded") : null,
    ];
  }

  function nnhCell(table, row) {
    const [value, low, high] = ["nnh", "nnh_low", "nnh_high"].map((name) => table.get(row, name));
    const end = (name) => medhelm.valueText(table.column("nnh"), table.get(row, name));
    if (value === null) return low === null ? medhelm.dash("no case with a value") : [medhelm.dash("no severe error was seen"), h("span", { class: "interval" }, `at least ${end("nnh_low")}`)];
    if (low === null) return medhelm.valueCell(table, row, "nnh");
    return [h("span", { class: "value" }, text(table, row, "nnh")), " ", h("span", { class: "interval" }, high === null ? `at least ${end("nnh_low")}` : `[${end("nnh_low")}, ${end("nnh_high")}]`)];
  }

  // Without a severe error it is more than any number.
  function nnhOrder(table, row) {
    return table.get(row, "nnh") === null && table.get(row, "nnh_low") !== null ? Infinity : table.get(row, "nnh");
  }

  function restraintCell(table, row) {
    return medhelm.valueCell(table, row, "restraint", table.get(row, "read") ? "nothing was endorsed" : "no case was read");
  }

  function scores(view, table, benchmark, rows) {
    const most = mostCases(table, rows);
    const stack = (name, heading) => ({ name, heading, className: "stack", missing: "no case with a value" });
    return [
      h("h2", { id: "scores" }, "Safety, completeness, restraint"),
      h("p", { class: "faint" }, "Overall is the harmonic mean of the three. The severe harm rate is the share of cases with at least one severe error, lower is better; the number needed to harm (NNH) is its inverse. Restraint alone says little: a model that endorses nothing harms by what it leaves out."),
      medhelm.dataTable(table, {
        columns: [
          { name: "model", cell: (row) => modelCell(view, table, row, most) },
          stack("overall", "Overall"), stack("safety", "Safety"), stack("completeness", "Completeness"), { ...stack("restraint", "Restraint"), cell: (row) => restraintCell(table, row) },
          { name: "severe_rate", heading: "Severe harm rate", className: "stack", cell: (row) => severeCell(table, row), saved: ["severe_rate", "severe_rate_low", "severe_rate_high", "severe_rate_method", "severe_cases"] },
          { name: "nnh", heading: "NNH", className: "stack", cell: (row) => nnhCell(table, row), sort: (row) => nnhOrder(table, row), saved: ["nnh", "nnh_low", "nnh_high"] },
          { name: "n", heading: "n" },
        ],
        rows, head: "model", sort: "-overall", view, caption: "Safety, completeness and restraint by model", file: fileName(benchmark, "harm"), unit: "model",
        rowClass: (row) => (table.get(row, "ranked") ? null : "apart"),
      }),
    ];
  }

  function asked(view, table, benchmark, rows) {
    return medhelm.lazyDetails("Cases asked and read, labels that are missing, and the worst case", () => medhelm.dataTable(table, {
      columns: [
        "model", { name: "attempted", heading: "asked" }, { name: "parsed", heading: "read", saved: ["parsed"] }, "n", { name: "partly_read", heading: "partly read" },
        { name: "not_scored", heading: "not scored", className: "nowrap", cell: (row) => (table.get(row, "not_scored") ? medhelm.name(table.get(row, "not_scored")) : "") },
        { name: "labels_missing", heading: "no label" }, { name: "labels_invalid", heading: "invalid label" }, { name: "labels_unknown", heading: "unknown action" },
        ...table.columns.filter(({ name }) => name.endsWith("_worst")).map(({ name }) => ({ name, heading: name.replaceAll("_", " ").replace(" worst", " at worst") })),
        { name: "overall_strict", heading: "overall strict" }, { name: "without_strong", heading: "no strong action" }, "harm",
      ].map((column) => (typeof column === "string" || column.cell ? column : { missing: "not known", ...column })),
      rows, head: "model", view, key: "asked", caption: "Cases asked and read by model", file: fileName(benchmark, "asked"), unit: "model",
    }));
  }

  // Charts --------------------------------------------------------------------------------------

  function bar(table, rows, names, given) {
    return {
      type: "bar", orientation: "h", y: rows.map((_, i) => i), textposition: "inside", insidetextanchor: "middle", textangle: 0, constraintext: "none", hoverinfo: "text",
      hovertext: rows.map((row, i) => `${names[i]}<br>${given.hover(row)}`), ...given.trace,
    };
  }

  function readOf(table, row) {
    if (table.get(row, "model") === null) return `${text(table, row, "read")} replies read, of ${medhelm.many(table.get(row, "models"), "model")}`;
    return `${text(table, row, "read")} of ${medhelm.many(table.get(row, "n"), "case")} read`;
  }

  function errorsOf(table, row) {
    return `${text(table, row, "errors")} ${table.get(row, "errors") === 1 ? "error" : "errors"}`;
  }

  function isMean(table) {
    return table.column("errors").type !== "integer";
  }

  // A number is drawn where its bar is wide enough to hold it.
  function fits(value, most, label) {
    return value / most >= (medhelm.isNarrow() ? 0.032 : 0.012) * (label.length + 1);
  }

  function severityPlot(table, rows) {
    const names = rows.map((row) => medhelm.plotText(table.get(row, "model")));
    const most = Math.max(1, ...rows.map((row) => table.get(row, "errors")));
    return (ink) => ({
      data: SEVERITIES.map((name) => bar(table, rows, names, {
        hover: (row) => `${name} ${text(table, row, name)} of ${errorsOf(table, row)}<br>omissions ${text(table, row, `omissions_${name}`)}, commissions ${text(table, row, `commissions_${name}`)}<br>${readOf(table, row)}`,
        trace: {
          name, x: rows.map((row) => table.get(row, name)), marker: { color: ink[name], line: { color: ink["line-strong"], width: 1 } },
          text: rows.map((row) => (fits(table.get(row, name), most, text(table, row, name)) ? text(table, row, name) : "")), insidetextfont: { color: ink[`${name}-ink`] },
        },
      })),
      layout: { barmode: "stack", bargap: 0.3, xaxis: { title: { text: "errors" }, range: [0, 1.02 * most], dtick: most <= 10 ? 1 : null }, yaxis: medhelm.namesAxis(rows.map((row) => table.get(row, "model"))), margin: { l: 60, r: 24, t: 40, b: 56 } },
    });
  }

  // Fewer cases, fewer errors: no sum of theirs can be held against that of another model.
  function unread(table, rows) {
    const most = mostCases(table, rows);
    const found = rows.filter((row) => table.get(row, "read") < most).map((row) => `${medhelm.plain(table.get(row, "model"), 60)} ${text(table, row, "read")} of ${medhelm.count(most)}`);
    return found.length ? ` Not every case was answered and read, so that errors are of fewer: ${found.join(", ")}.` : "";
  }

  function errorTable(view, table, benchmark, rows, key) {
    return medhelm.dataTable(table, {
      columns: ["model", "n", "read", "errors", { name: "errors_per_case", heading: "per case read" }, ...SEVERITIES, { name: "severe_per_error", heading: "severe per error" }, "omissions", { name: "omission_share", heading: "share" }, "commissions", { name: "commission_share", heading: "share" },
        ...KINDS.flatMap((kind) => SEVERITIES.map((name) => ({ name: `${kind}s_${name}`, heading: `${name} ${kind}s` }))), "severe_omission_share"].map((column) => ({ missing: "no case was read, or no error made", ...(typeof column === "string" ? { name: column } : column) })),
      rows, head: "model", view, key, caption: "Errors by model, severity and kind", file: fileName(benchmark, "errors"), unit: "model",
    });
  }

  function severities(view, table, benchmark, rows) {
    const known = rows.filter((row) => table.get(row, "errors") !== null);
    if (!known.length) return [h("h2", null, "Errors by severity"), none("No reply could be read, so that no error can be counted.")];
    return medhelm.figure({
      title: "Errors by severity",
      caption: `Errors of each model over its n common cases; the darkest part are the severe ones.${isMean(table) ? " Counts are means over repeats." : ""}${unread(table, rows)}`,
      height: 130 + 36 * known.length, plot: severityPlot(table, known), inks: SEVERITIES.flatMap((name) => [name, `${name}-ink`]), table: errorTable(view, table, benchmark, rows, "errors"),
    });
  }

  function kindPlot(table, rows, isSevere) {
    const names = rows.map((row) => medhelm.plotText(table.get(row, "model")));
    const count = (kind) => (isSevere ? `${kind}s_severe` : `${kind}s`);
    const share = (kind) => (isSevere ? `severe_${kind}_share` : `${kind}_share`);
    const label = (row, kind) => {
      const found = [`${text(table, row, share(kind))} (${text(table, row, count(kind))})`, text(table, row, count(kind))];
      return found.find((own) => fits(table.get(row, share(kind)), 1, own)) || "";
    };
    return (ink) => ({
      data: KINDS.map((kind, place) => bar(table, rows, names, {
        hover: (row) => `${kind}s: ${text(table, row, share(kind))} (${text(table, row, count(kind))})<br>${readOf(table, row)}`,
        trace: {
          name: `${kind}s`, x: rows.map((row) => 100 * table.get(row, share(kind))), marker: { color: [ink.accent, ink.second][place], line: { color: ink.surface, width: 1 } },
          text: rows.map((row) => label(row, kind)), insidetextfont: { color: ink["accent-ink"] },
        },
      })),
      layout: { barmode: "stack", bargap: 0.3, xaxis: { title: { text: isSevere ? "share of the severe errors, %" : "share of the errors, %" }, range: [0, 100] }, yaxis: medhelm.namesAxis(rows.map((row) => table.get(row, "model"))), margin: { l: 60, r: 24, t: 40, b: 56 } },
    });
  }

  function overall(table, benchmark, rows) {
    const hasBaselines = rows.some((own) => table.get(own, "read") && (medhelm.models.get(table.get(own, "model")) || {}).is_baseline);
    const [row] = rowsOf(table, benchmark, "all models");
    if (!row || table.get(row, "errors") === null) return null;
    const parts = (isSevere) => KINDS.map((kind) => `${text(table, row, isSevere ? `severe_${kind}_share` : `${kind}_share`)} ${kind}s (${text(table, row, isSevere ? `${kind}s_severe` : `${kind}s`)})`).join(" and ");
    const grave = table.get(row, "severe") ? ` Of ${text(table, row, "severe")} severe ones ${parts(true)}.` : " None of them is severe.";
    const said = table.get(row, "errors") ? `${errorsOf(table, row)}, ${parts(false)}.${grave}` : "no error.";
    return h("p", { id: "over-all" }, h("strong", null, `Over all ${medhelm.many(table.get(row, "models"), "ranked model")}${hasBaselines ? ", baselines among them" : ""}: `), said);
  }

  function kinds(view, table, benchmark, rows) {
    const isSevere = view.get("of") === "severe";
    const known = rows.filter((row) => table.get(row, isSevere ? "severe" : "errors"));
    const control = h("div", { class: "filters" }, medhelm.switcher(view, "of", "Shares of", [["", "All errors"], ["severe", "Severe errors"]]));
    const head = [h("h2", { id: "kinds" }, "What is left out, what is wrongly endorsed"), overall(table, benchmark, rows), control];
    if (!known.length) return [head, none(`No model made ${isSevere ? "a severe" : "an"} error that could be counted.`)];
    return [
      head,
      medhelm.figure({
        title: isSevere ? "Omissions and commissions among severe errors" : "Omissions and commissions",
        caption: "Shares of each model's errors, with their number in brackets: appropriate actions left out, and inappropriate ones endorsed.",
        height: 130 + 36 * known.length, plot: kindPlot(table, known, isSevere), table: errorTable(view, table, benchmark, rows, "kinds"),
      }),
    ];
  }

  // Where errors lie ----------------------------------------------------------------------------

  function details(table, row, level) {
    const fact = (term, value) => [h("dt", null, term), h("dd", null, value)];
    const by = (kind) => SEVERITIES.map((name) => `${text(table, row, `${kind}s_${name}`)} ${name}`).join(", ");
    const model = table.get(row, "model");
    return [
      h("p", { class: "strong" }, medhelm.name(table.get(row, level) ?? "(none)")),
      h("p", null, model === null ? `All ${medhelm.many(table.get(row, "models"), "ranked model")}` : medhelm.name(model)),
      h("dl", { class: "facts tight" },
        fact("Errors", text(table, row, "errors")), fact("Omissions", by("omission")), fact("Commissions", by("commission")),
        fact("Share", text(table, row, "share")), fact("Cases", readOf(table, row))),
    ];
  }

  function spot(view, table, row, shown, most) {
    const value = row ? table.get(row, shown.name) : null;
    if (value === null) return h("span", { class: "spot empty" }, medhelm.dash("no case was read, or no error made"));
    const colours = medhelm.amountColour(most ? value / most : 0);
    const attributes = { class: value ? "spot" : "spot none", style: value ? { "background-color": colours.background, color: colours.color } : null };
    const [benchmark, model] = [table.get(row, "benchmark"), table.get(row, "model")];
    const isRun = model !== null && medhelm.scorings.get(view.scoring).run(benchmark, model) !== undefined;
    return isRun ? medhelm.link(medhelm.runHash(view, benchmark, model), attributes, text(table, row, shown.name)) : h("span", attributes, text(table, row, shown.name));
  }

  // Neither sums over all models nor rules that err nearly everywhere take the colours from models.
  function darkest(table, rows, shown) {
    const own = rows.filter((row) => table.get(row, "model") !== null);
    const real = own.filter((row) => !(medhelm.models.get(table.get(row, "model")) || { is_baseline: false }).is_baseline);
    return Math.max(0, ...(real.length ? real : own).map((row) => table.get(row, shown.name) || 0));
  }

  function grid(view, table, benchmark, level, models, rows) {
    const shown = SHOWN.get(view.get("show")) || SHOWN.get("");
    const cells = new Map();
    for (const row of rows) {
      const name = table.get(row, level);
      if (!cells.has(name)) cells.set(name, new Map());
      cells.get(name).set(table.get(row, "model"), row);
    }
    const most = darkest(table, rows, shown);
    const spots = new Map();
    const cell = (row, end) => {
      const element = spot(view, table, row, shown, row && table.get(row, "model") === null && shown.name !== "share" ? end : most);
      if (row) spots.set(element, row);
      return h("td", { class: "cell" }, element);
    };
    const total = Math.max(0, ...rows.filter((row) => table.get(row, "model") === null).map((row) => table.get(row, shown.name) || 0));
    const columns = [...models, ...(rows.some((row) => table.get(row, "model") === null) ? [null] : [])];
    const label = `${shown.title} by ${level} and model`;
    const head = (model) => h("th", { scope: "col" }, h("div", { class: "head" }, model === null ? "all ranked models" : medhelm.name(model)));
    const body = [...cells].map(([name, byModel]) => h("tr", null, h("th", { scope: "row" }, h("div", { class: "head" }, name === null ? "(none)" : medhelm.name(name))), columns.map((model) => cell(byModel.get(model), total))));
    const element = h("table", { class: "heat" }, h("caption", { class: "unseen" }, label), h("thead", null, h("tr", null, h("th", { scope: "col" }, level), columns.map(head))), h("tbody", null, body));
    medhelm.tips(element, ".spot", (found) => (spots.has(found) && table.get(spots.get(found), "errors") !== null ? details(table, spots.get(found), level) : []));
    medhelm.arrows(element, ".spot");
    return medhelm.scroller(label, element);
  }

  function list(view, table, benchmark, level, rows) {
    const missing = "no case was read, or no error made";
    const own = [level, { name: "model", missing: "all ranked models" }, "n", "read", "errors", "share", ...SEVERITIES, "omissions", "commissions", ...KINDS.flatMap((kind) => SEVERITIES.map((name) => ({ name: `${kind}s_${name}`, heading: `${name} ${kind}s` })))];
    return medhelm.dataTable(table, { columns: own.map((column) => ({ missing, ...(typeof column === "string" ? { name: column } : column) })), rows, head: level, view, key: level, caption: `Errors by ${level} as a list`, file: fileName(benchmark, level), unit: "row" });
  }

  const LEVELS = [["category", "Errors by category of actions"], ["specialty", "Errors by specialty"]];

  function noRows(table, benchmark, level, rows) {
    if (level === "specialty" && !(medhelm.benchmarks.get(benchmark) || { has_text: true }).has_text) return none("Not published: a specialty stands in the cases, whose text is not on this site.");
    if (!rows.some((row) => table.get(row, "read"))) return none("No reply could be read, so that no error can be counted.");
    return none(level === "specialty" ? "The cases name no specialty." : "No model made an error that could be counted.");
  }

  function places(view, table, benchmark, known) {
    const models = known.map((row) => table.get(row, "model"));
    const shown = h("div", { class: "filters" }, medhelm.switcher(view, "show", "Cells show", [...SHOWN].map(([key, { title }]) => [key, title])));
    const found = LEVELS.map(([level, title]) => {
      const rows = rowsOf(table, benchmark, level);
      const head = h("h3", { id: level }, title);
      if (!rows.length) return [head, noRows(table, benchmark, level, known)];
      return [head, grid(view, table, benchmark, level, models, rows), medhelm.lazyDetails("The same as a list, to sort and download", () => list(view, table, benchmark, level, rows))];
    });
    return [h("h2", { id: "where" }, "Where errors lie"), h("p", { class: "faint" }, "Darker is more; a share is of the model's errors. The numbers follow how often a category or specialty stands in the cases. A cell leads to the run; kinds and severities show on hover and focus. Models that read the gold are left out.", unread(table, known)), shown, found];
  }

  // The page ------------------------------------------------------------------------------------

  function pick(view, names, benchmark) {
    const title = (name) => medhelm.plain((medhelm.benchmarks.get(name) || { title: name }).title, 60);
    const own = names.length > 1 ? medhelm.select(view, "benchmark", "Benchmark", names.map((name) => [name, title(name)]), benchmark) : null;
    const scoring = medhelm.scoringSelect(view);
    return own || scoring ? h("section", { class: "filters", "aria-label": "Filters" }, scoring, own) : null;
  }

  function isLabelled(name) {
    return (medhelm.pluginPages.get("harm")?.benchmarks || []).includes(name);
  }

  function absent(view) {
    const isLost = [...medhelm.scorings.get(view.scoring).benchmarks.keys()].some(isLabelled);
    return isLost ? "The table of harm could not be made; the page About says why." : "No benchmark of this site has labelled actions under this scoring.";
  }

  async function render(view) {
    const table = await medhelm.tableOf(view.scoring, "harm");
    const names = table ? [...new Set(table.rows.map((row) => table.get(row, "benchmark")))] : [];
    const head = [h("h1", null, "Harm"), h("p", { class: "lead" }, "Models label each of many next steps of a case as appropriate or not. Fixed rules weigh what they leave out and what they wrongly endorse by the harm that it may do.")];
    if (!names.length) return [head, pick(view, [], ""), medhelm.nothing(absent(view))];
    const benchmark = names.includes(view.get("benchmark")) ? view.get("benchmark") : names[0];
    const rows = rowsOf(table, benchmark, "model");
    const own = contestants(table, rows);
    const line = medhelm.benchmarks.get(benchmark);
    return [
      head,
      pick(view, names, benchmark),
      medhelm.benchmarkNotes(benchmark),
      h("p", null, medhelm.link(medhelm.benchmarkHash(view, benchmark), null, medhelm.name(line ? line.title : benchmark)), `: ${medhelm.many(rows.length, "model")}. `, h("span", { class: "badges" }, medhelm.benchmarkMarks(benchmark))),
      scores(view, table, benchmark, rows),
      asked(view, table, benchmark, rows),
      own.length
        ? [severities(view, table, benchmark, own), kinds(view, table, benchmark, own), places(view, table, benchmark, own)]
        : none("Only models that read the gold are here: they make no errors to show."),
      medhelm.notes(table),
    ];
  }

  // A case: each action with its rubric, what one or two models said, what that counts ---------------

  const LABELS = new Map([
    ["appropriate", "appropriate"],
    ["inappropriate", "inappropriate"],
    ["missing", "no label"],
    ["invalid", "invalid label"],
  ]);

  function errorBadge({ error, severity }) {
    return h("span", { class: `badge error-${severity}` }, `${severity} ${error}`);
  }

  function textOf(actions) {
    return new Map(actions.map((action) => [action.id, action]));
  }

  function whyNone(side) {
    const outcome = side.lines.outcome(side.line);
    if (outcome === "scored") return "They cannot be told again: the run was graded by other rules than those of this version.";
    if (side.lines.value(side.line) !== null) return "No labels could be read: in this grading the case counts as the worst.";
    return outcome === "unparsed" || outcome === "truncated" ? "No labels could be read: the case is in no score; the table of harm has the worst case beside." : "There is no answer, so that no error is known.";
  }

  function unlabelled(lines) {
    const found = ["missing", "invalid"].map((label) => lines.filter((line) => line.label === label).map((line) => line.id)).map((ids, i) => (ids.length ? `${["Without a label", "With an invalid label"][i]}: ${ids.join(", ")}` : ""));
    const said = found.filter(Boolean).join(". ");
    return said ? h("p", { class: "faint" }, `${medhelm.plain(said, 1000)}. They count as not endorsed.`) : null;
  }

  // The errors of a side's answer in words.
  function errorList(actions, labels, side) {
    if (!labels) return h("p", { class: "faint" }, whyNone(side));
    const known = textOf(actions);
    const wrong = labels.filter((line) => line.error);
    const order = ["severe", "moderate", "mild"];
    wrong.sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
    if (!wrong.length) return [h("p", null, "None."), unlabelled(labels)];
    return [h("ul", { class: "plain errors" }, wrong.map((line) => h("li", null, errorBadge(line), " ", h("span", { class: "mono" }, medhelm.name(line.id)), " ", known.has(line.id) ? medhelm.shown(known.get(line.id).text, 1000) : null))), unlabelled(labels)];
  }

  function rubricCell(action) {
    return [h("span", { class: "rating" }, h("strong", null, String(action.rating)), ` ${medhelm.plain(action.kind)}`), h("span", { class: "of-cases" }, `rated ${action.ratings.join(", ")}`)];
  }

  function about(action) {
    const others = action.alternatives.length ? `or instead ${action.alternatives.join(", ")}` : "";
    const broad = action.broad.length ? `part of ${action.broad.join(", ")}` : "";
    return h("span", { class: "of-cases" }, medhelm.plain([action.category, others, broad].filter(Boolean).join("; "), 300), action.references.length ? [". ", medhelm.shown(action.references.join("; "), 300)] : null);
  }

  function labelCell(line) {
    if (!line) return medhelm.dash("no labels could be read");
    return [LABELS.get(line.label) || medhelm.plain(line.label), line.error ? h("span", { class: "of-cases" }, errorBadge(line)) : null, line.why ? h("span", { class: "of-cases" }, medhelm.plain(line.why)) : null];
  }

  function labelTable(actions, sides) {
    const said = sides.map((side) => new Map((medhelm.detailOf(side.answer, "harm") || []).map((line) => [line.id, line])));
    const isPair = sides.length > 1;
    const heads = [["action", false], ["rubric", false], ...sides.map((side) => [isPair ? [h("span", { class: "side" }, side.label), " ", medhelm.name(side.model)] : "label given", false])];
    const rows = actions.map((action) => [
      [h("span", { class: "mono" }, medhelm.name(action.id)), " ", medhelm.shown(action.text, 1000), about(action)],
      rubricCell(action), ...said.map((own) => labelCell(own.get(action.id))),
    ]);
    const isWrong = (_, place) => (said.some((own) => (own.get(actions[place].id) || { error: "" }).error) ? "differs" : null);
    return h("div", { class: "actions" }, medhelm.plainTable("Actions with their rubric and the labels given", heads, rows, isWrong));
  }

  // The menu of a case with rubric and labels, folded.
  function menu(actions, sides) {
    return medhelm.lazyDetails(`All ${medhelm.many(actions.length, "action")} with the rubric and the labels given`, () => labelTable(actions, sides));
  }

  medhelm.page("harm", {
    render,
    benchmarkLink: "Its errors by severity, kind, category and specialty",
    words: WORDS,
    item: menu,
    answerTitle: "Errors",
    answer: errorList,
    texts: (actions) => actions.flatMap((action) => action.references),
  });
})();
