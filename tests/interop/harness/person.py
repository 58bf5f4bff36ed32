"""A person with a key, a browser and a name at other sites. Logs in where a page asks for it, here and there, and knows nothing of
how the pages look: a form with a password is a login, and so is one with a field `login`."""

import urllib.parse

import leaks
from walk import Browser, page, summary

MOST_STEPS = 24


class Person:
    def __init__(self, name, key=None):
        self.name, self.key, self.browser = name, key, Browser()

    def visit(self, url, action=None, leaves=None):
        """Opens a page and sends its form with this action by the form's first button, once, logging in on the way. Gives status,
        address and text of the page without a way on, or, for a redirect to an address that begins with `leaves`, that address."""
        form = None
        for _ in range(MOST_STEPS):
            status, target, text = self.browser.send(url, form)
            leaks.record(*(cookie.value for cookie in self.browser.cookies))
            if target and leaves and target.startswith(leaves):
                return status, target, ""
            if target:
                url, form = target, None
                continue
            forms = page(text)
            chosen = next((found for found in forms if self.is_login(found)), None)
            if chosen is None and action:
                chosen, action = next((found for found in forms if found.action.endswith(action)), None), None
            if chosen is None:
                return status, url, text
            url, form = urllib.parse.urljoin(url, chosen.action), self.filled(chosen)
        raise AssertionError(f"no end, now at {url}: {summary(text)}")

    @staticmethod
    def is_login(form):
        return form.password is not None or any(name == "login" for name, _ in form.values)

    def filled(self, form):
        """What a browser sends after this person has filled the form in and pressed its first button."""
        values = [(name, self.name if name == "login" else value) for name, value in form.values]
        if form.password:
            values.append((form.password, self.key))
        if form.buttons and form.buttons[0].name:
            values.append((form.buttons[0].name, form.buttons[0].value))
        return values
