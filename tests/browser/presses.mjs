// Presses every button of the pages twice, in a real browser that gets the response to a press 300 ms late, with and
// without scripts in the pages; opens every form in two and in four tabs; goes back, reloads and visits pages again:
//
//   node presses.mjs --program target/release/lockkeeper --out screenshots [--replicas POSTGRES_URL] [--provider SCRIPT]
//     [--scripts with|without] [--chromium /usr/bin/chromium]
//
// It starts a gateway behind a slow proxy; with `--replicas` two gateways on that database, in turn; with `--provider`
// also an OpenID provider (tests/interop/harness/openid_provider.mjs) where people log in. `--scripts` runs only the
// part with scripts in the pages, or only the part without, which includes everything that is visited again. Every
// check prints a line; the first failure ends the run with exit code 1.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { appsOf } from './app.mjs';
import { freePort, gatewaysBehind, listen, proxy, say } from './gateways.mjs';
import { photograph } from './photograph.mjs';
import { protectedServer } from './protected.mjs';

const { values: options } = parseArgs({
  options: {
    program: { type: 'string' },
    out: { type: 'string', default: 'screenshots' },
    replicas: { type: 'string' },
    provider: { type: 'string' },
    scripts: { type: 'string' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
  },
});
assert.ok(options.program, 'usage: node presses.mjs --program PROGRAM [--out FOLDER] [--replicas URL] [--provider SCRIPT] [--scripts with|without]');
assert.ok([undefined, 'with', 'without'].includes(options.scripts), '--scripts: give with or without');
mkdirSync(options.out, { recursive: true });

const LATE = 300;
const PRESSES = [0, 100, 200, 400];
const SECRET = 'NOTES_KEY';
const AT_PROVIDER = 'Log in with Example Corp';
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const app = await listen((request, response) => response.end('The app has its answer.'));
const codes = [];
app.server.on('request', (request) => codes.push(new URL(request.url, 'http://app').searchParams));
let guarded;
const guard = await listen((request, response) => guarded.answer(request, response));
guarded = protectedServer(guard.origin);
const front = await proxy(late);
const base = front.origin;
const provider = options.provider && (await openIdProvider());
const gateways = await gatewaysBehind(front, { program: options.program, database: options.replicas, configuration: configuration() });
const { run } = gateways;
const { register, authorization, redeem } = await appsOf(base);
const key = run(['keys', 'create', `key-${randomBytes(3).toString('hex')}`]).match(/lkk_\S+/)[0];
const another = run(['keys', 'create', `bob-${randomBytes(3).toString('hex')}`, '--user', 'bob']).match(/lkk_\S+/)[0];
const browser = await chromium.launch({
  executablePath: options.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});

try {
  for (const javaScriptEnabled of [false, true]) {
    if (options.scripts && (options.scripts === 'with') !== javaScriptEnabled) continue;
    for (const later of PRESSES) {
      await pressedTwice({ javaScriptEnabled, later });
      await pressedTwiceAtServers({ javaScriptEnabled, later });
      await pressedTwiceAtAnInvitation({ javaScriptEnabled, later });
      if (provider) await pressedTwiceAtAProvider({ javaScriptEnabled, later });
    }
    for (const count of [2, 4]) {
      await tabs(count, javaScriptEnabled);
      await tabsAtServers(count, javaScriptEnabled);
      await tabsOfTheAccount(count, javaScriptEnabled);
      await tabsOfAnInvitation(count, javaScriptEnabled);
      if (provider) await tabsAtAProvider(count, javaScriptEnabled);
    }
  }
  if (options.scripts !== 'with') {
    await visitedAgain();
    await serversVisitedAgain();
    await devicesVisitedAgain();
    await invitationVisitedAgain();
    await anotherPerson();
    if (provider) await providerVisitedAgain();
  }
} finally {
  await browser.close();
  gateways.stop();
  provider?.program.kill();
  for (const { server } of [app, guard, front]) server.close().closeAllConnections();
}

// Presses each button again after a while; the response to the first press may still be on its way.
async function pressedTwice({ javaScriptEnabled, later }) {
  const context = await browser.newContext({ javaScriptEnabled });
  const page = await context.newPage();
  const twice = twiceOn(page, later);
  const client = await register(`Pressed ${later}`, [`${app.origin}/cb`]);
  const request = authorization(client, `${app.origin}/cb`);
  await page.goto(request.url);
  await page.getByLabel('API key').fill(key);
  await twice(/^Log in$/);
  await approvedTwice(page, twice, { client, request });

  const scheme = 'cursor://anysphere.cursor-mcp/oauth/callback';
  await page.goto(authorization(await register('Own scheme', [scheme]), scheme).url);
  await twice('Approve');
  await page.getByRole('link', { name: 'Open the app' }).waitFor();
  // go on in a new tab: in this one, the browser asks whether to open the app
  const tab = await context.newPage();
  await page.close();
  const again = twiceOn(tab, later);

  await tab.goto(authorization(await register('Denied', [`${app.origin}/cb`]), `${app.origin}/cb`).url);
  await again('Deny');
  await tab.getByText('You denied access.').or(tab.getByText('The app has its answer.')).first().waitFor();

  const device = await register('Device', undefined, [DEVICE_GRANT]);
  const form = new URLSearchParams({ client_id: device, resource: `${base}/mcp` });
  const begun = await (await fetch(`${base}/oauth/device_authorization`, { method: 'POST', body: form })).json();
  await tab.goto(begun.verification_uri_complete);
  await again('Continue');
  await tab.getByRole('button', { name: 'Approve' }).waitFor();
  await tab.waitForLoadState();
  await again('Approve');
  await tab.getByRole('heading', { name: 'Device is connected' }).waitFor();

  await tab.goto(`${base}/account`);
  await again(/^Disconnect Pressed/);
  await tab.getByText('The app is disconnected').waitFor();
  await tab.waitForLoadState();
  await again('Log out');
  await tab.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  await context.close();
  say(`every button, pressed again ${later} ms later${javaScriptEnabled ? ', with scripts' : ''}`);
}

// The connect pages of servers, and the rest of the account page.
async function pressedTwiceAtServers({ javaScriptEnabled, later }) {
  const context = await browser.newContext({ javaScriptEnabled });
  const page = await context.newPage();
  const twice = twiceOn(page, later);
  await page.goto(`${base}/connect/github`);
  await page.getByLabel('API key').fill(key);
  await twice(/^Log in$/);
  await page.getByRole('heading', { name: 'Connect your account at github?' }).waitFor();
  await page.waitForLoadState();
  const before = { ...guarded.heard };
  await twice(/^Continue to/);
  await page.getByRole('button', { name: 'Allow' }).waitFor();
  await page.waitForLoadState();
  await twice('Allow');
  await page.getByRole('heading', { name: 'github is connected' }).waitFor();
  assert.equal(guarded.heard.exchanged - before.exchanged, 1, 'one token request');
  assert.equal(guarded.heard.refused, 0, 'no code is exchanged twice');
  await page.goto(`${base}/connect/github`);
  await twice('Not now');
  await page.getByRole('heading', { name: 'Your accounts at servers' }).waitFor();

  await page.goto(`${base}/connect/notes`);
  await twice('Not now');
  await page.getByRole('heading', { name: 'Your secrets for servers' }).waitFor();
  await page.goto(`${base}/connect/notes`);
  await page.getByLabel(SECRET).fill('the first value');
  await twice('Save');
  await page.getByRole('heading', { name: 'notes is connected' }).waitFor();

  await account(page);
  await page.getByLabel(`New value of ${SECRET}`).fill('the second value');
  await twice(`Replace ${SECRET}`);
  await page.getByText('The secret is saved.').waitFor();
  await account(page);
  await twice(`Delete ${SECRET}`);
  await page.getByText('The secret is deleted.').waitFor();
  await account(page);
  await page.getByLabel(SECRET, { exact: true }).fill('the third value');
  await twice(`Save ${SECRET}`);
  await page.getByText('The secret is saved.').waitFor();
  await account(page);
  await page.getByText('entered just now').waitFor();
  await page.getByRole('button', { name: `Delete ${SECRET}` }).click();
  await page.getByText('The secret is deleted.').waitFor();

  await account(page);
  await twice('Disconnect your account at github');
  await page.getByText('Your account is disconnected.').waitFor();
  await connectApp(page, `Farewell ${later}`);
  await account(page);
  await twice('Disconnect everything');
  await page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  await page.goto(`${base}/account`);
  await page.getByLabel('API key').fill(key);
  await twice(/^Log in$/);
  await page.getByText('No app is connected.').waitFor();
  await context.close();
  say(`every button of servers and of the account page, pressed again ${later} ms later${javaScriptEnabled ? ', with scripts' : ''}`);
}

// The page of an invitation, logged out and logged in.
async function pressedTwiceAtAnInvitation({ javaScriptEnabled, later }) {
  const context = await browser.newContext({ javaScriptEnabled });
  const page = await context.newPage();
  const twice = twiceOn(page, later);
  for (const logged of ['out', 'in']) {
    const { link, name } = invited();
    await page.goto(link);
    assert.equal(await page.getByText('You are logged in here as').count(), logged === 'in' ? 1 : 0);
    await twice(`Accept as ${name}`);
    await page.getByRole('heading', { name: `Welcome, ${name}` }).waitFor();
    await page.waitForLoadState();
    await isKeyOf(name, (await page.locator('code.copy').textContent()).trim());
  }
  await context.close();
  say(`the button of an invitation, pressed again ${later} ms later${javaScriptEnabled ? ', with scripts' : ''}`);
}

// One invitation is open in several tabs, and each of them accepts it.
async function tabsOfAnInvitation(count, javaScriptEnabled) {
  const context = await browser.newContext({ javaScriptEnabled });
  const { link, name } = invited();
  const opened = [];
  for (let number = 0; number < count; number += 1) opened.push(await context.newPage());
  await Promise.all(opened.map((page) => page.goto(link)));
  const [first, ...others] = opened;
  await first.getByRole('button', { name: `Accept as ${name}` }).click();
  await first.getByRole('heading', { name: `Welcome, ${name}` }).waitFor();
  const own = (await first.locator('code.copy').textContent()).trim();
  for (const page of others) {
    await page.getByRole('button', { name: `Accept as ${name}` }).click();
    await page.getByRole('heading', { name: 'You have accepted this invitation' }).waitFor();
    assert.ok(!(await page.content()).includes('lkk_'), 'the key is shown in one tab');
  }
  await isKeyOf(name, own);
  assert.equal(JSON.parse(run(['keys', 'list', '--json'])).keys.filter(({ user }) => user === name).length, 1, 'one key');
  await context.close();
  say(`${count} tabs of one invitation${javaScriptEnabled ? ', with scripts' : ''}`);
}

// Reload, back and a second visit of an invitation; somebody who stays logged in; a link that is used up.
async function invitationVisitedAgain() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const { link, name } = invited();
  await page.goto(link);
  await page.reload();
  assert.equal(await page.title(), 'Invitation · Lockkeeper', 'the title names nobody');
  await photograph(page, options.out, 'invitation');
  await page.getByRole('button', { name: `Accept as ${name}` }).click();
  await page.getByRole('heading', { name: `Welcome, ${name}` }).waitFor();
  await photograph(page, options.out, 'invitation-accepted');
  // a reload sends the form again, which shows its key again
  await page.reload();
  await page.getByRole('heading', { name: /^Welcome|You have accepted this invitation/ }).waitFor();
  for (const visit of [() => page.goto(link), () => page.reload()]) {
    await visit();
    await page.getByRole('heading', { name: 'You have accepted this invitation' }).waitFor();
  }
  await photograph(page, options.out, 'invitation-again');

  const second = invited(['--server', 'notes', '--key-expires', '30d']);
  await page.goto(second.link);
  await page.getByText(`You are logged in here as ${name}`).waitFor();
  await photograph(page, options.out, 'invitation-logged-in');
  await page.getByRole('link', { name: `Stay logged in as ${name}` }).click();
  await page.getByText(name, { exact: true }).first().waitFor();
  await photograph(page, options.out, 'account-rights');

  // nobody was logged in when the page was shown, and now somebody is
  const fresh = await browser.newContext({ javaScriptEnabled: false });
  const [one, two] = [await fresh.newPage(), await fresh.newPage()];
  await one.goto(second.link);
  await two.goto(`${base}/login`);
  await two.getByLabel('API key').fill(another);
  await two.getByRole('button', { name: /^Log in$/ }).click();
  await two.getByRole('button', { name: 'Log out' }).waitFor();
  await one.getByRole('button', { name: `Accept as ${second.name}` }).click();
  await one.getByText('You are logged in here as bob').waitFor();
  await one.getByRole('button', { name: `Accept as ${second.name}` }).click();
  await one.getByRole('heading', { name: `Welcome, ${second.name}` }).waitFor();
  await fresh.close();

  const stranger = await browser.newContext({ javaScriptEnabled: false });
  const late = await stranger.newPage();
  await late.goto(second.link);
  await late.getByRole('heading', { name: 'This link cannot be used' }).waitFor();
  await photograph(late, options.out, 'invitation-used');
  const further = invited(['--again'], name);
  await late.goto(further.link);
  await late.getByText('this link makes another key').waitFor();
  await photograph(late, options.out, 'invitation-further');
  await stranger.close();
  await context.close();
  say('back, reload and a second visit of an invitation');
}

