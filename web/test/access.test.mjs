// Widths, colours, the keyboard, and what a screen reader is told.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, finished, openPage, send, useBrowser } from "./browser.mjs";

const own = useBrowser();

test("a phone: nothing is wider than the screen, panels come and go", async () => {
    const { page } = own;
    await page.setViewportSize({ width: 360, height: 700 });
    await ask(page, "How does a KV cache work?");
    const wide = () => page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.deepEqual(await wide(), [360, 360]);
    assert.equal(await page.locator("#sidebar").isVisible(), false);
    await page.getByRole("button", { name: "Conversations" }).click();
    await page.locator("#sidebar").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#sidebar").waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => document.activeElement.id), "toggle-sidebar");
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("System prompt").waitFor();
    assert.deepEqual(await wide(), [360, 360]);
    await page.getByRole("button", { name: "Close the settings" }).click();
    await page.getByRole("button", { name: "Server" }).click();
    await page.getByText("Ready", { exact: true }).waitFor();
    assert.deepEqual(await wide(), [360, 360]);
});

test("light and dark: the system's, or as chosen; text is legible in both", async () => {
    const { page } = own;
    await ask(page, "code");
    const back = () =>
        page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await back();
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await back();
    assert.notEqual(light, dark);
    await page.getByRole("button", { name: /^Colours/ }).click();
    assert.equal(await back(), light);
    await page.getByRole("button", { name: "Colours: light" }).click();
    await page.emulateMedia({ colorScheme: "light" });
    assert.equal(await back(), dark);
    await page.reload();
    assert.equal(await back(), dark);
    for (const scheme of ["dark", "light"]) {
        await page.evaluate((name) => (document.documentElement.dataset.theme = name), scheme);
        await ask(page, "code");
        const low = await page.evaluate(lowContrast);
        assert.deepEqual(low, [], scheme);
    }
});

// In the page: texts whose contrast to what is behind them is below 4.5 (WCAG 2, AA).
function lowContrast() {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
    };
    const light = ([r, g, b]) =>
        [r, g, b]
            .map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = rgba(getComputedStyle(at).backgroundColor);
            if (color[3] > 250) return color;
        }
        return rgba("white");
    };
    const bad = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility({ opacityProperty: true }))
            continue;
        if (element.closest(".hidden, script, style, [disabled]")) continue;
        const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5)
            bad.push(`${walker.currentNode.data.slice(0, 20)}: ${contrast.toFixed(2)}`);
    }
    return bad;
}

test("the keyboard alone", async () => {
    const { page } = own;
    assert.equal(await page.evaluate(() => document.activeElement.id), "input");
    await page.keyboard.type("plain");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("plain");
    await page.keyboard.press("Enter");
    await finished(page);
    assert.equal(own.mock.requests[0].messages[0].content, "plain\nplain");
    await page.locator("#input").blur();
    await page.keyboard.press("k");
    assert.equal(
        await page.evaluate(() => document.activeElement.getAttribute("aria-label")),
        "Answer",
    );
    await page.keyboard.press("k");
    assert.equal(
        await page.evaluate(() => document.activeElement.getAttribute("aria-label")),
        "You",
    );
    await page.keyboard.press("e");
    await page.keyboard.press("Control+a");
    await page.keyboard.type("think");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("think");
    await page.keyboard.press("Enter");
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.equal(own.mock.requests[1].messages[0].content, "think\nthink");
    await page.keyboard.press("k");
    await page.keyboard.press("e");
    await page.keyboard.type(" no more");
    await page.keyboard.press("Escape"); // closes the editor, and nothing else
    assert.equal(await page.locator(".editor").count(), 0);
    assert.equal(await page.locator(".message").count(), 2);
    assert.equal(own.mock.requests.length, 2);
    await page.keyboard.press("e");
    await page.getByLabel("Text of the message").fill(" ");
    await page.keyboard.press("Enter");
    await page.getByText("The message is empty.").waitFor();
    assert.equal(await page.locator(".editor").count(), 1);
    await page.keyboard.press("Escape");
    await page.locator("body").press("?");
    await page.locator("#help").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#help").waitFor({ state: "hidden" });
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "input");
    await page.keyboard.press("Control+Shift+O");
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 0);
    await page.keyboard.press("Control+Shift+S");
    await page.getByLabel("System prompt").waitFor();
});

test("everything that can be used has a name, and is reached by Tab in order", async () => {
    const { page } = own;
    await ask(page, "tool");
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    const unnamed = await page.evaluate(() =>
        [...document.querySelectorAll("button, input, select, textarea, [role=img]")]
            .filter((element) => element.checkVisibility())
            .filter(
                (element) =>
                    !(element.getAttribute("aria-label") ?? "").trim() &&
                    !element.textContent.trim() &&
                    !element.labels?.length,
            )
            .map((element) => element.outerHTML.slice(0, 80)),
    );
    assert.deepEqual(unnamed, []);
    await page.locator(".skip").focus();
    const seen = [];
    for (let i = 0; i < 12; i++) {
        await page.keyboard.press("Tab");
        seen.push(
            await page.evaluate(
                () => document.activeElement.id || document.activeElement.className,
            ),
        );
    }
    const at = (name) => seen.indexOf(name);
    assert.ok(at("new") < at("search") && at("search") < at("toggle-sidebar"), seen.join(" "));
    assert.ok(
        at("toggle-sidebar") < at("model") && at("model") < at("toggle-server"),
        seen.join(" "),
    );
});

test("a screen reader hears the beginning, the end, and errors", async () => {
    const { page } = own;
    const status = page.getByRole("status").and(page.locator("#status"));
    await page.evaluate(() => {
        window.said = [];
        new MutationObserver(() => {
            const text = document.querySelector("#status").textContent;
            if (text) window.said.push(text);
        }).observe(document.querySelector("#status"), { childList: true });
    });
    await ask(page, "plain");
    await page.waitForFunction(() => window.said.length === 2);
    assert.equal(await status.getAttribute("aria-live"), "polite");
    assert.deepEqual(await page.evaluate(() => window.said), [
        "Answering…",
        "Answer finished: Mica splits into thin sheets. That is all.",
    ]);
    await ask(page, "too long");
    await page.getByRole("alert").filter({ hasText: "40,000 tokens" }).waitFor();
    const roles = await page.evaluate(() =>
        ["nav", "main", "aside", "article", "h2"].map(
            (name) => document.querySelector(name) !== null,
        ),
    );
    assert.deepEqual(roles, [true, true, true, true, true]);
});

test("reading back is not disturbed by what streams", async () => {
    const { page } = own;
    for (let i = 0; i < 3; i++) await ask(page, "How does a KV cache work?");
    await send(page, "slow");
    await page.waitForFunction(() => /word5 /.test(document.querySelector(".thread").innerText));
    await page.locator("#scroller").evaluate((scroller) => (scroller.scrollTop = 100));
    await page.waitForFunction(() => /word25 /.test(document.querySelector(".thread").innerText));
    assert.equal(await page.locator("#scroller").evaluate((scroller) => scroller.scrollTop), 100);
    await page.getByRole("button", { name: "Latest" }).click();
    await page.waitForFunction(() => {
        const { scrollHeight, scrollTop, clientHeight } = document.querySelector("#scroller");
        return scrollHeight - scrollTop - clientHeight < 60;
    });
    await page.keyboard.press("Escape");
    await finished(page);
});
