// Text whose contrast with what is behind it is below 4.5, or 3 where it is large; texts on SVG have a halo or a shape behind them.
() => {
  const light = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    const [x, y, z] = [r, g, b].map((one) => { one /= 255; return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4; });
    return [0.2126 * x + 0.7152 * y + 0.0722 * z, a];
  };
  const behind = (node) => {
    for (let here = node; here; here = here.parentElement) {
      const colour = getComputedStyle(here).backgroundColor;
      if (light(colour)[1] > 0.99) return light(colour)[0];
    }
    return 1;
  };
  const poor = [];
  for (const node of document.querySelectorAll('body *:not(script):not(style)')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const box = node.getBoundingClientRect();
    if (!own || !box.width || node.closest('#tip')) continue;
    const style = getComputedStyle(node);
    const drawn = node instanceof SVGElement;
    let back = behind(drawn ? node.closest('svg').parentElement : node);
    if (drawn && node.classList.contains('i')) {
      const under = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2).find((one) => one.matches('rect.m'));
      if (!under) continue;
      back = light(getComputedStyle(under).fill)[0];
    }
    const ink = light(drawn ? style.fill : style.color)[0];
    const ratio = (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
    if (ratio < 4.5) poor.push([node.textContent.slice(0, 40), ratio.toFixed(2)]);
  }
  return poor;
}