// Creates an invitation, by default for a new user.
function invited(more = [], name = `guest-${randomBytes(3).toString('hex')}`) {
  return { name, link: run(['invite', name, ...more]).match(/http\S+\/invite\?i=\S+/)[0] };
}

// Checks that the key logs this person in.
async function isKeyOf(name, own) {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`${base}/login`);
  await page.getByLabel('API key').fill(own);
  await page.getByRole('button', { name: /^Log in$/ }).click();
  await page.getByText(name, { exact: true }).first().waitFor();
  await context.close();
}

// The button of a login provider, and the pages that a login there leads to.
async function pressedTwiceAtAProvider({ javaScriptEnabled, later }) {
  const context = await browser.newContext({ javaScriptEnabled });
  const page = await context.newPage();
  const twice = twiceOn(page, later);
  const client = await register(`At a provider ${later}`, [`${app.origin}/cb`]);
  const request = authorization(client, `${app.origin}/cb`);
  await page.goto(request.url);
  await twice(AT_PROVIDER);
  await signIn(page);
  await approvedTwice(page, twice, { client, request });
  await account(page);
  await twice('Log out');
  await page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  await page.waitForLoadState();
  for (const [address, button] of [['login', 'Log out'], ['device', 'Continue'], ['connect/notes', 'Save']]) {
    await page.goto(`${base}/${address}`);
    await twice(AT_PROVIDER);
    await signIn(page);
    await page.getByRole('button', { name: button, exact: true }).waitFor();
    await account(page);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  }
  await context.close();
  say(`the button of a provider, pressed again ${later} ms later${javaScriptEnabled ? ', with scripts' : ''}`);
}

