// The page's parts that need no browser, bundled for Node: server-sent events, metrics, the tree,
// reading exported files, and the file itself.
import { build } from "esbuild";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const file = (name) => fileURLToPath(new URL(name, import.meta.url));

async function load(name) {
    const { outputFiles } = await build({
        entryPoints: [file(`../src/${name}.ts`)],
        bundle: true,
        write: false,
        format: "esm",
    });
    return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
}

function events(EventParser, ...texts) {
    const list = [];
    const parser = new EventParser((data) => list.push(data));
    for (const text of texts) parser.add(text);
    parser.end();
    return list;
}

test("server-sent events, cut anywhere, with any line ending", async () => {
    const { EventParser } = await load("sse");
    const stream =
        ': keep-alive\n\ndata: {"a":1}\n\nevent: x\ndata:one\ndata: two\nid: 5\n\n\ndata: [DONE]\n\n';
    const wanted = ['{"a":1}', "one\ntwo", "[DONE]"];
    for (const ending of ["\n", "\r\n", "\r"]) {
        const text = stream.replaceAll("\n", ending);
        assert.deepEqual(events(EventParser, text), wanted);
        assert.deepEqual(events(EventParser, ...text), wanted);
        for (let cut = 0; cut < text.length; cut++)
            assert.deepEqual(events(EventParser, text.slice(0, cut), text.slice(cut)), wanted);
    }
    assert.throws(() => {
        const parser = new EventParser(() => {});
        for (let i = 0; i < 20; i++) parser.add("x".repeat(1 << 20));
    }, /endless/);
});

test("comments of a stream are told apart", async () => {
    const { EventParser } = await load("sse");
    const said = [];
    const parser = new EventParser(
        () => {},
        (text) => said.push(text),
    );
    parser.add(": keep-alive\n\n: prompt 5 of 10 tokens\n\ndata: x: y\n\n");
    assert.deepEqual(said, ["keep-alive", "prompt 5 of 10 tokens"]);
});

test("an answer that goes on: its thoughts are sent, and the template is told", async () => {
    const { chatBody } = await load("api");
    const { emptySettings } = await load("tree");
    const said = (id, role, content, more) => ({ id, parent: null, role, content, ...more });
    const path = [
        said("1", "user", "hi"),
        said("2", "assistant", "old", { reasoning: "hm" }),
        said("3", "user", "go"),
        said("4", "assistant", "I beg", { reasoning: "so" }),
    ];
    const body = chatBody({ ...emptySettings, chances: true }, path, true);
    assert.deepEqual(body.messages.slice(1), [
        { role: "assistant", content: "old" },
        { role: "user", content: "go" },
        { role: "assistant", content: "I beg", reasoning_content: "so" },
    ]);
    assert.equal(body.continue_final_message, true);
    assert.equal(body.add_generation_prompt, false);
    assert.equal(body.logprobs, true);
    assert.equal(body.top_logprobs, 5);
});

// What the page leaves out of KaTeX changes no formula.
test("formulas are those of the whole KaTeX", async () => {
    const { renderToString } = (await import("katex")).default;
    const { bundle } = await import("../bundle.mjs");
    const { default: bundled } = await import(
        `data:text/javascript,${encodeURIComponent(await bundle(file("katex.mjs"), "esm"))}`
    );
    const formulas = [
        String.raw`\mathbb{R}\mathcal{L}\mathfrak{g}\mathbf{x}\boldsymbol{\alpha}\mathrm{d}\mathtt{a1}`,
        String.raw`\left(\frac{a}{b}\middle|c\right)\bigl[\Big\|x\Big\|\bigr]\sqrt[3]{x}`,
        String.raw`\underbrace{a+b}_{n}\overbrace{c}\hat x\vec{v}\widehat{abc}\overline{z}\cancel{y}`,
        String.raw`\begin{pmatrix}1&2\\3&4\end{pmatrix}\begin{cases}1&x>0\\0\end{cases}`,
        String.raw`\begin{aligned}a&=b\\&=c\end{aligned}\begin{array}{c|c}1&2\end{array}`,
        String.raw`\sum_{k=0}^\infty\int_a^b\lim_{x\to0}\prod\oint\binom{n}{k}\xrightarrow{f}`,
        String.raw`\text{if } x\in A\boxed{E=mc^2}\phase{-78}\tag{1}`,
        String.raw`\color{red}{x}\colorbox{blue}{y}\rule{1em}{2em}\raisebox{1em}{z}\kern2em`,
        String.raw`\begin{CD}A@>a>>B\\@VVbV@AAcA\\C@=D\end{CD}`,
    ];
    for (const formula of formulas)
        for (const displayMode of [false, true]) {
            const options = { output: "mathml", displayMode, strict: "ignore" };
            const set = (render) => {
                try {
                    return render(formula, options);
                } catch (error) {
                    return error.message;
                }
            };
            assert.equal(set(bundled.renderToString), set(renderToString), formula);
        }
});

