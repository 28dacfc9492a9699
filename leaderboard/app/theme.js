"use strict";

// Runs before the page is painted, so that a chosen theme does not flash.
const medhelm = {};

(() => {
  const KEY = "medhelm-theme";
  const CHOICES = ["auto", "light", "dark"];

  function stored() {
    try {
      const choice = localStorage.getItem(KEY);
      return CHOICES.includes(choice) ? choice : "auto";
    } catch {
      return "auto"; // Storage may be forbidden, as it is for some pages from disk.
    }
  }

  function apply(choice) {
    if (choice === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", choice);
  }

  function announce() {
    document.dispatchEvent(new Event("medhelm:theme"));
  }

  medhelm.theme = () => document.documentElement.getAttribute("data-theme") || "auto";

  medhelm.setTheme = (choice) => {
    apply(choice);
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // The choice then lasts as long as the page.
    }
    announce();
  };

  medhelm.nextTheme = () => {
    const place = CHOICES.indexOf(medhelm.theme());
    medhelm.setTheme(CHOICES[(place + 1) % CHOICES.length]);
  };

  apply(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", announce);
})();