// Login pages are open in several tabs, and each logs in at the provider.
async function tabsAtAProvider(count, javaScriptEnabled) {
  const context = await browser.newContext({ javaScriptEnabled });
  const opened = [];
  for (let number = 0; number < count; number += 1) {
    const client = await register(`Tab at a provider ${number}`, [`${app.origin}/cb`]);
    opened.push({ client, page: await context.newPage(), request: authorization(client, `${app.origin}/cb`) });
  }
  await Promise.all(opened.map(({ page, request }) => page.goto(request.url)));
  for (const { page } of opened) {
    await page.getByRole('button', { name: AT_PROVIDER }).click();
    await signIn(page);
    await page.getByRole('button', { name: 'Approve' }).waitFor();
  }
  await approveInAll(opened);
  await context.close();
  say(`${count} tabs log in at a provider${javaScriptEnabled ? ', with scripts' : ''}`);
}

// Back, reload and a second visit of the address that the provider redirects to.
async function providerVisitedAgain() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  let callback;
  page.on('request', (request) => {
    if (request.url().startsWith(`${base}/oauth/login/callback`)) callback = request.url();
  });
  const client = await register('Visited at a provider', [`${app.origin}/cb`]);
  await page.goto(authorization(client, `${app.origin}/cb`).url);
  await photograph(page, options.out, 'login-with-provider');
  await page.getByRole('button', { name: AT_PROVIDER }).click();
  await signIn(page);
  const isAsked = () => page.getByRole('button', { name: 'Approve' }).waitFor();
  await isAsked();
  await page.reload();
  await isAsked();
  // a provider's answer works once; going back still leads to the consent page
  await page.goto(callback);
  await page.getByRole('heading', { name: 'You are logged in already' }).waitFor();
  await photograph(page, options.out, 'provider-again');
  await page.goBack();
  await isAsked();
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText('The app has its answer.').waitFor();
  await context.close();
  say('reload and a second visit after a login at a provider');
}