test("letters of the alphabets of formulas", async () => {
    const { inAlphabet } = await load("math");
    assert.equal(inAlphabet("double-struck", "RNx1"), "ℝℕ𝕩𝟙");
    assert.equal(inAlphabet("script", "LAe"), "ℒ𝒜ℯ");
    assert.equal(inAlphabet("fraktur", "gC"), "𝔤ℭ");
    assert.equal(inAlphabet("bold", "xΩα0-é"), "𝐱𝛀𝛂𝟎-é");
    assert.equal(inAlphabet("italic", "h"), "ℎ");
    assert.equal(inAlphabet("normal", "x"), "x");
});

test("the limits of numbers are told", async () => {
    const { numberProblem } = await load("numbers");
    const limits = { name: "x", label: "X", hint: "", min: -2, max: 1000, whole: true };
    const problem = (text) => numberProblem(limits, text, Number(text));
    assert.deepEqual(["", "0", "-2", "1000", "-2.5", "1001", "1.5", "x"].map(problem), [
        "",
        "",
        "",
        "",
        "At least −2.",
        "At most 1,000.",
        "A whole number.",
        "This is no number.",
    ]);
});

test("presets of a file: only what is known", async () => {
    const { readPresets, sameSettings } = await load("presets");
    const [one, ...others] = readPresets([
        { name: " a ", settings: { model: "m", system: "s", sampling: { top_k: 1 }, evil: 1 } },
        { name: "", settings: {} },
        { settings: {} },
        null,
        7,
        { name: "b" },
    ]);
    assert.equal(one.name, "a");
    assert.equal(one.settings.model, "");
    assert.equal("evil" in one.settings, false);
    assert.deepEqual(
        others.map(({ name }) => name),
        ["b"],
    );
    assert.ok(sameSettings(one.settings, { ...one.settings, model: "other" }));
    assert.equal(sameSettings(one.settings, others[0].settings), false);
    assert.deepEqual(readPresets({}), []);
});

test("metrics: gauges, rates of counters, means of histograms", async () => {
    const { History, parseMetrics } = await load("metrics");
    const text = (tokens, sum, count) => `# HELP mica_tokens_total Tokens.
# TYPE mica_tokens_total counter
mica_tokens_total{model="a"} ${tokens}
mica_tokens_total{model="b {x}"} 5
# TYPE mica_wait_seconds histogram
mica_wait_seconds_bucket{le="1"} 1
mica_wait_seconds_sum ${sum}
mica_wait_seconds_count ${count}
# TYPE mica_running gauge
mica_running 3 1700000000
other_thing 7
`;
    const families = parseMetrics(text(10, 1, 2));
    assert.equal(families.get("mica_tokens_total").help, "Tokens.");
    assert.equal(families.get("mica_tokens_total").samples[1].labels, '{model="b {x}"}');
    const history = new History();
    history.add(text(10, 1, 2), 1000);
    history.add(text(30, 4, 4), 3000);
    history.add(text(0, 4, 4), 5000); // the server began anew
    const points = (name) => history.series.get(name).points;
    assert.deepEqual(points("mica_tokens_total"), [10, 0]);
    assert.deepEqual(points("mica_wait_seconds"), [1.5]);
    assert.deepEqual(points("mica_running"), [3, 3, 3]);
    assert.equal(history.series.has("other_thing"), false);
    assert.equal(history.series.get("mica_wait_seconds").unit, "s");
});

test("the tree: versions, branches, removal", async () => {
    const tree = await load("tree");
    const chat = tree.newConversation(tree.emptySettings);
    const path = () => tree.shownPath(chat).map(({ content }) => content);
    const q = tree.addMessage(chat, null, { role: "user", content: "q" });
    const a = tree.addMessage(chat, q.id, { role: "assistant", content: "a" });
    const b = tree.addMessage(chat, q.id, { role: "assistant", content: "b" });
    assert.deepEqual(path(), ["q", "b"]);
    tree.addMessage(chat, b.id, { role: "user", content: "more" });
    chat.chosen[q.id] = a.id;
    assert.deepEqual(path(), ["q", "a"]);
    const made = tree.branchAt(chat, b.id);
    assert.deepEqual(
        tree.shownPath(made).map(({ content }) => content),
        ["q", "b"],
    );
    made.messages[b.id].content = "changed";
    assert.equal(b.content, "b");
    tree.removeMessage(chat, b.id);
    assert.equal(Object.keys(chat.messages).length, 2);
    assert.equal(chat.title, "q");
    a.parent = a.id; // a circle does not hang it
    q.parent = a.id;
    assert.ok(tree.pathTo(chat, a.id).length <= 2);
});

