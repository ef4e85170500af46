// Numbers of text and of charts against the data, and what of them is not shown as the data say.
() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const at = (key) => key.split('/').slice(1).reduce((here, step) => here == null ? here : here[step.replaceAll('~1', '/').replaceAll('~0', '~')], data);
  const nodes = [...document.querySelectorAll('[data-key]')];
  const wrong = nodes.filter((node) => at(node.dataset.key) !== Number(node.value ?? node.dataset.value ?? node.getAttribute('value')));
  return [nodes.length, wrong.map((node) => node.dataset.key)];
}
