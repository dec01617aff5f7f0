// One message as it is shown: text, thoughts, tool calls, figures, and what can be done with it.

import { Chances } from "./chances";
import { CodeBlock } from "./code";
import { copyText, formatCount, formatSeconds, h, icon, iconButton, isSending } from "./dom";
import { Answer } from "./markdown";
import { liveRate, type Run } from "./run";
import type { Message, TextFile, ToolCall } from "./types";

export interface MessageActions {
    regenerate: (message: Message) => void;
    answer: (message: Message) => void;
    edit: (message: Message, text: string) => boolean; // false: not now, the editor stays
    goOn: (message: Message) => void;
    fork: (message: Message, text: string) => void;
    branch: (message: Message) => void;
    remove: (message: Message) => void;
    choose: (message: Message, step: number) => void;
    results: (message: Message, results: string[]) => void;
    rendered: () => void;
}

const names = { user: "You", assistant: "Answer", tool: "Result of a tool" };

export class MessageView {
    readonly element: HTMLElement;
    private body = h("div", { class: "body" });
    private thoughts: { details: HTMLDetailsElement; label: HTMLElement; answer: Answer } | null =
        null;
    private answer: Answer | null = null;
    private settled = false; // no text was added when it was last shown
    private calls = h("div", { class: "calls" });
    private callBlocks: { name: HTMLElement; block: CodeBlock }[] = [];
    private chances: Chances | null = null; // shown instead of the text
    private error = h("p", { class: "error", role: "alert" });
    private meta = h("p", { class: "meta" });
    private actions = h("div", { class: "actions" });

    constructor(
        public message: Message,
        private place: { index: number; count: number },
        private act: MessageActions,
        private last: boolean,
        private waiting = false, // it is shown as plain text until it comes near the view
    ) {
        this.element = h(
            "article",
            {
                "class": `message ${message.role}`,
                "data-id": message.id,
                "tabindex": "-1",
                "aria-label": names[message.role],
            },
            h("h2", { class: "hidden" }, names[message.role]),
            this.body,
            this.calls,
            this.error,
            this.meta,
            this.actions,
        );
        if (message.role !== "assistant") this.body.append(this.plain(message));
        this.element.classList.toggle("waiting", waiting);
        if (!waiting) this.update(undefined);
        else if (message.role === "assistant") this.body.textContent = message.content;
    }

    // It comes near the view.
    reveal(): void {
        if (!this.waiting) return;
        this.waiting = false;
        this.element.classList.remove("waiting");
        if (this.message.role === "assistant") this.body.replaceChildren();
        this.update(undefined);
    }

    sameAs(place: { index: number; count: number }, last: boolean): boolean {
        return (
            this.last === last &&
            this.place.index === place.index &&
            this.place.count === place.count
        );
    }

    private plain(message: Message): Node {
        const box = h("div", { class: "bubble" });
        for (const file of message.files ?? []) box.append(fileChip(file));
        if (message.content) box.append(h("div", { class: "text" }, message.content));
        return box;
    }

    // After the message has changed. run: it is under way.
    update(run: Run | undefined): void {
        const { message } = this;
        if (run && this.settled) this.restart();
        this.settled = !run;
        if (run) this.element.setAttribute("aria-busy", "true");
        else this.element.removeAttribute("aria-busy");
        this.element.classList.toggle("running", Boolean(run));
        this.element.classList.toggle("last", this.last);
        if (message.role === "assistant") {
            this.updateThoughts(run);
            this.updateAnswer(run);
            this.updateCalls(run);
        }
        this.updateError();
        this.meta.textContent = run ? liveText(run) : metaText(message);
        this.meta.hidden = !this.meta.textContent;
        if (run) this.showChances(false);
        if (run) this.actions.replaceChildren();
        else if (!this.actions.firstChild) this.actions.append(...this.buttons());
    }

    // The text goes on: its last block may not be one yet.
    private restart(): void {
        if (this.message.role !== "assistant") return;
        this.answer?.cancel();
        this.answer = null;
        this.body.replaceChildren();
    }

    dispose(): void {
        this.answer?.cancel();
        this.thoughts?.answer.cancel();
    }

