({
  // Number the controls that a keyboard should reach, and say what each is.
  mark() {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((one) => {
      if (one.disabled || one.tabIndex < 0 || !one.checkVisibility({ visibilityProperty: true })) return false;
      if (one.type !== "radio" || one.checked) return true;
      return ![...document.getElementsByName(one.name)].some((other) => other.checked);
    });
    all.forEach((one, place) => { one.dataset.place = place; });
    return all.map((one) => `${one.tagName} ${one.id || one.className.baseVal || one.className || one.textContent.slice(0, 30)}`);
  },
  // Say where the focus is, whether a ring shows it, and whether nothing lies over it; marks of one drawing may overlap.
  focused() {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const ring = one.matches(".verbs input, .segments input") ? one.nextElementSibling : one;
    const style = getComputedStyle(ring);
    const box = ring.getBoundingClientRect();
    const points = [[0.5, 0.5], [0.1, 0.3], [0.9, 0.7]].map(([across, down]) => [box.left + across * box.width, box.top + down * box.height]);
    const seen = points.some(([x, y]) => { const top = document.elementFromPoint(x, y); return top && (top === ring || ring.contains(top) || top.contains(one) || (one.ownerSVGElement && one.ownerSVGElement.contains(top))); });
    return { place: Number(one.dataset.place ?? -1), what: one.outerHTML.slice(0, 120), ringed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1, shown: seen };
  },
})
