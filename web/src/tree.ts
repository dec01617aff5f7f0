// A conversation is a tree: regenerating or editing adds a sibling, nothing is overwritten.

import type { Conversation, Message, Settings } from "./types";

export const maxMessages = 2000; // of one conversation

export const emptySettings: Settings = {
    model: "",
    system: "",
    sampling: {},
    stop: [],
    effort: "",
    thinking: "",
    chances: false,
    schemaOn: false,
    schema: "",
    toolsOn: false,
    tools: "",
};

export function newId(): string {
    const bytes = crypto.getRandomValues(new Uint8Array(12)); // randomUUID needs https or loopback
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(settings: Settings): Conversation {
    const now = Date.now();
    return {
        id: newId(),
        title: "",
        created: now,
        updated: now,
        messages: {},
        chosen: {},
        settings: structuredClone(settings),
    };
}

const inOrder = (a: Message, b: Message) => a.created - b.created || (a.id < b.id ? -1 : 1);

export function childrenOf(conversation: Conversation, parent: string | null): Message[] {
    return Object.values(conversation.messages)
        .filter((message) => message.parent === parent)
        .sort(inOrder);
}

// All children by their parent's id, "" for the first messages.
export function allChildren(conversation: Conversation): Map<string, Message[]> {
    const children = new Map<string, Message[]>();
    for (const message of Object.values(conversation.messages)) {
        const siblings = children.get(message.parent ?? "");
        if (siblings) siblings.push(message);
        else children.set(message.parent ?? "", [message]);
    }
    for (const siblings of children.values()) siblings.sort(inOrder);
    return children;
}

export function addMessage(
    conversation: Conversation,
    parent: string | null,
    message: Pick<Message, "role" | "content"> & Partial<Message>,
): Message {
    const siblings = childrenOf(conversation, parent);
    const last = siblings[siblings.length - 1];
    const added: Message = {
        ...message,
        id: newId(),
        parent,
        created: Math.max(Date.now(), last ? last.created + 1 : 0),
    };
    conversation.messages[added.id] = added;
    conversation.chosen[parent ?? ""] = added.id;
    conversation.updated = Date.now();
    if (!conversation.title && message.role === "user") conversation.title = titleOf(added);
    return added;
}

function titleOf(message: Message): string {
    const line = message.content.trim().split("\n", 1)[0] || message.files?.[0]?.name || "";
    return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

// The messages that are shown, from the first to the last.
export function shownPath(conversation: Conversation): Message[] {
    const path: Message[] = [];
    const children = allChildren(conversation);
    const seen = new Set<string>();
    for (let parent = ""; ;) {
        const options = children.get(parent);
        if (!options) return path;
        const chosen = conversation.messages[conversation.chosen[parent] ?? ""];
        const next =
            chosen && (chosen.parent ?? "") === parent ? chosen : options[options.length - 1]!;
        if (seen.has(next.id)) return path; // an imported circle
        seen.add(next.id);
        path.push(next);
        parent = next.id;
    }
}

// The messages from the first to this one.
export function pathTo(conversation: Conversation, id: string): Message[] {
    const path: Message[] = [];
    const seen = new Set<string>();
    for (let at: Message | undefined = conversation.messages[id]; at && !seen.has(at.id);) {
        seen.add(at.id);
        path.unshift(at);
        at = at.parent === null ? undefined : conversation.messages[at.parent];
    }
    return path;
}

// Removes a message and what follows it.
export function removeMessage(conversation: Conversation, id: string): void {
    const parent = conversation.messages[id]?.parent ?? "";
    const pending = [id];
    while (pending.length) {
        const at = pending.pop()!;
        for (const message of Object.values(conversation.messages))
            if (message.parent === at) pending.push(message.id);
        delete conversation.messages[at];
        delete conversation.chosen[at];
    }
    const left = childrenOf(conversation, parent || null);
    if (left.length) conversation.chosen[parent] = left[left.length - 1]!.id;
    else delete conversation.chosen[parent];
    conversation.updated = Date.now();
}

// A conversation of its own that begins with the messages up to this one.
export function branchAt(conversation: Conversation, id: string): Conversation {
    const made = newConversation(conversation.settings);
    made.title = conversation.title ? `${conversation.title.slice(0, 58)} ⑂` : "";
    for (const message of pathTo(conversation, id)) {
        made.messages[message.id] = structuredClone(message);
        made.chosen[message.parent ?? ""] = message.id;
    }
    return made;
}
