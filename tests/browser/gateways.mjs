// Shared by the suites that start their own gateways: the gateways, a proxy in front of them, and small HTTP servers.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as send } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

// Starts a gateway with this configuration, or two on a PostgreSQL database, behind the proxy `front`, whose address is
// their public URL. `run` returns the output of a subcommand, `kept` the contents of the gateways' folders and logs.
export async function gatewaysBehind(front, { program, database, configuration }) {
  const folder = mkdtempSync(path.join(tmpdir(), 'lockkeeper-browser-'));
  const file = (number) => path.join(folder, `${number}.toml`);
  const own = (number) => ['--config', file(number), '--data-dir', path.join(folder, `${number}`)];
  // replicas share a master key
  const masterKey = randomBytes(32).toString('base64url');
  const programs = [];
  for (const number of database ? [1, 2] : [1]) {
    const port = await freePort();
    const replica = database ? `database = "${database}"\n[replica]\nlisten = "127.0.0.1:${await freePort()}"\n` : '';
    writeFileSync(file(number), `listen = "127.0.0.1:${port}"\npublic_url = "${front.origin}"\n${replica}${configuration}`);
    mkdirSync(path.join(folder, `${number}`), { mode: 0o700 });
    writeFileSync(path.join(folder, `${number}`, 'master.key'), masterKey, { mode: 0o600 });
    const log = openSync(path.join(folder, `${number}.log`), 'a');
    const started = spawn(program, ['serve', ...own(number)], { stdio: ['ignore', log, log] });
    programs.push(started);
    await listens(port, started);
    front.ports.push(port);
  }
  return {
    run: (args) => execFileSync(program, [...args, ...own(1)], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
    kept() {
      const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      return files.map((file) => [file.name, readFileSync(path.join(file.parentPath ?? file.path, file.name), 'latin1')]);
    },
    stop() {
      for (const started of programs) started.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function listens(port, started) {
  for (let tries = 0; ; tries += 1) {
    assert.ok(tries < 300 && started.exitCode === null, 'the gateway listens');
    const isThere = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy() && true)).on('error', () => resolve(false));
    });
    if (isThere) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// A proxy that forwards requests to the gateways at its `ports`, in turn or to the one that `x-replica` numbers. It
// drops its own request when the browser disconnects. `late` returns the delay of a request's response in milliseconds.
export async function proxy(late = () => 0) {
  const ports = [];
  let turn = 0;
  const { server, port, origin } = await listen((asked, answer) => {
    const number = asked.headers['x-replica'] ?? (turn += 1);
    const to = ports[number % ports.length];
    const own = send({ port: to, host: '127.0.0.1', method: asked.method, path: asked.url, headers: asked.headers }, (got) => {
      const chunks = [];
      got.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
        setTimeout(() => answer.writeHead(got.statusCode, got.rawHeaders).end(Buffer.concat(chunks)), late(asked));
      });
    });
    own.on('error', () => answer.destroy());
    answer.on('close', () => own.destroy());
    asked.pipe(own);
  });
  return { server, port, origin, ports };
}

export async function listen(handler) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  return { server, port, origin: `http://127.0.0.1:${port}` };
}

export async function freePort() {
  const { server, port } = await listen(() => {});
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function say(text) {
  console.log(`ok - ${text}`);
}