// Logs in at the provider, through as many pages as it shows.
async function signIn(page) {
  const form = page.locator('[name=login]');
  const next = page.getByRole('button', { name: 'Continue', exact: true });
  const isThere = (url) => url.origin === provider.origin;
  await form.or(next).or(page.getByRole('button', { name: 'Approve' })).first().waitFor();
  while (isThere(new URL(page.url()))) {
    if (await form.isVisible()) {
      await form.fill('ann');
      await page.locator('[name=password]').fill('any');
      await page.locator('[type=submit]').click();
    } else {
      await next.click();
    }
    await page.waitForLoadState();
  }
}

// Presses *Approve* twice: the app gets one code, and the code works.
async function approvedTwice(page, twice, { client, request }) {
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await page.waitForLoadState();
  await twice('Approve');
  await page.getByText('The app has its answer.').waitFor();
  const told = codes.filter((query) => query.get('state') === request.state);
  assert.equal(new Set(told.map((query) => query.get('code'))).size, 1, 'one code');
  await redeem(client, `${app.origin}/cb`, told[0].get('code'), request.verifier);
}

// Approves in each tab, and redeems the code of each.
async function approveInAll(opened) {
  for (const { client, page, request } of opened) {
    await page.getByRole('button', { name: 'Approve' }).click();
    // a page shown before the login of another tab asks again
    const asked = page.getByRole('button', { name: 'Approve' });
    const answered = page.getByText('The app has its answer.');
    await page.waitForLoadState();
    if (!(await answered.isVisible())) await asked.click();
    await answered.waitFor();
    const told = codes.find((query) => query.get('state') === request.state);
    await redeem(client, `${app.origin}/cb`, told.get('code'), request.verifier);
  }
}

