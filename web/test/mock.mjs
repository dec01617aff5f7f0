// A server that speaks as `mica serve` does, with answers from a script: the last message of the
// user names the answer. It keeps the requests, for the tests to look at.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { answers } from "./answers.mjs";

// One that is not over when the tests are keeps nobody.
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref());

export class Mock {
    requests = []; // bodies of /v1/chat/completions
    aborted = 0; // answers whose reader went away
    key = ""; // asked for, if set
    healthy = true;
    downloads = false;
    broken = ""; // a model that does not load
    mayBreak = Promise.resolve(); // an answer that breaks off waits for it
    mayGoOn = Promise.resolve(); // one that pauses does
    pulls = []; // what was asked of /api/pull
    models = [
        { id: "qwen3-0.6b", object: "model", created: 1, owned_by: "mica", max_model_len: 32768 },
        {
            id: "qwen3-0.6b:legal",
            object: "model",
            created: 1,
            owned_by: "mica",
            parent: "qwen3-0.6b",
        },
        {
            id: "llama-3.2-1b",
            object: "model",
            created: 1,
            owned_by: "mica",
            max_model_len: 131072,
            loaded: false,
        },
    ];
    ticks = 0;

    static async start(page) {
        const mock = new Mock();
        mock.page = page;
        mock.server = createServer((request, response) =>
            mock.serve(request, response).catch(() => response.destroy()),
        );
        await new Promise((resolve) => mock.server.listen(0, "127.0.0.1", resolve));
        mock.url = `http://127.0.0.1:${mock.server.address().port}/`;
        return mock;
    }

    stop() {
        this.server.closeAllConnections();
        this.server.close();
    }

    async serve(request, response) {
        const { pathname } = new URL(request.url, this.url);
        if (pathname === "/") return this.sendPage(response);
        if (this.key && request.headers.authorization !== `Bearer ${this.key}`)
            return this.fail(response, 401, "a key is needed");
        if (pathname === "/v1/models")
            return this.json(response, {
                object: "list",
                data: this.models,
                downloads: this.downloads,
            });
        if (pathname === "/health")
            return this.healthy
                ? this.json(response, { status: "ok" })
                : this.fail(response, 503, "loading");
        if (pathname === "/metrics") return response.end(this.metrics());
        if (pathname === "/v1/chat/completions") return this.chat(request, response);
        if (pathname === "/api/generate") return this.load(request, response);
        if (pathname === "/api/pull") return this.pull(request, response);
        return this.fail(response, 404, `no ${pathname}`);
    }

