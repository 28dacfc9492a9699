"use strict";

// Values as text: rounded as the tables on a terminal are, so that both say the same.
(() => {
  const DASH = "–";
  const P_COLUMNS = new Set(["p", "p_holm"]);

  // Python rounds exact halves to the even digit, toFixed up; only k / 2^(digits + 1) are such.
  // Sums of the same values in another order differ in the last bits; the tables round those off.
  function fixed(exact, digits) {
    const value = Number(exact.toFixed(12));
    const half = value * 2 ** (digits + 1);
    const doubled = 2 * value * 10 ** digits;
    const isTie = Number.isInteger(half) && Number.isInteger(doubled) && Math.abs(doubled) % 2 === 1;
    if (!isTie) return value.toFixed(digits);
    const low = (doubled - 1) / 2;
    return ((low % 2 === 0 ? low : low + 1) / 10 ** digits).toFixed(digits);
  }

  function grouped(text) {
    const [whole, rest] = text.split(".");
    const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return rest === undefined ? spaced : `${spaced}.${rest}`;
  }

  medhelm.DASH = DASH;

  /** Return a number with a fixed count of digits. */
  medhelm.number = (value, digits) => (value === null || value === undefined ? DASH : grouped(fixed(value, digits)));

  /** Return a whole number. */
  medhelm.count = (value) => medhelm.number(value, 0);

  /** Return a share as a percentage. */
  medhelm.percent = (value, digits = 1) =>
    value === null || value === undefined ? DASH : `${fixed(100 * value, digits)} %`;

  /** Return a value of a column as text, rounded as the column says; a dash where it is missing. */
  medhelm.valueText = (column, value) => {
    if (value === null || value === undefined) return DASH;
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value === "string") return value;
    if (column.percent) return medhelm.percent(value, column.digits);
    const least = 10 ** -column.digits;
    if (P_COLUMNS.has(column.name) && value < least) return `<${least.toFixed(column.digits)}`;
    return column.type === "integer" ? medhelm.count(value) : medhelm.number(value, column.digits);
  };

  /** Return the ends of a value's interval as text; empty where there is none. */
  medhelm.intervalText = (table, row, column) => {
    if (!column.low) return "";
    const low = table.get(row, column.low);
    const high = table.get(row, column.high);
    if (low === null || high === null) return "";
    return `[${medhelm.valueText(column, low)}, ${medhelm.valueText(column, high)}]`;
  };

  /** Return a value with its interval, as one text. */
  medhelm.withInterval = (table, row, name) => {
    const column = table.column(name);
    const interval = medhelm.intervalText(table, row, column);
    const value = medhelm.valueText(column, table.get(row, name));
    return interval ? `${value} ${interval}` : value;
  };

  /** Return "1 model", "2 models". */
  medhelm.many = (count, one, several = `${one}s`) => `${medhelm.count(count)} ${count === 1 ? one : several}`;

  /** Return a date and time as written in the data, without the fraction of a second. */
  medhelm.time = (text) => String(text).replace("T", " ").replace(/\.\d+/, "").replace(/\+00:00$|Z$/, " UTC");
})();
