// Conversations as files: JSON, which can be read again, and Markdown for people.

import { h } from "./dom";
import { numbers } from "./numbers";
import { emptySettings, maxMessages, newId, shownPath } from "./tree";
import type {
    Conversation,
    Message,
    Preset,
    Settings,
    TextFile,
    TokenChance,
    ToolCall,
} from "./types";

const format = "mica-conversations";
export const maxImport = 100e6; // bytes

export function toJson(conversations: Conversation[], presets: Preset[] = []): string {
    const all = { format, version: 1, conversations, ...(presets.length && { presets }) };
    return JSON.stringify(all, null, 1);
}

export function toMarkdown(conversation: Conversation): string {
    const parts = [`# ${conversation.title || "Conversation"}`];
    if (conversation.settings.system)
        parts.push(`> ${conversation.settings.system.replace(/\n/g, "\n> ")}`);
    for (const message of shownPath(conversation)) {
        const who = { user: "You", assistant: message.model || "Answer", tool: "Tool" }[
            message.role
        ];
        parts.push(`## ${who}`);
        for (const file of message.files ?? []) parts.push(`(file ${file.name})`);
        for (const call of message.toolCalls ?? [])
            parts.push(`\`${call.name}(${call.arguments})\``);
        if (message.content) parts.push(message.content);
    }
    return `${parts.join("\n\n")}\n`;
}

export function saveFile(name: string, type: string, text: string): void {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = h("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function fileName(conversation: Conversation, extension: string): string {
    const words = conversation.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
    return `${words.slice(0, 50) || "conversation"}.${extension}`;
}

const maxKeptStops = 100;

type Bag = Record<string, unknown>;
const bag = (value: unknown): Bag =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Bag) : {};
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number | undefined =>
    typeof value === "number" && Number.isFinite(value) ? value : undefined;
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

// The conversations of a file, with new ids, and its presets as they are there. Only what is known is
// taken over.
export function fromJson(json: string): { conversations: Conversation[]; presets: unknown } {
    let value: Bag;
    try {
        value = bag(JSON.parse(json));
    } catch {
        throw new Error("The file is not JSON.");
    }
    if (value["format"] !== format)
        throw new Error("The file does not hold conversations of mica.");
    if (value["version"] !== 1) throw new Error("The file is of a later version of mica.");
    const conversations = list(value["conversations"]).map(readConversation);
    return { conversations, presets: value["presets"] };
}

function readConversation(value: unknown): Conversation {
    const given = bag(value);
    const messages: Record<string, Message> = {};
    const entries = Object.values(bag(given["messages"])).map(bag);
    if (entries.length > maxMessages)
        throw new Error(`A conversation has over ${maxMessages} messages.`);
    const known = new Set(entries.map((entry) => text(entry["id"])));
    for (const entry of entries) {
        const message = readMessage(entry, known);
        if (message) messages[message.id] = message;
    }
    const chosen: Record<string, string> = {};
    for (const [parent, child] of Object.entries(bag(given["chosen"])))
        if (typeof child === "string" && child in messages) chosen[parent] = child;
    const now = Date.now();
    return {
        id: newId(),
        title: text(given["title"]).slice(0, 200),
        created: number(given["created"]) ?? now,
        updated: number(given["updated"]) ?? now,
        messages,
        chosen,
        settings: readSettings(given["settings"]),
    };
}

function readMessage(entry: Bag, known: Set<string>): Message | null {
    const id = text(entry["id"]);
    const role = text(entry["role"]);
    const parent = entry["parent"] === null ? null : text(entry["parent"]);
    if (!/^[\w-]{1,64}$/.test(id) || id === "__proto__") return null;
    if (role !== "user" && role !== "assistant" && role !== "tool") return null;
    if (parent !== null && !known.has(parent)) return null;
    const message: Message = {
        id,
        role,
        parent,
        content: text(entry["content"]),
        created: number(entry["created"]) ?? 0,
    };
    for (const name of ["reasoning", "toolCallId", "model", "finish", "error"] as const)
        if (text(entry[name])) message[name] = text(entry[name]);
    for (const name of ["reasoningSeconds", "firstSeconds", "seconds"] as const)
        if (number(entry[name]) !== undefined) message[name] = number(entry[name]);
    const files = list(entry["files"])
        .map(bag)
        .map((file): TextFile => ({ name: text(file["name"]), text: text(file["text"]) }));
    if (files.length) message.files = files;
    const calls = list(entry["toolCalls"])
        .map(bag)
        .map((call): ToolCall => ({
            id: text(call["id"]),
            name: text(call["name"]),
            arguments: text(call["arguments"]),
        }));
    if (calls.length) message.toolCalls = calls;
    const tokens = list(entry["tokens"]).map(bag).map(readToken);
    if (tokens.length) message.tokens = tokens;
    const usage = bag(entry["usage"]);
    const prompt = number(usage["prompt_tokens"]);
    const completion = number(usage["completion_tokens"]);
    if (prompt !== undefined && completion !== undefined) {
        const cached = number(bag(usage["prompt_tokens_details"])["cached_tokens"]);
        message.usage = {
            prompt_tokens: prompt,
            completion_tokens: completion,
            prompt_tokens_details: { cached_tokens: cached ?? 0 },
        };
    }
    return message;
}

function readToken(entry: Bag): TokenChance {
    const others: TokenChance["others"] = [];
    for (const other of list(entry["others"]).map(list))
        others.push([text(other[0]), number(other[1]) ?? 0]);
    const bytes = list(entry["bytes"]).slice(0, 1000) as number[];
    const part = bytes.length && bytes.every((b) => Number.isInteger(b) && b >= 0 && b < 256);
    return {
        text: text(entry["text"]),
        ...(part && { bytes }),
        p: number(entry["p"]) ?? null,
        others,
    };
}

export function readSettings(value: unknown): Settings {
    const given = bag(value);
    const settings = structuredClone(emptySettings);
    for (const name of ["model", "system", "effort", "thinking", "schema", "tools"] as const)
        settings[name] = text(given[name]);
    settings.chances = given["chances"] === true;
    settings.schemaOn = given["schemaOn"] === true;
    settings.toolsOn = given["toolsOn"] === true;
    settings.stop = list(given["stop"]).map(text).filter(Boolean).slice(0, maxKeptStops);
    const sampling = bag(given["sampling"]);
    for (const { name } of numbers) {
        const entry = number(sampling[name]);
        if (entry !== undefined) settings.sampling[name] = entry;
    }
    return settings;
}