    private updateError(): void {
        const { message } = this;
        this.error.hidden = !message.error;
        if (!message.error) return this.error.replaceChildren();
        if (this.error.firstChild) return;
        const button = (label: string, onclick: () => void) =>
            h("button", { type: "button", class: "text-button", onclick }, label);
        this.error.append(message.error);
        if (this.canGoOn()) this.error.append(button("Continue", () => this.act.goOn(message)));
        this.error.append(button("Try again", () => this.act.regenerate(message)));
    }

    // What an answer may be followed by is more of it, if it is the last message.
    private canGoOn(): boolean {
        const { role, content, reasoning, toolCalls } = this.message;
        return this.last && role === "assistant" && !!(content || reasoning) && !toolCalls?.length;
    }

    private showChances(shown: boolean): void {
        const { message, act } = this;
        this.chances?.element.remove();
        this.chances = null;
        this.body.hidden = shown;
        if (!shown) return;
        const fork = (before: string, text: string) => act.fork(message, before + text);
        this.chances = new Chances(message, message.toolCalls?.length ? null : fork);
        this.body.after(this.chances.element);
    }

    private updateThoughts(run: Run | undefined): void {
        const { reasoning, reasoningSeconds, content, toolCalls } = this.message;
        if (!reasoning) return;
        if (!this.thoughts) {
            const label = h("span");
            const text = h("div", { class: "thoughts-text" });
            const details = h(
                "details",
                { class: "thoughts" },
                h("summary", null, icon("right"), label),
                text,
            );
            this.element.insertBefore(details, this.body);
            this.thoughts = { details, label, answer: new Answer(text, this.act.rendered) };
            details.addEventListener("toggle", () => this.updateThoughts(undefined));
        }
        const { details, label, answer } = this.thoughts;
        const thinking = Boolean(run) && !content && !toolCalls;
        label.textContent = thinking
            ? "Thinking…"
            : `Thought for ${formatSeconds(reasoningSeconds ?? 0)}`;
        label.classList.toggle("pulsing", thinking);
        if (details.open) answer.set(reasoning, !thinking);
    }

    private updateAnswer(run: Run | undefined): void {
        const { content } = this.message;
        if (!content) return;
        this.answer ??= new Answer(this.body, this.act.rendered);
        this.answer.set(content, !run);
    }

    private updateCalls(run: Run | undefined): void {
        this.message.toolCalls?.forEach((call, i) => {
            if (!this.callBlocks[i]) {
                const name = h("strong");
                const block = new CodeBlock("json");
                this.calls.append(
                    h(
                        "section",
                        { "class": "call", "aria-label": "Tool call" },
                        h("p", { class: "call-name" }, "Calls ", name),
                        block.element,
                    ),
                );
                this.callBlocks[i] = { name, block };
            }
            const { name, block } = this.callBlocks[i];
            name.textContent = call.name;
            block.set(run ? call.arguments : pretty(call.arguments));
        });
    }

    // Fields for the results of the tool calls, under the last message.
    askResults(calls: ToolCall[]): void {
        if (this.calls.querySelector("form")) return;
        const fields = calls.map((call) =>
            h("textarea", {
                "rows": "2",
                "aria-label": `Result of ${call.name}`,
                "placeholder": `Result of ${call.name}`,
            }),
        );
        this.calls.append(
            h(
                "form",
                {
                    class: "results",
                    onsubmit: (event: Event) => {
                        event.preventDefault();
                        this.act.results(
                            this.message,
                            fields.map((field) => field.value),
                        );
                    },
                },
                ...fields,
                h("button", { type: "submit", class: "button" }, "Send the results"),
            ),
        );
    }

    private buttons(): Node[] {
        const { message, act, place } = this;
        const copy = iconButton("copy", "Copy", () => void copyText(message.content, copy));
        const list: Node[] = [];
        if (place.count > 1) list.push(this.switcher());
        if (message.content) list.push(copy);
        if (this.canGoOn()) list.push(iconButton("onward", "Continue", () => act.goOn(message)));
        if (message.tokens?.length) list.push(this.chancesButton());
        if (message.role === "assistant")
            list.push(iconButton("again", "Regenerate", () => act.regenerate(message)));
        else if (this.last)
            list.push(iconButton("again", "Ask for an answer", () => act.answer(message)));
        if (message.role !== "tool") list.push(iconButton("edit", "Edit", () => this.openEditor()));
        list.push(
            iconButton("branch", "Branch into a new conversation", () => act.branch(message)),
            iconButton("trash", "Delete, with what follows", () => act.remove(message)),
        );
        return list;
    }

