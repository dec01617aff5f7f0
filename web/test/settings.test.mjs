// Settings, models, the key, files, and what of them the request says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ask, finished, openPage, send, useBrowser } from "./browser.mjs";

const own = useBrowser();

async function openSettings(page) {
    if (await page.locator("#settings").isHidden())
        await page.getByRole("button", { name: "Settings", exact: true }).click();
}

test("system prompt and sampling are sent; what is empty is not", async () => {
    const { page, mock } = own;
    await openSettings(page);
    await page.getByLabel("System prompt").fill("Be brief.");
    await page.getByLabel("Temperature").fill("0.25");
    await page.getByLabel("Top p").fill("0.9");
    await page.getByLabel("Top k").fill("40");
    await page.getByLabel("Min p").fill("0.05");
    await page.getByLabel("Tokens at most").fill("64");
    await page.getByLabel("Seed").fill("7");
    await page.getByLabel("Presence penalty").fill("-0.5");
    await page.getByLabel("Stop texts").fill("END\nSTOP");
    await page.getByLabel("Thinking", { exact: true }).selectOption("Off");
    await page.getByLabel("Effort").selectOption("Low");
    await ask(page, "plain");
    const { messages, model, stream, stream_options, ...rest } = mock.requests[0];
    assert.deepEqual(messages[0], { role: "system", content: "Be brief." });
    assert.deepEqual(rest, {
        temperature: 0.25,
        top_p: 0.9,
        top_k: 40,
        min_p: 0.05,
        max_tokens: 64,
        seed: 7,
        presence_penalty: -0.5,
        stop: ["END", "STOP"],
        reasoning_effort: "low",
        chat_template_kwargs: { enable_thinking: false },
    });
});

test("ranges stand beside the fields, and what is out of them is told, not changed", async () => {
    const { page, mock } = own;
    await openSettings(page);
    const beside = (name) => page.locator(".field", { has: page.locator(`[data-name=${name}]`) });
    assert.match(await beside("temperature").innerText(), /^Temperature\s+0 to 100/);
    assert.match(await beside("presence_penalty").innerText(), /−2 to 2/);
    for (const [name, text, problem] of [
        ["temperature", "900", "At most 100."],
        ["temperature", "-1", "At least 0."],
        ["temperature", "hot", "This is no number."],
        ["top_k", "1.5", "A whole number."],
        ["max_tokens", "0", "At least 1."],
        ["seed", "9007199254740993", "At most 9,007,199,254,740,991."],
    ]) {
        const field = page.locator(`[data-name=${name}]`);
        await field.fill(text);
        assert.equal(await beside(name).locator(".error").innerText(), problem);
        assert.equal(await field.getAttribute("aria-invalid"), "true");
        const id = await beside(name).locator(".error").getAttribute("id");
        assert.ok((await field.getAttribute("aria-describedby")).includes(id));
        await send(page, "plain");
        await page.locator(".notice", { hasText: problem }).waitFor();
        assert.equal(await page.locator("#input").inputValue(), "plain"); // it is not lost
        assert.equal(await field.inputValue(), text);
        await field.fill("");
    }
    assert.equal(mock.requests.length, 0);
    await page.getByLabel("Stop texts").fill("a\nb\nc\nd\ne");
    await page.getByText("5 are too many.").waitFor();
    await page.getByLabel("Stop texts").fill("a");
    await page.locator("[data-name=temperature]").fill("900");
    await page.getByRole("button", { name: "Close the settings" }).click();
    await send(page, "plain");
    await page.locator(".notice").getByRole("button", { name: "Settings" }).click();
    assert.equal(await page.evaluate(() => document.activeElement.dataset.name), "temperature");
    await page.locator("[data-name=temperature]").fill("0,5");
    await ask(page, "plain");
    assert.equal(mock.requests[0].temperature, 0.5);
});

test("a file's numbers out of their range are told, and not sent", async () => {
    const { page, mock } = own;
    const settings = { sampling: { temperature: 900 }, stop: ["a", "b", "c", "d", "e"] };
    const messages = { a: { id: "a", parent: null, role: "user", content: "q", created: 1 } };
    const file = {
        format: "mica-conversations",
        version: 1,
        conversations: [{ messages, settings }],
    };
    await page.locator("[data-name=import]").setInputFiles({
        name: "x.json",
        mimeType: "",
        buffer: Buffer.from(JSON.stringify(file)),
    });
    await page.locator(".message.user").waitFor();
    await openSettings(page);
    const errors = page.locator("#settings .error:visible");
    assert.deepEqual(await errors.allTextContents(), ["At most 100.", "5 are too many."]);
    await send(page, "plain");
    await page.locator(".notice", { hasText: "At most 100." }).waitFor();
    assert.equal(mock.requests.length, 0);
    await page.locator("#new").click();
    await page.locator("#conversations .open").first().click();
    await page.getByLabel("Temperature").fill("90");
    await page.getByLabel("Stop texts").fill("a\nb");
    await ask(page, "plain");
    assert.equal(mock.requests[0].temperature, 90);
});

