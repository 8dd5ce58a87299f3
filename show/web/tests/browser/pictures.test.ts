/** The pictures of docs/page.md: `npm run pictures`. */

import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { test } from "vitest";
import { Demo, launch, Tab, TTMEM, until } from "./harness";

const FOLDER = fileURLToPath(new URL("../../../../docs/pictures", import.meta.url));

test.runIf(process.env["TTMEM_DOC_PICTURES"])("pictures for the documents", async () => {
  const browser = await launch();
  const demo = await Demo.start("--speed", "0.3");
  try {
    const tab = await Tab.open(browser, demo.url, { width: 1280, height: 800 });
    // Of this machine neither its name nor its folders.
    await tab.page.route("**/api/v1/**", async (route) => {
      if (route.request().url().includes("/events")) return route.continue();
      const answer = await route.fetch();
      const text = (await answer.text()).replaceAll(TTMEM, "ttmem").replace(/"host":"[^"]*"/, '"host":"host"');
      return route.fulfill({ response: answer, body: text });
    });
    await tab.go();
    await until("some seconds of tokens", async () => (await demo.get<{ devices: { trace_replays: number }[] }>("/api/v1/snapshot")).devices[0]!.trace_replays > 5);
    await tab.sees(".card", "CB headroom");
    await tab.page.waitForTimeout(2500);
    await tab.page.screenshot({ path: join(FOLDER, "page-overview.png") });
    await tab.go("#/map");
    await tab.sees("h2", "Core 0,0");
    await tab.page.waitForTimeout(1500);
    await tab.page.screenshot({ path: join(FOLDER, "page-map.png") });
    await tab.go("#/device?window=0");
    await tab.sees("table", "transformer-8b.toml");
    await tab.page.waitForTimeout(2500);
    await tab.page.screenshot({ path: join(FOLDER, "page-device.png") });
    await tab.go("#/map?class=l1&mode=time");
    await tab.sees("h2", /allocations/);
    await tab.page.waitForTimeout(1500);
    await tab.page.screenshot({ path: join(FOLDER, "page-time.png") });
    await tab.go("#/buffers?show=flame");
    await tab.sees("table", "steps");
    await tab.page.waitForTimeout(1000);
    await tab.page.screenshot({ path: join(FOLDER, "page-flame.png") });
    await tab.close();
  } finally {
    await demo.stop();
    await browser.close();
  }
});
