// Takes screenshots of a page, light and dark, wide and narrow, and checks each time that it is accessible.

import assert from 'node:assert/strict';
import path from 'node:path';
import { accessible } from './accessible.mjs';

const WIDTHS = [1280, 360];
const SCHEMES = ['light', 'dark'];

export async function photograph(page, folder, name) {
  await page.waitForLoadState();
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      await page.screenshot({ path: path.join(folder, `${name}-${colorScheme}-${width}.png`), fullPage: true });
      const faults = await page.evaluate(accessible);
      assert.deepEqual(faults, [], `${name}, ${colorScheme}, ${width} px wide`);
    }
  }
  await page.setViewportSize({ width: WIDTHS[0], height: 800 });
}
