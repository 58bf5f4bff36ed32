// Enters, replaces and deletes a secret for a server in Chromium, with the keyboard only and without scripts in the
// pages:
//
//   node secrets.mjs --base http://127.0.0.1:8080 --key lkk_… --server wiki --secret WIKI_KEY --out screenshots
//
// Every check prints a line; the first failure ends the run with exit code 1.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { photograph } from './photograph.mjs';

const { values: options } = parseArgs({
  options: {
    base: { type: 'string' },
    key: { type: 'string' },
    server: { type: 'string' },
    secret: { type: 'string' },
    out: { type: 'string', default: 'screenshots' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
  },
});
const { base, server, secret } = options;
const VALUES = ['the first value', 'the second value'];
await mkdir(options.out, { recursive: true });

const browser = await chromium.launch({
  executablePath: options.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
const context = await browser.newContext({ javaScriptEnabled: false });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const complaints = [];
page.on('console', (message) => {
  if (/Content.Security.Policy|Refused to/i.test(message.text())) complaints.push(message.text());
});

try {
  await entersWhatTheServerNeeds();
  await replaces();
  await deletes();
  assert.deepEqual(complaints, [], 'no content security policy is violated');
  console.log('ok - the pages of secrets violate no content security policy');
} finally {
  await browser.close();
}

// A client's link leads to the login, and then to a page whose only field has the focus. The address stays the same
// until the server has everything it needs.
async function entersWhatTheServerNeeds() {
  await page.goto(`${base}/connect/${server}`);
  await page.locator('#key:focus').waitFor();
  await page.keyboard.type(options.key);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: secret }).waitFor();
  await photograph(page, options.out, 'secret');
  await page.locator('#value:focus').waitFor();
  await page.keyboard.type(VALUES[0]);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: `${server} is connected` }).waitFor();
  await photograph(page, options.out, 'secret-entered');
  await account();
  await page.getByText('entered just now').waitFor();
  await photograph(page, options.out, 'account-secret');
  console.log('ok - a secret is entered on the page that a server leads to');
}

async function replaces() {
  await account();
  await tabTo(`New value of ${secret}`);
  await page.keyboard.type(VALUES[1]);
  await tabTo(`Replace ${secret}`);
  await page.keyboard.press('Enter');
  await page.getByRole('status').waitFor();
  await photograph(page, options.out, 'account-secret-replaced');
  await isShownNowhere();
  console.log('ok - a secret is replaced on the account page, by keyboard');
}

async function deletes() {
  await account();
  await tabTo(`Delete ${secret}`);
  await page.keyboard.press('Enter');
  await page.getByRole('status').waitFor();
  await page.getByText('not entered').waitFor();
  await photograph(page, options.out, 'account-secret-deleted');
  console.log('ok - a secret is deleted on the account page, by keyboard');
}

async function account() {
  await page.goto(`${base}/account`);
  await page.getByRole('heading', { name: 'Your secrets for servers' }).waitFor();
  await isShownNowhere();
}

async function isShownNowhere() {
  const text = await page.content();
  for (const value of VALUES) assert.ok(!text.includes(value), 'no page shows a secret');
}

// Presses Tab until the field or button with this name has the focus, and checks that the focus is visible.
async function tabTo(name) {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press('Tab');
    const [found, outline] = await page.evaluate(() => {
      const element = document.activeElement;
      const label = element?.getAttribute('aria-label') ?? element?.labels?.[0]?.textContent ?? element?.textContent;
      return [label?.trim(), element ? getComputedStyle(element).outlineStyle : 'none'];
    });
    if (found === name) {
      assert.notEqual(outline, 'none', `the focus on ${name} can be seen`);
      return;
    }
  }
  assert.fail(`${name} cannot be reached by keyboard`);
}
