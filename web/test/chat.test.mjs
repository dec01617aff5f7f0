// Talking: streaming, Markdown, thoughts, tools, stopping, and the tree of versions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, finished, send, texts, useBrowser } from "./browser.mjs";

const own = useBrowser();

test("an answer streams, and says what it took", async () => {
    const { page, mock } = own;
    await send(page, "slow");
    await page.waitForFunction(() =>
        /word9 /.test(document.querySelector(".assistant .body").innerText),
    );
    assert.equal(await page.locator(".running").count(), 1);
    assert.match(await page.locator(".running .meta").innerText(), /tokens/);
    await page.keyboard.press("Escape");
    await finished(page);
    await ask(page, "plain");
    const meta = (await texts(page, ".assistant .meta")).at(-1);
    assert.match(meta, /qwen3-0\.6b · 8 tokens/);
    assert.match(meta, /first after \d+ ms · prompt 1,204, 1,024 cached/);
    assert.match(await page.locator("#context").innerText(), /^1,212 of 32,768 tokens$/);
    const body = mock.requests[1];
    assert.equal(body.stream, true);
    assert.deepEqual(body.stream_options, { include_usage: true });
    assert.equal(body.model, "qwen3-0.6b");
    assert.deepEqual(
        body.messages.map(({ role }) => role),
        ["user", "assistant", "user"],
    );
});

