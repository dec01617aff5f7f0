// An answer under way: streams it into its message, and tells whoever shows it.

import { ApiError, chatBody, streamChat, type Chunk, type Delta, type WireToken } from "./api";
import { pathTo } from "./tree";
import type { Conversation, Message, Settings, TokenChance, Usage } from "./types";

const maxTokens = 4096; // whose probabilities are kept of an answer

export interface Run {
    conversation: Conversation;
    message: Message;
    controller: AbortController;
    began: number; // performance.now()
    firstAt: number; // of the first token; 0: none yet
    lastAt: number;
    pieces: number; // deltas, about one a token
    waitsFor: string; // what is shown before the first token
    before: { tokens: number; prompt: number; seconds: number; thought: number } | null; // of an answer that goes on
}

export interface RunEvents {
    changed: (run: Run) => void;
    ended: (run: Run, error: ApiError | null) => void;
}

const runs = new Map<string, Run>(); // by the message's id

export function runOf(conversation: Conversation | null): Run | undefined {
    for (const run of runs.values()) if (run.conversation.id === conversation?.id) return run;
    return undefined;
}

export function anyRun(): boolean {
    return runs.size > 0;
}

export function stopRun(run: Run | undefined): void {
    run?.controller.abort();
}

// Tokens a second, of the answer so far.
export function liveRate(run: Run): number {
    const seconds = (run.lastAt - run.firstAt) / 1000;
    return seconds > 0.2 ? (run.pieces - 1) / seconds : 0;
}

export async function startRun(
    conversation: Conversation,
    message: Message,
    settings: Settings,
    events: RunEvents,
    { continues = false, waitsFor = "Reading the prompt…" } = {},
): Promise<void> {
    const { usage, seconds = 0, reasoningSeconds: thought = 0 } = message;
    const run: Run = {
        conversation,
        message,
        controller: new AbortController(),
        began: performance.now(),
        firstAt: 0,
        lastAt: 0,
        pieces: 0,
        waitsFor,
        before: continues
            ? {
                  tokens: usage?.completion_tokens ?? 0,
                  prompt: usage?.prompt_tokens ?? 0,
                  seconds,
                  thought,
              }
            : null,
    };
    runs.set(message.id, run);
    let failure: ApiError | null = null;
    try {
        const path = pathTo(conversation, message.id);
        if (!continues) path.pop();
        events.changed(run);
        const onChunk = (chunk: Chunk) => {
            addChunk(run, chunk);
            events.changed(run);
        };
        const onComment = (text: string) => {
            if (addComment(run, text)) events.changed(run);
        };
        const body = chatBody(settings, path, continues);
        await streamChat(body, run.controller.signal, onChunk, onComment);
    } catch (error) {
        if (run.controller.signal.aborted) message.finish = "stopped";
        else {
            failure = error instanceof ApiError ? error : new ApiError((error as Error).message, 0);
            message.error = failure.message;
            if (failure.retrySeconds) message.error += ` (wait for ${failure.retrySeconds} s)`;
        }
    }
    runs.delete(message.id);
    if (run.firstAt)
        message.seconds = (run.lastAt - run.firstAt) / 1000 + (run.before?.seconds ?? 0);
    conversation.updated = Date.now();
    events.ended(run, failure);
}

// How far the prompt was read, which the server tells in comments.
function addComment(run: Run, text: string): boolean {
    const read = /^prompt (\d+) of (\d+) tokens$/.exec(text);
    if (!read || run.firstAt) return false;
    const [done, all] = read.slice(1).map((n) => Number(n).toLocaleString("en-US"));
    run.waitsFor = `Reading the prompt: ${done} of ${all} tokens`;
    return true;
}

function addChunk(run: Run, chunk: Chunk): void {
    const { message } = run;
    if (chunk.model) message.model = chunk.model;
    if (chunk.usage) message.usage = keptUsage(chunk.usage, run.before);
    const choice = chunk.choices?.[0];
    if (!choice) return;
    if (choice.finish_reason) message.finish = choice.finish_reason;
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
    if (!reasoning) for (const token of choice.logprobs?.content ?? []) addToken(message, token);
    if (!content && !reasoning && !calls?.length) return;
    const now = performance.now();
    run.lastAt = now;
    run.pieces++;
    if (!run.firstAt) {
        run.firstAt = now;
        message.firstSeconds ??= (now - run.began) / 1000;
    }
    if (reasoning) {
        message.reasoning = (message.reasoning ?? "") + reasoning;
        message.reasoningSeconds = (now - run.firstAt) / 1000 + (run.before?.thought ?? 0);
    }
    if (content) message.content += content;
    for (const call of calls ?? []) addCall(message, call);
}

// What an answer had before it went on was a part of the prompt then.
function keptUsage(usage: Usage, before: Run["before"]): Usage {
    return {
        prompt_tokens: before?.prompt || usage.prompt_tokens,
        completion_tokens: usage.completion_tokens + (before?.tokens ?? 0),
        prompt_tokens_details: { cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0 },
    };
}

function addCall(message: Message, delta: NonNullable<Delta["tool_calls"]>[number]): void {
    const calls = (message.toolCalls ??= []);
    const index = Math.min(delta.index ?? 0, calls.length);
    const call = (calls[index] ??= { id: "", name: "", arguments: "" });
    if (delta.id) call.id = delta.id;
    call.name += delta.function?.name ?? "";
    call.arguments += delta.function?.arguments ?? "";
}

const chance = (logprob: number) => Number(Math.exp(logprob).toPrecision(4));

// Text that came without probabilities is one token with none.
function addToken(message: Message, wire: WireToken): void {
    const { token, bytes, logprob, top_logprobs: top } = wire;
    const tokens: TokenChance[] = (message.tokens ??= message.content
        ? [{ text: message.content, p: null, others: [] }]
        : []);
    if (tokens.length >= maxTokens) return;
    const others = (top ?? []).map((other): [string, number] => [
        other.token,
        chance(other.logprob),
    ]);
    const part = bytes && token.includes("\ufffd") ? { bytes } : {};
    tokens.push({ text: token, ...part, p: chance(logprob), others });
}
