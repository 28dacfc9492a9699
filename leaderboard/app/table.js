"use strict";

// Sortable tables of a page table: chosen columns, in a container that scrolls by itself.
(() => {
  const { h } = medhelm;

  /** Return what stands for a missing value: a dash, with the reason where it is known. */
  medhelm.dash = (reason = "") =>
    h("span", { class: "missing", title: reason || null }, medhelm.DASH, reason ? h("span", { class: "unseen" }, ` (${reason})`) : null);

  /** Return a value with its interval as an element. */
  medhelm.valueCell = (table, row, name, reason = "") => {
    const column = table.column(name);
    const value = table.get(row, name);
    if (value === null) return medhelm.dash(reason);
    if (column.type === "string") return medhelm.name(value);
    const interval = medhelm.intervalText(table, row, column);
    const text = h("span", { class: "value" }, medhelm.valueText(column, value));
    return interval ? [text, " ", h("span", { class: "interval" }, interval)] : text;
  };

  /** Return a line from `least` to `most` with a value and its interval on it; its text is beside. */
  medhelm.whisker = (value, low, high, least = 0, most = 1) => {
    const share = (v) => Math.min(Math.max((v - least) / (most - least), 0), 1);
    const percent = (v) => `${100 * v}%`;
    const range = low === null || high === null ? null : h("span", { class: "range", style: { left: percent(share(low)), width: percent(share(high) - share(low)) } });
    return h("span", { class: "whisker", "aria-hidden": "true" }, range, h("span", { class: "dot", style: { left: percent(share(value)) } }));
  };

  function complete(table, spec) {
    const given = typeof spec === "string" ? { name: spec } : spec;
    const known = table.has(given.name) ? table.column(given.name) : null;
    return {
      heading: known ? known.heading || known.name.replaceAll("_", " ") : given.name,
      title: known ? known.description : "",
      isText: known ? known.type === "string" : false,
      cell: (row) => medhelm.valueCell(table, row, given.name, given.missing || ""),
      sort: known ? (row) => table.get(row, given.name) : null,
      saved: known ? [given.name, known.low, known.high].filter(Boolean) : [],
      ...given,
    };
  }

  function compare(a, b, sign) {
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
    if (b === null || b === undefined) return -1;
    if (typeof a === "string" && typeof b === "string") return sign * a.localeCompare(b, "en", { numeric: true });
    return sign * (Number(a) - Number(b));
  }

  function sorted(rows, columns, sorting, isTotal = () => false) {
    const column = columns.find((c) => c.name === sorting.replace(/^-/, ""));
    if (!column || !column.sort) return rows;
    const sign = sorting.startsWith("-") ? -1 : 1;
    // Missing values come last either way, and a row of sums after all.
    return [...rows].sort((a, b) => isTotal(a) - isTotal(b) || compare(column.sort(a), column.sort(b), sign));
  }

  function csvCell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    // A spreadsheet would run a text that begins like a formula.
    const text = /^[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function toCsv(table, names, rows) {
    const lines = [names, ...rows.map((row) => names.map((name) => table.get(row, name)))];
    return lines.map((line) => line.map(csvCell).join(",")).join("\n") + "\n";
  }

  function toJson(table, names, rows) {
    const document_ = {
      schema: "medhelm.table/1",
      table: table.name,
      title: table.table.title,
      columns: names.map((name) => {
        const { type, description, unit } = table.column(name);
        return { name, type, description, unit };
      }),
      rows: rows.map((row) => {
        const line = Object.create(null); // Keys come from the data.
        for (const name of names) line[name] = table.get(row, name);
        return line;
      }),
      notes: table.notes,
      settings: Object.assign(Object.create(null), Object.fromEntries(table.settings)),
    };
    return JSON.stringify(document_, null, 1) + "\n";
  }

  function downloads(table, columns, file, shownRows) {
    const names = [...new Set(columns.flatMap((c) => c.saved))];
    const save = (ending, type, write) =>
      h("button", { type: "button", class: "quiet small", on: { click: () => medhelm.saveFile(`${file}.${ending}`, type, write(table, names, shownRows())) } }, ending.toUpperCase());
    return h("div", { class: "downloads", role: "group", "aria-label": "Download what is shown" }, h("span", { class: "faint" }, "Download"), save("csv", "text/csv", toCsv), save("json", "application/json", toJson));
  }

  function headCell(column, sorting, onSort) {
    const isSorted = sorting.replace(/^-/, "") === column.name;
    const direction = sorting.startsWith("-") ? "descending" : "ascending";
    const attributes = { scope: "col", class: [column.isText ? "text" : "number", column.className].filter(Boolean).join(" "), "aria-sort": isSorted && column.sort ? direction : null };
    if (!column.sort) return h("th", { ...attributes, title: column.title || null }, column.heading);
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (direction === "ascending" ? "▲" : "▼") : "▼");
    return h("th", attributes, h("button", { type: "button", class: isSorted ? "sort on" : "sort", title: column.title || null, on: { click: () => onSort(column) } }, column.heading, arrow));
  }

  function bodyRow(columns, options, row) {
    const cells = columns.map((column) => {
      const tag = column.name === options.head ? "th" : "td";
      const kind = [column.isText ? "text" : "number", column.className].filter(Boolean).join(" ");
      const content = column.cell(row);
      return h(tag, { class: kind, scope: tag === "th" ? "row" : null }, tag === "th" ? h("div", { class: "head" }, content) : content);
    });
    return h("tr", { class: options.rowClass ? options.rowClass(row) : null }, cells);
  }

  /**
   * Return a sortable table.
   *
   * options: columns (names, or {name, heading, title, cell(row), sort(row), isText, missing, saved}),
   * rows, head (the column that names a row), sort ("name" or "-name"), view and key (where the
   * sorting is remembered), caption, file (name of downloads; none without), unit, rowClass(row),
   * isTotal(row).
   */
  medhelm.dataTable = (table, options) => {
    const columns = options.columns.map((spec) => complete(table, spec));
    const rows = options.rows || table.rows;
    const key = options.key || "sort";
    const asked = options.view ? options.view.get(key) : "";
    let sorting = columns.some((c) => c.sort && c.name === asked.replace(/^-/, "")) ? asked : options.sort || "";
    const head = h("tr", null);
    const body = h("tbody", null);
    const given = { head: columns[0].name, unit: "row", ...options };

    function fill() {
      head.replaceChildren(...columns.map((column) => headCell(column, sorting, onSort)));
      body.replaceChildren(...sorted(rows, columns, sorting, given.isTotal).map((row) => bodyRow(columns, given, row)));
    }

    function onSort(column) {
      const first = column.isText || column.name.startsWith("rank") ? column.name : `-${column.name}`;
      const other = first.startsWith("-") ? column.name : `-${column.name}`;
      sorting = sorting === first ? other : first;
      fill();
      head.children[columns.indexOf(column)].querySelector("button").focus();
      if (options.view) options.view.remember({ [key]: sorting });
      medhelm.say(`Sorted by ${column.heading}, ${sorting.startsWith("-") ? "descending" : "ascending"}`);
    }

    fill();
    const count = h("p", { class: "count" }, medhelm.many(rows.length, given.unit));
    const tools = h("div", { class: "tools" }, count, given.file && rows.length ? downloads(table, columns, given.file, () => sorted(rows, columns, sorting, given.isTotal)) : null);
    const element = h("table", null, h("caption", { class: "unseen" }, options.caption), h("thead", null, head), body);
    return h("div", { class: "table-block" }, options.isBare ? null : tools, medhelm.scroller(options.caption, element));
  };

  /** Return a container that scrolls sideways by itself, by keyboard too. */
  medhelm.scroller = (label, ...children) => h("div", { class: children.some((c) => c.classList.contains("heat")) ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": label }, children);

  /** Return details that are made when they are first opened. */
  medhelm.lazyDetails = (summary, make) => {
    const element = h("details", { class: "behind" }, h("summary", null, summary));
    element.addEventListener("toggle", () => element.open && element.children.length === 1 && element.append(make()));
    return element;
  };

  /** Return the notes of tables as a list; each once. */
  medhelm.notes = (...tables) => {
    const notes = [...new Set(tables.filter(Boolean).flatMap((t) => t.notes))];
    if (!notes.length) return null;
    return h("section", { class: "notes", "aria-label": "Notes" }, h("h2", null, "Notes"), h("ul", null, notes.map((note) => h("li", null, medhelm.shown(note, 2000)))), tables[0] ? settingsLine(tables[0]) : null);
  };

  function settingsLine(table) {
    const { settings } = table;
    if (!settings.has("draws")) return null;
    return h("p", { class: "faint" }, `${medhelm.percent(settings.get("confidence"), 0)} intervals from ${medhelm.count(settings.get("draws"))} bootstrap draws, seed ${settings.get("bootstrap_seed")}; scoring=`, medhelm.name(settings.get("scoring")), ", data=", medhelm.name(settings.get("data")), ".");
  }
})();
