"""A person with a browser, played by a script: walks an authorization URL to the redirect that ends it.

    walk.py URL          the API key is read from INTEROP_KEY; the last redirect is printed

Knows HTML forms, cookies and redirects, and nothing of how the pages look: it fills the password
field of a form that has one, else it presses the button that approves.
"""

import http.cookiejar
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser

import leaks

MOST_STEPS = 8
APPROVES = re.compile(r"approve|allow|accept|authori[sz]e|grant", re.IGNORECASE)
DENIES = re.compile(r"den(y|ied)|cancel|reject|refuse|log ?out", re.IGNORECASE)


class WalkError(Exception):
    """The walk came to a page that it cannot go on from."""


@dataclass
class Button:
    name: str
    value: str
    label: str = ""

    def says(self, pattern):
        return any(pattern.search(text) for text in (self.name, self.value, self.label))


@dataclass
class Form:
    action: str
    method: str
    values: list = field(default_factory=list)
    password: str | None = None
    buttons: list = field(default_factory=list)


class Forms(HTMLParser):
    """The forms of a page, with what a browser would send of each."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.form = None
        self.button = None

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.form = Form(given.get("action", ""), given.get("method", "get").lower())
            self.found.append(self.form)
        elif tag == "input" and self.form:
            self.input(given)
        elif tag == "button" and self.form and given.get("type", "submit") == "submit":
            self.button = Button(given.get("name", ""), given.get("value", ""))
            self.form.buttons.append(self.button)

    def input(self, given):
        kind, name = given.get("type", "text").lower(), given.get("name", "")
        if kind == "submit":
            self.form.buttons.append(Button(name, given.get("value", "")))
        elif kind == "password":
            self.form.password = name
        elif name and (kind not in ("checkbox", "radio") or "checked" in given):
            self.form.values.append((name, given.get("value", "on" if kind == "checkbox" else "")))

    def handle_data(self, data):
        if self.button:
            self.button.label += data

    def handle_endtag(self, tag):
        if tag == "form":
            self.form = None
        if tag == "button":
            self.button = None


class Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are looked at, not followed."""

    def redirect_request(self, *_):
        return None


class Browser:
    def __init__(self, *handlers):
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(Stay, urllib.request.HTTPCookieProcessor(self.cookies), *handlers)

    def send(self, url, form=None):
        """Status, redirect target (absolute, or None) and text of one exchange."""
        data = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(url, data, {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"})
        if data is not None:
            request.add_header("Origin", origin(url))
            request.add_header("Sec-Fetch-Site", "same-origin")
        try:
            response = self.opener.open(request, timeout=20)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            target = response.headers.get("Location")
            return response.status, target and urllib.parse.urljoin(url, target), response.read().decode("utf-8", "replace")


def origin(url):
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def choose(forms):
    """The form and the button that a willing person would use."""
    for form in forms:
        if form.password:
            return form, next((button for button in form.buttons if not button.says(DENIES)), None)
    for form in forms:
        for button in form.buttons:
            if button.says(APPROVES) and not button.says(DENIES):
                return form, button
    return None, None


def page(text):
    forms = Forms()
    forms.feed(text)
    return forms.found


def summary(text):
    return " ".join(re.sub(r"<(style|script|head).*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL).split())[:400]


def walk(url, key, browser=None):
    """The redirect that leaves the gateway, after login and consent."""
    browser, home, form, logins = browser or Browser(), origin(url), None, 0
    for _ in range(MOST_STEPS):
        status, target, text = browser.send(url, form)
        leaks.record(key, *(cookie.value for cookie in browser.cookies))
        if target:
            if origin(target) != home or urllib.parse.urlsplit(target).scheme not in ("http", "https"):
                leaks.record(*urllib.parse.parse_qs(urllib.parse.urlsplit(target).query).get("code", []))
                return target
            url, form = target, None
            continue
        chosen, button = choose(page(text))
        if chosen is None:
            raise WalkError(f"{status} at {url.split('?')[0]}: no form to go on with: {summary(text)}")
        if chosen.password:
            logins += 1
            if logins > 1:
                raise WalkError(f"{status}: the login was refused: {summary(text)}")
        form = list(chosen.values)
        if chosen.password:
            form.append((chosen.password, key))
        if button and button.name:
            form.append((button.name, button.value))
        url = urllib.parse.urljoin(url, chosen.action) if chosen.action else url
    raise WalkError(f"no end after {MOST_STEPS} steps, now at {url.split('?')[0]}")


if __name__ == "__main__":
    try:
        print(walk(sys.argv[1], os.environ["INTEROP_KEY"]))
    except WalkError as error:
        sys.exit(f"walk: {error}")