test("presets: saved, used, replaced, deleted, and beside conversations in files", async () => {
    const { page, mock } = own;
    await openSettings(page);
    const name = page.getByLabel("Name of the preset");
    const presets = page.getByLabel("Preset", { exact: true });
    const names = () => presets.locator("option").allTextContents();
    assert.deepEqual(await names(), ["None yet"]);
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("Give the preset a name.").waitFor();
    await page.getByLabel("System prompt").fill("Be brief.");
    await page.getByLabel("Temperature").fill("0.2");
    await name.fill("Brief");
    await page.keyboard.press("Enter");
    assert.equal(await presets.inputValue(), "Brief");
    await page.getByLabel("System prompt").fill("Be long.");
    assert.equal(await presets.inputValue(), ""); // these are other settings
    await name.fill("A long one");
    await page.keyboard.press("Enter");
    assert.deepEqual(await names(), ["Own settings", "A long one", "Brief"]);
    await page.reload();
    await openSettings(page);
    await page.getByLabel("Model", { exact: true }).selectOption("llama-3.2-1b");
    await presets.selectOption("Brief");
    assert.equal(await page.getByLabel("System prompt").inputValue(), "Be brief.");
    await ask(page, "plain");
    assert.equal(mock.requests[0].messages[0].content, "Be brief.");
    assert.equal(mock.requests[0].temperature, 0.2);
    assert.equal(mock.requests[0].model, "llama-3.2-1b");
    await page.getByLabel("Temperature").fill("0.3");
    await name.fill("Brief");
    await page.keyboard.press("Enter");
    assert.equal((await names()).length, 3);

    const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.getByText("Export all").click(),
    ]);
    const text = readFileSync(await file.path(), "utf8");
    page.on("dialog", (dialog) => dialog.accept());
    await page.getByRole("button", { name: "Delete the preset" }).click();
    assert.deepEqual(await names(), ["Own settings", "A long one"]);
    const longer = text.replace("Be long.", "Be longer.");
    const longest = text.replace("Be long.", "Be longest.");
    // The first is the last that is read; they are taken in their order all the same.
    await page.evaluate(() => {
        const read = File.prototype.text;
        const held = new Promise((release) => (window.release = release));
        File.prototype.text = function () {
            File.prototype.text = read;
            return held.then(() => this.text());
        };
    });
    for (const buffer of [longer, longest, longer, text])
        await page
            .locator("[data-name=import]")
            .setInputFiles({ name: "x.json", mimeType: "", buffer: Buffer.from(buffer) });
    await page.evaluate(() => window.release());
    // Each has a conversation, which is shown with its own settings.
    await page.locator("#conversations .item").nth(4).locator("[aria-current]").waitFor();
    const long = ["A long one", "A long one (2)", "A long one (3)"];
    assert.deepEqual((await names()).slice(1), [...long, "Brief"]);
    await presets.selectOption("A long one (2)");
    assert.equal(await page.getByLabel("System prompt").inputValue(), "Be longer.");
});

test("settings are the conversation's, and the next one begins with them", async () => {
    const { page, mock } = own;
    await openSettings(page);
    await page.getByLabel("System prompt").fill("First.");
    await ask(page, "plain");
    await page.getByRole("button", { name: "New conversation", exact: true }).click();
    assert.equal(await page.getByLabel("System prompt").inputValue(), "First.");
    await page.getByLabel("System prompt").fill("Second.");
    await ask(page, "think");
    await page.locator("#conversations .open", { hasText: "plain" }).click();
    await page.waitForFunction(
        () => document.querySelector("#settings textarea").value === "First.",
    );
    await ask(page, "json");
    assert.equal(mock.requests[2].messages[0].content, "First.");
});

test("models and adapters are chosen at the top", async () => {
    const { page, mock } = own;
    const options = await page.locator("#model option").allTextContents();
    assert.deepEqual(options, ["qwen3-0.6b", "qwen3-0.6b:legal", "llama-3.2-1b"]);
    await page.getByLabel("Model", { exact: true }).selectOption("qwen3-0.6b:legal");
    await ask(page, "plain");
    assert.equal(mock.requests[0].model, "qwen3-0.6b:legal");
    assert.match(await page.locator(".assistant .meta").innerText(), /^qwen3-0\.6b:legal/);
    const again = await openPage(own);
    assert.equal(await again.locator("#model").inputValue(), "qwen3-0.6b:legal");
});

