// The server: the OpenAI API's chat completions and models, /metrics and /health.

import { readEvents, readLines } from "./sse";
import type { Message, Model, Settings, TextFile, Usage } from "./types";

const keyName = "mica.key"; // in the session's storage: gone with the tab

export function apiKey(): string {
    try {
        return sessionStorage.getItem(keyName) ?? "";
    } catch {
        return "";
    }
}

export function setApiKey(key: string): void {
    try {
        if (key) sessionStorage.setItem(keyName, key);
        else sessionStorage.removeItem(keyName);
    } catch {
        /* storage is off: the key is asked for again */
    }
}

export class ApiError extends Error {
    constructor(
        message: string,
        readonly status: number,
        readonly retrySeconds = 0,
    ) {
        super(message);
    }
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    const key = apiKey();
    if (key) headers.set("Authorization", `Bearer ${key}`);
    let response: Response;
    try {
        response = await fetch(path, { ...init, headers, cache: "no-store" });
    } catch (error) {
        if ((error as Error).name === "AbortError") throw error;
        throw new ApiError("The server cannot be reached.", 0);
    }
    if (!response.ok) throw await errorOf(response);
    return response;
}

async function errorOf(response: Response): Promise<ApiError> {
    const text = (await response.text().catch(() => "")).slice(0, 10000);
    let message = "";
    try {
        message = messageIn(JSON.parse(text));
    } catch {
        message = text.slice(0, 300);
    }
    const retry = Number(response.headers.get("Retry-After")) || 0;
    return new ApiError(
        message || `The server answered ${response.status}.`,
        response.status,
        retry,
    );
}

function messageIn(value: unknown): string {
    const error = (value as { error?: unknown })?.error;
    if (typeof error === "string") return error;
    const { status } = value as { status?: unknown }; // of /health
    if (typeof status === "string") return status;
    const message = (error as { message?: unknown })?.message;
    return typeof message === "string" ? message : "";
}

export interface ModelList {
    models: Model[];
    downloads: boolean; // the server pulls models for its clients
}

export async function readModels(): Promise<ModelList> {
    const reply = await (await request("/v1/models")).json();
    const { data: list, downloads } = reply as { data?: unknown; downloads?: unknown };
    const models = Array.isArray(list) ? list.filter((model) => typeof model?.id === "string") : [];
    return { models, downloads: downloads === true };
}

// Loads a model, or closes it once it has no more requests.
export async function setLoaded(model: string, loaded: boolean): Promise<void> {
    const body = { model, stream: false, ...(!loaded && { keep_alive: 0 }) };
    await request("/api/generate", { method: "POST", body: JSON.stringify(body) });
}

export interface PullProgress {
    status?: string;
    total?: number;
    completed?: number;
}

// Has the server download a model. Rejects with an ApiError, or an AbortError by the signal.
export async function pullModel(
    model: string,
    signal: AbortSignal,
    onProgress: (progress: PullProgress) => void,
): Promise<void> {
    const body = JSON.stringify({ model });
    const response = await request("/api/pull", { method: "POST", body, signal });
    let done = false;
    const take = (line: string) => {
        if (!line.trim()) return;
        const progress = JSON.parse(line) as PullProgress;
        const message = messageIn({ error: (progress as { error?: unknown }).error });
        if (message) throw new ApiError(message, 200);
        done ||= progress.status === "success";
        onProgress(progress);
    };
    try {
        await readLines(response.body!, take);
    } catch (error) {
        if (error instanceof ApiError || (error as Error).name === "AbortError") throw error;
        throw new ApiError("The connection broke off.", 0);
    }
    if (!done) throw new ApiError("The connection broke off.", 0);
}

