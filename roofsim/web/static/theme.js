"use strict";
// Before anything is painted: the colours that were chosen on this machine; without a choice, those of the system.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("roofsim-theme"); } catch (error) { /* storage may be off; then the system decides */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
