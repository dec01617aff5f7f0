// Answers that mean harm: they do nothing, and the page stays responsive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { finished, send, useBrowser } from "./browser.mjs";

const own = useBrowser();
const maxPauseMs = 1500; // a hang is tens of seconds

// The longest time during which the page's thread did nothing else.
async function watchPauses(page) {
    await page.evaluate(() => {
        window.longest = 0;
        let last = performance.now();
        clearTimeout(window.watch);
        const tick = () => {
            const now = performance.now();
            window.longest = Math.max(window.longest, now - last);
            last = now;
            window.watch = setTimeout(tick, 10);
        };
        tick();
    });
}

// What pages have computed: a busy machine makes pauses longer, but not this.
async function computedMs() {
    const session = await own.browser.newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    await session.detach();
    const pages = processInfo.filter(({ type }) => type === "renderer");
    return pages.reduce((sum, { cpuTime }) => sum + cpuTime * 1000, 0);
}

async function survives(name, text) {
    const { page } = own;
    const before = await computedMs();
    await watchPauses(page);
    await send(page, name);
    if (text) await page.getByText(text).last().waitFor();
    await finished(page);
    const paused = await page.evaluate(() => window.longest);
    const computed = (await computedMs()) - before;
    const told = `${name}: a pause of ${paused} ms, ${computed} ms of CPU`;
    assert.ok(Math.min(paused, computed) < maxPauseMs, told);
    await page.fill("#input", "still here");
    assert.equal(await page.locator("#input").inputValue(), "still here");
}

test("scripts, handlers, links, frames, forms and styles of an answer do nothing", async () => {
    const { page } = own;
    await survives("hostile");
    const made = await page.evaluate(() => {
        const answer = document.querySelector(".assistant .body");
        const all = [...answer.querySelectorAll("*")];
        return {
            hacked: window.hacked,
            tags: [...new Set(all.map(({ tagName }) => tagName.toLowerCase()))],
            handlers: all
                .flatMap((element) => element.getAttributeNames())
                .filter((name) => name.startsWith("on") || name === "style" || name === "src"),
            links: [...answer.querySelectorAll("[href]")].map((link) => [
                link.getAttribute("href"),
                link.target,
                link.rel,
            ]),
            ids: all.map(({ id }) => id).filter(Boolean),
        };
    });
    assert.equal(made.hacked, undefined);
    for (const tag of [
        "script",
        "img",
        "iframe",
        "style",
        "form",
        "object",
        "embed",
        "base",
        "meta",
    ])
        assert.equal(made.tags.includes(tag), false, tag);
    assert.deepEqual(
        made.handlers.filter((name) => name !== "onclick"),
        [],
    );
    assert.deepEqual(made.ids, []);
    const rel = "noopener noreferrer nofollow";
    assert.deepEqual(made.links, [
        ["https://tracker.example/pixel.png", "_blank", rel], // a link; browser.mjs sees no request
        ["https://example.com/ok", "_blank", rel],
    ]);
    for (const link of await page.locator(".assistant .body a").all())
        if (!(await link.getAttribute("href"))) await link.click({ force: true });
    for (const element of await page.locator(".assistant .body *").all())
        await element.dispatchEvent("click");
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator(".assistant .body").isVisible(), true); // no style hid it
    assert.match(await page.locator(".assistant .body").innerText(), /<script>window\.hacked = 1/);
});

test("the same in thoughts, tool calls, titles, errors and imported files", async () => {
    const { page, mock } = own;
    mock.models[0].id = mock.models[0].root = '<img src=x onerror="hacked=1">';
    const evil = '<img src=x onerror="window.hacked=20"><script>hacked=21</script>';
    const conversation = {
        title: evil,
        messages: {
            a: {
                id: "a",
                parent: null,
                role: "user",
                content: evil,
                created: 1,
                files: [{ name: evil, text: evil }],
            },
            b: {
                id: "b",
                parent: "a",
                role: "assistant",
                content: evil,
                reasoning: evil,
                error: evil,
                model: evil,
                finish: "constructor",
                created: 2,
                toolCalls: [{ id: evil, name: evil, arguments: evil }],
            },
        },
        chosen: {},
    };
    const text = JSON.stringify({
        format: "mica-conversations",
        version: 1,
        conversations: [conversation],
    });
    await page
        .locator("[data-name=import]")
        .setInputFiles({ name: "x.json", mimeType: "", buffer: Buffer.from(text) });
    await page.locator(".thoughts summary").click();
    await page.locator(".file summary").click();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Server" }).click();
    await page.waitForTimeout(500);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img, #middle script").count(), 0);
});

test("the policy stops what would get through", async () => {
    const { page } = own;
    const outcome = await page.evaluate(async () => {
        const tried = {};
        const attempt = (name, run) => {
            try {
                run();
                tried[name] = "done";
            } catch {
                tried[name] = "refused";
            }
        };
        attempt("innerHTML", () => {
            document.body.lastElementChild.innerHTML = "<b>x</b>";
        });
        attempt("write", () => document.write("<b>x</b>"));
        attempt("policy", () => trustedTypes.createPolicy("mine", { createHTML: (x) => x }));
        tried.fetch = await fetch("https://example.com/").then(
            () => "done",
            () => "refused",
        );
        const script = document.createElement("script");
        attempt("script", () => {
            script.textContent = "window.hacked = 30";
            document.body.append(script);
        });
        return tried;
    });
    for (const [name, what] of Object.entries(outcome)) assert.equal(what, "refused", name);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    own.errors = own.errors.filter(
        (text) => !/Content Security Policy|Trusted(HTML|Script|Type)/i.test(text),
    );
    own.outside = [];
});

test("formulas cannot run, load, link or cover anything", async () => {
    const { page } = own;
    await survives("bad formulas", "last word");
    const made = await page.evaluate(() => {
        const answer = document.querySelector(".assistant .body");
        const all = [...answer.querySelectorAll("math *")];
        return {
            hacked: window.hacked,
            formulas: answer.querySelectorAll("math").length,
            odd: all
                .flatMap((element) => element.getAttributeNames())
                .filter((name) => /^(on.*|style|src|href|class|id)$/.test(name)),
            images: answer.querySelectorAll("img, a, script").length,
            clipped: getComputedStyle(answer).overflowX,
        };
    });
    assert.equal(made.hacked, undefined);
    assert.ok(made.formulas >= 3);
    assert.deepEqual(made.odd, []);
    assert.equal(made.images, 0);
    assert.equal(made.clipped, "clip");
});

for (const [name, last] of [
    ["wide", "after the wide table"],
    ["tall", "after the tall table"],
    ["one line", "after the line"],
    ["one code line", "after the code"],
    ["nested", "after"],
    ["many", "w19999"],
])
    test(`${name}: the page stays responsive`, async () => {
        await survives(name, last === "after" ? undefined : last);
        const cells = await own.page.locator("td").count();
        assert.ok(cells < 5000, `${cells} cells`);
    });

test("a long line is shown in part, and whole when asked for", async () => {
    const { page } = own;
    await survives("one line", "after the line");
    assert.equal((await page.locator(".plain").innerText()).length, 20000);
    await page.getByRole("button", { name: /^Show all/ }).click();
    await page.waitForFunction(() => document.querySelector(".plain").textContent.length > 1000000);
});
