// The view of the server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { useBrowser } from "./browser.mjs";

const own = useBrowser();

test("models, requests, cache and rates, as plots that move", async () => {
    const { page } = own;
    await page.getByRole("button", { name: "Server" }).click();
    await page.getByText("Ready", { exact: true }).waitFor();
    assert.equal(await page.locator("#chat").isVisible(), false);
    const rows = page.locator("#server table").first().locator("tbody tr");
    await rows.first().waitFor();
    const [first, ...others] = await rows.allInnerTexts();
    assert.match(first, /^qwen3-0\.6b\tmodel\tyes\t32,768\t\d\t\d$/);
    assert.deepEqual(others, [
        "qwen3-0.6b:legal\tadapter of qwen3-0.6b\tyes\t–\t–\t–",
        "llama-3.2-1b\tmodel\tno\t131,072\t–\t–",
    ]);
    const card = (name) => page.locator(`[data-name="${name}"]`);
    const value = (name) => card(name).locator(".value").innerText();
    await card("mica_first_token_seconds").waitFor();
    assert.deepEqual(await page.locator(".plot .title:visible").allInnerTexts(), [
        "Answers under way",
        "Requests waiting",
        "Tokens of answers",
        "Tokens of prompts",
        "Of these, cached",
        "Caches",
        "Time to the first token",
    ]);
    assert.match(await value("mica_generated_tokens_total"), /^\d+(\.\d)?\/s$/);
    assert.equal(await value("mica_first_token_seconds"), "210 ms");
    assert.match(await value("mica_cache_bytes"), /^\d+ MB$/);
    assert.match(
        await card("mica_requests_running").locator("svg").getAttribute("aria-label"),
        /^Answers under way: now \d, at most \d$/,
    );
    const line = () => card("mica_requests_running").locator(".line").getAttribute("d");
    const before = await line();
    await page.waitForFunction(
        (old) => document.querySelector(".line").getAttribute("d") !== old,
        before,
    );
    await page.getByText("All figures").click();
    await page.getByText("vllm:num_requests_running").waitFor();
    assert.equal(await value("mica_http_requests"), "2");
});

test("a server that loads is told; polling ends with the view", async () => {
    const { page, mock } = own;
    mock.healthy = false;
    await page.locator("#input").blur();
    await page.keyboard.press("s");
    await page.getByText("Not ready: loading").waitFor();
    await page.keyboard.press("s");
    await page.locator("#chat").waitFor();
    await page.waitForTimeout(300);
    const { ticks } = mock;
    await page.waitForTimeout(2500);
    assert.equal(mock.ticks, ticks);
});
