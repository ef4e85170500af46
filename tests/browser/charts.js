// Charts whose texts reach out of their drawing, or that show no axis.
() => [...document.querySelectorAll('figure.chart')].flatMap((figure) => {
  const drawings = [...figure.querySelectorAll('svg:not(.key)')].filter((svg) => svg.getBoundingClientRect().width);
  if (drawings.length !== 1) return [[figure.textContent.slice(0, 60), drawings.length + ' drawings']];
  const box = drawings[0].getBoundingClientRect();
  const texts = [...drawings[0].querySelectorAll('text')];
  const out = texts.filter((text) => { const own = text.getBoundingClientRect(); return own.left < box.left - 4 || own.right > box.right + 4; });
  const axes = texts.filter((text) => text.classList.contains('q'));
  return [...out.map((text) => [text.textContent, 'is cut off']), ...(axes.length < 3 ? [[figure.textContent.slice(0, 60), 'has no axes']] : [])];
})
