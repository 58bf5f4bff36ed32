// Walks through the pages of a running Lockkeeper in Chromium, as a person would, without scripts in the pages:
//
//   node walk.mjs --base http://127.0.0.1:8080 --key lkk_… --out screenshots [--chromium /usr/bin/chromium]
//
// Every check prints a line; the first failure ends the walk with exit code 1. Each page is photographed light and
// dark, wide and narrow.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { appsOf } from './app.mjs';
import { photograph } from './photograph.mjs';

const { values: options } = parseArgs({
  options: {
    base: { type: 'string' },
    key: { type: 'string' },
    out: { type: 'string', default: 'screenshots' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
  },
});
assert.ok(options.base && options.key, 'usage: node walk.mjs --base URL --key KEY [--out FOLDER]');
const base = options.base.replace(/\/$/, '');
await mkdir(options.out, { recursive: true });

const MINUTE = 60_000;
// an unknown web site; its name does not resolve
const FAR = 'https://untrusted.example';
// characters that forms and URLs treat specially: they must come back as they were sent (N-74)
const STATE = 'a+b%2Fc=&é';
const APP_ANSWER = 'The app has its answer.';
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

const apps = await appsOf(base);
const { metadata, register, redeem } = apps;
const authorization = (client, redirectUri) => apps.authorization(client, redirectUri, STATE);
const callback = await listen();
const browser = await chromium.launch({
  executablePath: options.chromium,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--host-resolver-rules=MAP untrusted.example ~NOTFOUND',
  ],
});
const context = await browser.newContext({ javaScriptEnabled: false });
context.setDefaultTimeout(MINUTE);
context.setDefaultNavigationTimeout(MINUTE);
const complaints = [];
const navigations = [];
let page = await open();

try {
  await startPage();
  await loginAndApprove();
  await n_064_approveForApp();
  await denyIsTold();
  await twoTabsAndTheWayBack();
  await withoutCookies();
  await endpointsLeadToTheStart();
  await deviceShowsACode();
  await errorsAreTold();
  await manyGrants();
  await accountPage();
  assert.deepEqual(complaints, [], 'nothing was blocked, and nothing was loaded from elsewhere');
  say('no content security policy was violated');
} finally {
  await browser.close();
  callback.close();
}

// Waits for the first redirect to an address, and returns it.
async function redirected(target) {
  const end = Date.now() + MINUTE;
  const found = () => navigations.find(({ location }) => location.startsWith(target));
  while (!found() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50));
  return found();
}

// Opens a page, and records what the browser blocks and what the page loads from other sites.
async function open() {
  const opened = await context.newPage();
  opened.on('console', (message) => {
    if (/Content.Security.Policy|Refused to/i.test(message.text())) complaints.push(message.text());
  });
  opened.on('response', (response) => {
    const location = response.headers().location;
    if (location) navigations.push({ status: response.status(), location });
  });
  opened.on('request', (request) => {
    const own = [base, callback.origin, FAR].some((origin) => request.url().startsWith(origin));
    if (!own && /^https?:/.test(request.url())) complaints.push(`the page asked for ${request.url()}`);
  });
  return opened;
}

async function startPage() {
  await page.goto(`${base}/`);
  await page.getByText(`${base}/mcp`, { exact: true }).first().waitFor();
  await look('start');
  say('the start page shows the address');
}

