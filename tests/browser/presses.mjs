// Presses every button of the pages twice, in a real browser that is 300 ms away from the gateway, with scripts in the pages and
// without; logs in with two and four tabs; goes back, reloads and visits again:
//
//   node presses.mjs --program target/release/lockkeeper --out screenshots [--replicas POSTGRES_URL] [--chromium /usr/bin/chromium]
//
// It starts the gateway and a slow proxy in front of it; with `--replicas` two gateways on that database, which the proxy asks in turn.
// Every check prints a line; the first that fails ends it with exit code 1.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as send } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { photograph } from './photograph.mjs';

const { values: options } = parseArgs({
  options: {
    program: { type: 'string' },
    out: { type: 'string', default: 'screenshots' },
    replicas: { type: 'string' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
  },
});
assert.ok(options.program, 'usage: node presses.mjs --program PROGRAM [--out FOLDER] [--replicas URL]');
mkdirSync(options.out, { recursive: true });

const LATE = 300;
const PRESSES = [0, 100, 200, 400];
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const folder = mkdtempSync(path.join(tmpdir(), 'lockkeeper-presses-'));
const masterKey = randomBytes(32).toString('base64url');
const programs = [];
const app = await listen((request, response) => response.end('The app has its answer.'));
const codes = [];
app.server.on('request', (request) => codes.push(new URL(request.url, 'http://app').searchParams));
const front = await slow();
const base = `http://127.0.0.1:${front.port}`;
for (const number of options.replicas ? [1, 2] : [1]) await gateway(number);
const key = run(['keys', 'create', `key-${randomBytes(3).toString('hex')}`]).match(/lkk_\S+/)[0];
const another = run(['keys', 'create', `bob-${randomBytes(3).toString('hex')}`, '--user', 'bob']).match(/lkk_\S+/)[0];
const browser = await chromium.launch({
  executablePath: options.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});

try {
  for (const javaScriptEnabled of [false, true]) {
    for (const later of PRESSES) await pressedTwice({ javaScriptEnabled, later });
    for (const count of [2, 4]) await tabs(count, javaScriptEnabled);
  }
  await visitedAgain();
  await anotherPerson();
} finally {
  await browser.close();
  for (const program of programs) program.kill();
  for (const { server } of [app, front]) server.close().closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
}

// Each button once more, some time after the first press, while its answer is on the way.
async function pressedTwice({ javaScriptEnabled, later }) {
  const context = await browser.newContext({ javaScriptEnabled });
  const page = await context.newPage();
  const twice = twiceOn(page, later);
  const client = await register(`Pressed ${later}`, [`${app.origin}/cb`]);
  const request = authorization(client, `${app.origin}/cb`);
  await page.goto(request.url);
  await page.getByLabel('API key').fill(key);
  await twice(/^Log in$/);
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await page.waitForLoadState();
  await twice('Approve');
  await page.getByText('The app has its answer.').waitFor();
  const told = codes.filter((query) => query.get('state') === request.state);
  assert.equal(new Set(told.map((query) => query.get('code'))).size, 1, 'one code');
  await redeem(client, `${app.origin}/cb`, told[0].get('code'), request.verifier);

  const scheme = 'cursor://anysphere.cursor-mcp/oauth/callback';
  await page.goto(authorization(await register('Own scheme', [scheme]), scheme).url);
  await twice('Approve');
  await page.getByRole('link', { name: 'Open the app' }).waitFor();
  // a page of its own: the browser asks on this one whether to open the app
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

// Presses a button of the page, and its place once more some time later, without waiting for anything.
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

// Login pages in several tabs, which open at once without a cookie, and a login in each.
async function tabs(count, javaScriptEnabled) {
  const context = await browser.newContext({ javaScriptEnabled });
  const opened = [];
  for (let number = 0; number < count; number += 1) {
    const client = await register(`Tab ${number}`, [`${app.origin}/cb`]);
    opened.push({ client, page: await context.newPage(), request: authorization(client, `${app.origin}/cb`) });
  }
  await Promise.all(opened.map(({ page, request }) => page.goto(request.url)));
  for (const { page } of opened) {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: /^Log in$/ }).click();
    await page.getByRole('button', { name: 'Approve' }).waitFor();
  }
  for (const { client, page, request } of opened) {
    await page.getByRole('button', { name: 'Approve' }).click();
    // a page from before the login of another tab asks once more
    const asked = page.getByRole('button', { name: 'Approve' });
    const answered = page.getByText('The app has its answer.');
    await page.waitForLoadState();
    if (!(await answered.isVisible())) await asked.click();
    await answered.waitFor();
    const told = codes.find((query) => query.get('state') === request.state);
    await redeem(client, `${app.origin}/cb`, told.get('code'), request.verifier);
  }
  await context.close();
  say(`${count} tabs log in and approve${javaScriptEnabled ? ', with scripts' : ''}`);
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

async function register(name, redirectUris, grantTypes) {
  const answer = await fetch(`${base}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name: name, redirect_uris: redirectUris, grant_types: grantTypes, token_endpoint_auth_method: 'none' }),
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  return (await answer.json()).client_id;
}

function authorization(client, redirectUri) {
  const [verifier, state] = [randomBytes(32).toString('base64url'), randomBytes(8).toString('hex')];
  const url = new URL(`${base}/oauth/authorize`);
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: client,
    redirect_uri: redirectUri,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource: `${base}/mcp`,
    state,
  }).toString();
  return { url: url.href, verifier, state };
}

async function redeem(client, redirectUri, code, verifier) {
  const form = { grant_type: 'authorization_code', client_id: client, redirect_uri: redirectUri, code, code_verifier: verifier };
  const answer = await fetch(`${base}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) });
  assert.equal(answer.status, 200, await answer.clone().text());
}