// Presses a button, and the same place again `later` milliseconds later, without waiting for anything.
function twiceOn(page, later) {
  return async (button) => {
    const found = page.getByRole('button', { name: button }).first();
    await found.scrollIntoViewIfNeeded();
    const box = await found.boundingBox();
    const press = () => page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await press();
    await new Promise((resolve) => setTimeout(resolve, later));
    await press();
  };
}

// Login pages open in several tabs at once, without a cookie; then each tab logs in.
async function tabs(count, javaScriptEnabled) {
  const context = await browser.newContext({ javaScriptEnabled });
  const opened = [];
  for (let number = 0; number < count; number += 1) {
    const client = await register(`Tab ${number}`, [`${app.origin}/cb`]);
    opened.push({ client, page: await context.newPage(), request: authorization(client, `${app.origin}/cb`) });
  }
  // the page that loaded first logs in last, when the browser has the most visits to remember
  const last = [];
  await Promise.all(opened.map(async ({ page, request }) => {
    await page.goto(request.url);
    last.unshift(page);
  }));
  for (const page of last) {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: /^Log in$/ }).click();
    await page.getByRole('button', { name: 'Approve' }).waitFor();
  }
  await approveInAll(opened);
  await context.close();
  say(`${count} tabs log in and approve${javaScriptEnabled ? ', with scripts' : ''}`);
}

