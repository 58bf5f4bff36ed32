// Frame of a case in JavaScript: its context, one line per check, and an end.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const context = JSON.parse(process.env.INTEROP);
const failed = [];

/** One check that a user would notice. A failure is reported, and the case goes on. The timeout only ends a hang. */
export async function check(sentence, body, seconds = 150) {
  try {
    const value = await within(seconds, body());
    console.log(`ok - ${sentence}`);
    return value;
  } catch (error) {
    failed.push(sentence);
    console.log(`not ok - ${sentence}`);
    console.log(`# ${String(error?.message ?? error).split('\n').slice(0, 12).join('\n# ')}`);
    console.error(error);
    return undefined;
  }
}

/** A promise that fails when it takes too long. */
export function within(seconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Asks `probe` again until it says yes. */
export async function until(what, probe, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  while (!(await probe())) {
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/**
 * Progress as it was reported. The SDK hands a notification on a moment later than an answer, so the
 * last step is lost in the client itself where both come in one read.
 */
export function inOrder(steps, expected) {
  const least = expected.length - 1;
  assert.ok(steps.length >= least, `${steps.length} of ${expected.length} steps arrived`);
  assert.deepEqual(steps, expected.slice(0, Math.max(least, steps.length)));
}

/** The text of a tool's answer. */
export const textOf = (result) => (result.content ?? []).map((part) => part.text ?? `[${part.type}]`).join('\n');

/** The redirect at the end of an authorization URL, walked as a person would. */
export async function walk(url) {
  const script = fileURLToPath(new URL('walk.py', import.meta.url));
  const env = { ...process.env, INTEROP_KEY: context.key };
  const { stdout } = await promisify(execFile)(context.python, [script, String(url)], { env, timeout: 120_000 });
  return new URL(stdout.trim());
}

/** What a subcommand of the gateway that the driver runs prints. */
export async function cli(...args) {
  const where = ['--config', context.commands.config, '--data-dir', `${context.commands.folder}/data`];
  const env = { ...process.env, NO_COLOR: '1' };
  return (await promisify(execFile)(context.binary, [...args, ...where], { env, timeout: 120_000 })).stdout;
}

/**
 * Revokes a grant, and waits until the gateway has applied that. It learns in order what commands revoke, so a key that it
 * knows and that is revoked later tells.
 */
export async function revokeGrant(grant) {
  const { id, secret: key } = JSON.parse(await cli('keys', 'create', 'interop-witness', '--direct', '--json'));
  record(key);
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const isRefused = async () => (await fetch(`${context.url}/mcp`, { method: 'POST', headers, body: '{}' })).status === 401;
  assert.equal(await isRefused(), false, 'the gateway takes a new key');
  await cli('grants', 'revoke', grant);
  await cli('keys', 'revoke', id);
  await until('the end of the grant', isRefused);
}

/** Notes secrets that were issued, for the search at the end of the suite. */
export function record(...secrets) {
  const long = secrets.filter((secret) => secret?.length >= 16);
  if (process.env.INTEROP_SECRETS) appendFileSync(process.env.INTEROP_SECRETS, long.map((secret) => `${secret}\n`).join(''));
}

export function finish() {
  process.exit(failed.length ? 1 : 0);
}
