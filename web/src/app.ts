// What the page shows and does: one conversation in view, runs in it and in others.

import { ApiError, readModels } from "./api";
import { Composer } from "./composer";
import { announce, dismiss, formatCount, notice } from "./dom";
import type { MessageView } from "./message";
import { anyRun, runOf, startRun, stopRun, type Run } from "./run";
import { SettingsPanel } from "./settings";
import { Sidebar } from "./sidebar";
import {
    deleteConversations,
    listHeadings,
    loadConversation,
    openStore,
    reloadHeadings,
    saveConversation,
    StorageFull,
} from "./store";
import { Thread } from "./thread";
import { readSettings } from "./transfer";
import {
    addMessage,
    branchAt,
    childrenOf,
    emptySettings,
    maxMessages,
    newConversation,
    removeMessage,
    shownPath,
} from "./tree";
import type { Conversation, Heading, Message, Model, Settings, TextFile } from "./types";

const settingsName = "mica.settings"; // of the next conversation

export class App {
    current: Conversation = newConversation(emptySettings);
    models: Model[] = [];
    readonly sidebar: Sidebar;
    readonly thread: Thread;
    readonly composer: Composer;
    private panel: SettingsPanel;
    private select = document.querySelector<HTMLSelectElement>("#model")!;
    private channel = "BroadcastChannel" in window ? new BroadcastChannel("mica") : null;
    private updateTimer = 0;
    private saveTimers = new Map<string, number>();

    constructor(private showChat: () => void) {
        this.sidebar = new Sidebar({
            open: (id) => void this.open(id),
            rename: (id, title) => void this.rename(id, title),
            remove: (heading) => void this.removeConversation(heading),
        });
        this.thread = new Thread(document.querySelector<HTMLElement>("#scroller")!, {
            regenerate: (message) => this.regenerate(message),
            answer: (message) => void (this.ready() && this.answer(message)),
            edit: (message, text) => this.edit(message, text),
            goOn: (message) => this.goOn(message),
            fork: (message, text) => this.fork(message, text),
            branch: (message) => this.branch(message),
            remove: (message) => this.removeMessage(message),
            choose: (message, step) => this.choose(message, step),
            results: (message, results) => this.sendResults(message, results),
            rendered: () => this.thread.stay(),
        });
        this.composer = new Composer(
            (text, files) => this.send(text, files),
            () => this.stop(),
        );
        this.panel = new SettingsPanel(document.querySelector<HTMLElement>("#settings-form")!, () =>
            this.settingsChanged(),
        );
        document.addEventListener("mica-problem", () => this.panel.focusProblem());
        this.select.onchange = () => {
            this.current.settings.model = this.select.value;
            this.settingsChanged();
        };
    }

    async start(): Promise<void> {
        if (!(await openStore()))
            notice(
                "store",
                "This browser keeps nothing here: conversations last until the page is closed.",
            );
        this.channel?.addEventListener("message", () => void this.reread());
        document.addEventListener("mica-models", () => void this.loadModels());
        document.addEventListener("visibilitychange", () => {
            if (!document.hidden) void this.loadModels(); // they come and go
        });
        addEventListener("beforeunload", (event) => {
            if (anyRun()) event.preventDefault();
        });
        addEventListener("pagehide", () => this.saveAll());
        this.newChat();
        await this.loadModels();
    }

    async loadModels(): Promise<void> {
        try {
            this.models = (await readModels()).models;
            dismiss("models");
        } catch (error) {
            this.failed(error as ApiError, "models", () => void this.loadModels());
        }
        this.showModels();
    }

    private showModels(): void {
        const { settings } = this.current;
        const ids = this.models.map(({ id }) => id);
        if (ids.length && !ids.includes(settings.model)) {
            if (Object.keys(this.current.messages).length)
                notice("model", `${settings.model} is not served now: ${ids[0]} answers.`);
            settings.model = ids[0]!;
        }
        this.select.replaceChildren(
            ...this.models.map((model) => {
                const base = model.parent ?? "";
                return new Option(
                    base && !model.id.startsWith(base) ? `${model.id} (on ${base})` : model.id,
                    model.id,
                );
            }),
        );
        if (!ids.length) this.select.append(new Option("No model", ""));
        this.select.value = settings.model;
    }