// Connect pages open in several tabs before the login; then each tab goes on.
async function tabsAtServers(count, javaScriptEnabled) {
  const context = await browser.newContext({ javaScriptEnabled });
  const opened = [];
  for (let number = 0; number < count; number += 1) opened.push(await context.newPage());
  for (const [server, button, end] of [['github', /^Continue to/, 'github is connected'], ['notes', 'Save', 'notes is connected']]) {
    await Promise.all(opened.map((page) => page.goto(`${base}/connect/${server}`)));
    if (server === 'github') {
      for (const page of opened) {
        await page.getByLabel('API key').fill(key);
        await page.getByRole('button', { name: /^Log in$/ }).click();
        await page.getByRole('button', { name: button }).waitFor();
      }
      // a page shown before the login of another tab would ask again
      await Promise.all(opened.map((page) => page.goto(`${base}/connect/${server}`)));
    }
    for (const page of opened) {
      if (server === 'notes') await page.getByLabel(SECRET).fill('the value of all tabs');
      await page.getByRole('button', { name: button }).click();
      if (server === 'github') await page.getByRole('button', { name: 'Allow' }).waitFor();
    }
    for (const page of opened) {
      if (server === 'github') await page.getByRole('button', { name: 'Allow' }).click();
      await page.getByRole('heading', { name: end }).waitFor();
    }
  }
  assert.equal(guarded.heard.refused, 0, 'no code is exchanged twice');
  for (const button of [`Delete ${SECRET}`, 'Disconnect your account at github']) {
    await Promise.all(opened.map(account));
    for (const page of opened) {
      await page.getByRole('button', { name: button }).click();
      await page.getByRole('status').waitFor();
      await page.waitForLoadState();
    }
  }
  await context.close();
  say(`${count} tabs connect servers${javaScriptEnabled ? ', with scripts' : ''}`);
}

// The account page is open in several tabs, and each of them presses the same button.
async function tabsOfTheAccount(count, javaScriptEnabled) {
  const context = await browser.newContext({ javaScriptEnabled });
  const opened = [];
  for (let number = 0; number < count; number += 1) opened.push(await context.newPage());
  for (const button of ['Disconnect everything', 'Log out']) {
    await opened[0].goto(`${base}/login`);
    await opened[0].getByLabel('API key').fill(key);
    await opened[0].getByRole('button', { name: /^Log in$/ }).click();
    await opened[0].getByRole('button', { name: 'Log out' }).waitFor();
    await connectApp(opened[0], `Account in ${count} tabs`);
    await Promise.all(opened.map(account));
    for (const page of opened) {
      await page.getByRole('button', { name: button }).click();
      await page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
      await page.waitForLoadState();
    }
  }
  await context.close();
  say(`${count} tabs of the account page${javaScriptEnabled ? ', with scripts' : ''}`);
}

