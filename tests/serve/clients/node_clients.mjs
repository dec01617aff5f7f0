// OpenAI's, Anthropic's and ollama's own clients for Node against a server of the default model,
// which lie in node_modules beside this file.
//
//    node node_clients.mjs ADDRESS GOLDEN
//
// GOLDEN is the model's golden.json: what transformers answers.
import assert from "node:assert/strict";
import fs from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import OpenAI, { toFile } from "openai";

const [address, golden] = process.argv.slice(2);
const [{ messages, text, prompt_ids, greedy_ids }] = JSON.parse(fs.readFileSync(golden));
const ANSWER_TOKENS = greedy_ids.length - 1; // without the stop id
const SCHEMA = {
    type: "object",
    properties: { days: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["days"],
    additionalProperties: false,
};
const withinDays = (days) => assert.ok(days >= 1 && days <= 9, `${days} days`);

async function openai() {
    const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 });
    const request = { model: "default", messages, temperature: 0 };
    const whole = await client.chat.completions.create(request);
    assert.equal(whole.choices[0].message.content, text);
    assert.equal(whole.usage.completion_tokens, ANSWER_TOKENS);
    const stream = client.chat.completions.stream({
        ...request,
        stream_options: { include_usage: true },
    });
    assert.equal(await stream.finalContent(), text);
    assert.equal((await stream.totalUsage()).total_tokens, whole.usage.total_tokens);

    const tools = [{ type: "function", function: { name: "weather", parameters: SCHEMA } }];
    const called = await client.chat.completions
        .stream({
            ...request,
            tools,
            tool_choice: { type: "function", function: { name: "weather" } },
            max_tokens: 100,
        })
        .finalChatCompletion();
    const call = called.choices[0].message.tool_calls[0].function;
    assert.equal(call.name, "weather");
    withinDays(JSON.parse(call.arguments).days);
    const format = {
        type: "json_schema",
        json_schema: { name: "weather", schema: SCHEMA, strict: true },
    };
    const shaped = await client.chat.completions.parse({ ...request, response_format: format });
    withinDays(JSON.parse(shaped.choices[0].message.content).days);

    const input = messages[0].content;
    const response = await client.responses.create({ model: "default", input, temperature: 0 });
    assert.equal(response.output_text, text);
    const events = client.responses.stream({ model: "default", input, temperature: 0 });
    assert.equal((await events.finalResponse()).output_text, text);
    const done = await client.completions.create({
        model: "default",
        prompt: prompt_ids,
        temperature: 0,
        max_tokens: 100,
    });
    assert.equal(done.choices[0].text, text);

    const made = await client.embeddings.create({ model: "default", input: ["curl", "sea"] });
    const plain = await client.embeddings.create({
        model: "default",
        input: ["curl", "sea"],
        encoding_format: "float",
    });
    assert.deepEqual(made.data[1].embedding.slice(0, 9), plain.data[1].embedding.slice(0, 9));

    const content = Buffer.from('{"a": 1}\n');
    const file = await client.files.create({
        file: await toFile(content, "a.jsonl"),
        purpose: "batch",
    });
    assert.equal(await (await client.files.content(file.id)).text(), String(content));
    const names = [];
    for await (const listed of client.files.list()) names.push(listed.id);
    assert.deepEqual(names, [file.id]);
    assert.ok((await client.files.delete(file.id)).deleted);
    for await (const model of client.models.list()) assert.equal(model.id, "default");
    await assert.rejects(
        client.chat.completions.create({ ...request, temprature: 1 }),
        (error) => error instanceof OpenAI.BadRequestError && error.param === "temprature",
    );
    // A stream that is left early; the next request is answered.
    for await (const _ of await client.chat.completions.create({ ...request, stream: true })) break;
    assert.equal((await client.chat.completions.create(request)).usage.total_tokens > 0, true);
}

async function anthropic() {
    const client = new Anthropic({ baseURL: address, apiKey: "none", maxRetries: 0 });
    const request = { model: "default", max_tokens: 100, messages, temperature: 0 };
    const whole = await client.messages.create(request);
    assert.equal(whole.content[0].text, text);
    assert.equal(whole.usage.output_tokens, ANSWER_TOKENS);
    const streamed = await client.messages.stream(request).finalMessage();
    assert.equal(streamed.content[0].text, text);
    assert.equal(streamed.stop_reason, "end_turn");
    const called = await client.messages
        .stream({
            ...request,
            tools: [{ name: "weather", input_schema: SCHEMA }],
            tool_choice: { type: "tool", name: "weather" },
        })
        .finalMessage();
    assert.equal(called.stop_reason, "tool_use");
    withinDays(called.content.find((block) => block.type === "tool_use").input.days);
    const counted = await client.messages.countTokens({ model: "default", messages });
    assert.equal(counted.input_tokens, prompt_ids.length);
    for await (const model of client.models.list()) assert.equal(model.id, "default");
    await assert.rejects(
        client.messages.create({ ...request, model: "another" }),
        Anthropic.NotFoundError,
    );
}

async function ollama() {
    const client = new Ollama({ host: address });
    const options = { temperature: 0, repeat_penalty: 1 };
    const request = { model: "default", messages, options };
    const whole = await client.chat(request);
    assert.equal(whole.message.content, text);
    assert.equal(whole.eval_count, ANSWER_TOKENS);
    let said = "";
    for await (const part of await client.chat({ ...request, stream: true }))
        said += part.message.content;
    assert.equal(said, text);
    const form = { model: "default", prompt: "a", format: SCHEMA, options };
    const shaped = await client.generate(form);
    withinDays(JSON.parse(shaped.response).days);
    const stream = await client.generate({ model: "default", prompt: "a", stream: true });
    stream.abort();
    await assert.rejects(async () => {
        for await (const _ of stream);
    });
    const { embeddings } = await client.embed({ model: "default", input: ["curl"] });
    const length = Math.hypot(...embeddings[0]);
    assert.ok(Math.abs(length - 1) < 1e-5);
    assert.deepEqual((await client.list()).models.map((model) => model.name), ["default"]);
    assert.deepEqual((await client.ps()).models.map((model) => model.name), ["default"]);
    assert.ok((await client.show({ model: "default" })).capabilities.includes("completion"));
    assert.match((await client.version()).version, /^\d+\.\d+/);
    await assert.rejects(client.chat({ ...request, model: "another" }), /another/);
}

await openai();
await anthropic();
await ollama();