    // Shows the current conversation anew.
    refresh(): void {
        const run = runOf(this.current);
        this.thread.show(this.current, run);
        this.composer.setRunning(Boolean(run));
        this.sidebar.show(this.current.id);
        document.title = this.current.title ? `${this.current.title} – mica` : "mica";
        this.showContext();
    }

    private showContext(): void {
        const path = shownPath(this.current);
        const usage = [...path].reverse().find((message) => message.usage)?.usage;
        const model = this.models.find(({ id }) => id === this.current.settings.model);
        const length = Number(model?.max_model_len ?? model?.["context_length"]);
        const parts: string[] = [];
        if (usage) {
            const used = formatCount(usage.prompt_tokens + usage.completion_tokens);
            parts.push(
                length ? `${used} of ${formatCount(length)} tokens` : `${used} tokens so far`,
            );
        }
        const { settings } = this.current;
        if (settings.schemaOn) parts.push("schema");
        if (settings.toolsOn) parts.push("tools");
        if (settings.system.trim()) parts.push("system prompt");
        document.querySelector("#context")!.textContent = parts.join(" · ");
    }

    private enter(conversation: Conversation): void {
        this.current = conversation;
        dismiss("failed");
        dismiss("model");
        this.panel.show(conversation.settings);
        this.showModels();
        this.refresh();
        this.thread.toEnd();
        this.showChat();
    }

    newChat(): void {
        this.enter(newConversation(lastSettings()));
        this.composer.focus();
    }

    async open(id: string): Promise<void> {
        if (id === this.current.id) return this.showChat();
        const running = runningConversation(id);
        const conversation = running ?? (await loadConversation(id).catch(() => undefined));
        if (!conversation) return notice("open", "This conversation cannot be read.");
        this.enter(conversation);
        announce(`Conversation ${conversation.title}`);
    }

    private async rename(id: string, title: string): Promise<void> {
        const conversation =
            id === this.current.id
                ? this.current
                : (runningConversation(id) ?? (await loadConversation(id)));
        if (!conversation) return;
        conversation.title = title;
        await this.save(conversation);
        this.refresh();
    }

    private async removeConversation(heading: Heading): Promise<void> {
        if (!confirm(`Delete “${heading.title || "New conversation"}”?`)) return;
        if (heading.id === this.current.id) stopRun(runOf(this.current));
        await deleteConversations([heading.id]);
        dismiss("full");
        this.channel?.postMessage("changed");
        if (heading.id === this.current.id) this.newChat();
        else this.refresh();
    }

    private settingsChanged(): void {
        try {
            localStorage.setItem(settingsName, JSON.stringify(this.current.settings));
        } catch {
            /* the next conversation begins with the defaults */
        }
        if (Object.keys(this.current.messages).length) this.saveSoon(this.current);
        this.showContext();
        if (document.querySelector('.notice[data-key="models"]')) void this.loadModels();
    }

    // Messages.

    private ready(): boolean {
        const problem =
            this.panel.problem() ||
            (Object.keys(this.current.messages).length >= maxMessages
                ? `A conversation holds ${maxMessages} messages at most: begin another.`
                : "");
        const show = () => document.dispatchEvent(new CustomEvent("mica-problem"));
        if (problem) notice("failed", problem, { label: "Settings", run: show });
        else dismiss("failed");
        return !problem;
    }

    private send(text: string, files: TextFile[]): boolean {
        if (!this.ready()) return false;
        const path = shownPath(this.current);
        const parent = path[path.length - 1]?.id ?? null;
        const extra = files.length ? { files } : {};
        const added = addMessage(this.current, parent, { role: "user", content: text, ...extra });
        this.answer(added);
        this.thread.toEnd();
        return true;
    }

