// Conversations in the browser's IndexedDB: "conversations" holds them, "headings" what the list
// shows. Where there is no database (private windows) they live in memory. Bounded: beyond the
// limits a new conversation is not saved, and a notice offers to delete the oldest.

import { shownPath } from "./tree";
import type { Conversation, Heading } from "./types";

export const maxConversations = 1000;
export const maxBytes = 200e6; // of all conversations, as JSON

export class StorageFull extends Error {}

let database: IDBDatabase | null = null;
const memory = new Map<string, Conversation>();
const headings = new Map<string, Heading>();

function done<T>(request: IDBRequest<T>): Promise<T> {
    return new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
}

function committed(transaction: IDBTransaction): Promise<void> {
    return new Promise((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
}

// False: there is no database, conversations are kept until the page is closed.
export async function openStore(): Promise<boolean> {
    try {
        const request = indexedDB.open("mica", 1);
        request.onupgradeneeded = () => {
            request.result.createObjectStore("conversations", { keyPath: "id" });
            request.result.createObjectStore("headings", { keyPath: "id" });
        };
        database = await done(request);
        database.onversionchange = () => {
            database?.close();
            database = null;
        };
        await reloadHeadings();
        return true;
    } catch {
        database = null;
        return false;
    }
}

// The list may have been changed by another window.
export async function reloadHeadings(): Promise<void> {
    if (!database) return;
    const store = database.transaction("headings").objectStore("headings");
    const list = (await done(store.getAll())) as Heading[];
    headings.clear();
    for (const heading of list) headings.set(heading.id, heading);
}

export function listHeadings(): Heading[] {
    return [...headings.values()].sort((a, b) => b.updated - a.updated);
}

export async function loadConversation(id: string): Promise<Conversation | undefined> {
    if (!database) return memory.get(id);
    return done(database.transaction("conversations").objectStore("conversations").get(id));
}

export async function saveConversation(conversation: Conversation): Promise<void> {
    const { id, title, updated } = conversation;
    const bytes = JSON.stringify(conversation).length;
    const heading = { id, title, updated, bytes };
    let total = bytes;
    for (const other of headings.values()) if (other.id !== id) total += other.bytes;
    if (total > maxBytes || (!headings.has(id) && headings.size >= maxConversations))
        throw new StorageFull();
    if (!database) {
        memory.set(id, conversation);
    } else {
        try {
            const transaction = database.transaction(["conversations", "headings"], "readwrite");
            transaction.objectStore("conversations").put(conversation);
            transaction.objectStore("headings").put(heading);
            await committed(transaction);
        } catch (error) {
            if ((error as Error)?.name === "QuotaExceededError") throw new StorageFull();
            throw error;
        }
    }
    headings.set(id, heading);
}

export async function deleteConversations(ids: string[]): Promise<void> {
    if (database) {
        const transaction = database.transaction(["conversations", "headings"], "readwrite");
        for (const id of ids) {
            transaction.objectStore("conversations").delete(id);
            transaction.objectStore("headings").delete(id);
        }
        await committed(transaction);
    }
    for (const id of ids) {
        memory.delete(id);
        headings.delete(id);
    }
}

// Titles, and texts of the shown branch. Reads conversations one at a time; stops when asked to.
export async function searchConversations(
    words: string,
    found: (heading: Heading) => void,
    signal: AbortSignal,
): Promise<void> {
    const wanted = words.toLowerCase();
    for (const heading of listHeadings()) {
        if (signal.aborted) return;
        if (heading.title.toLowerCase().includes(wanted)) {
            found(heading);
            continue;
        }
        const conversation = await loadConversation(heading.id);
        if (signal.aborted || !conversation) continue;
        if (shownPath(conversation).some(({ content }) => content.toLowerCase().includes(wanted)))
            found(heading);
    }
}
