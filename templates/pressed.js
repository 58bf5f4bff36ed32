// Shows that a button was pressed, and sends a form once. Every page works without this.
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
// a page that the browser kept, and shows again
addEventListener('pageshow', clear);
