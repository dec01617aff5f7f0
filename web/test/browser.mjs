// The page in a real Chromium, against the mock or the server of $MICA_PAGE_URL.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { after, before, beforeEach, afterEach } from "node:test";
import { fileURLToPath } from "node:url";
import { Mock } from "./mock.mjs";

const built = fileURLToPath(new URL("../../../web/dist/index.html", import.meta.url));

const often = { polling: 50 }; // ms; at every frame it would make frames that nobody needs

// Opens a browser for the tests of a file; each test gets a fresh profile, page and mock.
// url: starts another server than the mock, and gives its address.
export function useBrowser({ url, ...options } = {}) {
    const own = {};
    before(async () => {
        if (url) own.url = await url();
        own.browser = await chromium.launch({
            executablePath: process.env.MICA_CHROMIUM || "/usr/bin/chromium",
            args: ["--no-sandbox", "--disable-dev-shm-usage"],
        });
    });
    after(() => own.browser?.close());
    beforeEach(async () => {
        if (!url) {
            own.mock = await Mock.start(built);
            own.url = own.mock.url;
        }
        own.errors = [];
        own.outside = [];
        own.context = await own.browser.newContext({
            viewport: { width: 1280, height: 800 },
            permissions: ["clipboard-read", "clipboard-write"],
            ...options,
        });
        own.page = await openPage(own);
    });
    afterEach(async () => {
        await own.context.close();
        own.mock?.stop();
        assert.deepEqual(own.errors, [], "errors of the page");
        assert.deepEqual(own.outside, [], "requests to elsewhere");
    });
    return own;
}

// Another page of the profile.
export async function openPage(own, hash = "") {
    const page = await own.context.newPage();
    page.setDefaultTimeout(120000);
    page.on("pageerror", (error) => own.errors.push(error.message));
    page.on("console", (message) => {
        // A status that is not 200 is an error for the console, too: those are asked for.
        if (
            message.type() === "error" &&
            !/status of (400|401|404|429|500|503)|ERR_INCOMPLETE_CHUNKED/.test(message.text())
        )
            own.errors.push(message.text());
    });
    page.on("request", (request) => {
        const { protocol } = new URL(request.url());
        if (!request.url().startsWith(own.url) && /^(https?|wss?):$/.test(protocol))
            own.outside.push(request.url());
    });
    await page.goto(own.url + hash);
    await page.waitForFunction(() => document.querySelector("#model").value, null, often);
    return page;
}

export async function send(page, text) {
    await page.fill("#input", text);
    await page.keyboard.press("Enter");
}

// Until no answer is under way, and all of it is shown.
export async function finished(page) {
    await page.waitForFunction(
        () =>
            document.querySelector(".message.assistant") &&
            !document.querySelector(".running, [aria-busy]"),
        null,
        often,
    );
}

// The messages are there when the key has been pressed.
export async function ask(page, text) {
    await send(page, text);
    await finished(page);
}

export const texts = (page, selector) => page.locator(selector).allInnerTexts();
