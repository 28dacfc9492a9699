"use strict";

// Details of a cell on hover and on focus; arrow keys between the cells of a grid.
(() => {
  const { h } = medhelm;
  const GAP = 8;
  const LEAVE_MS = 120;
  let tip = null;
  let owner = null;
  let leaving = 0;

  function element() {
    if (tip) return tip;
    tip = h("div", { id: "tip", role: "tooltip", hidden: true });
    tip.addEventListener("pointerenter", () => clearTimeout(leaving)); // It may be read and copied from.
    tip.addEventListener("pointerleave", later);
    document.body.append(tip);
    return tip;
  }

  function place(target) {
    const at = target.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const left = Math.min(Math.max(GAP, at.left + at.width / 2 - size.width / 2), width - size.width - GAP);
    const hasRoom = at.bottom + GAP + size.height < innerHeight;
    const top = hasRoom ? at.bottom + GAP : Math.max(GAP, at.top - size.height - GAP);
    tip.style.setProperty("left", `${Math.max(GAP, left)}px`);
    tip.style.setProperty("top", `${top}px`);
  }

  function show(target, content) {
    clearTimeout(leaving);
    if (owner === target && !element().hidden) return;
    hide();
    owner = target;
    element().replaceChildren(...[content].flat(Infinity).filter(Boolean));
    tip.hidden = false;
    place(target);
    target.setAttribute("aria-describedby", "tip");
  }

  function hide() {
    clearTimeout(leaving);
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
    if (tip) tip.hidden = true;
  }

  function later() {
    clearTimeout(leaving);
    leaving = setTimeout(hide, LEAVE_MS);
  }

  /** Show `details(cell)` for elements of the container that match; hidden by Escape. */
  medhelm.tips = (container, selector, details) => {
    const find = (event) => (event.target instanceof Element ? event.target.closest(selector) : null);
    const open = (event) => {
      const cell = find(event);
      if (cell) show(cell, details(cell));
    };
    const leave = (event) => {
      if (find(event)) later();
    };
    container.addEventListener("pointerover", open);
    container.addEventListener("pointerout", leave);
    container.addEventListener("focusin", open);
    container.addEventListener("focusout", leave);
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  document.addEventListener("medhelm:leave", hide);
  addEventListener("scroll", () => owner && !tip.hidden && place(owner), { passive: true, capture: true });

  const STEPS = new Map([["ArrowRight", [0, 1]], ["ArrowLeft", [0, -1]], ["ArrowDown", [1, 0]], ["ArrowUp", [-1, 0]]]);

  function goal(lines, row, place_, event) {
    if (event.key === "Home") return lines[row][0];
    if (event.key === "End") return lines[row][lines[row].length - 1];
    const step = STEPS.get(event.key);
    if (!step) return null;
    const line = lines[Math.min(Math.max(row + step[0], 0), lines.length - 1)];
    return line[Math.min(Math.max(place_ + step[1], 0), line.length - 1)];
  }

  /** Make one stop for Tab of all cells that match; arrow keys, Home and End move between them. */
  medhelm.arrows = (table, selector) => {
    table.setAttribute("role", "grid");
    const lines = [...table.rows].map((row) => [...row.querySelectorAll(selector)]).filter((line) => line.length);
    lines.flat().forEach((cell, index) => cell.setAttribute("tabindex", index ? "-1" : "0"));
    table.addEventListener("keydown", (event) => {
      const from = event.target.closest(selector);
      const row = lines.findIndex((line) => line.includes(from));
      if (row < 0) return;
      const to = goal(lines, row, lines[row].indexOf(from), event);
      if (!to) return;
      event.preventDefault();
      to.focus();
      to.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    table.addEventListener("focusin", (event) => {
      const cell = event.target.closest(selector);
      if (!cell) return;
      lines.flat().forEach((other) => other.setAttribute("tabindex", other === cell ? "0" : "-1"));
    });
  };
})();
