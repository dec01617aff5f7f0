// What is kept in the browser: conversations, their list, export and import, and a full storage.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ask, openPage, useBrowser } from "./browser.mjs";

const own = useBrowser();
const titles = (page) => page.locator("#conversations .open").allInnerTexts();

async function download(page, click) {
    const [file] = await Promise.all([page.waitForEvent("download"), click()]);
    return { name: file.suggestedFilename(), text: readFileSync(await file.path(), "utf8") };
}

test("conversations last beyond the page, are renamed, found and deleted", async () => {
    const { page } = own;
    await ask(page, "about plain");
    await page.getByRole("button", { name: "New conversation", exact: true }).click();
    await ask(page, "let it think");
    await page.waitForFunction(
        () => document.querySelectorAll("#conversations .item").length === 2,
    );
    await page.reload();
    await page.locator("#conversations .item").first().waitFor();
    assert.deepEqual(await titles(page), ["let it think", "about plain"]);
    await page.locator("#conversations .open").nth(1).click();
    await page.locator(".assistant", { hasText: "thin sheets" }).waitFor();
    await page.locator(".item").nth(1).hover();
    await page.getByRole("button", { name: "Rename about plain" }).click();
    await page.getByLabel("Title").fill("Minerals");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() =>
        /Minerals/.test(document.querySelector("#conversations").innerText),
    );
    assert.equal(await page.title(), "Minerals – mica");
    await page.getByLabel("Search conversations").fill("there are **three");
    await page.waitForFunction(
        () => document.querySelectorAll("#conversations .item").length === 1,
    );
    assert.deepEqual(await titles(page), ["let it think"]);
    await page.getByLabel("Search conversations").fill("");
    page.on("dialog", (dialog) => dialog.accept());
    await page.locator(".item", { hasText: "Minerals" }).hover();
    await page.getByRole("button", { name: "Delete Minerals" }).click();
    await page.waitForFunction(
        () => document.querySelectorAll("#conversations .item").length === 1,
    );
    await page.reload();
    await page.locator("#conversations .item").first().waitFor();
    assert.deepEqual(await titles(page), ["let it think"]);
});

test("an answer that is cut off by a reload is kept as far as it came", async () => {
    const { page } = own;
    await page.fill("#input", "slow");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /word90 /.test(document.querySelector(".thread").innerText));
    page.on("dialog", (dialog) => dialog.accept());
    await page.reload();
    await page.locator("#conversations .open").first().click();
    await page.getByText(/word0 word1/).waitFor();
});

test("another window's conversations appear in the list", async () => {
    const { page } = own;
    const other = await openPage(own);
    await ask(other, "plain from the other");
    await page.waitForFunction(() =>
        /from the other/.test(document.querySelector("#conversations").innerText),
    );
});

test("export and import give the same conversations", async () => {
    const { page } = own;
    await ask(page, "think");
    await page.getByRole("button", { name: "Regenerate" }).click();
    await page.getByText("2 / 2").waitFor();
    await ask(page, "plain");
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    const markdown = await download(page, () => page.getByText("Export as Markdown").click());
    assert.equal(markdown.name, "think.md");
    assert.match(
        markdown.text,
        /^# think\n\n## You\n\nthink\n\n## qwen3-0\.6b\n\nThere are \*\*three\*\*/,
    );
    const one = await download(page, () => page.getByText("Export as JSON").click());
    assert.equal(one.name, "think.json");
    const all = await download(page, () => page.getByText("Export all").click());
    const exported = JSON.parse(all.text).conversations;
    assert.equal(exported.length, 1);
    assert.equal(Object.keys(exported[0].messages).length, 5);

    const picker = page.locator("[data-name=import]");
    await picker.setInputFiles({ name: "x.json", mimeType: "", buffer: Buffer.from(all.text) });
    await page.waitForFunction(
        () => document.querySelectorAll("#conversations .item").length === 2,
    );
    const again = await download(page, () => page.getByText("Export all").click());
    const [a, b] = JSON.parse(again.text).conversations.map(({ id, updated, ...rest }) => rest);
    assert.deepEqual(a.messages, b.messages);
    assert.deepEqual(a.settings, b.settings);

    await picker.setInputFiles({ name: "y.json", mimeType: "", buffer: Buffer.from("{}") });
    await page.getByText("The file does not hold conversations of mica.").waitFor();
});