test("structured output: the schema is checked, and sent", async () => {
    const { page, mock } = own;
    await openSettings(page);
    await page.getByLabel("Answers follow this schema").check();
    const box = page.getByLabel("JSON schema");
    await box.fill('{"type": "object", ');
    assert.match(await page.locator("#settings .error:visible").innerText(), /^Not JSON/);
    await send(page, "json");
    await page.getByText(/^The schema: Not JSON/).waitFor();
    assert.equal(mock.requests.length, 0);
    assert.equal(await page.locator("#input").inputValue(), "json");
    const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    await box.fill(JSON.stringify(schema));
    assert.equal(await page.locator("#settings .error:visible").count(), 0);
    await page.getByRole("button", { name: "Send" }).click();
    await finished(page);
    assert.deepEqual(mock.requests[0].response_format, {
        type: "json_schema",
        json_schema: { name: "answer", strict: true, schema },
    });
    assert.match(await page.locator("#context").innerText(), /schema/);
    await page.getByLabel("Answers follow this schema").uncheck();
    await ask(page, "json");
    assert.equal("response_format" in mock.requests[1], false);
});

test("tools are offered", async () => {
    const { page, mock } = own;
    await openSettings(page);
    const tools = [{ type: "function", function: { name: "get_weather", parameters: {} } }];
    await page.getByLabel("Tools", { exact: true }).fill(JSON.stringify(tools));
    await page.getByLabel("Offer these tools").check();
    await ask(page, "tool");
    assert.deepEqual(mock.requests[0].tools, tools);
});

test("the key is asked for, kept in the session alone, and never written down", async () => {
    const { page, mock, context } = own;
    mock.key = "secret-key-1";
    await ask(page, "plain");
    await page.getByText("The server wants an API key.").last().waitFor();
    await page.getByRole("button", { name: "Enter the key" }).last().click();
    await page.getByLabel("API key").fill("secret-key-1");
    await page.keyboard.press("Tab");
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    await page.locator(".assistant", { hasText: "thin sheets" }).waitFor();
    await page.reload();
    await page.locator("#model option[value='qwen3-0.6b']").waitFor({ state: "attached" });
    const kept = await page.evaluate(async () => {
        const open = indexedDB.open("mica");
        await new Promise((resolve) => (open.onsuccess = resolve));
        const store = open.result.transaction("conversations").objectStore("conversations");
        const all = store.getAll();
        await new Promise((resolve) => (all.onsuccess = resolve));
        return JSON.stringify([{ ...localStorage }, all.result, document.cookie]);
    });
    assert.match(kept, /thin sheets/);
    assert.equal(kept.includes("secret-key-1"), false);
    const other = await context.newPage(); // another tab has no key
    await other.goto(mock.url);
    await other.getByText("The server wants an API key.").waitFor();
});

test("text files are attached, and what is no text refused", async () => {
    const { page, mock } = own;
    const picker = page.locator(".composer input[type=file]");
    await picker.setInputFiles([
        { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one\ntwo\n") },
        { name: "pixel.png", mimeType: "image/png", buffer: Buffer.from([137, 80, 78, 71]) },
    ]);
    await page.getByText("pixel.png: only text can be attached.").waitFor();
    await picker.setInputFiles([
        { name: "data.bin", mimeType: "", buffer: Buffer.from([0xff, 0xfe, 0x00]) },
    ]);
    await page.getByText(/^data\.bin: it is not a text/).waitFor();
    await picker.setInputFiles([
        { name: "big.txt", mimeType: "text/plain", buffer: Buffer.alloc(1100000, "a") },
    ]);
    await page.getByText(/^big\.txt: its 1\.10 MB are more than/).waitFor();
    await picker.setInputFiles([
        { name: "b.txt", mimeType: "text/plain", buffer: Buffer.from("b") },
    ]);
    await page.getByRole("button", { name: "Remove b.txt" }).click();
    assert.equal(await page.locator("#chips .chip").count(), 1);
    await ask(page, "what is in it? plain");
    assert.equal(
        mock.requests[0].messages[0].content,
        "File notes.txt:\n```\none\ntwo\n```\n\nwhat is in it? plain",
    );
    assert.match(await page.locator(".message.user .file").innerText(), /notes\.txt/);
    assert.equal(await page.locator("#chips .chip").count(), 0);
});

test("a model that is gone is told; models that come are offered", async () => {
    const { page, mock } = own;
    await page.getByLabel("Model", { exact: true }).selectOption("llama-3.2-1b");
    await ask(page, "plain");
    mock.models = [mock.models[0], { id: "new-model", object: "model" }];
    await page.reload();
    await page.locator("#conversations .open").first().click();
    await page.getByText("llama-3.2-1b is not served now: qwen3-0.6b answers.").waitFor();
    assert.deepEqual(await page.locator("#model option").allTextContents(), [
        "qwen3-0.6b",
        "new-model",
    ]);
});
