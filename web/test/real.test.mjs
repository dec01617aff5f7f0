// The page that the real server has, and its answers: the server of $MICA_PAGE_URL, else one that
// $MICA starts with the model that comes with mica.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, test } from "node:test";
import { ask, finished, send, useBrowser } from "./browser.mjs";

let server;

async function startServer() {
    if (process.env.MICA_PAGE_URL) return process.env.MICA_PAGE_URL;
    server = spawn(process.env.MICA ?? "build/mica", ["serve", "--port", "0", "models/default"], {
        stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    return new Promise((resolve, reject) => {
        server.stderr.setEncoding("utf8").on("data", (text) => {
            said += text;
            const url = / at (http:\/\/\S+)\n/.exec(said);
            if (url) resolve(`${url[1]}/`);
        });
        server.on("exit", () => reject(new Error(`mica serve ended: ${said}`)));
        server.on("error", reject);
    });
}

const own = useBrowser({ url: startServer });

after(async () => {
    if (!server) return;
    server.kill("SIGTERM");
    const [code] = server.exitCode === null ? await once(server, "exit") : [server.exitCode];
    assert.equal(code, 0);
});

async function complete(content, more = {}) {
    const reply = await fetch(`${own.url}v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ messages: [{ role: "user", content }], ...more }),
    });
    return reply.json();
}

test("what the page shows is what the API answers", async () => {
    const { page } = own;
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("Temperature").fill("0");
    await page.getByLabel("Tokens at most").fill("40");
    await ask(page, "What is curl?");
    const wanted = await complete("What is curl?", { temperature: 0, max_tokens: 40 });
    await page.locator(".assistant").getByRole("button", { name: "Copy", exact: true }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, wanted.choices[0].message.content);
    const meta = await page.locator(".assistant .meta").innerText();
    assert.ok(meta.includes(` · ${wanted.usage.completion_tokens} tokens`), meta);
    assert.ok(meta.includes(`prompt ${wanted.usage.prompt_tokens}`), meta);
});

test("an answer is stopped, and the next one comes", async () => {
    const { page } = own;
    await send(page, "Tell me a long story.");
    await page.waitForFunction(
        () => document.querySelector(".assistant .body").innerText.length > 40,
    );
    await page.keyboard.press("Escape");
    await finished(page);
    await ask(page, "What is curl?");
    assert.equal(await page.locator(".assistant .error:visible").count(), 0);
    assert.notEqual(await page.locator(".assistant .body").last().innerText(), "");
});

test("the page comes compressed, and once", async () => {
    const { page } = own;
    const first = await page.reload();
    assert.equal(first.headers()["content-encoding"], "gzip");
    assert.match(first.headers()["vary"], /Accept-Encoding/);
    const etag = first.headers()["etag"];
    const plain = await fetch(own.url, { headers: { "Accept-Encoding": "identity" } });
    assert.equal(plain.headers.get("content-encoding"), null);
    assert.notEqual(plain.headers.get("etag"), etag);
    assert.equal(await plain.text(), await first.text());
    const headers = { "Accept-Encoding": "gzip", "If-None-Match": etag };
    assert.equal((await fetch(own.url, { headers })).status, 304);
});

test("an answer that reached its limit goes on as if it had had none", async () => {
    const { page } = own;
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("Temperature").fill("0");
    await page.getByLabel("Tokens at most").fill("12");
    await page.getByLabel("Token probabilities").check();
    await ask(page, "What is curl?");
    assert.match(await page.locator(".assistant .meta").innerText(), /limit of tokens/);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForFunction(() =>
        / · 24 tokens/.test(document.querySelector(".assistant .meta").innerText),
    );
    await finished(page);
    const wanted = await complete("What is curl?", { temperature: 0, max_tokens: 24 });
    await page.locator(".assistant").getByRole("button", { name: "Copy", exact: true }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, wanted.choices[0].message.content);
    await page.getByRole("button", { name: "Token probabilities" }).click();
    assert.equal(await page.locator(".token").count(), 24);
    await page.locator(".token").nth(20).click();
    assert.equal(await page.locator(".chance-row").count(), 5);
    await page
        .getByRole("button", { name: /^Go on with/ })
        .first()
        .click();
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.equal(await page.locator(".assistant .error:visible").count(), 0);
});

test("a model is closed and loaded again", async () => {
    const { page } = own;
    const model = await page.locator("#model").inputValue();
    await page.getByRole("button", { name: "Server" }).click();
    await page.getByRole("button", { name: `Close ${model}` }).click();
    await page.getByRole("button", { name: `Load ${model}` }).click();
    await page.getByRole("button", { name: `Close ${model}` }).waitFor();
    assert.equal(await page.locator("#server .pull").isVisible(), false);
});

test("a refusal names what is wrong", async () => {
    const { page } = own;
    await page.evaluate(() => {
        const { fetch } = window;
        window.fetch = (path, init) =>
            fetch(
                path,
                init?.body ? { ...init, body: init.body.replace("{", '{"nonsense":1,') } : init,
            );
    });
    await ask(page, "What is curl?");
    await page.getByRole("alert").filter({ hasText: "nonsense" }).waitFor();
});

test("the view of the server", async () => {
    const { page } = own;
    await complete("Hello", { max_tokens: 2 });
    await page.getByRole("button", { name: "Server" }).click();
    await page.getByText("Ready", { exact: true }).waitFor();
    const model = await page.locator("#model").inputValue();
    await page.locator("#server td", { hasText: model }).first().waitFor();
    for (const name of [
        "requests_running",
        "requests_waiting",
        "generated_tokens_total",
        "cache_bytes",
    ])
        await page.locator(`[data-name="mica_${name}"]`).waitFor();
});

test("an answer keeps to the schema of the box", async () => {
    const { page } = own;
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    const properties = { name: { enum: ["curl", "mica"] }, old: { type: "boolean" } };
    const schema = {
        type: "object",
        properties,
        required: ["name", "old"],
        additionalProperties: false,
    };
    await page.getByLabel("JSON schema").fill(JSON.stringify(schema));
    await page.getByLabel("Answers follow this schema").check();
    await page.getByLabel("Tokens at most").fill("200");
    await ask(page, "What is curl?");
    await page.locator(".assistant").getByRole("button", { name: "Copy", exact: true }).click();
    const answer = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
    assert.deepEqual(Object.keys(answer).sort(), ["name", "old"]);
    assert.ok(properties.name.enum.includes(answer.name));
    assert.equal(typeof answer.old, "boolean");
});
