// Opens invitations in a real browser, with and without scripts in the pages: used, used again, pressed twice, expired,
// revoked, ended with their user or inviter, previewed, guessed, and opened by somebody who is logged in:
//
//   node invitations.mjs --program target/release/lockkeeper --out screenshots [--replicas POSTGRES_URL] [--chromium /usr/bin/chromium]
//
// It starts a gateway; with `--replicas` two of them on that database, and then runs only the checks that need two.
// Each browser has its own client address unless a check says otherwise, since unusable links are counted by network.
// Every check prints a line; the first failure ends the run with exit code 1.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { gatewaysBehind, listen, proxy, say } from './gateways.mjs';
import { photograph } from './photograph.mjs';

const { values: options } = parseArgs({
  options: {
    program: { type: 'string' },
    out: { type: 'string', default: 'screenshots' },
    replicas: { type: 'string' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
  },
});
assert.ok(options.program, 'usage: node invitations.mjs --program PROGRAM [--out FOLDER] [--replicas URL]');
mkdirSync(options.out, { recursive: true });

// number of wrong keys and unusable links that one network may try at once (OA-127)
const WRONG_AT_ONCE = 10;
const UNUSABLE = 'This link cannot be used';
const ACCEPTED = 'You have accepted this invitation';
const HEADERS = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex, nofollow' };
// headers that differ from response to response
const OF_ONE_ANSWER = ['date', 'x-request-id', 'retry-after'];
const BOT = 'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)';
const SCRIPTS = [false, true];

const front = await proxy();
const base = front.origin;
const heard = [];
front.server.on('request', ({ method, url, headers }) => heard.push({ method, url, referer: headers.referer ?? '' }));
// a chat that loads previews of links
const chat = await listen((request, answer) => answer.setHeader('content-type', 'text/html').end(message(request)));
const { run, kept, stop } = await gatewaysBehind(front, {
  program: options.program,
  database: options.replicas,
  configuration: '[http]\ntrusted_proxies = ["127.0.0.1"]\n[servers.notes]\nbuiltin = "demo"\n[servers.wiki]\nbuiltin = "demo"\n',
});
const browser = await chromium.launch({
  executablePath: options.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
let addresses = 0;
const complaints = [];
// secrets of the links, and keys
const secrets = new Set();
// pages of unusable links, by the reason
const refusals = new Map();

try {
  if (options.replicas) {
    await atTwoReplicasAtOnce();
    await aFormAtTwoReplicasAtOnce();
    await revokedAtTheOtherReplica();
    await guessedAtBothReplicas();
  } else {
    await Promise.all(SCRIPTS.map(everything));
    await unknown();
    allLookAlike();
  }
  const told = heard.filter(({ referer }) => referer.includes('i='));
  assert.deepEqual(told, [], 'no page tells the next one its link');
  assert.deepEqual(complaints, [], 'no content security policy is violated');
  say('no page of an invitation tells its link, or violates its content security policy');
  const texts = kept();
  assert.ok(texts.some(([, text]) => text.includes('guest-')), 'they have the names');
  for (const [name, text] of texts) for (const secret of secrets) assert.ok(!text.includes(secret), `${name} has a secret`);
  say(`none of ${secrets.size} links and keys is in ${texts.length} files and logs of the gateways`);
} finally {
  await browser.close();
  stop();
  for (const { server } of [front, chat]) server.close().closeAllConnections();
}

async function everything(scripts) {
  const expiring = await opensBeforeTheEnd(scripts);
  await used(scripts);
  await pressedTwice(scripts);
  await revoked(scripts);
  await endedWithTheirPeople(scripts);
  await previewed(scripts);
  await guessed(scripts);
  await somebodyElse(scripts);
  await expired(expiring);
}

// A link that is used, then opened again in the same browser and in another one.
async function used(scripts) {
  const { link, name } = invited(['--server', 'notes:read', '--key-expires', '90d']);
  const [ann, other] = [await person({ scripts }), await person({ scripts })];
  for (const { page } of [ann, other]) {
    assert.equal((await visit(page, link)).status(), 200);
    const text = await page.locator('main').innerText();
    for (const part of ['The operator of this gateway', name, 'notes', '90 days after you accept']) assert.ok(text.includes(part), `${part}: ${text}`);
    assert.ok(!text.includes('wiki'), 'no server that it does not open');
  }
  if (!scripts) await photograph(ann.page, options.out, 'invitation-read-only');
  assert.ok(!users().includes(name), 'a page that was read makes nobody');
  const key = await accepts(ann.page, name);
  assert.equal(ann.page.url(), `${base}/invite`, 'the address has no secret any more');
  await isKeyOf(name, key);

  await ann.page.reload();
  assert.equal(await keyOn(ann.page, name), key, 'the form that took it shows the key for ten minutes');
  const tab = await ann.context.newPage();
  for (const [page, look] of [[tab, () => visit(tab, link)], [tab, () => tab.reload()], [ann.page, () => ann.page.goBack()]]) {
    assert.equal((await look()).status(), 200);
    await page.getByRole('heading', { name: ACCEPTED }).waitFor();
    assert.ok(!(await page.content()).includes(key), 'no other page shows the key');
  }
  await tab.getByRole('link', { name: 'Connect an app' }).click();
  await tab.getByText(`${base}/mcp`).first().waitFor();
  await isUnusable(other.page, await presses(other.page, name), 'used, and pressed on a page from before');
  await isUnusable(other.page, await visit(other.page, link), 'used');
  await tab.goto(`${base}/account`);
  await tab.getByRole('button', { name: 'Log out' }).click();
  await tab.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  await isUnusable(tab, await visit(tab, link), 'used, in the same browser after its logout');
  assert.equal(keysOf(name).length, 1, 'one key');
  await close(ann, other);
  tells('used, and used again in the same browser and in another one', scripts);
}

async function pressedTwice(scripts) {
  const { link, name } = invited();
  const ann = await person({ scripts });
  await visit(ann.page, link);
  await ann.page.getByRole('button', { name: `Accept as ${name}` }).dblclick();
  await isKeyOf(name, await keyOn(ann.page, name));

  // in two tabs at once: one tab shows the key; after that both show that the invitation was accepted
  const second = invited();
  const tabs = [await ann.context.newPage(), await ann.context.newPage()];
  await Promise.all(tabs.map((tab) => visit(tab, second.link)));
  const statuses = (await Promise.all(tabs.map((tab) => presses(tab, second.name)))).map((answer) => answer.status());
  const welcomed = [];
  for (const tab of tabs) if (await tab.getByRole('heading', { name: `Welcome, ${second.name}` }).isVisible()) welcomed.push(tab);
  assert.equal(welcomed.length, 1, `one tab shows the key: ${statuses}`);
  await isKeyOf(second.name, await keyOn(welcomed[0], second.name));
  for (const tab of tabs) {
    await visit(tab, second.link);
    await tab.getByRole('heading', { name: ACCEPTED }).waitFor();
  }
  for (const made of [name, second.name]) assert.equal(keysOf(made).length, 1, 'one key');
  await close(ann);
  tells('pressed twice, and in two tabs at once', scripts);
}

async function revoked(scripts) {
  const { link, name, id } = invited();
  const ann = await person({ scripts });
  await visit(ann.page, link);
  run(['invitations', 'revoke', id]);
  await isUnusable(ann.page, await presses(ann.page, name), 'revoked, and pressed on a page from before');
  await isUnusable(ann.page, await visit(ann.page, link), 'revoked');
  assert.ok(!users().includes(name), 'nobody is made');
  await close(ann);
  tells('revoked', scripts);
}

// Links whose user or inviter was disabled or deleted, or whose inviter lost the key or rights.
async function endedWithTheirPeople(scripts) {
  const ends = {
    'disabled user': (user) => run(['users', 'disable', user]),
    'deleted user': (user) => run(['users', 'delete', user]),
    'disabled inviter': (user) => run(['users', 'disable', user]),
    'deleted inviter': (user) => run(['users', 'delete', user]),
    'inviter without a key': (_, key) => run(['keys', 'revoke', key]),
    'inviter with fewer rights': (_, key) => run(['keys', 'set', key, '--server', 'wiki']),
  };
  for (const [why, end] of Object.entries(ends)) {
    const user = unused('ada');
    const { id: key } = JSON.parse(run(['keys', 'create', user, '--user', user, '--json']));
    const invites = why.includes('inviter');
    const { link, name } = invites ? invited(['--by', user]) : invited(['--again'], user);
    const guest = await person({ scripts });
    assert.equal((await visit(guest.page, link)).status(), 200);
    const text = await guest.page.locator('main').innerText();
    assert.ok(text.includes(invites ? `${user} invites you` : `Anyone who opens it becomes ${user}`), text);
    end(user, key);
    await isUnusable(guest.page, await presses(guest.page, name), `${why}, and pressed on a page from before`);
    await isUnusable(guest.page, await visit(guest.page, link), why);
    if (why.startsWith('disabled')) {
      run(['users', 'enable', user]);
      await isUnusable(guest.page, await visit(guest.page, link), `${why}, enabled again`);
    }
    if (invites) assert.ok(!users().includes(name), 'nobody is made');
    await close(guest);
  }
  tells('ended with its user, and with who invites', scripts);
}

// Chats and mail filters load every link and the links on its page. After that the person opens it.
async function previewed(scripts) {
  const { link, name, id } = invited();
  const [bot, ann] = [await person({ scripts, agent: BOT }), await person({ scripts })];
  for (const method of ['GET', 'HEAD', 'HEAD', 'GET']) {
    const answer = await bot.context.request.fetch(link, { method });
    assert.equal(answer.status(), 200, method);
    hasHeaders(answer.headers());
    assert.equal((await answer.body()).length === 0, method === 'HEAD');
  }
  await visit(bot.page, link);
  const links = await bot.page.locator('[href], [src]').evaluateAll((found) => found.map((element) => element.href ?? element.src));
  for (const each of new Set([link, ...links])) {
    for (const method of ['HEAD', 'GET']) await bot.context.request.fetch(each, { method });
  }
  // in the person's browser: a chat page prefetches the link, and shows it in a hidden frame
  const begun = heard.length;
  const talk = await ann.context.newPage();
  await talk.goto(`${chat.origin}/?${encodeURIComponent(link)}`);
  const loads = heard.slice(begun).filter(({ url }) => url === link.slice(base.length));
  assert.ok(loads.length >= 2, `the chat loads it: ${JSON.stringify(loads)}`);
  // and in a tab in the background
  await ann.page.goto(link);
  await talk.bringToFront();
  await ann.page.reload();
  assert.ok(!users().includes(name), 'nobody is made');
  assert.equal(waiting(id)?.state, 'open');

  const [opened] = await Promise.all([ann.context.waitForEvent('page'), talk.getByRole('link', { name: 'invited!' }).click({ modifiers: ['Control'] })]);
  await opened.waitForLoadState();
  await isKeyOf(name, await accepts(opened, name));
  assert.equal(waiting(id), undefined, 'it waits no more');
  await isUnusable(bot.page, await visit(bot.page, link), 'used, seen by the bot');
  await close(bot, ann);
  tells('previewed, and then used', scripts);
}

function message({ url }) {
  const link = decodeURIComponent(url.slice(2));
  return `<!doctype html><link rel="prefetch" href="${link}"><iframe hidden src="${link}"></iframe><img src="${link}" alt=""><a href="${link}">invited!</a>`;
}

// Wrong links from one network, and other people behind the same address.
async function guessed(scripts) {
  const { link, name, id } = invited();
  const guesser = await person({ scripts });
  const neighbour = { scripts, address: guesser.address };
  for (let number = 0; number < WRONG_AT_ONCE; number += 1) {
    await isUnusable(guesser.page, await visit(guesser.page, wrong(link, number)), `guessed, number ${number}`);
  }
  const limited = await visit(guesser.page, wrong(link, 'more'));
  await isUnusable(guesser.page, limited, 'guessed too often', 429);
  assert.ok(Number(limited.headers()['retry-after']) > 0, 'it says when');
  if (!scripts) await photograph(guesser.page, options.out, 'invitation-guessed');
  // wrong keys from the network count toward the same limit
  const login = await person(neighbour);
  await login.page.goto(`${base}/login`);
  await login.page.getByLabel('API key').fill('lkk_wrong');
  const [refused] = await Promise.all([login.page.waitForResponse(isPost), login.page.getByRole('button', { name: /^Log in$/ }).click()]);
  assert.equal(refused.status(), 429);

  const ann = await person(neighbour);
  assert.equal((await visit(ann.page, link)).status(), 200, 'a right link passes');
  const key = await accepts(ann.page, name);
  await isKeyOf(name, key, neighbour);
  assert.equal(waiting(id), undefined);
  await isUnusable(login.page, await visit(login.page, link), 'used, behind the address of a guesser', 429);
  const elsewhere = await person({ scripts });
  await isUnusable(elsewhere.page, await visit(elsewhere.page, wrong(link, 'elsewhere')), 'guessed at another address');
  await close(guesser, login, ann, elsewhere);
  tells(`guessed: ${WRONG_AT_ONCE} wrong links, and the people behind the same address`, scripts);
}

// Somebody else is logged in, and chooses whether to stay logged in.
async function somebodyElse(scripts) {
  const bob = unused('bob');
  const own = run(['keys', 'create', bob, '--user', bob]).match(/lkk_\S+/)[0];
  const [here, elsewhere] = [await person({ scripts }), await person({ scripts })];
  for (const { page } of [here, elsewhere]) await logsIn(page, own, bob);
  const { link, name } = invited();
  assert.equal((await visit(here.page, link)).status(), 200);
  await here.page.getByText(`You are logged in here as ${bob}`).waitFor();
  if (!scripts) await photograph(here.page, options.out, 'invitation-somebody-else');
  await here.page.getByRole('link', { name: `Stay logged in as ${bob}` }).click();
  await here.page.getByRole('heading', { name: bob, exact: true }).waitFor();
  assert.ok(!users().includes(name), 'nobody is made');

  await visit(here.page, link);
  await isKeyOf(name, await accepts(here.page, name));
  for (const [{ page }, user] of [[here, name], [elsewhere, bob]]) {
    await page.goto(`${base}/account`);
    await page.getByRole('heading', { name: user, exact: true }).waitFor();
  }
  assert.equal(keysOf(bob).length, 1, 'nothing is added to who was logged in');
  await isUnusable(elsewhere.page, await visit(elsewhere.page, link), 'used, to somebody who is logged in');
  await close(here, elsewhere);
  tells('opened by somebody else who is logged in', scripts);
}

// A link that is valid for a minute, the shortest possible time. Its page stays open until it has expired.
async function opensBeforeTheEnd(scripts) {
  const invitation = invited(['--valid', '1m']);
  const ann = await person({ scripts });
  assert.equal((await visit(ann.page, invitation.link)).status(), 200);
  return { scripts, ann, ...invitation };
}

async function expired({ scripts, ann, link, name, id }) {
  for (let tries = 0; waiting(id); tries += 1) {
    assert.ok(tries < 300, 'the link expires');
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  await isUnusable(ann.page, await presses(ann.page, name), 'expired, and pressed on a page from before');
  await isUnusable(ann.page, await visit(ann.page, link), 'expired');
  assert.ok(!users().includes(name), 'nobody is made');
  await close(ann);
  tells('expired', scripts);
}

// Links that never existed: another gateway's, an incomplete one, and ones without a secret.
async function unknown() {
  const folder = mkdtempSync(path.join(tmpdir(), 'lockkeeper-another-'));
  const another = execFileSync(options.program, ['invite', 'ann', '--data-dir', folder], { encoding: 'utf8', cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
    .trim()
    .replace(/^http:..[^/]+/, '');
  rmSync(folder, { recursive: true });
  const { page, ...stranger } = await person({ scripts: false });
  const cases = { 'of another gateway': another, 'without its end': another.slice(0, -3), 'without a secret': '/invite?i=', 'without a query': '/invite', 'with two': `${another}&i=x` };
  for (const [why, link] of Object.entries(cases)) await isUnusable(page, await visit(page, base + link), why);
  await close(stranger);
  say('links that there never were');
}

// The pages and headers are the same byte for byte, except for the ids of the response.
function allLookAlike() {
  const [[first, expected], ...others] = refusals;
  for (const [why, found] of others) assert.deepEqual(found, expected, `${why}, and ${first}`);
  assert.ok(others.length > 30);
  say(`${refusals.size} pages of links that are unknown, used, expired, revoked or ended are the same`);
}

// Two people accept the same link, each at a different replica.
async function atTwoReplicasAtOnce() {
  for (const scripts of SCRIPTS) {
    for (let round = 0; round < 5; round += 1) {
      const { link, name } = invited();
      const both = [await person({ scripts, replica: 0 }), await person({ scripts, replica: 1 })];
      for (const { page } of both) assert.equal((await visit(page, link)).status(), 200);
      const answers = await Promise.all(both.map(({ page }) => presses(page, name)));
      const [winner, ...more] = answers.flatMap((answer, number) => (answer.status() === 200 ? [number] : []));
      assert.equal(more.length, 0, 'one takes it');
      await isKeyOf(name, await keyOn(both[winner].page, name));
      await isUnusable(both[1 - winner].page, answers[1 - winner], 'taken at the other replica at once');
      assert.equal(keysOf(name).length, 1, 'one key');
      await close(...both);
    }
    tells('taken at two replicas at once', scripts);
  }
}

// One form is sent to both replicas at once, as by a second press behind a load balancer.
async function aFormAtTwoReplicasAtOnce() {
  for (let round = 0; round < 5; round += 1) {
    const { link, name } = invited();
    const ann = await person({ scripts: false });
    await visit(ann.page, link);
    const form = Object.fromEntries(await ann.page.locator('form input').evaluateAll((inputs) => inputs.map(({ name, value }) => [name, value])));
    const headers = { origin: base, 'sec-fetch-site': 'same-origin', accept: 'text/html' };
    const send = (replica) => ann.context.request.post(`${base}/invite`, { form, headers: { ...headers, 'x-replica': `${replica}` } });
    const answers = await Promise.all([send(0), send(1)]);
    assert.deepEqual(answers.map((answer) => answer.status()), [200, 200]);
    const keys = await Promise.all(answers.map(async (answer) => (await answer.text()).match(/lkk_\w+/)?.[0]));
    assert.equal(new Set(keys).size, 1, 'both answers have the key');
    await isKeyOf(name, keys[0]);
    assert.equal(keysOf(name).length, 1, 'one key');
    await close(ann);
  }
  say('one form at two replicas at once gets one key, twice');
}

// The command has the configuration of the first replica; both replicas refuse the links.
async function revokedAtTheOtherReplica() {
  const ended = [invited(), invited()];
  const guests = [];
  for (const replica of [0, 1]) {
    guests.push(await person({ scripts: false, replica }));
    assert.equal((await visit(guests[replica].page, ended[replica].link)).status(), 200);
  }
  for (const { id } of ended) run(['invitations', 'revoke', id]);
  for (const [number, { page }] of guests.entries()) {
    await isUnusable(page, await presses(page, ended[number].name), 'revoked, at a replica');
    await isUnusable(page, await visit(page, ended[number].link), 'revoked, at a replica');
  }
  await close(...guests);
  say('revoked at both replicas at once');
}

// Wrong links at both replicas count together, as closely as docs/operations.md promises.
async function guessedAtBothReplicas() {
  const { link, name } = invited();
  const guesser = await person({ scripts: false });
  let passed = 0;
  while ((await visit(guesser.page, wrong(link, passed))).status() === 403) {
    passed += 1;
    assert.ok(passed <= 2 * WRONG_AT_ONCE, 'no more than two full buckets');
  }
  assert.ok(passed >= WRONG_AT_ONCE, `${passed} pass`);
  const ann = await person({ scripts: false, address: guesser.address });
  assert.equal((await visit(ann.page, link)).status(), 200, 'a right link passes');
  await isKeyOf(name, await accepts(ann.page, name));
  await close(guesser, ann);
  say('guessed at two replicas');
}

// Opens a browser with this client address, replica and user agent.
async function person({ scripts, address, replica, agent }) {
  const own = address ?? `198.51.${(addresses += 1) >> 8}.${addresses & 255}`;
  const extraHTTPHeaders = { 'x-forwarded-for': own, ...(replica !== undefined && { 'x-replica': `${replica}` }) };
  const context = await browser.newContext({ javaScriptEnabled: scripts, extraHTTPHeaders, userAgent: agent });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.on('console', (message) => {
    if (/Content.Security.Policy|Refused to/i.test(message.text())) complaints.push(message.text());
  });
  return { context, page, address: own };
}

async function close(...people) {
  for (const { context } of people) await context.close();
}

// Opens a link, checks the headers and the title that keep its page private, and returns the response.
async function visit(page, link) {
  const answer = await page.goto(link);
  hasHeaders(answer.headers());
  await hasNeutralTitle(page, link);
  return answer;
}

// Presses *Accept*, checks the same, and returns the response.
async function presses(page, name) {
  const button = page.getByRole('button', { name: `Accept as ${name}` });
  const [answer] = await Promise.all([page.waitForResponse(isPost), button.click()]);
  await page.waitForLoadState();
  hasHeaders(answer.headers());
  await hasNeutralTitle(page, name);
  return answer;
}

// Accepts, and returns the key.
async function accepts(page, name) {
  assert.equal((await presses(page, name)).status(), 200);
  return keyOn(page, name);
}

async function keyOn(page, name) {
  await page.getByRole('heading', { name: `Welcome, ${name}` }).waitFor();
  const key = (await page.locator('code.copy').textContent()).trim();
  secrets.add(key);
  return key;
}

// Checks the page of an unusable link, and keeps it for `allLookAlike`.
async function isUnusable(page, answer, why, status = 403) {
  assert.equal(answer.status(), status, why);
  await page.getByRole('heading', { name: UNUSABLE }).waitFor();
  const text = (await answer.text()).replace(/request <code>.*?<\/code>, refusal <code>.*?<\/code>/, '');
  assert.ok(text.includes(UNUSABLE) && !/lk[vk]_/.test(text), 'it repeats no secret');
  const headers = Object.entries(await answer.allHeaders()).filter(([name]) => !OF_ONE_ANSWER.includes(name));
  refusals.set(`${why} (${refusals.size})`, { text, headers: Object.fromEntries(headers) });
}

function hasHeaders(found) {
  for (const [name, value] of Object.entries(HEADERS)) assert.equal(found[name], value, name);
}

async function hasNeutralTitle(page, link) {
  assert.ok(['Invitation · Lockkeeper', `${UNUSABLE} · Lockkeeper`].includes(await page.title()), `${link}: ${await page.title()}`);
}

// Checks that the key logs this person in.
async function isKeyOf(name, key, as = { scripts: false }) {
  const someone = await person(as);
  await logsIn(someone.page, key, name);
  await close(someone);
}

async function logsIn(page, key, name) {
  await page.goto(`${base}/login`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: /^Log in$/ }).click();
  await page.getByRole('heading', { name, exact: true }).waitFor();
}

// Creates an invitation, by default for a new user.
function invited(more = [], name = unused('guest')) {
  const { id, link } = JSON.parse(run(['invite', name, '--json', ...more]));
  secrets.add(link.slice(link.indexOf('lkv_')));
  return { id, name, link };
}

function unused(kind) {
  return `${kind}-${randomBytes(3).toString('hex')}`;
}

// The link with a wrong secret.
function wrong(link, number) {
  const from = link.indexOf('lkv_') + 4;
  const guess = Buffer.from(`${number}`.padEnd(12, 'x')).toString('hex');
  return link.slice(0, from) + guess + link.slice(from + guess.length);
}

function waiting(id) {
  return JSON.parse(run(['invitations', 'list', '--json'])).invitations.find((invitation) => invitation.id === id);
}

function users() {
  return JSON.parse(run(['users', 'list', '--json'])).users.map(({ id }) => id);
}

function keysOf(name) {
  return JSON.parse(run(['keys', 'list', '--json'])).keys.filter(({ user }) => user === name);
}

function isPost(answer) {
  return answer.request().method() === 'POST';
}

function tells(text, scripts) {
  say(`an invitation, ${text}${scripts ? ', with scripts' : ''}`);
}
