"use strict";

(() => {
  const { h } = medhelm;

  async function render(view) {
    const table = await medhelm.tableOf(view.scoring, "interviews");
    return [h("h1", null, "Interviews"), medhelm.dataTable(table, { columns: ["model", "interviews", "named"], head: "model", view, caption: "Interviews", file: "interviews", unit: "model" })];
  }

  medhelm.page("interviews", {
    render,
    item: (facts) => h("p", null, `${medhelm.count(facts)} facts`),
    answer: (ended) => h("p", null, `${ended.ending} after ${ended.turns} turns`),
  });
})();
