"use strict";

// How far judges agree, with each other and with clinicians, and what one judge changes.
(() => {
  const { h } = medhelm;
  const MEASURES = new Map([
    ["", { name: "alpha", title: "Krippendorff's alpha", says: "Alpha is 1 where judges give the same ratings and 0 where they agree no more than by chance." }],
    ["single", { name: "icc_single", title: "ICC(2,1)", says: "ICC(2,1) is the absolute agreement of single judges." }],
    ["mean", { name: "icc_mean", title: "ICC(2,k)", says: "ICC(2,k) is the absolute agreement of the mean of the k judges." }],
  ]);
  const LEAST_ICC = -1;
  const LEFT_OUT_MARKS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "pentagon"];

  function levelRows(table, level, benchmark) {
    return table.rows.filter((row) => table.get(row, "level") === level && (!benchmark || table.get(row, "benchmark") === benchmark));
  }

  function benchmarkTitle(name) {
    const line = medhelm.benchmarks.get(name);
    return line ? line.title : name;
  }

  function standIn(table, row) {
    return table.get(row, "is_stand_in") ? [" ", medhelm.badge("warn", "offline stand-in", "graders by rule; their scores say nothing about quality")] : null;
  }

  function benchmarkColumn(view, table, rows) {
    return {
      name: "benchmark", isText: true, className: rows.some((row) => table.get(row, "is_stand_in")) ? "stood" : "",
      cell: (row) => [medhelm.link(medhelm.benchmarkHash(view, table.get(row, "benchmark")), null, medhelm.name(benchmarkTitle(table.get(row, "benchmark")))), standIn(table, row)],
    };
  }

  // Agreement among judges ----------------------------------------------------------------------

  function agreementTable(view, table, rows) {
    return medhelm.dataTable(table, {
      columns: [
        benchmarkColumn(view, table, rows), "jury", { name: "judges_heard", heading: "judges" },
        { name: "alpha", heading: "alpha", missing: "fewer than two judges, or no spread" },
        { name: "icc_single", missing: "too few answers that all judges rated, or no spread" },
        { name: "icc_mean", missing: "too few answers that all judges rated, or no spread" },
        { name: "correlation", heading: "r", title: table.column("correlation").description }, { name: "effective_votes", heading: "votes", title: table.column("effective_votes").description },
        "n", "n_complete", "rated", { name: "shown", heading: "shown" }, { name: "coverage", heading: "coverage" },
      ],
      rows, head: "benchmark", view, key: "agreement", caption: "Agreement of the judges by benchmark", file: "jury_agreement", unit: "benchmark",
    });
  }

  // A name may not stand twice on an axis of names, so that places stand for them.
  function forest(table, rows, measure) {
    const known = rows.filter((row) => table.get(row, measure.name) !== null);
    const column = table.column(measure.name);
    const ordered = [...known].sort((a, b) => table.get(a, measure.name) - table.get(b, measure.name));
    const places = ordered.map((_, i) => i);
    const trace = (ink, name, isStandIn, color, symbol) => {
      const own = places.filter((i) => table.get(ordered[i], "is_stand_in") === isStandIn);
      const get = (key) => own.map((i) => table.get(ordered[i], key));
      const values = get(measure.name);
      const reach = (key, sign) => get(key).map((end, i) => (end === null ? 0 : Math.max(0, sign * (end - values[i]))));
      return {
        type: "scatter", mode: "markers", name, x: values, y: own, showlegend: true,
        error_x: { type: "data", symmetric: false, array: reach(column.high, 1), arrayminus: reach(column.low, -1), color, thickness: 1.4, width: 4 },
        marker: { symbol, size: 10, color: isStandIn ? ink.surface : color, line: { color, width: 2 } },
        hovertext: own.map((i) => `${medhelm.plotText(benchmarkTitle(table.get(ordered[i], "benchmark")))}<br>${medhelm.plotText(medhelm.withInterval(table, ordered[i], measure.name))}`), hoverinfo: "text",
      };
    };
    return {
      known, height: Math.max(220, 130 + 30 * known.length),
      plot: (ink) => ({
        data: [trace(ink, "jury of models", false, ink.accent, "circle"), trace(ink, "offline stand-in", true, ink.second, "diamond")].filter((t) => t.x.length),
        layout: {
          xaxis: { title: { text: measure.title }, range: [Math.min(0, ...known.map((row) => table.get(row, column.low) ?? table.get(row, measure.name))) - 0.05, 1.02] },
          yaxis: { tickvals: places, ticktext: ordered.map((row) => medhelm.plotText(benchmarkTitle(table.get(row, "benchmark")), 32)), range: [-0.7, places.length - 0.3] },
          margin: { l: 60, r: 24, t: 16, b: 56 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
        },
      }),
    };
  }

  function agreement(view, table, benchmark) {
    const rows = levelRows(table, "agreement", benchmark);
    const measure = MEASURES.get(view.get("measure")) || MEASURES.get("");
    const chart = forest(table, rows, measure);
    const behind = agreementTable(view, table, rows);
    const title = `Agreement of the judges: ${measure.title}`;
    if (!chart.known.length) return [h("h2", null, "Agreement among judges"), h("p", { class: "note" }, "No benchmark of the selection has a value of this measure."), behind];
    return [
      medhelm.figure({ title, caption: `${measure.says} The lines are intervals.${rows.some((row) => table.get(row, "is_stand_in")) ? " Open diamonds are graders by rule, not judges." : ""}`, height: chart.height, plot: chart.plot, table: behind }),
    ];
  }

  // Judges --------------------------------------------------------------------------------------

  function judges(view, table, benchmark) {
    const rows = levelRows(table, "judge", benchmark);
    return [
      h("h2", null, "Judges and their coverage"),
      h("p", { class: "faint" }, "What each judge rated of the answers that it was shown, how its ratings lie, and what is left of the agreement without it."),
      medhelm.dataTable(table, {
        columns: [
          { name: "judge", heading: "judge" }, benchmarkColumn(view, table, rows), "rated", { name: "shown", heading: "shown" }, { name: "coverage", heading: "coverage" },
          { name: "score", heading: "score", title: "by its ratings or verdicts alone, on compared answers", missing: "no rating" },
          { name: "alpha_without", missing: "fewer than two other judges, or no spread" },
          { name: "rank_shift", heading: "moves", missing: "nothing is ranked" },
          { name: "own", heading: "judges its family", isText: true, missing: "none of the models" },
          { name: "abstained", heading: "abstained", isText: true, missing: "never" },
        ],
        rows, head: "judge", view, key: "judges", caption: "Judges by benchmark", file: "jury_judges", unit: "judge",
      }),
    ];
  }

  // One judge left out --------------------------------------------------------------------------

  function without(table, benchmark) {
    const found = new Map();
    for (const row of levelRows(table, "left out", benchmark)) {
      const model = table.get(row, "model");
      if (!found.has(model)) found.set(model, new Map());
      found.get(model).set(table.get(row, "judge"), row);
    }
    return found;
  }

  function unranked(table, row) {
    const card = medhelm.models.get(table.get(row, "model"));
    return card && !card.is_ranked ? `${medhelm.apartWhy(card)}, so it is not ranked` : "not ranked on this benchmark";
  }

  function rankCell(table, row, full) {
    if (!row) return medhelm.dash("no row");
    const rank = table.get(row, "rank");
    const isMoved = full !== null && rank !== null && rank !== full;
    return h("span", { class: isMoved ? "moved" : null },
      rank === null ? medhelm.dash(unranked(table, row)) : h("span", { class: "value strong" }, medhelm.count(rank)), " ",
      h("span", { class: "interval" }, table.get(row, "score") === null ? medhelm.dash("no score") : medhelm.valueText(table.column("score"), table.get(row, "score"))),
      isMoved ? h("span", { class: "unseen" }, " (another rank than by all judges)") : null,
      table.get(row, "is_own") ? [" ", medhelm.badge("plain", "family", "the judge left out is of the family of the model")] : null);
  }

  function matrix(view, table, benchmark) {
    const models = levelRows(table, "model", benchmark);
    const judgeNames = levelRows(table, "judge", benchmark).map((row) => table.get(row, "judge"));
    const left = without(table, benchmark);
    const columns = judgeNames.map((judge, place) => ({
      name: `without-${place}`, heading: h("span", null, "without ", medhelm.name(judge)), isText: false, saved: [],
      cell: (row) => rankCell(table, (left.get(table.get(row, "model")) || new Map()).get(judge), table.get(row, "rank")), sort: null,
    }));
    return medhelm.dataTable(table, {
      columns: [
        { name: "model", cell: (row) => [medhelm.name(table.get(row, "model")), " ", medhelm.modelMarks(table.get(row, "model"), new Set())] },
        { name: "rank", heading: "rank", cell: (row) => (table.get(row, "rank") === null ? medhelm.dash(unranked(table, row)) : medhelm.valueCell(table, row, "rank")) },
        { name: "score", heading: "score" }, ...columns, "score_least", "score_most",
        { name: "score_without_own", heading: "without its family", missing: "no judge is of its family" }, "n",
      ],
      rows: models, head: "model", view, key: "left", sort: "rank", caption: `Scores and ranks with one judge left out, ${medhelm.plain(benchmarkTitle(benchmark))}`, file: "jury_left_out", unit: "model",
      rowClass: (row) => (table.get(row, "ranked") ? null : "apart"),
    });
  }

  function leftOutPlot(table, benchmark) {
    const models = [...levelRows(table, "model", benchmark)].filter((row) => table.get(row, "score") !== null).reverse();
    const judgeNames = levelRows(table, "judge", benchmark).map((row) => table.get(row, "judge"));
    const left = without(table, benchmark);
    const names = models.map((row) => medhelm.plotText(table.get(row, "model"), 36));
    const text = (row) => medhelm.valueText(table.column("score"), table.get(row, "score"));
    const rest = (judge, place) => (ink) => {
      const rows = models.map((row) => (left.get(table.get(row, "model")) || new Map()).get(judge) || null);
      return {
        type: "scatter", mode: "markers", name: `without ${medhelm.plotText(judge, 32)}`, y: models.map((_, i) => i), x: rows.map((row) => (row ? table.get(row, "score") : null)),
        marker: { symbol: `${LEFT_OUT_MARKS[(place + 1) % LEFT_OUT_MARKS.length]}-open`, size: 9, color: [ink.second, ink.third, ink.faint][place % 3], line: { width: 2 } },
        hovertext: rows.map((row, i) => `${names[i]}<br>without ${medhelm.plotText(judge)}: ${row ? text(row) : "–"}`), hoverinfo: "text",
      };
    };
    return {
      height: Math.max(240, 150 + 32 * models.length),
      plot: (ink) => ({
        data: [
          { type: "scatter", mode: "markers", name: "all judges", y: models.map((_, i) => i), x: models.map((row) => table.get(row, "score")), marker: { symbol: "circle", size: 12, color: ink.accent }, hovertext: models.map((row, i) => `${names[i]}<br>all judges: ${text(row)}`), hoverinfo: "text" },
          ...judgeNames.map((judge, place) => rest(judge, place)(ink)),
        ],
        layout: { xaxis: { title: { text: "jury score" } }, yaxis: { tickvals: models.map((_, i) => i), ticktext: names, range: [-0.7, models.length - 0.3] }, margin: { l: 60, r: 24, t: 16, b: 56 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 } },
      }),
    };
  }

  function leftOutList(view, table, benchmark) {
    return medhelm.dataTable(table, {
      columns: ["model", { name: "judge", heading: "without", missing: "none: all judges" }, { name: "rank", missing: "not ranked" }, "score", "n"],
      rows: [...levelRows(table, "model", benchmark), ...levelRows(table, "left out", benchmark)],
      head: "model", view, key: "without", sort: "model", caption: "Scores and ranks without each judge, as a list", file: "jury_without", unit: "row",
    });
  }

  function leftOut(view, table, benchmark) {
    const head = [h("h2", null, "One judge left out"), h("p", { class: "faint" }, "Rank and score of each model by all judges, and what they become without each judge, on the same instances. A rank that changes is marked. Brackets behind a rank hold the best and the worst one without a judge; those behind a score are its interval.")];
    const chart = leftOutPlot(table, benchmark);
    const isStandIn = levelRows(table, "agreement", benchmark).some((row) => table.get(row, "is_stand_in"));
    return [
      head,
      medhelm.figure({
        title: h("span", null, "Scores without each judge: ", medhelm.name(benchmarkTitle(benchmark)), isStandIn ? [" ", medhelm.badge("warn", "offline stand-in", "graders by rule; their scores say nothing about quality")] : null),
        caption: "Points that lie apart show how much a model's score depends on who judges.",
        height: chart.height, plot: chart.plot, table: leftOutList(view, table, benchmark),
      }),
      matrix(view, table, benchmark),
    ];
  }

  // Controls ------------------------------------------------------------------------------------

  function controls(view, table) {
    if (!table || !table.rows.length) return null;
    return [
      h("h2", { id: "controls" }, "How far judges err"),
      h("p", { class: "faint" }, "Judges were also asked about answers whose verdicts are known: without content, to another case, and right ones. They are in no score."),
      medhelm.dataTable(table, {
        columns: [
          { name: "benchmark", isText: true, cell: (row) => medhelm.name(benchmarkTitle(table.get(row, "benchmark"))) }, "judge", "what",
          { name: "share", missing: "no valid verdict" }, "verdicts", "invalid", "empty", "other", "right", "cases",
        ],
        rows: table.rows, head: "benchmark", view, key: "controls", caption: "Wrong verdicts of judges on controls", file: "controls", unit: "row",
      }),
    ];
  }

  // Clinicians ----------------------------------------------------------------------------------

  function measureName(table, row) {
    const name = table.get(row, "measure");
    return [h("span", { class: name === "jury" || name === "clinicians" ? "strong" : null }, medhelm.name(name === "clinicians" ? "clinicians, among themselves" : name)), standIn(table, row)];
  }

  function clinicianPlot(table, rows) {
    const known = rows.filter((row) => table.get(row, "icc") !== null).reverse();
    const values = known.map((row) => table.get(row, "icc"));
    const reach = (key, sign) => known.map((row, i) => (table.get(row, key) === null ? 0 : Math.max(0, sign * (table.get(row, key) - values[i]))));
    const column = table.column("icc");
    const ends = (row) => (table.get(row, "boot_low") === null ? "" : ` [${medhelm.valueText(column, table.get(row, "boot_low"))}, ${medhelm.valueText(column, table.get(row, "boot_high"))}]`);
    return {
      known, height: Math.max(220, 120 + 34 * known.length), isCut: values.some((v) => v < LEAST_ICC),
      plot: (ink) => ({
        data: [{
          type: "scatter", mode: "markers", showlegend: false, x: values, y: known.map((_, i) => i),
          error_x: { type: "data", symmetric: false, array: reach("boot_high", 1), arrayminus: reach("boot_low", -1), color: ink.faint, thickness: 1.4, width: 4 },
          marker: { size: 11, symbol: known.map((row) => (table.get(row, "measure") === "clinicians" ? "diamond" : "circle")), color: known.map((row) => (table.get(row, "measure") === "clinicians" ? ink.second : ink.accent)) },
          hovertext: known.map((row) => `${medhelm.plotText(table.get(row, "measure"))}<br>ICC(3,k) ${medhelm.valueText(column, table.get(row, "icc"))}${ends(row)}`), hoverinfo: "text",
        }],
        layout: { xaxis: { title: { text: "ICC(3,k) with clinicians" }, range: [Math.min(0, ...known.map((row) => Math.max(LEAST_ICC, table.get(row, "boot_low") ?? table.get(row, "icc")))) - 0.05, 1.02] }, yaxis: { tickvals: known.map((_, i) => i), ticktext: known.map((row) => medhelm.plotText(table.get(row, "measure"), 36)), range: [-0.7, known.length - 0.3] }, margin: { l: 60, r: 24, t: 12, b: 56 } },
      }),
    };
  }

  function clinicianTable(view, table, rows) {
    return medhelm.dataTable(table, {
      columns: [
        { name: "measure", isText: true, cell: (row) => measureName(table, row) },
        { name: "benchmark", isText: true, cell: (row) => (table.get(row, "level") === "combined" ? "all, combined" : medhelm.name(benchmarkTitle(table.get(row, "benchmark")))) },
        { name: "icc", heading: "ICC(3,k), F interval", missing: "see the notes" }, { name: "boot_low", heading: "bootstrap low" }, { name: "boot_high", heading: "bootstrap high" },
        { name: "correlation", heading: "r" }, { name: "mae", heading: "MAE" }, { name: "bias", heading: "bias" }, { name: "kappa_quadratic", heading: "kappa, quadratic" }, { name: "alpha", heading: "alpha" },
        { name: "effective_votes", heading: "votes" }, { name: "n", heading: "n" }, { name: "answers", heading: "rated" }, { name: "raters", heading: "clinicians" },
      ],
      rows, head: "measure", view, key: "clinicians", caption: "Agreement with clinicians", file: "agreement", unit: "row",
    });
  }

  async function clinicianRatings() {
    return medhelm.site.agreement ? medhelm.reader(await medhelm.load(medhelm.site.agreement)) : null;
  }

  function clinicians(view, table, benchmark) {
    const head = h("h2", null, "Agreement with clinicians");
    if (!table) return [head, h("p", { class: "note", id: "no-clinicians" }, "No ratings by clinicians were given to this build. Agreement among judges alone does not show that they are right.")];
    const rows = table.rows.filter((row) => table.get(row, "level") === "combined" || !benchmark || table.get(row, "benchmark") === benchmark);
    const level = rows.some((row) => table.get(row, "level") === "combined") ? "combined" : "benchmark";
    const first = rows.filter((row) => table.get(row, "level") === level && (level === "combined" || table.get(row, "benchmark") === table.get(rows[0], "benchmark")));
    const chart = clinicianPlot(table, first);
    const behind = clinicianTable(view, table, rows);
    const scope = level === "combined" ? "all rated answers" : benchmarkTitle(table.get(rows[0], "benchmark"));
    return [
      chart.known.length
        ? medhelm.figure({ title: h("span", { id: "clinicians" }, medhelm.name(table.table.title), `: ${medhelm.plain(scope)}`), caption: `Each measure against the mean of the clinicians, with its bootstrap interval; the diamond is the clinicians among themselves, which no judge should be expected to pass by far.${chart.isCut ? " What lies below -1 is in the table only." : ""}`, height: chart.height, plot: chart.plot, table: behind })
        : [head, behind],
    ];
  }

  // The page ------------------------------------------------------------------------------------

  function warning(table, benchmark) {
    const rows = levelRows(table, "agreement", benchmark);
    const offline = rows.filter((row) => table.get(row, "is_stand_in"));
    if (!offline.length) return null;
    const who = offline.length === rows.length ? "Every benchmark shown here is" : `${medhelm.count(offline.length)} of ${medhelm.many(rows.length, "benchmark")} shown here are`;
    return h("p", { class: "mark warn", id: "stand-in" }, h("strong", null, "Offline stand-in. "), `${who} rated by graders by rule, not by judges. Their agreement and their scores say nothing about quality.`);
  }

  function filters(view, names, benchmark) {
    const options = names.map((name) => [name, medhelm.plain(benchmarkTitle(name), 60)]);
    return h("section", { class: "filters", "aria-label": "Filters" },
      medhelm.scoringSelect(view),
      medhelm.select(view, "benchmark", "Benchmark", [["", "All"], ...options], benchmark),
      medhelm.switcher(view, "measure", "Measure of agreement", [...MEASURES].map(([key, m]) => [key, m.title]), MEASURES.has(view.get("measure")) ? view.get("measure") : ""));
  }

  function body(view, table, controlled, ratings) {
    const names = levelRows(table, "agreement").map((row) => table.get(row, "benchmark"));
    const benchmark = names.includes(view.get("benchmark")) ? view.get("benchmark") : "";
    const one = benchmark || names.find((name) => !medhelm.offlineJury.has(name)) || names[0];
    medhelm.say(medhelm.many(benchmark ? 1 : names.length, "benchmark"));
    return [
      filters(view, names, benchmark),
      warning(table, benchmark),
      agreement(view, table, benchmark),
      judges(view, table, benchmark),
      leftOut(view, table, one),
      benchmark || names.length < 2 ? null : h("p", { class: "faint" }, "Shown for one benchmark; choose another above."),
      controls(view, controlled),
      clinicians(view, ratings, benchmark),
      medhelm.notes(table, ratings),
    ];
  }

  async function render(view) {
    const [table, controlled, ratings] = await Promise.all([medhelm.tableOf(view.scoring, "jury"), medhelm.tableOf(view.scoring, "controls"), clinicianRatings()]);
    const head = [h("h1", null, "Jury"), h("p", { class: "lead" }, "Answers in free text are rated by several judges. How far they agree with each other and with clinicians, what they left unrated, and how much a rank hangs on one of them.")];
    if (!table || !table.rows.length) return [head, medhelm.scoringSelect(view), medhelm.nothing("No benchmark of this site was rated by a jury."), controls(view, controlled), clinicians(view, ratings, ""), medhelm.notes(ratings)];
    return [head, body(view, table, controlled, ratings)];
  }

  medhelm.page("jury", { title: "Jury", render });
})();