async function loginAndApprove() {
  const client = await register('Walk <b>loopback</b>', [callback.url]);
  const request = authorization(client, callback.url);
  await page.goto(request.url);
  assert.equal(await page.title(), 'Log in · Lockkeeper');
  await focused('#key');
  await look('login');

  const before = await sessionCookie();
  await page.keyboard.type('lkk_00000000_0000000000000000000000000000000000000000000_000000');
  const refused = page.waitForResponse((response) => response.request().method() === 'POST');
  await page.keyboard.press('Enter');
  assert.equal((await refused).status(), 403, 'a wrong key is refused');
  await page.getByRole('alert').waitFor();
  await look('login-wrong-key');
  say('a wrong key is refused, and the request waits on');

  await focused('#key');
  await page.keyboard.type(options.key);
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/oauth\/consent\//);
  const after = await sessionCookie();
  assert.notEqual(after.value, before.value, 'the session id changes at login (N-75)');
  assert.ok(after.httpOnly && after.sameSite === 'Lax' && after.path === '/', 'the cookie is HttpOnly and Lax');
  await page.getByText('not verified').waitFor();
  assert.equal(await page.locator('.name b').count(), 0, "the client's name is text");
  await look('consent-loopback');
  say('the right key leads to the decision');

  await tabTo('Deny');
  await tabTo('Approve');
  const answer = callback.next();
  await page.keyboard.press('Enter');
  const told = await answer;
  await appAnswers(page);
  assert.deepEqual([...told.keys()].sort(), ['code', 'iss', 'state'], 'code, state and iss, once each');
  assert.equal(told.get('state'), STATE, 'the state comes back as it was sent');
  assert.equal(told.get('iss'), metadata.issuer);
  say('Approve, by keyboard, reaches the app on this computer (N-64)');

  const token = await redeem(client, callback.url, told.get('code'), request.verifier);
  assert.equal(token.token_type, 'Bearer');
  say('the code buys a token');
}

