// The view of the server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { useBrowser } from "./browser.mjs";

const own = useBrowser();

test("models, requests, cache and rates, as plots that move", async () => {
    const { page } = own;
    await page.clock.install(); // time goes on by itself, and further than that
    await page.getByRole("button", { name: "Server" }).click();
    await page.getByText("Ready", { exact: true }).waitFor();
    assert.equal(await page.locator("#chat").isVisible(), false);
    const rows = page.locator("#server table").first().locator("tbody tr");
    await rows.first().waitFor();
    const [first, ...others] = await rows.allInnerTexts();
    assert.match(first, /^qwen3-0\.6b\tmodel\tyes Close\t32,768\t\d\t\d$/);
    assert.deepEqual(others, [
        "qwen3-0.6b:legal\tadapter of qwen3-0.6b\tyes Close\t–\t–\t–",
        "llama-3.2-1b\tmodel\tno Load\t131,072\t–\t–",
    ]);
    const card = (name) => page.locator(`[data-name="${name}"]`);
    const value = (name) => card(name).locator(".value").innerText();
    await page.clock.runFor(3000);
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
    await page.clock.runFor(3000);
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
    await page.clock.install();
    mock.healthy = false;
    await page.locator("#input").blur();
    await page.keyboard.press("s");
    await page.getByText("Not ready: loading").waitFor();
    await page.keyboard.press("s");
    await page.locator("#chat").waitFor();
    let asked = 0;
    page.on("request", () => asked++);
    await page.clock.runFor(60000);
    await page.evaluate(() => fetch("/health"));
    assert.equal(asked, 1);
});

test("models are loaded and closed, and what does not load is told", async () => {
    const { page, mock } = own;
    await page.getByRole("button", { name: "Server" }).click();
    await page.getByRole("button", { name: "Load llama-3.2-1b" }).click();
    await page.getByRole("button", { name: "Close llama-3.2-1b" }).waitFor();
    assert.equal(mock.models[2].loaded, true);
    await page.getByRole("button", { name: "Close qwen3-0.6b", exact: true }).click();
    await page.getByRole("button", { name: "Load qwen3-0.6b", exact: true }).waitFor();
    assert.equal(mock.models[0].loaded, false);
    mock.broken = "qwen3-0.6b";
    await page.getByRole("button", { name: "Load qwen3-0.6b", exact: true }).click();
    await page.getByText("qwen3-0.6b: qwen3-0.6b does not load: its config is empty").waitFor();
    assert.equal(await page.locator("#server .pull").isVisible(), false); // not allowed here
});

test("an answer waits for its model, and says so", async () => {
    const { page, mock } = own;
    await page.getByLabel("Model", { exact: true }).selectOption("llama-3.2-1b");
    await page.fill("#input", "endless prompt");
    await page.keyboard.press("Enter");
    await page.getByText("Reading the prompt: 1,000 of 1,204 tokens").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(mock.requests[0].model, "llama-3.2-1b");
});

test("a model is downloaded, where the server allows that", async () => {
    const { page, mock } = own;
    mock.downloads = true;
    await page.getByRole("button", { name: "Server" }).click();
    const name = page.getByLabel("Model to download");
    await name.fill("llama");
    await page.keyboard.press("Enter");
    await page.getByText("Write ORG/NAME, as the hub calls the model.").waitFor();
    await name.fill("x/none");
    await page.keyboard.press("Enter");
    await page.getByText("x/none: the hub has no such model").waitFor();
    assert.equal(await name.getAttribute("aria-invalid"), "true");
    await name.fill("x/slow");
    await page.keyboard.press("Enter");
    await page.getByText(/^pulling 0123: \d+ MB of 1\.00 GB$/).waitFor();
    assert.ok((await page.locator("progress").getAttribute("value")) > 0);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText(/^Stopped\. What has come is kept/).waitFor();
    while (!mock.aborted) await page.waitForTimeout(20);
    await name.fill("x/small");
    await page.keyboard.press("Enter");
    await page.getByText("x/small is there: it can be chosen at the top.").waitFor();
    await page.locator("#model option[value='x/small']").waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Load x/small" }).waitFor();
    assert.deepEqual(mock.pulls, ["x/none", "x/slow", "x/small"]);
});
