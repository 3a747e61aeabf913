// Prints every 300 ms, as a line of JSON, which sessions the page shows as waiting for a person: a reader who looks once a second
// never meets the same state twice. Arguments: browser, address.
import { chromium } from "playwright-core";

const [executablePath, url] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(url);
for (;;) {
  const shown = await page.evaluate(() => {
    const sessions = (selector) => [...document.querySelectorAll(selector)].map((it) => it.getAttribute("data-session-id"));
    return {
      title: document.title,
      waiting: sessions('[data-testid="need"].is-waiting'),
      needs: sessions('[data-testid="need"]'),
      cards: sessions('[data-testid="session-card"]'),
    };
  });
  console.log(JSON.stringify(shown));
  await new Promise((resolve) => setTimeout(resolve, 300));
}