function withFiles(content: string, files: TextFile[] | undefined): string {
    if (!files?.length) return content;
    const parts = files.map(({ name, text }) => {
        let fence = "```"; // longer than any in the file
        for (const run of text.match(/`{3,}/g) ?? [])
            if (run.length >= fence.length) fence = `${run}\``;
        return `File ${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
    });
    return [...parts, content].filter(Boolean).join("\n\n");
}

// A message as the API takes it. Thoughts of earlier answers are not sent, but those of an answer
// that is to go on.
function wireMessage(message: Message, continues: boolean): object {
    if (message.role === "tool")
        return { role: "tool", tool_call_id: message.toolCallId, content: message.content };
    if (message.role === "user")
        return { role: "user", content: withFiles(message.content, message.files) };
    const calls = message.toolCalls?.map(({ id, name, arguments: args }) => ({
        id,
        type: "function",
        function: { name, arguments: args },
    }));
    return {
        role: "assistant",
        content: message.content,
        ...(continues && message.reasoning && { reasoning_content: message.reasoning }),
        ...(calls?.length && { tool_calls: calls }),
    };
}

// Answers that never came are left out, and what was then asked again is one message: chat formats
// want the roles to take turns.
function wireMessages(path: Message[], continues: boolean): object[] {
    const messages: object[] = [];
    let last: Message | undefined;
    for (const message of path) {
        const { role, content, reasoning, toolCalls } = message;
        const goesOn = continues && message === path[path.length - 1];
        if (role === "assistant" && !content && !toolCalls?.length && !(goesOn && reasoning))
            continue;
        if (message.role === "user" && last?.role === "user") {
            const files = [...(last.files ?? []), ...(message.files ?? [])];
            last = { ...last, content: `${last.content}\n\n${message.content}`, files };
            messages.pop();
        } else {
            last = message;
        }
        messages.push(wireMessage(last, goesOn));
    }
    return messages;
}

export const shownChances = 5; // of the likeliest tokens in a place

// The request's body. Only what the user has set is sent: the rest is the server's default.
// continues: the last message is an answer, which is to go on.
export function chatBody(
    settings: Settings,
    path: Message[],
    continues = false,
): Record<string, unknown> {
    const messages = wireMessages(path, continues);
    if (settings.system.trim()) messages.unshift({ role: "system", content: settings.system });
    const body: Record<string, unknown> = {
        model: settings.model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
        ...settings.sampling,
    };
    if (continues)
        Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
    if (settings.chances) Object.assign(body, { logprobs: true, top_logprobs: shownChances });
    if (settings.stop.length) body["stop"] = settings.stop;
    if (settings.effort) body["reasoning_effort"] = settings.effort;
    if (settings.thinking)
        body["chat_template_kwargs"] = { enable_thinking: settings.thinking === "on" };
    if (settings.schemaOn && settings.schema.trim()) {
        const schema = JSON.parse(settings.schema);
        body["response_format"] = {
            type: "json_schema",
            json_schema: { name: "answer", strict: true, schema },
        };
    }
    if (settings.toolsOn && settings.tools.trim()) body["tools"] = JSON.parse(settings.tools);
    return body;
}

export interface Delta {
    content?: string | null;
    reasoning_content?: string | null;
    tool_calls?: {
        index: number;
        id?: string;
        function?: { name?: string; arguments?: string };
    }[];
}
export interface WireToken {
    token: string;
    bytes?: number[] | null;
    logprob: number;
    top_logprobs?: { token: string; logprob: number }[];
}
export interface Chunk {
    model?: string;
    choices?: {
        delta?: Delta;
        finish_reason?: string | null;
        logprobs?: { content?: WireToken[] | null } | null;
    }[];
    usage?: Usage | null;
}

// Resolves when the answer has ended; rejects with an ApiError, or an AbortError by the signal.
export async function streamChat(
    body: object,
    signal: AbortSignal,
    onChunk: (chunk: Chunk) => void,
    onComment: (text: string) => void,
): Promise<void> {
    const response = await request("/v1/chat/completions", {
        method: "POST",
        body: JSON.stringify(body),
        signal,
        headers: { "Content-Type": "application/json", "Accept": "text/event-stream" },
    });
    if (!response.body) throw new ApiError("The server sent nothing.", 0);
    let ended = false;
    try {
        const take = (data: string) => {
            if (ended) return;
            if (data === "[DONE]") {
                ended = true;
                return;
            }
            const chunk = JSON.parse(data) as Chunk;
            const message = messageIn(chunk);
            if (message) throw new ApiError(message, 200);
            onChunk(chunk);
        };
        await readEvents(response.body, take, onComment);
    } catch (error) {
        if (error instanceof ApiError || (error as Error).name === "AbortError") throw error;
        throw new ApiError("The connection broke off.", 0);
    }
    if (!ended) throw new ApiError("The connection broke off.", 0);
}