    // Asks for an answer to this message.
    private answer(to: Message | null): void {
        stopRun(runOf(this.current));
        const conversation = this.current;
        const message = addMessage(conversation, to?.id ?? null, {
            role: "assistant",
            content: "",
            model: conversation.settings.model,
        });
        this.begin(message, false);
    }

    private mayGoOn(): boolean {
        const { schemaOn } = this.current.settings;
        if (schemaOn)
            notice("failed", "An answer that follows a schema cannot go on: ask again instead.");
        return !schemaOn;
    }

    // Has the last answer go on where it ended.
    private goOn(message: Message): void {
        if (!(message.id in this.current.messages) || runOf(this.current)) return;
        if (!this.ready() || !this.mayGoOn()) return;
        delete message.error;
        delete message.finish;
        this.begin(message, true);
    }

    // Another version of an answer: it begins with the text, and goes on from there.
    private fork(message: Message, text: string): void {
        if (!this.ready() || !this.mayGoOn()) return;
        stopRun(runOf(this.current));
        const { role, model, reasoning, reasoningSeconds } = message;
        const added = addMessage(this.current, message.parent, {
            role,
            content: text,
            ...(model && { model }),
            ...(reasoning && { reasoning, reasoningSeconds }),
        });
        this.begin(added, true);
    }

    private begin(message: Message, continues: boolean): void {
        const conversation = this.current;
        const { settings } = conversation;
        const model = this.models.find(({ id }) => id === settings.model);
        const events = {
            changed: (run: Run) => this.runChanged(run),
            ended: (run: Run, error: ApiError | null) => void this.runEnded(run, error),
        };
        const waitsFor = model?.loaded === false ? "Loading the model…" : undefined;
        void startRun(conversation, message, settings, events, { continues, waitsFor });
        this.refresh();
        announce(continues ? "The answer goes on…" : "Answering…");
        void this.save(conversation);
    }

    // Shown once for all that comes within some 30 ms.
    private runChanged(run: Run): void {
        this.saveSoon(run.conversation);
        if (this.updateTimer) return;
        this.updateTimer = window.setTimeout(() => {
            this.updateTimer = 0;
            const shown = runOf(this.current);
            if (shown) this.thread.update(shown);
        }, 30);
    }

    private async runEnded(run: Run, error: ApiError | null): Promise<void> {
        const { message, conversation } = run;
        if (conversation === this.current) {
            this.thread.finish(run);
            this.composer.setRunning(Boolean(runOf(this.current)));
            this.showContext();
        }
        if (error?.status === 401) this.failed(error, "failed", () => this.regenerate(message));
        const served = this.models.find(({ id }) => id === message.model);
        if (served?.loaded === false) void this.loadModels(); // it is now, if it can be
        if (!error) announce(message.finish === "stopped" ? "Stopped." : endText(message));
        await this.save(conversation);
    }

    private failed(error: ApiError, key: string, again: () => void): void {
        if (error.status === 401) {
            notice(key, "The server wants an API key.", {
                label: "Enter the key",
                run: () => document.dispatchEvent(new CustomEvent("mica-key", { detail: again })),
            });
            return;
        }
        notice(key, error.message, { label: "Try again", run: again });
    }

    stop(): void {
        stopRun(runOf(this.current));
    }

    private regenerate(message: Message): void {
        if (!(message.id in this.current.messages) || !this.ready()) return;
        this.answer(message.parent === null ? null : this.current.messages[message.parent]!);
    }

    private edit(message: Message, text: string): boolean {
        const asks = message.role === "user";
        if (asks && !text.trim() && !message.files?.length) {
            notice("failed", "The message is empty.");
            return false;
        }
        if (asks && !this.ready()) return false;
        const { role, files, model } = message;
        const added = addMessage(this.current, message.parent, {
            role,
            content: text,
            ...(files && { files }),
            ...(model && { model }),
        });
        if (asks) this.answer(added);
        else {
            this.refresh();
            void this.save(this.current);
        }
        return true;
    }

