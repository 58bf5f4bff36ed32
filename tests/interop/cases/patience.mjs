// Clients that give a call up after some silence, at a server that works in silence: the gateway's progress keeps them
// waiting. TypeScript SDKs, over `lockkeeper stdio`.

import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, context, finish, textOf } from '../harness/case.mjs';

const everything = context.servers.find(({ id }) => id === 'everything');
const folder = await mkdtemp(join(tmpdir(), 'patience-'));
for (const heartbeat of ['1s', '0s']) {
  const args = JSON.stringify(everything.args);
  const text = `[servers.everything]\ncommand = ${JSON.stringify(everything.command)}\nargs = ${args}\nheartbeat = "${heartbeat}"\n`;
  await writeFile(join(folder, `${heartbeat}.toml`), text);
}

/** A call that is silent for 8 s, by a client that waits for 4 s after each sign of life. */
async function wait(sdk, heartbeat) {
  const { Client } = await import(`${sdk}/client/index.js`);
  const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
  const args = ['stdio', '--config', join(folder, `${heartbeat}.toml`), '--data-dir', join(folder, 'data')];
  const client = new Client({ name: 'patience', version: '1' }, { capabilities: {} });
  await client.connect(new StdioClientTransport({ command: context.binary, args, env: process.env, stderr: 'inherit' }));
  const name = 'everything__trigger-long-running-operation';
  await client.listTools();
  const steps = [];
  const options = { onprogress: ({ progress, total }) => steps.push([progress, total]), timeout: 4000, resetTimeoutOnProgress: true };
  try {
    const result = await client.callTool({ name, arguments: { duration: 8, steps: 1 } }, undefined, options);
    return { text: textOf(result), steps };
  } finally {
    await client.close();
  }
}

for (const sdk of ['sdk', 'sdk-1.17.5']) {
  await check(`${sdk} waits for a silent server as long as the gateway reports progress`, async () => {
    const { text, steps } = await wait(sdk, '1s');
    assert.match(text, /Long running operation completed/);
    assert.ok(steps.length >= 4, `${steps.length} signs of life`);
    const own = steps.filter(([progress]) => progress <= 0);
    assert.ok(own.length >= 3 && own.every(([, total]) => total === undefined), 'they claim no total');
    assert.ok(steps.every(([progress], at) => at === 0 || progress > steps[at - 1][0]), `they grow: ${steps}`);
  });
  await check(`${sdk} gives it up without`, async () => {
    await assert.rejects(wait(sdk, '0s'), /timed out/i);
  });
}
finish();