// Back, reload and a second visit after the decision.
async function visitedAgain() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const client = await register('Visited again', [`${app.origin}/cb`]);
  const request = authorization(client, `${app.origin}/cb`);
  await page.goto(request.url);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: /^Log in$/ }).click();
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  const address = page.url();
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText('The app has its answer.').waitFor();
  const told = codes.find((query) => query.get('state') === request.state);
  await redeem(client, `${app.origin}/cb`, told.get('code'), request.verifier);
  await page.goBack();
  for (const visit of [() => page.reload(), () => page.goto(address)]) {
    await visit();
    await page.getByRole('heading', { name: 'You have connected Visited again' }).waitFor();
    assert.ok(!(await page.content()).includes('code='), 'no code');
  }
  await photograph(page, options.out, 'request-decided');
  await context.close();
  say('back, reload and a second visit say what was decided');
}

// The same for the connect pages of servers, the page of a secret, and the account page.
async function serversVisitedAgain() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  let callback;
  page.on('request', (request) => {
    if (request.url().startsWith(`${base}/oauth/upstream/callback`)) callback = request.url();
  });
  await page.goto(`${base}/connect/github`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: /^Log in$/ }).click();
  await page.getByRole('button', { name: /^Continue to/ }).waitFor();
  await page.reload();
  await photograph(page, options.out, 'connect');
  await page.getByRole('button', { name: /^Continue to/ }).click();
  await page.getByRole('button', { name: 'Allow' }).click();
  const isConnected = () => page.getByRole('heading', { name: 'github is connected' }).waitFor();
  await isConnected();
  const { exchanged } = guarded.heard;
  await page.goto(`${base}/account`);
  await page.goBack();
  await isConnected();
  await photograph(page, options.out, 'connect-done');
  for (const visit of [() => page.reload(), () => page.goto(callback), () => page.goto(`${base}/connect/github/done`)]) {
    await visit();
    await isConnected();
  }
  assert.deepEqual([guarded.heard.exchanged, guarded.heard.refused], [exchanged, 0], 'nothing is asked for a second time');

  await page.goto(`${base}/connect/notes`);
  await page.reload();
  await page.getByLabel(SECRET).waitFor();
  await photograph(page, options.out, 'secret-form');
  await page.getByLabel(SECRET).fill('the value');
  await page.getByRole('button', { name: 'Save' }).click();
  const isEntered = () => page.getByRole('heading', { name: 'notes is connected' }).waitFor();
  await isEntered();
  await page.goto(`${base}/account`);
  for (const visit of [() => page.goBack(), () => page.reload(), () => page.goto(`${base}/connect/notes`)]) {
    await visit();
    await isEntered();
  }
  await account(page);
  await photograph(page, options.out, 'account-servers');
  for (const [button, told] of [[`Delete ${SECRET}`, 'The secret is deleted.'], ['Disconnect your account at github', 'Your account is disconnected.']]) {
    await page.getByRole('button', { name: button }).click();
    await page.getByText(told).waitFor();
    await photograph(page, options.out, `account-${button.split(' ')[0].toLowerCase()}`);
    await page.reload();
    assert.equal(await page.getByRole('button', { name: button }).count(), 0, `${button} is done`);
  }
  await connectApp(page, 'Visited again');
  await account(page);
  await photograph(page, options.out, 'account-everything');
  await page.getByRole('button', { name: 'Disconnect everything' }).click();
  await page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  for (const visit of [() => page.goBack(), () => page.reload(), () => page.goto(`${base}/account`)]) {
    await visit();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
  }
  // a wrong key twice: the login page comes back each time
  for (const _ of [1, 2]) {
    await page.getByLabel('API key').fill('lkk_wrong');
    await page.getByRole('button', { name: /^Log in$/ }).click();
    await page.getByText(/^Refusal [A-Z]{8}$/).waitFor();
    await page.waitForLoadState();
  }
  await photograph(page, options.out, 'wrong-key');
  await context.close();
  say('back, reload and a second visit at servers and at the account page');
}

