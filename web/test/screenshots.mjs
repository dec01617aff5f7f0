// Takes the pictures of docs/page.md: node screenshots.mjs FOLDER. tools/test-web --screenshots
// runs it.
import { chromium } from "playwright-core";
import { fileURLToPath } from "node:url";
import { finished, send } from "./browser.mjs";
import { Mock } from "./mock.mjs";

const folder = process.argv[2];
const built = fileURLToPath(new URL("../../../web/dist/index.html", import.meta.url));
const shots = [
    { name: "desktop", width: 1280, height: 900, colorScheme: "light" },
    { name: "tablet", width: 820, height: 1060, colorScheme: "dark" },
    { name: "phone", width: 390, height: 844, colorScheme: "light", hasTouch: true },
    { name: "server", width: 1280, height: 800, colorScheme: "dark" },
];
const earlier = [
    "A haiku about muscovite",
    "Which licence for a C library?",
    "Plan a week in Oslo",
];

async function earlierOnes(page) {
    const conversations = earlier.map((title, i) => ({
        title,
        updated: Date.now() - (i + 0.4) * 86400000,
        messages: {},
    }));
    const text = JSON.stringify({ format: "mica-conversations", version: 1, conversations });
    await page
        .locator("[data-name=import]")
        .setInputFiles({ name: "x.json", mimeType: "", buffer: Buffer.from(text) });
    await page.locator("#conversations .item").nth(2).waitFor({ state: "attached" });
}

const mock = await Mock.start(built);
const browser = await chromium.launch({
    executablePath: process.env.MICA_CHROMIUM,
    args: ["--no-sandbox", "--font-render-hinting=none"],
});
for (const { name, width, height, ...options } of shots) {
    const context = await browser.newContext({ viewport: { width, height }, ...options });
    const page = await context.newPage();
    await page.goto(mock.url);
    await page.locator("#model option[value]").first().waitFor({ state: "attached" });
    await earlierOnes(page);
    await send(page, "How does a KV cache work?");
    await page.waitForFunction(() => /0\.94/.test(document.querySelector(".thread").innerText));
    await finished(page);
    if (name === "server") {
        await page.getByRole("button", { name: "Server" }).click();
        await page.waitForFunction(
            () => document.querySelector(".line")?.getAttribute("d").split("L").length >= 25,
            null,
            { timeout: 300000 },
        );
    } else {
        await page.locator("#scroller").evaluate((scroller) => (scroller.scrollTop = 0));
        await page.waitForTimeout(300);
    }
    await page.screenshot({ path: `${folder}/page-${name}.png` });
    await context.close();
}
await browser.close();
mock.stop();