test("Markdown: code is highlighted and copied by a click", async () => {
    const { page } = own;
    await ask(page, "code");
    const block = page.locator(".code");
    assert.equal(await block.locator("figcaption span").first().innerText(), "python");
    assert.equal(await block.locator(".hljs-keyword").first().innerText(), "def");
    await block.locator(".copy").click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^def mean\(values\):\n {4}"""/);
    assert.match(copied, /# fails on none$/);
    assert.equal(await page.locator(".assistant strong").innerText(), "linear");
    const link = page.locator(".assistant a");
    assert.equal(await link.getAttribute("href"), "https://example.com/a");
    assert.match(await link.getAttribute("rel"), /noopener/);
});

test("Markdown: tables, lists, alignment", async () => {
    const { page } = own;
    await ask(page, "How does a KV cache work?");
    assert.equal(await page.locator(".assistant table tbody tr").count(), 2);
    const align = await page
        .locator(".assistant td")
        .nth(1)
        .evaluate((cell) => getComputedStyle(cell).textAlign);
    assert.equal(align, "right");
    assert.equal(await page.locator(".assistant ol li").count(), 2);
});

test("thinking is folded", async () => {
    const { page, mock } = own;
    await ask(page, "think");
    const thoughts = page.locator(".thoughts");
    assert.match(await thoughts.locator("summary").innerText(), /^Thought for/);
    assert.equal(await page.getByText("First I count the sheets.").isVisible(), false);
    await thoughts.locator("summary").click();
    await page.getByText("First I count the sheets.").waitFor();
    assert.equal(await page.locator(".assistant .body").innerText(), "There are three.");
    await ask(page, "plain"); // thoughts are not sent back
    assert.equal(JSON.stringify(mock.requests[1]).includes("count the sheets"), false);
});

test("tool calls are shown, and their results sent", async () => {
    const { page, mock } = own;
    await ask(page, "tool");
    assert.deepEqual(await texts(page, ".call-name strong"), ["get_weather", "get_time"]);
    assert.match(await page.locator(".call code").first().innerText(), /"city": "Oslo"/);
    await page.getByLabel("Result of get_weather").fill("rain");
    await page.getByLabel("Result of get_time").fill("noon");
    await page.getByRole("button", { name: "Send the results" }).click();
    await page.getByText("It is raining there.", { exact: true }).waitFor();
    await finished(page);
    const { messages } = mock.requests[1];
    assert.deepEqual(messages.slice(1), [
        {
            role: "assistant",
            content: "",
            tool_calls: [
                {
                    id: "call_1",
                    type: "function",
                    function: { name: "get_weather", arguments: '{"city": "Oslo"}' },
                },
                { id: "call_2", type: "function", function: { name: "get_time", arguments: "{}" } },
            ],
        },
        { role: "tool", tool_call_id: "call_1", content: "rain" },
        { role: "tool", tool_call_id: "call_2", content: "noon" },
    ]);
    assert.equal(await page.locator(".results").count(), 0);
});

test("stop ends the request and keeps what came", async () => {
    const { page, mock } = own;
    await send(page, "slow");
    await page.waitForFunction(() => /word3/.test(document.body.innerText));
    await page.getByRole("button", { name: "Stop" }).click();
    await finished(page);
    assert.match(await page.locator(".assistant .body").innerText(), /^word0 word1/);
    assert.match(await page.locator(".assistant .meta").innerText(), /stopped$/);
    while (!mock.aborted) await page.waitForTimeout(20);
    await page.getByRole("button", { name: "Send" }).waitFor();
});

test("stop works while the prompt is read", async () => {
    const { page, mock } = own;
    await send(page, "endless prompt");
    await page.getByText(/^Reading the prompt/).waitFor();
    await page.keyboard.press("Escape");
    await finished(page);
    while (!mock.aborted) await page.waitForTimeout(20);
});

test("regenerate makes another version; both can be seen", async () => {
    const { page, mock } = own;
    await ask(page, "plain");
    await page.getByRole("button", { name: "Regenerate" }).click();
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.deepEqual(mock.requests[0].messages, mock.requests[1].messages);
    await page.getByRole("button", { name: "Previous version" }).click();
    await page.getByText("1 / 2").waitFor();
    await finished(page);
    assert.match(await page.locator(".assistant .body").innerText(), /thin sheets/);
});

test("edit asks again on another branch; the first one stays", async () => {
    const { page, mock } = own;
    await ask(page, "plain");
    await ask(page, "think");
    await page.locator(".message.user").first().hover();
    await page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Text of the message").fill("rather this: json");
    await page.locator(".editor").getByRole("button", { name: "Send" }).click();
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.deepEqual(mock.requests[2].messages, [{ role: "user", content: "rather this: json" }]);
    assert.equal(await page.locator(".message").count(), 2);
    await page.getByRole("button", { name: "Previous version" }).click();
    await page.getByText("There are three.").waitFor();
    assert.equal(await page.locator(".message").count(), 4);
});

test("an answer can be edited, and what follows starts from there", async () => {
    const { page, mock } = own;
    await ask(page, "plain");
    await page.locator(".assistant").getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Text of the message").fill("Mine.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("2 / 2").waitFor();
    await ask(page, "plain");
    assert.equal(mock.requests[1].messages[1].content, "Mine.");
});

test("branch: a conversation of its own up to there", async () => {
    const { page } = own;
    await ask(page, "plain");
    await ask(page, "think");
    await page.locator(".assistant").first().hover();
    await page
        .locator(".assistant")
        .first()
        .getByRole("button", { name: /^Branch/ })
        .click();
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
    await page.waitForFunction(
        () => document.querySelectorAll("#conversations .item").length === 2,
    );
    await ask(page, "json");
    assert.equal(await page.locator(".message").count(), 4);
    await page.locator("#conversations .open").nth(1).click();
    await page.getByText("There are three.").waitFor();
});

test("delete removes a message and what follows", async () => {
    const { page } = own;
    await ask(page, "plain");
    await ask(page, "think");
    await page.locator(".message.user").last().hover();
    await page
        .locator(".message.user")
        .last()
        .getByRole("button", { name: /^Delete/ })
        .click();
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
});

// An answer whose connection breaks once its text is there.
async function askBroken({ page, mock }) {
    let breakOff;
    mock.mayBreak = new Promise((resolve) => (breakOff = resolve));
    await send(page, "broken");
    await page.locator(".assistant .body", { hasText: "This is the beg" }).waitFor();
    breakOff();
    await finished(page);
}

test("errors say what the server said, and can be tried again", async () => {
    const { page, mock } = own;
    const error = () => page.locator(".assistant .error").last().innerText();
    await ask(page, "too long");
    assert.match(await error(), /^the prompt has 40,000 tokens, the context 32,768\s*Try again$/); // nothing to go on
    await ask(page, "busy");
    assert.match(await error(), /^the queue is full \(wait for 7 s\)/);
    await page.getByRole("button", { name: "Try again" }).last().click();
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.equal(mock.requests.length, 3);
    await askBroken(own);
    const last = () => page.locator(".assistant").last().innerText();
    assert.match(await last(), /This is the beg\s+The connection broke off\./);
    await ask(page, "fails");
    assert.match(await last(), /Some\s+the device is out of memory/);
    await ask(page, "cut");
    assert.match((await texts(page, ".meta")).at(-1), /limit of tokens/);
});

test("an answer that was cut goes on where it ended", async () => {
    const { page, mock } = own;
    const body = () => page.locator(".assistant .body").innerText();
    await askBroken(own);
    await page.locator(".error").getByRole("button", { name: "Continue" }).click();
    await page.locator("strong", { hasText: "this is the end" }).waitFor();
    await finished(page);
    assert.equal(await body(), "This is the beg ginning, and this is the end.");
    assert.equal((await page.locator(".assistant p").count()) > 0, true);
    assert.equal(await page.locator(".assistant .block > p").count(), 1); // it is one paragraph
    assert.equal(await page.locator(".assistant .error:visible").count(), 0);
    assert.deepEqual(mock.requests[1].messages, [
        { role: "user", content: "broken" },
        { role: "assistant", content: "This is the beg" },
    ]);
    assert.equal(mock.requests[1].continue_final_message, true);
    await ask(page, "cut");
    await page.locator(".assistant").last().getByRole("button", { name: "Continue" }).click();
    await page.locator(".message:last-child strong", { hasText: "this is the end" }).waitFor();
    await finished(page);
    assert.match((await texts(page, ".meta")).at(-1), /· 9 tokens/); // 3 and 6
    assert.equal(await page.getByRole("button", { name: "Continue" }).count(), 1); // of the last
    await send(page, "slow");
    await page.waitForFunction(() => /word3/.test(document.body.innerText));
    await page.keyboard.press("Escape");
    await finished(page);
    await page.getByRole("button", { name: "Continue" }).last().click();
    await page.locator(".message:last-child strong", { hasText: "this is the end" }).waitFor();
    await finished(page);
    assert.doesNotMatch((await texts(page, ".meta")).at(-1), /stopped/);
});

test("an answer that was cut in its thoughts goes on with them", async () => {
    const { page, mock } = own;
    await ask(page, "only thoughts");
    assert.match(await page.locator(".assistant .meta").innerText(), /limit of tokens/);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.locator(".assistant strong", { hasText: "this is the end" }).waitFor();
    await finished(page);
    const { messages, ...body } = mock.requests[1];
    assert.deepEqual(messages[1], {
        role: "assistant",
        content: "",
        reasoning_content: "First I count",
    });
    assert.equal(body.continue_final_message, true);
    await ask(page, "plain");
    assert.equal("reasoning_content" in mock.requests[2].messages[1], false);
});

test("what cannot be sent now is told, and stays", async () => {
    const { page, mock } = own;
    await send(page, "slow");
    await page.locator(".running").waitFor();
    await send(page, "plain");
    await page.locator(".notice", { hasText: "An answer is under way" }).waitFor();
    assert.equal(await page.locator("#input").inputValue(), "plain");
    await page.keyboard.press("Escape");
    await finished(page);
    assert.equal(await page.locator(".notice").count(), 0);
    await ask(page, "tool");
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("Temperature").fill("900");
    await page.getByLabel("Result of get_weather").fill("rain");
    await page.getByRole("button", { name: "Send the results" }).click();
    await page.locator(".notice", { hasText: "At most 100." }).waitFor();
    assert.equal(await page.getByLabel("Result of get_weather").inputValue(), "rain");
    await page.getByLabel("Temperature").fill("");
    await page.getByRole("button", { name: "Send the results" }).click();
    await page.locator(".assistant", { hasText: "It is raining there." }).waitFor();
    const results = mock.requests.at(-1).messages.filter(({ role }) => role === "tool");
    assert.deepEqual(
        results.map(({ content }) => content),
        ["rain", ""],
    );
});

test("tokens that are parts of a character", async () => {
    const { page, mock } = own;
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("Token probabilities").check();
    await ask(page, "emoji");
    await page.getByRole("button", { name: "Token probabilities" }).click();
    const forks = page.getByRole("button", { name: "Go on with ␣other instead" });
    const offered = [];
    for (let i = 0; i < 4; i++) {
        await page.locator(".token").nth(i).click();
        offered.push(await forks.count());
    }
    assert.deepEqual(offered, [1, 1, 0, 1]);
    await forks.click();
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.equal(mock.requests[1].messages[1].content, "It is 👍 other");
});

test("tokens: how likely they were, and another one instead", async () => {
    const { page, mock } = own;
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("Token probabilities").check();
    await ask(page, "plain");
    assert.equal(mock.requests[0].logprobs, true);
    await page.getByRole("button", { name: "Token probabilities" }).click();
    const tokens = page.locator(".token");
    assert.equal(await tokens.count(), 8);
    assert.equal(await page.locator(".assistant .body").isVisible(), false);
    await tokens.nth(2).hover();
    const card = page.locator(".chance-card");
    assert.match(await card.innerText(), /into␣\s+70\.0 %\s+chosen\s+␣other\s+20\.0 %/);
    await tokens.nth(0).click();
    await page.keyboard.press("ArrowRight");
    assert.equal(await tokens.nth(1).getAttribute("aria-selected"), "true");
    assert.equal(await page.evaluate(() => document.activeElement.innerText), "splits ");
    await page.getByRole("button", { name: "Go on with ␣other instead" }).click();
    await page.getByText("2 / 2").waitFor();
    await finished(page);
    assert.equal(mock.requests[1].messages[1].content, "Mica  other");
    assert.match(await page.locator(".assistant .body").innerText(), /^Mica other ginning/);
    await page.getByRole("button", { name: "Token probabilities" }).click();
    assert.equal(await tokens.first().innerText(), "Mica  other"); // was not told how likely
    await page.reload();
    await page.locator("#conversations .open").first().click();
    await page.getByRole("button", { name: "Token probabilities" }).click();
    await tokens.nth(1).waitFor();
});

test("formulas are set, prices and code are not", async () => {
    const { page } = own;
    await ask(page, "formulas");
    const answer = page.locator(".assistant .body");
    assert.equal(await answer.locator("math").count(), 6);
    assert.equal(await answer.locator('math[display="block"]').count(), 2);
    assert.equal(await answer.locator("em").count(), 0);
    assert.equal(await answer.locator("mfrac").count(), 3);
    assert.match(await answer.innerText(), /It costs \$5, or \$6 in \$HOME\/\$USER; \$x\$ is code/);
    const letters = (await answer.locator("mi").allTextContents()).join("");
    assert.match(letters, /𝐄.*ℒ.*ℝ/u);
    const align = await answer
        .locator("mtd")
        .evaluateAll((cells) => cells.map((cell) => cell.style.textAlign));
    assert.deepEqual(align, ["right", "left", "right", "left"]);
    assert.equal(
        await answer.locator("annotation").first().textContent(),
        String.raw`x_{1,2} = \frac{-b \pm \sqrt{b^2-4ac}}{2a}`,
    );
});

test("environments of LaTeX are formulas, if they are any of these", async () => {
    const { page } = own;
    await ask(page, "environments");
    const answer = page.locator(".assistant .body");
    assert.equal(await answer.locator('math[display="block"]').count(), 3);
    assert.equal(await answer.locator("em").count(), 0);
    assert.match(await answer.innerText(), /This is .begin\{itemize\} no formula/);
    assert.match(await answer.innerText(), /nor is .begin\{equation\} x\.$/);
});

test("a formula that streams is shown as it is written until it is whole", async () => {
    const { page, mock } = own;
    let goOn;
    mock.mayGoOn = new Promise((resolve) => (goOn = resolve));
    await page.evaluate(() => {
        window.emphasis = 0;
        new MutationObserver(
            () => (window.emphasis += document.querySelectorAll(".assistant em").length),
        ).observe(document.querySelector(".thread"), { childList: true, subtree: true });
    });
    await send(page, "long display");
    await page.waitForFunction(() =>
        /^\$\$\n\\sum/.test(document.querySelector(".assistant p code")?.textContent ?? ""),
    );
    goOn();
    await finished(page);
    assert.equal(await page.evaluate(() => window.emphasis), 0);
    const answer = page.locator(".assistant .body");
    assert.equal(await answer.locator("math").count(), 1);
    assert.match(await answer.innerText(), /After it\.$/);
});

test("a conversation goes on while another is in view", async () => {
    const { page } = own;
    await send(page, "slow");
    await page.waitForFunction(() => /word3/.test(document.body.innerText));
    await page.getByRole("button", { name: "New conversation", exact: true }).click();
    await ask(page, "plain");
    await page.locator("#conversations .open", { hasText: "slow" }).click();
    await page.waitForFunction(() => /word30/.test(document.querySelector(".thread").innerText));
    assert.equal(await page.locator(".running").count(), 1);
    await page.keyboard.press("Escape");
    await finished(page);
});