    private branch(message: Message): void {
        const made = branchAt(this.current, message.id);
        void this.save(made).then(() => this.sidebar.show(this.current.id));
        this.enter(made);
        announce("A new conversation branches off here.");
    }

    private removeMessage(message: Message): void {
        stopRun(runOf(this.current));
        removeMessage(this.current, message.id);
        this.refresh();
        this.composer.focus();
        void this.save(this.current);
    }

    private choose(message: Message, step: number): void {
        const siblings = childrenOf(this.current, message.parent);
        const next = siblings[siblings.indexOf(message) + step];
        if (!next) return;
        this.current.chosen[message.parent ?? ""] = next.id;
        this.refresh();
        const way = step < 0 ? "Previous version" : "Next version";
        const element = document.querySelector(`[data-id="${next.id}"]`);
        const button =
            element?.querySelector<HTMLElement>(`[aria-label="${way}"]:not([disabled])`) ??
            element?.querySelector<HTMLElement>(".switcher button:not([disabled])");
        button?.focus();
        this.saveSoon(this.current);
    }

    private sendResults(message: Message, results: string[]): void {
        if (!this.ready()) return;
        let parent = message;
        message.toolCalls!.forEach((call, i) => {
            parent = addMessage(this.current, parent.id, {
                role: "tool",
                content: results[i] ?? "",
                toolCallId: call.id,
            });
        });
        this.answer(parent);
    }

    editLast(): void {
        const view: MessageView | undefined = this.thread.lastUser();
        view?.openEditor();
    }

    // Keeping.

    private saveSoon(conversation: Conversation): void {
        if (this.saveTimers.has(conversation.id)) return;
        this.saveTimers.set(
            conversation.id,
            window.setTimeout(() => {
                this.saveTimers.delete(conversation.id);
                void this.save(conversation);
            }, 2000),
        );
    }

    // How many of them were saved: up to the first for which there is no room.
    async save(...conversations: Conversation[]): Promise<number> {
        let saved = 0;
        try {
            for (const conversation of conversations) {
                clearTimeout(this.saveTimers.get(conversation.id));
                this.saveTimers.delete(conversation.id);
                await saveConversation(conversation);
                saved++;
            }
            dismiss("full");
        } catch (error) {
            this.notSaved(error);
        }
        this.channel?.postMessage("changed");
        this.sidebar.show(this.current.id);
        return saved;
    }

    private notSaved(error: unknown): void {
        if (!(error instanceof StorageFull))
            return notice("full", `This conversation is not saved: ${(error as Error)?.message}`);
        notice(
            "full",
            "The storage is full: this conversation is not saved. Export it, or delete others.",
            { label: "Delete the 10 oldest", run: () => this.deleteOldest() },
        );
    }

    private async deleteOldest(): Promise<void> {
        const ids = listHeadings()
            .map(({ id }) => id)
            .filter((id) => id !== this.current.id);
        await deleteConversations(ids.slice(-10));
        this.channel?.postMessage("changed");
        await this.save(this.current);
        this.refresh();
    }

    private saveAll(): void {
        for (const id of this.saveTimers.keys())
            if (id === this.current.id) void this.save(this.current);
    }

    private async reread(): Promise<void> {
        await reloadHeadings();
        this.sidebar.show(this.current.id);
    }
}

// Of those that have a run; others are in the store.
function runningConversation(id: string): Conversation | undefined {
    return runOf({ id } as Conversation)?.conversation;
}

function lastSettings(): Settings {
    try {
        return readSettings(JSON.parse(localStorage.getItem(settingsName) ?? "{}"));
    } catch {
        return structuredClone(emptySettings);
    }
}

// For screen readers: the beginning of the answer.
function endText(message: Message): string {
    if (message.toolCalls?.length)
        return `The model calls ${message.toolCalls.map(({ name }) => name).join(", ")}.`;
    const { content } = message;
    return `Answer finished: ${content.length > 300 ? `${content.slice(0, 300)}…` : content}`;
}
