// What is kept in the browser, and what the server says.

export interface ToolCall {
    id: string;
    name: string;
    arguments: string;
}
export interface TextFile {
    name: string;
    text: string;
}

export interface Usage {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number } | null;
}

// A token of an answer: its text, its probability (null: not known) and the likeliest in its place.
export interface TokenChance {
    text: string;
    bytes?: number[]; // of a token that is no text of its own, but a part of a character
    p: number | null;
    others: [text: string, p: number][];
}

export interface Message {
    id: string;
    parent: string | null; // null: the first of its conversation
    role: "user" | "assistant" | "tool";
    content: string;
    created: number; // ms since 1970
    files?: TextFile[];
    reasoning?: string;
    reasoningSeconds?: number;
    toolCalls?: ToolCall[];
    toolCallId?: string; // of role tool: the call that this is the result of
    model?: string;
    usage?: Usage;
    firstSeconds?: number; // from the request to the first token
    seconds?: number; // from the first token to the last
    tokens?: TokenChance[]; // of the content, if they were asked for
    finish?: string; // the API's finish_reason, or "stopped": by the user
    error?: string;
}

export interface Settings {
    model: string;
    system: string;
    sampling: Record<string, number>; // by the API's names; absent: the server's default
    stop: string[];
    effort: string; // reasoning_effort; "": the default
    thinking: string; // "", "on", "off": chat_template_kwargs.enable_thinking
    chances: boolean; // ask for the tokens' probabilities
    schemaOn: boolean;
    schema: string; // JSON
    toolsOn: boolean;
    tools: string; // JSON
}

export interface Preset {
    name: string;
    settings: Settings;
}

export interface Conversation {
    id: string;
    title: string;
    created: number;
    updated: number;
    messages: Record<string, Message>;
    chosen: Record<string, string>; // of a parent's id, or "": the child that is shown
    settings: Settings;
}

export interface Heading {
    id: string;
    title: string;
    updated: number;
    bytes: number;
}

export interface Model {
    id: string;
    created?: number;
    owned_by?: string;
    parent?: string | null;
    root?: string | null;
    max_model_len?: number | null;
    loaded?: boolean;
    [key: string]: unknown;
}
