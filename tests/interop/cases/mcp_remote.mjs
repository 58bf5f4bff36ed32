// mcp-remote: the bridge by which clients that only know stdio reach the gateway. Its browser step is
// walked from the URL that it prints, its own callback server takes the code. With `clientDocument` in the context it does not
// register: that URL is its id.

import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Client } from 'sdk/client/index.js';
import { StdioClientTransport } from 'sdk/client/stdio.js';
import { check, cli, context, finish, revokeGrant, textOf, walk, within } from '../harness/case.mjs';

const DOCUMENT = context.clientDocument ? ['--client-metadata-url', context.clientDocument] : [];
const home = await mkdtemp(join(context.work, 'mcp-remote-'));
const bridge = () => new StdioClientTransport({
  command: context.node,
  args: [join(context.nodeModules, 'mcp-remote/dist/proxy.js'), `${context.url}/mcp`, ...DOCUMENT],
  env: { ...process.env, HOME: home, MCP_REMOTE_CONFIG_DIR: home, BROWSER: '/bin/true' },
  stderr: 'pipe',
});

/** Opens the address at which the bridge listens: it prints the URL before, and a person takes longer than this walk. */
async function opened(address) {
  for (const deadline = Date.now() + 10_000; ; await setTimeout(50)) {
    try {
      return await fetch(address);
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

/** Answers the first authorization URL that the bridge prints. */
function login(transport) {
  let said = '';
  return new Promise((resolve, reject) => {
    transport.stderr.on('data', async (chunk) => {
      process.stderr.write(chunk);
      if (said === null) return;
      said += chunk;
      const url = said.match(/https?:\/\/\S+[?&]response_type=code\S*/)?.[0];
      if (!url || !/\s/.test(said.slice(said.indexOf(url) + url.length))) return;
      said = null;
      walk(url).then(opened).then((answer) => resolve(answer.status), reject);
    });
  });
}

const use = async (client) => {
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === 'everything__echo'), `${tools.length} tools`);
  const result = await client.callTool({ name: 'everything__echo', arguments: { message: 'bridged' } });
  assert.equal(textOf(result), 'Echo: bridged');
};

/** Connects with a login, and uses the connection. */
const loginAndUse = async () => {
  const client = new Client({ name: 'interop-bridged', version: '1' });
  const transport = bridge();
  const walked = login(transport);
  await Promise.all([client.connect(transport, { timeout: 120_000 }), within(120, walked)]);
  assert.equal(await walked, 200, 'its callback server took the code');
  await use(client);
  await client.close();
};

/** The bridge's grants: its client keeps one registration. */
const grants = async () => {
  const all = JSON.parse(await cli('grants', 'list', '--json')).grants;
  return all.filter(({ client_name: name }) => /mcp[ -]?(cli|remote)/i.test(name));
};

await check('mcp-remote logs in through the browser and carries list and call', loginAndUse);
await check('mcp-remote comes back later without a login', async () => {
  const client = new Client({ name: 'interop-bridged', version: '1' });
  const transport = bridge();
  transport.stderr.on('data', (chunk) => process.stderr.write(chunk));
  await client.connect(transport, { timeout: 120_000 });
  await use(client);
  await client.close();
});
await check('mcp-remote logs in again after its grant was revoked, as the same client', async () => {
  const [before, ...others] = await grants();
  assert.deepEqual(others, []);
  await revokeGrant(before.id);
  await loginAndUse();
  const [after] = await grants();
  assert.notEqual(after.id, before.id);
  assert.equal(after.client, before.client);
});
finish();
