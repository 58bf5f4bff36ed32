// The Inspector's pages in Chromium, with the whole login: connect, the gateway's pages, the way back, a list and a call; and
// once more after the grant was revoked.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { chromium } from '../../browser/node_modules/playwright-core/index.mjs';
import { check, cli, context, finish, revokeGrant, until } from '../harness/case.mjs';

const MINUTE = 60_000;
const home = await mkdtemp(join(context.work, 'inspector-web-'));
const [port, sandbox, apps] = await Promise.all([freePort(), freePort(), freePort()]);
const origin = `http://localhost:${port}`;
const [node, launcher] = context.inspector;
const inspector = spawn(node, [launcher, '--web', '--server-url', `${context.url}/mcp`, '--transport', 'http', '--protocol-era', 'modern'], {
  env: {
    ...process.env, HOME: home, HOST: 'localhost', CLIENT_PORT: port, MCP_SANDBOX_PORT: sandbox, MCP_APP_ORIGIN_PORT: apps,
    MCP_INSPECTOR_SECRET_STORE: 'memory', MCP_AUTO_OPEN_ENABLED: 'false',
  },
  stdio: ['ignore', 'ignore', 'inherit'],
});
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  // its pages name fonts of another site
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--host-resolver-rules=MAP *.googleapis.com ~NOTFOUND'],
});
const page = await (await browser.newContext()).newPage();
page.setDefaultTimeout(MINUTE);

const connect = async () => {
  await page.goto(origin, { waitUntil: 'domcontentloaded' });
  // the switch is drawn over its own input
  await page.getByRole('switch', { name: /Connect or disconnect/ }).click({ force: true });
};

/** From the gateway's question back to the Inspector, and a call there. */
const approveAndCall = async (message) => {
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.waitForURL((url) => url.origin === origin);
  await page.getByText('MCP 2026-07-28').waitFor();
  await page.getByText('Tools', { exact: true }).click();
  await page.getByText('everything__echo').first().click();
  await page.getByRole('textbox', { name: /message/i }).fill(message);
  await page.getByRole('button', { name: 'Execute Tool' }).click();
  await page.getByText(`Echo: ${message}`).first().waitFor();
};

const grants = async () => JSON.parse(await cli('grants', 'list', '--json')).grants.filter(({ redirect_uri: to }) => to?.startsWith(origin));

await check('the Inspector in a browser leads to the login of the gateway', async () => {
  await until('the Inspector', () => fetch(origin).then(({ ok }) => ok, () => false));
  await connect();
  await page.getByLabel('API key').fill(context.key);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: /^Connect .*MCP Inspector/ }).waitFor();
});
await check('after the consent it comes back, lists the tools and calls one', () => approveAndCall('inspected'));
await check('after its grant was revoked it leads to the gateway again', async () => {
  const [before] = await grants();
  await revokeGrant(before.id);
  await connect();
  await approveAndCall('inspected again');
  const [after] = await grants();
  assert.notEqual(after.id, before.id);
});
await browser.close();
inspector.kill();
finish();

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port: found } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return String(found);
}
