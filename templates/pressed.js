// Marks a pressed button, and keeps its form from being sent twice. Every page works without this script.
const clear = () => {
  for (const form of document.querySelectorAll('form[aria-busy]')) {
    form.removeAttribute('aria-busy');
    for (const button of document.querySelectorAll('.pressed')) button.classList.remove('pressed');
  }
};
addEventListener('submit', (event) => {
  const form = event.target;
  if (form.hasAttribute('aria-busy')) {
    event.preventDefault();
    return;
  }
  form.setAttribute('aria-busy', 'true');
  event.submitter?.classList.add('pressed');
  setTimeout(clear, 15000);
});
// the browser may show a page that it has kept
addEventListener('pageshow', clear);