// The same for the pages of a device.
async function devicesVisitedAgain() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const device = await register('Device', undefined, [DEVICE_GRANT]);
  const form = new URLSearchParams({ client_id: device, resource: `${base}/mcp` });
  const begun = await (await fetch(`${base}/oauth/device_authorization`, { method: 'POST', body: form })).json();
  await page.goto(begun.verification_uri_complete);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: /^Log in$/ }).click();
  await page.getByRole('button', { name: 'Continue' }).waitFor();
  await page.reload();
  await page.getByLabel('Code').fill('bbbb-bbbb');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText(/^Refusal [A-Z]{8}$/).waitFor();
  await photograph(page, options.out, 'wrong-code');
  await page.getByLabel('Code').fill(begun.user_code);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Approve' }).click();
  const decided = page.getByRole('heading', { name: 'Device is connected' });
  await decided.waitFor();
  for (const visit of [() => page.reload(), () => page.goto(begun.verification_uri), () => page.goBack(), () => page.goBack()]) {
    await visit();
    await page.getByRole('heading', { name: /Device is connected|Connect a device/ }).waitFor();
  }
  await page.goto(begun.verification_uri_complete);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('No device is waiting with this code.').waitFor();
  await context.close();
  say('back, reload and a second visit at the pages of a device');
}

// Another person logs in while a consent page is open.
async function anotherPerson() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const [one, two] = [await context.newPage(), await context.newPage()];
  const client = await register('Two people', [`${app.origin}/cb`]);
  await one.goto(authorization(client, `${app.origin}/cb`).url);
  await two.goto(authorization(client, `${app.origin}/cb`).url);
  for (const [page, own] of [[one, key], [two, another]]) {
    await page.getByLabel('API key').fill(own);
    await page.getByRole('button', { name: /^Log in$/ }).click();
    await page.getByRole('button', { name: 'Approve' }).waitFor();
  }
  await one.getByRole('button', { name: 'Approve' }).click();
  await one.getByRole('heading', { name: 'Somebody else is logged in now' }).waitFor();
  assert.match(await one.content(), /Now bob is logged in/);
  await photograph(one, options.out, 'somebody-else');
  await context.close();
  say('the page of one person says that another is logged in');
}

async function account(page) {
  await page.goto(`${base}/account`);
  await page.getByRole('button', { name: 'Log out' }).waitFor();
}

// Connects an app of the person who is logged in.
async function connectApp(page, name) {
  const client = await register(name, [`${app.origin}/cb`]);
  const request = authorization(client, `${app.origin}/cb`);
  await page.goto(request.url);
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText('The app has its answer.').waitFor();
  const told = codes.find((query) => query.get('state') === request.state);
  await redeem(client, `${app.origin}/cb`, told.get('code'), request.verifier);
}

function configuration() {
  const login = provider ? `[login.corp]\nissuer = "${provider.origin}"\nclient_id = "lockkeeper"\nclient_secret = "a secret: + and %"\nlabel = "Example Corp"\ndomains = ["example.com"]\n` : '';
  // nothing listens at the second server's address: its pages work all the same
  return `[servers.github]\nurl = "${guard.origin}/mcp"\nauth = "oauth"\n[servers.notes]\nurl = "http://127.0.0.1:9/mcp"\nheaders = { X-Key = "\${secret:${SECRET}}" }\n${login}`;
}

// Starts the OpenID provider, at a different site from the gateway's.
async function openIdProvider() {
  const port = await freePort();
  const program = spawn(process.execPath, [options.provider, `${port}`, base], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve, reject) => program.stdout.once('data', resolve) && program.once('exit', reject));
  return { program, origin: `http://localhost:${port}` };
}

// The delay in milliseconds: the responses that a press waits for are late.
function late({ method, url }) {
  const isCallback = /^\/oauth\/(upstream|login)\/callback/.test(url);
  return isCallback || (method === 'POST' && !url.startsWith('/oauth/token')) ? LATE : 0;
}