test("files that are imported: only what is known, nothing else", async () => {
    const { fromJson, toJson } = await load("transfer");
    const message = (id, parent, role, more) => ({
        id,
        parent,
        role,
        content: id,
        created: 1,
        ...more,
    });
    const messages = {
        a: message("a", null, "user", { files: [{ name: "n", text: "t", evil: 1 }], extra: {} }),
        b: message("b", "a", "assistant", {
            toolCalls: [{ id: "1", name: "f", arguments: "{}" }],
            usage: { prompt_tokens: 1, completion_tokens: 2 },
        }),
        c: message("c", "gone", "user"),
        d: message("d", "a", "system"),
        e: message("__proto__", null, "user"),
        f: message("f", null, "user", { content: { toString: "x" }, created: "now" }),
    };
    const settings = {
        sampling: { temperature: 0.5, nonsense: 1, top_p: "x" },
        stop: ["a", 5],
        schemaOn: 1,
    };
    const text = toJson([{ id: "x", title: "t", messages, chosen: { a: "b", b: "zz" }, settings }]);
    const [read] = fromJson(text).conversations;
    assert.deepEqual(Object.keys(read.messages), ["a", "b", "f"]);
    assert.deepEqual(read.messages.a.files, [{ name: "n", text: "t" }]);
    assert.equal("extra" in read.messages.a, false);
    assert.equal(read.messages.f.content, "");
    assert.deepEqual(read.chosen, { a: "b" });
    assert.deepEqual(read.settings.sampling, { temperature: 0.5 });
    assert.equal(read.settings.schemaOn, false);
    assert.notEqual(read.id, "x");
    assert.equal({}.content, undefined);
    const again = fromJson(toJson([read])).conversations[0];
    assert.deepEqual({ ...again, id: "" }, { ...read, id: "" });
    for (const bad of ["", "[]", "{}", "null", '{"format":"other"}'])
        assert.throws(() => fromJson(bad), /not JSON|does not hold/);
    assert.throws(() => fromJson('{"format":"mica-conversations","version":9}'), /later version/);
});

test("the request: what is not set is not sent, files are fenced", async () => {
    const { chatBody } = await load("api");
    const { emptySettings } = await load("tree");
    const user = { id: "1", parent: null, role: "user", content: "hi", created: 0 };
    assert.deepEqual(chatBody({ ...emptySettings, model: "m" }, [user]), {
        model: "m",
        messages: [{ role: "user", content: "hi" }],
        stream: true,
        stream_options: { include_usage: true },
    });
    const said = (id, role, content, more) => ({ ...user, id, role, content, ...more });
    const asked = [
        user,
        said("2", "assistant", "", { error: "gone" }),
        said("3", "user", "again"),
        said("4", "assistant", "yes", { reasoning: "hm" }),
        said("5", "user", "more"),
        said("6", "assistant", "", { finish: "stopped" }),
        said("7", "user", "still more"),
    ];
    assert.deepEqual(chatBody(emptySettings, asked).messages, [
        { role: "user", content: "hi\n\nagain" },
        { role: "assistant", content: "yes" },
        { role: "user", content: "more\n\nstill more" },
    ]);
    const files = [{ name: "a.md", text: "```js\n````\n" }];
    const [{ content }] = chatBody(emptySettings, [{ ...user, files }]).messages;
    assert.equal(content, "File a.md:\n`````\n```js\n````\n`````\n\nhi");
});

test("the built file: the hashes of its policy are those of its script and style", () => {
    const html = readFileSync(file("../../../web/dist/index.html"), "utf8");
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)[1];
    const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
    for (const name of ["script", "style"]) {
        const [, text] = new RegExp(`<${name}>(.*?)</${name}>`, "s").exec(html);
        assert.ok(policy.includes(`${name}-src ${hash(text)};`));
    }
    assert.equal(/\bon[a-z]+=["']/.test(html.replace(/<(script|style)>.*?<\/\1>/gs, "")), false);
    assert.ok(html.length < 520000);
    assert.ok(gzipSync(html).length < 165000); // as it is kept and sent
});
