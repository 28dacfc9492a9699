"use strict";

// The two definitions of the win rate, and how pages show the one that is chosen.
(() => {
  const { h } = medhelm;
  const BY = new Map([
    ["", { name: "win_rate", low: "win_low", high: "win_high", sd: "win_sd", table: "half", says: "A win is a score above the rival's; a tie counts one half, which gives the paper's table 1." }],
    ["literal", { name: "win_rate_literal", low: "win_literal_low", high: "win_literal_high", sd: "win_literal_sd", table: "literal", says: "A win is a score at least the rival's, so that a tie wins for both, as in the paper's text." }],
  ]);

  medhelm.RANK_RULE = "The ranks in brackets are simultaneous over all pairs (Mogstad et al. 2024): two models are told apart where the paired differences of both win rate and macro-average are clear. The first of a tie group is not clearly better than the others of it.";

  /** Return the columns of the win rate that the address chooses. */
  medhelm.winRate = (view) => BY.get(view.get("by")) || BY.get("");

  /** Return the switch between the definitions. */
  medhelm.winSwitch = (view) => medhelm.switcher(view, "by", "Win rate", [["", "Ties count half"], ["literal", "Ties win"]], view.get("by") === "literal" ? "literal" : "");

  /** Return why a model has no rank. */
  medhelm.whyUnranked = (table, row) => {
    const card = medhelm.models.get(table.get(row, "model"));
    if (card && !card.is_ranked) return `${medhelm.apartWhy(card)}, so it is not ranked`;
    return table.get(row, "ranked") ? "no rival, or no benchmark that all ranked models share" : "not ranked; see the notes";
  };

  function cell(table, row, by) {
    const value = table.get(row, by.name);
    if (value === null) return medhelm.dash(medhelm.whyUnranked(table, row));
    const [low, high] = [table.get(row, by.low), table.get(row, by.high)];
    const text = (v) => medhelm.valueText(table.column(by.name), v);
    const interval = low === null || high === null ? "" : ` [${text(low)}, ${text(high)}]`;
    return [h("span", { class: "value strong" }, text(value)), h("span", { class: "interval" }, interval), medhelm.whisker(value, low, high)];
  }

  /** Return the column of the win rate: value, interval, and a line from 0 to 1 that shows both. */
  medhelm.winColumn = (table, by) => ({ name: by.name, heading: "win rate", cell: (row) => cell(table, row, by), className: "wide", saved: [by.name, by.low, by.high] });
})();
