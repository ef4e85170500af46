// The button for light and dark: what is chosen is remembered on this machine; without a choice the system's is taken.

import { by } from "./dom.js";

/** Let the button for dark and light work, and say which it is. */
export function themes() {
  const button = by("theme"), root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => button.setAttribute("aria-pressed", String(dark()));
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("roofsim-theme", root.dataset.theme); } catch (error) { /* then for this page alone */ }
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}