test("a full storage is told, and nothing is lost unasked", async () => {
    const { page } = own;
    await ask(page, "plain one");
    await page.evaluate(() => {
        const put = IDBObjectStore.prototype.put;
        window.fill = true;
        IDBObjectStore.prototype.put = function (value) {
            if (window.fill) throw new DOMException("full", "QuotaExceededError");
            return put.call(this, value);
        };
    });
    await ask(page, "plain two");
    await page.getByText(/^The storage is full: this conversation is not saved/).waitFor();
    assert.equal(await page.locator(".message").count(), 4); // it goes on all the same
    assert.equal((await titles(page)).length, 1);
    // Saving has to wait for another transaction: the notice must stay until it has.
    await page.evaluate(async () => {
        window.fill = false;
        const request = indexedDB.open("mica", 1);
        await new Promise((opened) => (request.onsuccess = opened));
        const store = request.result.transaction("headings", "readwrite").objectStore("headings");
        const end = Date.now() + 500;
        const hold = () => Date.now() < end && (store.get("").onsuccess = hold);
        hold();
    });
    await page.getByRole("button", { name: "Delete the 10 oldest" }).click();
    await page.locator(".notice").waitFor({ state: "detached" });
    await page.reload();
    await page.locator("#conversations .open").first().click();
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 4);
});

test("the number of conversations is bounded", async () => {
    const { page } = own;
    const messages = {};
    const many = Array.from({ length: 1001 }, (_, i) => ({ title: `c${i}`, messages, updated: i }));
    const text = JSON.stringify({ format: "mica-conversations", version: 1, conversations: many });
    await page
        .locator("[data-name=import]")
        .setInputFiles({ name: "x.json", mimeType: "", buffer: Buffer.from(text) });
    await page.getByText(/^The storage is full/).waitFor();
    assert.match(await page.locator("#conversations").innerText(), /Search for older ones/);
});

test("without a database conversations live until the page is closed", async () => {
    const { context, mock } = own;
    const page = await context.newPage();
    await page.addInitScript(() => {
        IDBFactory.prototype.open = () => {
            throw new DOMException("not here", "SecurityError");
        };
        Storage.prototype.setItem = Storage.prototype.getItem = () => {
            throw new DOMException("not here", "SecurityError");
        };
    });
    await page.goto(mock.url);
    await page.getByText(/^This browser keeps nothing here/).waitFor();
    await ask(page, "plain");
    await page.getByRole("button", { name: "New conversation", exact: true }).click();
    await page.locator("#conversations .open").first().click();
    await page.locator(".assistant", { hasText: "thin sheets" }).waitFor();
});

test("a long conversation: its end is shown at once, the rest when it comes near", async () => {
    const { page } = own;
    const messages = {};
    for (let i = 0; i < 1500; i++)
        messages[`m${i}`] = {
            id: `m${i}`,
            parent: i ? `m${i - 1}` : null,
            role: i % 2 ? "assistant" : "user",
            created: i,
            content: i % 2 ? `**answer ${i}**\n\n- one\n- two` : `question ${i}`,
        };
    const conversations = [{ title: "long", updated: Date.now(), messages }];
    const text = JSON.stringify({ format: "mica-conversations", version: 1, conversations });
    await page
        .locator("[data-name=import]")
        .setInputFiles({ name: "x.json", mimeType: "", buffer: Buffer.from(text) });
    await page.locator("strong", { hasText: "answer 1499" }).waitFor();
    const end = () =>
        page
            .locator("#scroller")
            .evaluate(
                ({ scrollHeight, scrollTop, clientHeight }) =>
                    scrollHeight - scrollTop - clientHeight,
            );
    await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
    assert.ok((await end()) < 60);
    assert.equal(await page.locator(".message").count(), 1500);
    assert.ok((await page.locator(".assistant strong").count()) < 100);
    await ask(page, "plain");
    assert.ok((await end()) < 60);
    await page.locator("#scroller").evaluate((scroller) => (scroller.scrollTop = 0));
    await page.locator("strong", { hasText: /^answer 1$/ }).waitFor();
    await page.locator(".message").first().getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Text of the message").waitFor();
});