    private chancesButton(): HTMLElement {
        const button = iconButton(
            "bars",
            "Token probabilities",
            () => {
                const shown = !this.chances;
                this.showChances(shown);
                button.setAttribute("aria-pressed", String(shown));
            },
            { "aria-pressed": "false" },
        );
        return button;
    }

    private switcher(): HTMLElement {
        const { index, count } = this.place;
        const step = (by: number) => () => this.act.choose(this.message, by);
        return h(
            "span",
            { "class": "switcher", "role": "group", "aria-label": "Versions" },
            iconButton("left", "Previous version", step(-1), { disabled: index === 0 }),
            h("span", { class: "figures" }, `${index + 1} / ${count}`),
            iconButton("right", "Next version", step(1), { disabled: index === count - 1 }),
        );
    }

    openEditor(): void {
        this.reveal();
        if (this.element.querySelector(".editor")) return;
        const { message } = this;
        const area = h("textarea", {
            "aria-label": "Text of the message",
            "value": message.content,
        });
        const close = () => {
            editor.remove();
            this.element.classList.remove("editing");
            this.element.focus();
        };
        const save = () => {
            if (this.act.edit(message, area.value)) close();
        };
        const editor = h(
            "form",
            {
                class: "editor",
                onsubmit: (event: Event) => {
                    event.preventDefault();
                    save();
                },
                onkeydown: (event: KeyboardEvent) => {
                    if (event.key === "Escape") {
                        event.stopPropagation();
                        close();
                    }
                    if (!isSending(event)) return;
                    event.preventDefault();
                    save();
                },
            },
            area,
            h(
                "div",
                { class: "row" },
                h(
                    "button",
                    { type: "submit", class: "button primary" },
                    message.role === "user" ? "Send" : "Save",
                ),
                h("button", { type: "button", class: "button", onclick: close }, "Cancel"),
                h(
                    "span",
                    { class: "hint" },
                    h("kbd", null, "Shift"),
                    " ",
                    h("kbd", null, "Enter"),
                    " begins a line",
                ),
            ),
        );
        this.element.classList.add("editing");
        this.element.insertBefore(editor, this.body);
        area.style.height = `${Math.min(area.scrollHeight + 4, 400)}px`;
        area.focus();
    }
}

function fileChip({ name, text }: TextFile): HTMLElement {
    return h(
        "details",
        { class: "file" },
        h(
            "summary",
            null,
            icon("attach"),
            h("span", null, name),
            h("span", { class: "figures" }, `${formatCount(text.split("\n").length)} lines`),
        ),
        h("pre", { class: "plain", tabindex: "0" }, text.slice(0, 20000)),
    );
}

function pretty(json: string): string {
    try {
        return JSON.stringify(JSON.parse(json), null, 2);
    } catch {
        return json;
    }
}

const countTokens = (n: number) => (n === 1 ? "1 token" : `${formatCount(n)} tokens`);

function liveText(run: Run): string {
    if (!run.firstAt) return run.waitsFor;
    const rate = liveRate(run);
    return rate
        ? `${countTokens(run.pieces)} · ${rate.toFixed(1)} tokens/s`
        : countTokens(run.pieces);
}

const finishes: Record<string, string> = {
    stopped: "stopped",
    length: "cut: the limit of tokens is reached",
    content_filter: "cut by a filter",
};

function metaText(message: Message): string {
    if (message.role !== "assistant") return "";
    const { usage, seconds, firstSeconds } = message;
    const parts: string[] = [];
    if (message.model) parts.push(message.model);
    if (usage) {
        parts.push(countTokens(usage.completion_tokens));
        if (seconds && seconds > 0.05 && usage.completion_tokens > 1)
            parts.push(`${((usage.completion_tokens - 1) / seconds).toFixed(1)} tokens/s`);
    }
    if (firstSeconds !== undefined) parts.push(`first after ${formatSeconds(firstSeconds)}`);
    if (usage) {
        const cached = usage.prompt_tokens_details?.cached_tokens;
        parts.push(
            `prompt ${formatCount(usage.prompt_tokens)}` +
                (cached ? `, ${formatCount(cached)} cached` : ""),
        );
    }
    const finish = finishes[message.finish ?? ""];
    if (finish) parts.push(finish);
    return parts.join(" · ");
}
