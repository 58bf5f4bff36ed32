// A person in Chromium who has an account at an OpenID provider on another site, and no API key:
//
//   node provider_browser.mjs GATEWAY PROVIDER AUTHORIZE
//
// AUTHORIZE is the address of an authorization request of an app, whose own address is not served. Every check prints a line; the
// first that fails ends the walk.

import assert from 'node:assert/strict';
import { chromium } from '../../browser/node_modules/playwright-core/index.mjs';

const [gateway, provider, authorize] = process.argv.slice(2);
const MINUTE = 60_000;
const APP = 'http://127.0.0.1:7777';

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  // the provider's pages name a font of another site
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--host-resolver-rules=MAP *.googleapis.com ~NOTFOUND'],
});
try {
  const ann = await person();
  await logsIn(ann);
  await wayBack(ann);
  await consentsAgain(ann);
  await choosesAgain(ann);
  await logsOutThere(ann);
  await cancelsThere();
  await isNotLetIn();
} finally {
  await browser.close();
}

/** A person's browser, with what was told to the app. */
async function person() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  context.setDefaultTimeout(MINUTE);
  context.setDefaultNavigationTimeout(MINUTE);
  const page = await context.newPage();
  const told = [];
  await page.route(`${APP}/**`, (route) => {
    told.push(new URL(route.request().url()).searchParams);
    return route.fulfill({ body: 'The app has its answer.' });
  });
  return { context, page, told };
}

/** From the request of the app to the provider, by the gateway's login page. */
async function begin({ page }) {
  await page.goto(authorize);
  await page.getByRole('button', { name: 'Log in with Example Corp' }).click();
}

/** Through the provider's own pages, for the first time. */
async function signIn(person, name) {
  await giveName(person, name);
  await person.page.getByRole('button', { name: 'Continue' }).click();
}

async function giveName({ page }, name) {
  await page.waitForURL((url) => url.origin === provider);
  await page.locator('[name=login]').fill(name);
  await page.locator('[name=password]').fill('any');
  await page.locator('[type=submit]').click();
}

async function approve({ page, told }) {
  await page.getByText('ann@example.com').first().waitFor();
  assert.deepEqual(told, [], 'nothing is told before the consent');
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText('The app has its answer.').waitFor();
  const [answer] = told.splice(0);
  assert.deepEqual([...answer.keys()].sort(), ['code', 'iss', 'state']);
}

async function logsIn(ann) {
  await begin(ann);
  await signIn(ann, 'ann');
  await ann.page.getByRole('button', { name: 'Approve' }).waitFor();
  const cookies = await ann.context.cookies(gateway);
  assert.ok(cookies.every(({ httpOnly, sameSite }) => httpOnly && sameSite === 'Lax'), JSON.stringify(cookies));
  const others = cookies.filter(({ name }) => !name.includes('-visit-'));
  assert.equal(others.length, 1, 'the cookie of the login ends with it, and that of the session stays');
  await approve(ann);
  say('a person comes back from a provider on another site, and the app gets its code after the consent (UP-12)');
}

async function wayBack({ page, told }) {
  await page.goBack();
  await page.goBack();
  assert.deepEqual(told, [], 'the way back tells the app nothing');
  say('the way back through a login that is over gives nothing (UP-12)');
}

async function consentsAgain(ann) {
  // the gateway knows this browser no more, and the provider does
  await ann.context.clearCookies({ name: /lockkeeper/ });
  await begin(ann);
  await approve(ann);
  say('a provider that asks nothing any more leads to the consent of the gateway all the same (UP-13)');
}

async function choosesAgain(ann) {
  await ann.page.goto(`${gateway}/account`);
  await ann.page.getByRole('button', { name: 'Log out' }).click();
  await ann.page.getByRole('heading', { name: 'One address for your MCP servers' }).waitFor();
  await begin(ann);
  await giveName(ann, 'ann');
  await approve(ann);
  say('after a logout at the gateway the provider asks who logs in');
}

async function logsOutThere({ page }) {
  await page.goto(`${provider}/session/end`);
  await page.getByRole('button', { name: /yes/i }).click();
  await page.getByRole('heading', { name: 'Sign-out Success' }).waitFor();
  await page.goto(`${gateway}/account`);
  assert.equal(page.url(), `${gateway}/login`);
  say('a logout at the provider ends the login at the gateway (UP-14)');
}

async function cancelsThere() {
  const eve = await person();
  await begin(eve);
  await eve.page.getByRole('link', { name: /cancel/i }).click();
  await eve.page.getByRole('heading', { name: 'You are not logged in' }).waitFor();
  assert.deepEqual(eve.told, []);
  say('a person who cancels at the provider is told what happened (UP-12)');
}

async function isNotLetIn() {
  const mallory = await person();
  await begin(mallory);
  await signIn(mallory, 'mallory');
  await mallory.page.getByRole('heading', { name: 'Your account has no access here' }).waitFor();
  assert.deepEqual(mallory.told, []);
  say('a person whose address is not verified is not let in (UP-13)');
}

function say(text) {
  console.log(`ok - ${text}`);
}