async function n_064_approveForApp() {
  const target = 'cursor://anysphere.cursor-mcp/oauth/callback';
  const client = await register('Walk app', [target]);
  const request = authorization(client, target);
  // in a tab of its own: the browser asks there whether to open the app, and takes no more clicks
  const before = page;
  page = await open();
  await page.goto(request.url);
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  say('a live session still has to decide about a new app (N-72)');
  await look('consent-app');
  const servers = page.getByRole('combobox', { name: /^[a-z][a-z0-9-]*:/ });
  if ((await servers.count()) > 1) {
    for (const server of await servers.all()) await server.selectOption({ label: 'Nothing' });
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByRole('alert').waitFor();
    await look('consent-nothing');
    for (const server of await servers.all()) await server.selectOption({ label: 'Everything' });
    say('an app without a server is not connected, and the person chooses again (OA-158)');
  }
  navigations.length = 0;
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  const followed = new Promise((resolve) => {
    session.on('Network.requestWillBeSent', ({ request }) => request.url.startsWith('cursor:') && resolve('followed'));
    page.on('requestfailed', (request) => request.url().startsWith('cursor:') && resolve('followed'));
    setTimeout(() => resolve('not seen'), 3000);
  });
  const answered = page.waitForResponse((response) => response.request().method() === 'POST');
  await page.getByRole('button', { name: 'Approve' }).click({ noWaitAfter: true });
  const answer = await answered;
  assert.equal(answer.status(), 200, 'a page opens the app');
  const location = answer.headers().refresh.replace(/^0; url=/, '');
  const outcome = await followed;
  assert.ok(location.startsWith(target) && /[?&]code=[^&]+/.test(location), 'it leads to the app');
  await page.getByRole('link', { name: 'Open the app' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Open the app' }).getAttribute('href'), location);
  await look('opened');
  assert.deepEqual(complaints, [], 'no policy stops the way to the app');
  await redeem(client, target, new URL(location).searchParams.get('code'), request.verifier);
  await page.close();
  page = before;
  say(`Approve leads to the app's own scheme (N-64; the browser: ${outcome})`);
}

async function denyIsTold() {
  const client = await register('Walk deny', [callback.url]);
  await page.goto(authorization(client, callback.url).url);
  const answer = callback.next();
  // the page goes on to the app after a moment: hold that back until it was photographed
  let release;
  const looked = new Promise((resolve) => (release = resolve));
  await page.route(`${callback.url}?*`, (route) => looked.then(() => route.continue()));
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('You denied access. Walk deny received nothing.').waitFor();
  await look('denied');
  release();
  const told = await answer;
  await appAnswers(page);
  await page.unrouteAll();
  assert.equal(told.get('error'), 'access_denied');
  assert.equal(told.get('state'), STATE);
  assert.equal(told.get('iss'), metadata.issuer);
  say('Deny is told to the app (N-71)');
}

async function twoTabsAndTheWayBack() {
  const requests = [];
  for (const name of ['Walk tab one', 'Walk tab two']) {
    const client = await register(name, [callback.url]);
    requests.push({ client, ...authorization(client, callback.url) });
  }
  const other = await open();
  await page.goto(requests[0].url);
  await other.goto(requests[1].url);
  for (const [tab, request] of [[page, requests[0]], [other, requests[1]]]) {
    const told = await approve(tab);
    await redeem(request.client, callback.url, told.get('code'), request.verifier);
  }
  await other.close();
  say('two logins in two tabs do not disturb each other');
  await page.goBack();
  const heading = await page.getByRole('heading', { level: 1 }).textContent();
  assert.match(heading, /^Connect Walk tab one|You have connected Walk tab one/, 'the way back asks again, or says what is so');
  say('the way back after the consent gives nothing without another click');
}

async function withoutCookies() {
  const refusing = await browser.newContext({ javaScriptEnabled: false });
  const tab = await refusing.newPage();
  const client = await register('Walk no cookies', [callback.url]);
  await tab.goto(authorization(client, callback.url).url);
  await tab.getByLabel('API key').fill(options.key);
  await refusing.clearCookies();
  await tab.getByRole('button', { name: 'Log in', exact: true }).click();
  await tab.getByText('allow cookies for this site').waitFor();
  await refusing.close();
  say('a browser without cookies is told to allow them');
}

async function endpointsLeadToTheStart() {
  await page.goto(`${base}/mcp`);
  assert.equal(page.url(), `${base}/`);
  say('an endpoint in the address bar leads to the start page');
}

// The device grant (OA-146): the code is entered, then the decision is made. After a wrong code the field keeps what
// was typed.
async function deviceShowsACode() {
  const client = await register('Walk device', undefined, [DEVICE_GRANT]);
  const begin = async () => {
    const form = new URLSearchParams({ client_id: client, resource: `${base}/mcp` });
    const answer = await fetch(metadata.device_authorization_endpoint, { method: 'POST', body: form });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
  };
  await page.goto(`${base}/device`);
  await focused('#code');
  await page.keyboard.type('bbbb-bbbb');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByLabel('Code').inputValue(), 'bbbb-bbbb', 'what was typed stays');
  await focused('#code');
  await look('device-wrong');
  for (const [button, end] of [['Approve', 'is connected'], ['Deny', 'is not connected']]) {
    await page.goto((await begin()).verification_uri_complete);
    await page.getByLabel('Code').press('Enter');
    await page.getByText('It shows the code').waitFor();
    await look('consent-device');
    await page.getByRole('button', { name: button }).click();
    await page.getByRole('heading', { name: `Walk device ${end}` }).waitFor();
    await look(`device-${button === 'Approve' ? 'approved' : 'denied'}`);
  }
  say('a device is connected by its code, and denied');
}

async function manyGrants() {
  for (let number = 0; number < 20; number += 1) {
    const client = await register('Walk often', [`${callback.origin}/callback?n=${number}`]);
    const request = authorization(client, `${callback.origin}/callback?n=${number}`);
    await page.goto(request.url);
    const told = await approve(page);
    await redeem(client, `${callback.origin}/callback?n=${number}`, told.get('code'), request.verifier);
  }
  await page.goto(`${base}/account`);
  const rows = page.getByRole('button', { name: /^Disconnect Walk often/ });
  assert.equal(await rows.count(), 20);
  const [first, last] = [await rows.first().boundingBox(), await rows.last().boundingBox()];
  const height = last.y + last.height - first.y;
  assert.ok(height <= 960, `twenty grants take ${height} px`);
  await look('account-twenty');
  say('twenty grants fit a screen');
}

async function errorsAreTold() {
  const far = `${FAR}/cb`;
  const client = await register('Walk far', [far]);
  const bad = new URL(authorization(client, far).url);
  bad.searchParams.delete('code_challenge');
  await page.goto(bad.href);
  await page.getByRole('link', { name: 'Return to untrusted.example' }).waitFor();
  await look('handover');
  say('an error leads to an unknown site by a link alone (N-62)');

  const good = authorization(client, far);
  await page.goto(good.url);
  await look('consent-web');
  navigations.length = 0;
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.waitForURL((url) => url.protocol === 'chrome-error:' || url.origin === FAR);
  const redirect = await redirected(far);
  assert.equal(redirect?.status, 303, 'Approve leads to the site');
  say('Approve leads to a web site (N-64)');

  await page.goto(authorization('nobody', far).url);
  assert.equal(new URL(page.url()).origin, new URL(base).origin, 'an unknown client leads nowhere');
  await look('unknown-client');
  await page.goto(`${base}/no-such-page`);
  await look('not-found');
  say('errors are told on pages');
}

async function accountPage() {
  await page.goto(`${base}/account`);
  await page.getByRole('heading', { name: 'Connected apps' }).waitFor();
  await look('account');
  await page.getByRole('group').first().getByText(/^Walk/).first().click();
  await look('account-open');
  const rows = page.getByRole('button', { name: /^Disconnect Walk app/ });
  const before = await rows.count();
  assert.ok(before >= 1, 'the app is listed');
  await rows.first().click();
  await page.getByRole('status').waitFor();
  await page.waitForLoadState();
  assert.equal(await rows.count(), before - 1, 'the app is gone from the list');
  say('an app can be disconnected');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  await page.goto(`${base}/account`);
  assert.match(page.url(), /\/login$/, 'after logout the account page asks for a login');
  await look('login-alone');
  say('logout ends the session');
}

// Takes screenshots of the page and checks that it is accessible; on consent pages, *Approve* must be in sight.
async function look(name) {
  await photograph(page, options.out, name);
  if (!name.startsWith('consent-')) return;
  await page.setViewportSize({ width: 1280, height: 900 });
  const approve = await page.getByRole('button', { name: 'Approve' }).boundingBox();
  assert.ok(approve.y + approve.height <= 900, `${name}: Approve ends at ${approve.y + approve.height} px`);
}

// Presses Tab until the button has the focus, and checks that the focus is visible.
async function tabTo(name) {
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press('Tab');
    const [text, outline] = await page.evaluate(() => {
      const element = document.activeElement;
      return [element?.textContent?.trim(), element ? getComputedStyle(element).outlineStyle : 'none'];
    });
    if (text === name) {
      assert.notEqual(outline, 'none', `the focus on ${name} can be seen`);
      return;
    }
  }
  assert.fail(`${name} cannot be reached by keyboard`);
}

