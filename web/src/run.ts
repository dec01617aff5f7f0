// An answer under way: streams it into its message, and tells whoever shows it.

import { ApiError, chatBody, streamChat, type Chunk, type Delta } from "./api";
import { pathTo } from "./tree";
import type { Conversation, Message, Settings, Usage } from "./types";

export interface Run {
    conversation: Conversation;
    message: Message;
    controller: AbortController;
    began: number; // performance.now()
    firstAt: number; // of the first token; 0: none yet
    lastAt: number;
    pieces: number; // deltas, about one a token
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
): Promise<void> {
    const run: Run = {
        conversation,
        message,
        controller: new AbortController(),
        began: performance.now(),
        firstAt: 0,
        lastAt: 0,
        pieces: 0,
    };
    runs.set(message.id, run);
    let failure: ApiError | null = null;
    try {
        const path = pathTo(conversation, message.id).slice(0, -1);
        events.changed(run);
        await streamChat(chatBody(settings, path), run.controller.signal, (chunk) => {
            addChunk(run, chunk);
            events.changed(run);
        });
    } catch (error) {
        if (run.controller.signal.aborted) message.finish = "stopped";
        else {
            failure = error instanceof ApiError ? error : new ApiError((error as Error).message, 0);
            message.error = failure.message;
            if (failure.retrySeconds) message.error += ` (wait for ${failure.retrySeconds} s)`;
        }
    }
    runs.delete(message.id);
    if (run.firstAt) message.seconds = (run.lastAt - run.firstAt) / 1000;
    conversation.updated = Date.now();
    events.ended(run, failure);
}

function addChunk(run: Run, chunk: Chunk): void {
    const { message } = run;
    if (chunk.model) message.model = chunk.model;
    if (chunk.usage) message.usage = keptUsage(chunk.usage);
    const choice = chunk.choices?.[0];
    if (!choice) return;
    if (choice.finish_reason) message.finish = choice.finish_reason;
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
    if (!content && !reasoning && !calls?.length) return;
    const now = performance.now();
    run.lastAt = now;
    run.pieces++;
    if (!run.firstAt) {
        run.firstAt = now;
        message.firstSeconds = (now - run.began) / 1000;
    }
    if (reasoning) {
        message.reasoning = (message.reasoning ?? "") + reasoning;
        message.reasoningSeconds = (now - run.firstAt) / 1000;
    }
    if (content) message.content += content;
    for (const call of calls ?? []) addCall(message, call);
}

function keptUsage(usage: Usage): Usage {
    return {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
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
