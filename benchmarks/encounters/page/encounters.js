"use strict";

// Encounters: completion in all readings, by competency, specialty and length; one encounter by turns.
(() => {
  const { h } = medhelm;
  const READINGS = ["case_mean", "pooled", "competency_mean", "competency_case_mean", "accuracy"];
  const CONDUCT = ["turns", "questions", "actions", "tests_first", "turns_to_decision"];
  const FAULTS = ["cases", "lines", "found", "share"];
  const SCRIPT = ["cases", "words", "shown", "asked", "unasked"];
  const MARKED = ["cases", "unchecked", "clean", "marked", "mean", "mean_unmarked", "difference"];
  const PAIRED = ["score_one", "score_other", "difference", "p_holm", "n"];
  const WORDS = [
    ["Case mean, pooled", "Of the items of frozen rubrics: the mean over cases of each case's share, and items met over all items."],
    ["Clean, marked", "Of patient and surroundings, not of the clinician: the share of their lines without a fault by rule, and the cases with less than 95 % of such lines. Of packets that are text alone it is not checkable."],
    ["Shown, asked for, unasked", "Of the words of the patient's script: those that it said, those of passages that the clinician asked for, and those that it said before."],
    ["Capped, turns", "Of the encounters that were completed or capped and have a score, on the cases that every ranked model has: the share that the cap of turns ended, and the mean number of turns. What else the clinicians did is over the same encounters."],
    ["Failed", "The share of all encounters asked for that patient, surroundings or network failed. They are in no mean."],
  ];

  function rowsOf(table, benchmark, level) {
    return table.rows.filter((row) => table.get(row, "benchmark") === benchmark && table.get(row, "level") === level);
  }

  function cell(table, row, name) {
    if (table.get(row, name) === null) return name === "share" ? "not checkable" : medhelm.dash("no value");
    return medhelm.withInterval(table, row, name);
  }

  function modelCell(view, benchmark, model) {
    const known = model && medhelm.scorings.get(view.scoring).run(benchmark, model) !== undefined;
    return known ? medhelm.link(medhelm.runHash(view, benchmark, model), null, medhelm.name(model)) : medhelm.name(model || "all models");
  }

  function rowsTable(view, table, benchmark, title, level, names, first) {
    const rows = rowsOf(table, benchmark, level);
    const used = names.filter((name) => rows.some((row) => table.get(row, name) !== null));
    if (!rows.length || !used.length) return null;
    const heads = [...first.map((name) => [name, false]), ...used.map((name) => [table.column(name).heading || name.replaceAll("_", " "), true])];
    const lines = rows.map((row) => [...first.map((name) => (name === "model" ? modelCell(view, benchmark, table.get(row, "model")) : medhelm.shown(table.get(row, name) || "", 200))), ...used.map((name) => cell(table, row, name))]);
    return medhelm.plainTable(title, heads, lines);
  }

  function grid(view, table, benchmark, title, level, names, first) {
    const found = rowsTable(view, table, benchmark, title, level, names, first);
    return found && [h("h2", null, title), found];
  }

  function modelsOf(table, rows) {
    return [...new Set(rows.map((row) => table.get(row, "model")))];
  }

  // Scores of each model as points with intervals: over the length of input, or a line for each specialty.
  function points(view, table, benchmark, level, title, caption) {
    const rows = rowsOf(table, benchmark, level);
    if (!rows.length) return null;
    const score = READINGS.find((name) => rows.some((row) => table.get(row, name) !== null));
    const [models, groups] = [modelsOf(table, rows), [...new Set(rows.map((row) => table.get(row, "group")))]];
    const isLine = level === "length";
    const name = (model) => medhelm.tickText(model || "all models");
    const place = (row, at) => (isLine ? table.get(row, "input_chars") : groups.indexOf(table.get(row, "group")) + (0.6 * (at + 0.5)) / models.length - 0.3);
    const trace = (ink, model, at) => {
      const own = rows.filter((row) => table.get(row, "model") === model);
      const style = medhelm.traceStyle(ink, at);
      const [values, places] = [own.map((row) => table.get(row, score)), own.map((row) => place(row, at))];
      const bars = medhelm.errorBars(table, own, score, style.line.color);
      const text = own.map((row) => `${name(model)}<br>${medhelm.plotText(table.get(row, "group"))}: ${medhelm.withInterval(table, row, score)}, n ${medhelm.count(table.get(row, "n"))}`);
      return { type: "scatter", mode: isLine ? "lines+markers" : "markers", name: name(model), hoverinfo: "text", text, cliponaxis: false, ...style, ...(isLine ? { x: places, y: values, error_y: bars } : { x: values, y: places, error_x: bars }) };
    };
    const scale = { title: { text: table.column(score).heading }, range: [0, 1] };
    const axes = isLine ? { xaxis: { title: { text: "input, characters" } }, yaxis: scale } : { xaxis: scale, yaxis: medhelm.namesAxis(groups) };
    const behind = rowsTable(view, table, benchmark, title, level, [...(isLine ? ["input_chars"] : []), score, "n"], ["model", "group"]);
    return medhelm.figure({ title, caption, height: isLine ? 420 : 120 + groups.length * (20 + 14 * models.length), plot: (ink) => ({ data: models.map((model, at) => trace(ink, model, at)), layout: { ...axes, hovermode: "closest", margin: { l: 60, r: 24, t: 40, b: 56 } } }), table: behind });
  }

  function radar(view, table, benchmark) {
    const rows = rowsOf(table, benchmark, "competency");
    const models = modelsOf(table, rows);
    if (!models.length) return null;
    const plot = (ink) => ({
      data: models.map((model, at) => {
        const own = rows.filter((row) => table.get(row, "model") === model);
        const closed = [...own, own[0]];
        return { type: "scatterpolar", mode: "lines+markers", name: medhelm.plotText(model), ...medhelm.traceStyle(ink, at), r: closed.map((row) => table.get(row, "pooled")), theta: closed.map((row) => medhelm.plotText(table.get(row, "group").split(":")[0])) };
      }),
      layout: { polar: { radialaxis: { range: [0, 1] }, bgcolor: "rgba(0,0,0,0)" }, margin: { l: 40, r: 40, t: 30, b: 30 } },
    });
    const behind = rowsTable(view, table, benchmark, "By competency", "competency", ["pooled", "case_mean", "met", "items"], ["model", "group"]);
    return medhelm.figure({ title: "Competencies", caption: "Items met over items of each competency, pooled over cases.", plot, table: behind });
  }

  // Of patient and surroundings: faults by who played them, and the clinicians' scores without marked cases.
  function cast(view, table, benchmark) {
    if (!table || !rowsOf(table, benchmark, "role").length) return null;
    return [
      h("h2", { id: "cast" }, "Fidelity of the cast"),
      h("p", { class: "faint" }, "Lines with a fault by rule, which are lower bounds, where rules can tell. A case with too few clean lines is marked."),
      grid(view, table, benchmark, "Faults by who played", "role", FAULTS, ["role", "model", "fault"]),
      grid(view, table, benchmark, "How much of its script the patient said", "script", SCRIPT, ["model"]),
      grid(view, table, benchmark, "Scores without marked cases", "clinician", MARKED, ["model", "cast"]),
    ];
  }

  async function render(view) {
    const table = await medhelm.tableOf(view.scoring, "encounters");
    const played = await medhelm.tableOf(view.scoring, "encounter_cast");
    const names = table ? [...new Set(table.rows.map((row) => table.get(row, "benchmark")))] : [];
    const head = [h("h1", null, "Encounters"), h("p", { class: "lead" }, "The model is the clinician of a standardized patient. What it said and did is compared with a frozen rubric, or its diagnosis with the gold.")];
    if (!names.length) return [head, medhelm.nothing("No benchmark of this site has encounters under this scoring.")];
    const benchmark = names.includes(view.get("benchmark")) ? view.get("benchmark") : names[0];
    const pick = names.length > 1 ? h("section", { class: "filters", "aria-label": "Filters" }, medhelm.select(view, "benchmark", "Benchmark", names.map((name) => [name, medhelm.plain(name, 60)]), benchmark)) : null;
    const card = await medhelm.load(medhelm.scorings.get(view.scoring).benchmarks.get(benchmark));
    const casts = [...new Set(rowsOf(table, benchmark, "model").map((row) => table.get(row, "cast")))];
    return [
      head,
      pick,
      medhelm.benchmarkNotes(benchmark),
      h("p", { class: "faint" }, "Cast: ", medhelm.shown(casts.join("; "), 500)),
      grid(view, table, benchmark, "Completion by model", "model", [...READINGS, "capped", "failed"], ["model"]),
      grid(view, table, benchmark, "What the clinicians did", "model", CONDUCT, ["model"]),
      medhelm.distribution(card),
      radar(view, table, benchmark),
      points(view, table, benchmark, "specialty", "Specialties", "Scores on the cases of each specialty that at least five have, with intervals."),
      points(view, table, benchmark, "length", "Length of input", "Scores by the length of what the clinician has before it in its last turn: ten bins of as many cases each, with intervals."),
      grid(view, table, benchmark, "Strategies on the same cases", "strategy", PAIRED, ["model", "group"]),
      cast(view, played, benchmark),
      medhelm.notes(table),
    ];
  }

  // One encounter -------------------------------------------------------------------------------

  // The turns that show each item, by the place of the item: "3/4: 1@1,2 4?" names 1 as met, 4 as void.
  function ticksOf(side) {
    const found = new Map();
    const text = (side.answer && side.answer.extracted) || "";
    for (const [, item, turns, isVoid] of text.matchAll(/(?:^|\s)(\d+)(?:@([\d,]+)|(\?))/g)) found.set(Number(item), isVoid ? "no verdict" : `turn ${turns}`);
    return found;
  }

  const same = (text) => String(text).normalize("NFKC").toLowerCase().replace(/[\u2018\u2019]/g, "'").replace(/[\u201c\u201d]/g, '"').split(/\s+/).join(" ");

  function entriesOf(reply) {
    try {
      return JSON.parse(reply.slice(reply.indexOf("{"), reply.lastIndexOf("}") + 1)).items.filter((entry) => entry.met === true && Array.isArray(entry.evidence));
    } catch {
      return [];
    }
  }

  // What evaluators quote of the clinician's words and deeds that show an item, as far as the turn holds it.
  function quotesOf(side, text) {
    const turns = medhelm.detailOf(side.answer, "encounters")?.turns || [];
    const isThere = ({ turn, quote }) => [turns[turn - 1]?.speak, ...(turns[turn - 1]?.actions || [])].some((said) => said && quote && same(said).includes(same(quote)));
    const entries = (side.answer?.judges || []).flatMap((judge) => judge.replies.flatMap(entriesOf));
    const found = entries.filter((entry) => same(entry.item) === same(text)).flatMap((entry) => entry.evidence.filter(isThere));
    return [...new Set(found.map(({ turn, quote }) => `${turn}: \u201c${quote}\u201d`))];
  }

  function tick(side, said, text) {
    if (said === undefined) return medhelm.dash("not met");
    if (said === "no verdict") return h("span", { class: "met" }, said);
    return [h("span", { class: "met" }, `\u2713 ${said}`), quotesOf(side, text).map((quote) => h("div", { class: "faint" }, medhelm.shown(quote, 300)))];
  }

  function items(lines, sides) {
    if (!lines.length) return null;
    const said = sides.map(ticksOf);
    const heads = [["item", false], ...sides.map((side) => [sides.length > 1 ? [h("span", { class: "side" }, side.label), " ", medhelm.name(side.model)] : "met", false])];
    const rows = lines.map((line, place) => [
      [h("span", { class: "mono" }, medhelm.name(line.competency)), " ", medhelm.shown(line.text, 1000)],
      ...said.map((own, at) => tick(sides[at], own.get(place + 1), line.text)),
    ]);
    return h("div", { class: "encounter-items" }, medhelm.plainTable("Items of the rubric and the turns that show them", heads, rows));
  }

  function channel(title, lines) {
    return lines && lines.length ? [h("dt", null, title), lines.map((line) => h("dd", null, medhelm.shown(line, 4000)))] : null;
  }

  function turnsOf(lines, encounter) {
    if (!encounter) return h("p", { class: "faint" }, "There is no encounter.");
    const states = encounter.states || [];
    return [
      h("p", null, `${medhelm.many(encounter.turns.length, "turn")}, ended: `, medhelm.name(encounter.ending)),
      h("dl", null, channel("At the start", encounter.opening)),
      h("ol", { class: "encounter-turns" }, encounter.turns.map((turn) => h("li", null, h("p", { class: "faint" }, medhelm.name(states[turn.state || 0] || "")), h("dl", null, channel("Says", turn.speak ? [turn.speak] : []), channel("Does", turn.actions), channel("Patient's side", turn.heard), channel("Feedback", turn.feedback), channel("Events", turn.events), channel("Status", turn.status ? [turn.status] : []), turn.eos ? channel("Ends the state", [""]) : null)))),
    ];
  }

  medhelm.page("encounters", {
    render,
    benchmarkLink: "Its encounters by competency, specialty and length",
    words: WORDS,
    item: items,
    answerTitle: "Encounter",
    answer: turnsOf,
    texts: (lines) => lines.map((line) => line.text),
  });
})();