function run(args) {
  return execFileSync(options.program, [...args, '--config', path.join(folder, '1.toml'), '--data-dir', path.join(folder, '1')], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

// A gateway whose public address is that of the proxy.
async function gateway(number) {
  const port = await freePort();
  const replica = options.replicas ? `database = "${options.replicas}"\n[replica]\nlisten = "127.0.0.1:${await freePort()}"\n` : '';
  writeFileSync(path.join(folder, `${number}.toml`), `listen = "127.0.0.1:${port}"\npublic_url = "${base}"\n${replica}`);
  // replicas have one master key
  mkdirSync(path.join(folder, `${number}`), { mode: 0o700 });
  writeFileSync(path.join(folder, `${number}`, 'master.key'), masterKey, { mode: 0o600 });
  const own = ['--config', path.join(folder, `${number}.toml`), '--data-dir', path.join(folder, `${number}`)];
  const program = spawn(options.program, ['serve', ...own], { stdio: 'ignore' });
  programs.push(program);
  for (let tries = 0; ; tries += 1) {
    assert.ok(tries < 300 && program.exitCode === null, 'the gateway listens');
    const is_there = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy() && true)).on('error', () => resolve(false));
    });
    if (is_there) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  front.ports.push(port);
}

// A proxy whose answers are late, and which drops its request when the browser goes away.
async function slow() {
  const ports = [];
  let turn = 0;
  const { server, port } = await listen((asked, answer) => {
    const to = ports[(turn += 1) % ports.length];
    const own = send({ port: to, host: '127.0.0.1', method: asked.method, path: asked.url, headers: asked.headers }, (got) => {
      const chunks = [];
      got.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
        const is_page = asked.method === 'POST' && !asked.url.startsWith('/oauth/token');
        setTimeout(() => answer.writeHead(got.statusCode, got.rawHeaders).end(Buffer.concat(chunks)), is_page ? LATE : 0);
      });
    });
    own.on('error', () => answer.destroy());
    answer.on('close', () => own.destroy());
    asked.pipe(own);
  });
  return { server, port, ports };
}

async function listen(handler) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  return { server, port, origin: `http://127.0.0.1:${port}` };
}

async function freePort() {
  const { server, port } = await listen(() => {});
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function say(text) {
  console.log(`ok - ${text}`);
}