// Waits until the field has the focus, which the browser gives it some time after the page has loaded.
function focused(field) {
  return page.locator(`${field}:focus`).waitFor();
}

// Approves, and returns the parameters that the app receives, once the browser is at the app.
async function approve(tab) {
  const answer = callback.next();
  await tab.getByRole('button', { name: 'Approve' }).click();
  const told = await answer;
  await appAnswers(tab);
  return told;
}

function appAnswers(tab) {
  return tab.getByText(APP_ANSWER).waitFor();
}

async function sessionCookie() {
  const cookie = (await context.cookies()).find(({ name }) => /^(__Host-)?lockkeeper(-\d+)?$/.test(name));
  assert.ok(cookie, 'there is a session cookie');
  return cookie;
}

// An app that waits for the response to its request.
async function listen() {
  const waiting = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url, 'http://127.0.0.1');
    response.setHeader('content-type', 'text/plain').end(APP_ANSWER);
    if (url.pathname === '/callback') waiting.shift()?.(url.searchParams);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    origin,
    url: `${origin}/callback`,
    next: () =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('the callback was not reached')), MINUTE);
        waiting.push((told) => {
          clearTimeout(timer);
          resolve(told);
        });
      }),
    close: () => server.close(),
  };
}

function say(text) {
  console.log(`ok - ${text}`);
}
