// Killed between two calls of one session: the gateway, a server on stdio, a server on HTTP. The client goes on with
// the same session id and key, and what it had set still holds.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Client } from 'sdk/client/index.js';
import { StreamableHTTPClientTransport } from 'sdk/client/streamableHttp.js';
import { ElicitRequestSchema, LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema } from 'sdk/types.js';
import { check, context, finish, textOf, until } from '../harness/case.mjs';

const everything = path.join(context.nodeModules, '.bin', 'mcp-server-everything');
const folder = fs.mkdtempSync(path.join(context.work, 'lost-'));
/** A free port, below those that the system assigns to connections: it is still free when it is used. */
const port = async () => {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = net.createServer();
    const free = await new Promise((resolve) => server.once('listening', () => resolve(true)).once('error', () => resolve(false)).listen(port, '127.0.0.1'));
    await new Promise((resolve) => server.close(resolve));
    if (free) return port;
  }
};
const [listen, remote] = [await port(), await port()];
const url = `http://127.0.0.1:${listen}`;
fs.writeFileSync(path.join(folder, 'lockkeeper.toml'), `
[servers.child]
command = ${JSON.stringify(everything)}
args = ["stdio"]
[servers.remote]
url = "http://127.0.0.1:${remote}/mcp"
`);

const answers = (address) => fetch(address).then(() => true, () => false);
async function startGateway() {
  const log = fs.openSync(path.join(context.artefacts, 'lost-gateway.log'), 'a');
  const args = ['serve', '--listen', `127.0.0.1:${listen}`, '--data-dir', path.join(folder, 'data')];
  const child = spawn(context.binary, args, { cwd: folder, stdio: ['ignore', log, log] });
  await until('the gateway', () => answers(`${url}/healthz`));
  return child;
}
async function startRemote() {
  const child = spawn(everything, ['streamableHttp'], { stdio: 'ignore', env: { ...process.env, PORT: String(remote) } });
  await until('the remote server', () => answers(`http://127.0.0.1:${remote}/mcp`));
  return child;
}
const kill9 = async (child) => {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
};
/** The processes of the stdio server: the base session's and the client's. */
const children = (parent) => execFileSync('pgrep', ['-P', String(parent.pid)]).toString().split('\n').filter(Boolean).map(Number);

let server = await startRemote();
let gateway = await startGateway();
const keys = ['keys', 'create', 'lost', '--direct', '--json', '--data-dir', path.join(folder, 'data')];
const key = execFileSync(context.binary, keys, { cwd: folder }).toString().match(/lkk_\w+/)[0];

async function open(backend) {
  const client = new Client({ name: 'interop-lost', version: '1' }, { capabilities: { elicitation: {} } });
  const heard = { updates: [], logs: [] };
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { name: 'Ada' } }));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.updates.push(params.uri));
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.logs.push(params));
  const options = { requestInit: { headers: { Authorization: `Bearer ${key}` } }, reconnectionOptions: { initialReconnectionDelay: 100, maxReconnectionDelay: 500, reconnectionDelayGrowFactor: 1.5, maxRetries: 50 } };
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp/${backend}`), options);
  await client.connect(transport);
  await client.setLoggingLevel('emergency');
  const uri = (await client.listResources()).resources[0].uri;
  await client.subscribeResource({ uri });
  return { client, transport, heard, uri, call: (name, args = {}, more) => client.callTool({ name, arguments: args }, undefined, more) };
}

/** Repeats a call that does no harm twice, while its error may pass. */
async function retried(call, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (typeof error?.data?.retryable !== 'boolean' || Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** Everything still works as before. */
async function goesOn({ transport, heard, uri, call }, session) {
  assert.equal(textOf(await call('echo', { message: 'on we go' })), 'Echo: on we go');
  assert.equal(transport.sessionId, session);
  assert.match(textOf(await call('trigger-elicitation-request')), /Ada/);
  heard.updates.length = 0;
  await call('toggle-subscriber-updates');
  await until('an update of the resource that was subscribed to before', () => heard.updates.includes(uri));
  await call('toggle-subscriber-updates');
}

for (const backend of ['child', 'remote']) {
  const visit = await open(backend);
  const session = visit.transport.sessionId;
  await check(`${backend}: before, all works`, () => goesOn(visit, session));
  await kill9(gateway);
  gateway = await startGateway();
  await check(`${backend}: after a kill -9 of the gateway the session goes on, subscription and all`, () => goesOn(visit, session));
  await check(`${backend}: after a kill -9 of the server a call in flight is said to have run perhaps, and the session goes on`, async () => {
    let running;
    await new Promise((onprogress) => {
      running = visit.call('trigger-long-running-operation', { duration: 600, steps: 3000 }, { onprogress }).then(() => null, (error) => error);
    });
    if (backend === 'child') {
      for (const pid of children(gateway)) process.kill(pid, 'SIGKILL');
    } else {
      await kill9(server);
      server = await startRemote();
    }
    const error = await running;
    assert.deepEqual([error?.data?.retryable, error?.data?.mayHaveRun], [false, true], String(error));
    await retried(() => visit.call('echo', { message: 'are you back' }));
    await goesOn(visit, session);
  });
  await visit.client.close();
}
gateway.kill();
server.kill('SIGKILL');
finish();