    sendPage(response) {
        const html = readFileSync(this.page, "utf8");
        const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)[1];
        response.setHeader("Content-Type", "text/html; charset=utf-8");
        response.setHeader("Content-Security-Policy", `${policy}; frame-ancestors 'none'`);
        response.end(html);
    }

    json(response, value) {
        response.setHeader("Content-Type", "application/json");
        response.end(JSON.stringify(value));
    }

    fail(response, status, message, headers = {}) {
        response.writeHead(status, { "Content-Type": "application/json", ...headers });
        response.end(
            JSON.stringify({ error: { message, type: "error", param: null, code: null } }),
        );
    }

    // With the names of src/serve/metrics.c.
    metrics() {
        const t = this.ticks++;
        const wave = (low, high, speed) => low + ((high - low) * (1 + Math.sin(t * speed))) / 2;
        this.generated = (this.generated ?? 0) + Math.round(wave(60, 180, 0.5));
        const model = '{model="qwen3-0.6b"}';
        const family = (name, type, help, ...samples) =>
            [`# HELP ${name} ${help}.`, `# TYPE ${name} ${type}`]
                .concat(samples.map(([labels, value]) => `${name}${labels} ${value}`))
                .join("\n");
        const one = (name, type, help, value) => family(name, type, help, [model, value]);
        return [
            one("mica_requests_running", "gauge", "Running", Math.round(wave(1, 8, 0.7))),
            one("mica_requests_waiting", "gauge", "In the queue", Math.round(wave(0, 3, 0.9))),
            one("mica_rows", "gauge", "Answers computed together at most", 16),
            one("mica_prompt_tokens_total", "counter", "Of prompts", this.generated * 6),
            one("mica_cached_tokens_total", "counter", "Not read again", this.generated * 4),
            one("mica_generated_tokens_total", "counter", "Of answers", this.generated),
            one("mica_cache_bytes", "gauge", "Of all caches", Math.round(wave(2e8, 7e8, 0.3))),
            family("mica_http_requests", "gauge", "Of HTTP", ["", 2]),
            family(
                "mica_first_token_seconds",
                "histogram",
                "From request to first token",
                ['_bucket{model="qwen3-0.6b",le="+Inf"}', t],
                [`_sum${model}`, t * 0.21],
                [`_count${model}`, t],
            ),
            "vllm:num_requests_running 2\n",
        ].join("\n");
    }

    async body(request) {
        let text = "";
        for await (const part of request) text += part;
        return JSON.parse(text);
    }

    async load(request, response) {
        const { model, keep_alive: keep } = await this.body(request);
        await wait(50);
        if (model === this.broken) {
            response.statusCode = 500;
            return this.json(response, { error: `${model} does not load: its config is empty` });
        }
        this.models.find(({ id }) => id === model).loaded = keep !== 0;
        this.json(response, { model, response: "", done: true });
    }

    // "x/slow" never ends, "x/none" is not there, others come.
    async pull(request, response) {
        const { model } = await this.body(request);
        this.pulls.push(model);
        const line = (value) => response.write(`${JSON.stringify(value)}\n`);
        line({ status: "pulling manifest" });
        if (model === "x/none")
            return response.end('{"error":"x/none: the hub has no such model"}\n');
        for (let done = 0; done <= 10 || model === "x/slow"; done++) {
            if (response.destroyed) return void this.aborted++;
            const completed = Math.min(done * 1e8, 9e8);
            line({ status: "pulling 0123", digest: "0123", total: 1e9, completed });
            await wait(10);
        }
        this.models.push({ id: model, object: "model", loaded: false });
        line({ status: "success" });
        response.end();
    }

    async chat(request, response) {
        const body = await this.body(request);
        this.requests.push(body);
        const last = body.messages[body.messages.length - 1];
        const words =
            last.role === "tool"
                ? "after tool"
                : last.role === "assistant"
                  ? "going on"
                  : last.content;
        const name =
            Object.keys(answers)
                .sort((a, b) => b.length - a.length)
                .find((key) => words.endsWith(key)) ?? "plain";
        const answer = answers[name](body);
        if (answer.status)
            return this.fail(response, answer.status, answer.message, answer.headers);
        response.writeHead(200, {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
        });
        response.on("close", () => {
            if (!response.writableFinished) this.aborted++;
        });
        await this.stream(response, body, answer);
    }

    async stream(response, body, answer) {
        let tokens = 0;
        const decoder = new TextDecoder();
        const send = (choices, extra = {}) =>
            response.write(
                `data: ${JSON.stringify({
                    id: "chatcmpl-1",
                    object: "chat.completion.chunk",
                    created: 1,
                    model: body.model,
                    choices,
                    ...extra,
                })}\n\n`,
            );
        const chances = (piece, bytes = [...Buffer.from(piece)]) => ({
            content: [
                {
                    token: piece,
                    bytes,
                    logprob: Math.log(0.7),
                    top_logprobs: [
                        { token: piece, logprob: Math.log(0.7) },
                        { token: " other", logprob: Math.log(0.2) },
                    ],
                },
            ],
        });
        const delta = (value, ...token) =>
            send([
                {
                    index: 0,
                    delta: value,
                    logprobs: token.length && body.logprobs ? chances(...token) : null,
                    finish_reason: null,
                },
            ]);
        response.write(": keep-alive\n\n: prompt 1000 of 1204 tokens\n\n");
        await wait(answer.firstMs ?? 5);
        delta({ role: "assistant", content: "" });
        for (const piece of answer.pieces) {
            if (response.destroyed) return;
            if (tokens === answer.pauseAt) await this.mayGoOn;
            if (typeof piece === "string") delta({ content: piece }, piece);
            else if (piece.bytes)
                delta(
                    { content: decoder.decode(Uint8Array.from(piece.bytes), { stream: true }) },
                    "\ufffd",
                    piece.bytes,
                );
            else delta(piece);
            tokens++;
            if (answer.ms) await wait(answer.ms);
        }
        if (answer.error) {
            response.end(`data: ${JSON.stringify({ error: { message: answer.error } })}\n\n`);
            return;
        }
        if (answer.breaks) {
            await this.mayBreak; // a browser drops what it has not handed out when the connection breaks
            return response.destroy();
        }
        send([{ index: 0, delta: {}, finish_reason: answer.finish ?? "stop" }]);
        if (body.stream_options?.include_usage)
            send([], {
                usage: {
                    prompt_tokens: 1204,
                    completion_tokens: tokens,
                    total_tokens: 1204 + tokens,
                    prompt_tokens_details: { cached_tokens: 1024 },
                },
            });
        response.end("data: [DONE]\n\n");
    }
}
