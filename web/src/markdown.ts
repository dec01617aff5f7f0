// Markdown while it streams. The text is read block by block; blocks that can change no more are
// shown once, the last one again when text is added. Work is bounded: a block that would take the
// parser long (some texts take it quadratic time) or make a huge table is shown as plain text.

import { Marked, type Token } from "marked";
import { CodeBlock } from "./code";
import { formatBytes, h } from "./dom";
import { beginBlock, finishFormulas, formulas } from "./math";
import { answerFragment } from "./sanitize";

const maxBlock = 12000; // characters that are parsed at once
const maxCells = 4000; // of a table
const maxColumns = 100;
const maxPlain = 20000; // characters of plain text shown before the reader asks for the rest
const sliceMs = 12; // of work before the browser gets a turn

const escapes: Record<string, string> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
};
const escape = (text: string) => text.replace(/[&<>"']/g, (c) => escapes[c]!);

const marked = new Marked({
    gfm: true,
    breaks: false,
    renderer: {
        html: ({ text }) => escape(text), // tags in answers are text
        code: ({ text, lang }) => `<pre title="${escape(lang ?? "")}">${escape(text)}</pre>`,
        image: ({ href, text }) =>
            // nothing is loaded from elsewhere
            `<a href="${escape(href)}">${escape(text || "image")}</a>`,
        checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    },
});
marked.use(formulas);

interface Piece {
    length: number; // in the text
    final: boolean; // it can change no more
    show: (box: HTMLElement) => void;
}

const opening = /^ {0,3}(`{3,}|~{3,})([^\n]*)(?:\n|$)/;

// The end of the block that begins with this fence: where its code ends, and what follows.
function fenceEnd(
    text: string,
    fence: string,
    from: number,
): { code: number; next: number } | null {
    const closing = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`);
    for (let at = from; at < text.length;) {
        const line = text.indexOf("\n", at);
        const end = line < 0 ? text.length : line;
        if (end - at < 200 && closing.test(text.slice(at, end)))
            return { code: at, next: line < 0 ? end : end + 1 };
        if (line < 0) break;
        at = line + 1;
    }
    return null;
}

function isHugeTable(text: string): boolean {
    const delimiter = /^[ \t>|:-]*-[ \t|:-]*$/;
    let columns = 0;
    let rows = 0;
    for (const line of text.split("\n")) {
        rows++;
        if (line.includes("|") && delimiter.test(line))
            columns = Math.max(columns, line.split("|").length);
    }
    return columns > maxColumns || columns * rows > maxCells;
}

function plainBlock(text: string): HTMLElement {
    const block = h("pre", { class: "plain", tabindex: "0" }, text.slice(0, maxPlain));
    if (text.length <= maxPlain) return block;
    const more = h(
        "button",
        {
            type: "button",
            class: "text-button",
            onclick: () => {
                block.textContent = text;
                more.remove();
            },
        },
        `Show all (${formatBytes(text.length)})`,
    );
    return h("div", { class: "plain-box" }, block, more);
}

function renderTokens(tokens: Token[], text: string): Node {
    try {
        const fragment = answerFragment(marked.parser(tokens));
        finishFormulas(fragment);
        for (const pre of fragment.querySelectorAll("pre")) {
            // of a list, say, or indented
            const block = new CodeBlock(pre.title);
            block.set(pre.textContent!);
            pre.replaceWith(block.element);
        }
        for (const table of fragment.querySelectorAll("table")) {
            const box = h("div", {
                "class": "table-box",
                "tabindex": "0",
                "role": "region",
                "aria-label": "Table",
            });
            table.replaceWith(box);
            box.append(table);
        }
        return fragment;
    } catch {
        // nested too deep
        return plainBlock(text);
    }
}

// Before the last item of a list that began earlier.
const lastItem = /\n(?=(?:[-*+]|\d{1,9}[.)]) [^\n]*(?:\n[^\n]*)?$)/;

function plainPiece(text: string, final: boolean): Piece {
    return { length: text.length, final, show: (box) => box.replaceChildren(plainBlock(text)) };
}

// Text that begins with a block. complete: it holds whole blocks; otherwise the last one may go on.
function parsedPiece(text: string, complete: boolean): Piece {
    if (isHugeTable(text)) return plainPiece(text, complete);
    let tokens: Token[];
    try {
        beginBlock(!complete);
        tokens = marked.lexer(text);
    } catch {
        // nested too deep
        return plainPiece(text, complete);
    }
    // A fenced block is a piece of its own, and ends the one before.
    let count = tokens.findIndex((token) => token.type === "code" && opening.test(token.raw));
    if (count <= 0) count = tokens.length;
    if (!complete && count === tokens.length && count > 1) count--;
    const final = complete || count < tokens.length;
    const shown = tokens.slice(0, count);
    const length =
        count === tokens.length
            ? text.length
            : shown.reduce((sum, token) => sum + token.raw.length, 0);
    return {
        length: Math.max(1, length),
        final,
        show: (box) => box.replaceChildren(renderTokens(shown, text.slice(0, length))),
    };
}

export class Answer {
    private text = "";
    private start = 0; // of what may still change
    private whole = false; // no text will be added
    private box: HTMLElement | null = null; // the element of that
    private code: { start: number; block: CodeBlock } | null = null;
    private timer = 0;

    constructor(
        readonly root: HTMLElement,
        private onRendered: () => void = () => {},
    ) {}

    // The text so far; it may only grow until done is set.
    set(text: string, done: boolean): void {
        this.text = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
        this.whole = done;
        if (this.timer) return;
        this.root.setAttribute("aria-busy", "true");
        this.schedule(0);
    }

    cancel(): void {
        clearTimeout(this.timer);
        this.timer = 0;
        this.root.removeAttribute("aria-busy");
    }

    private schedule(ms: number): void {
        this.timer = window.setTimeout(() => {
            const began = performance.now();
            const { text, whole } = this;
            const more = this.render(began);
            const took = performance.now() - began;
            this.timer = 0;
            this.onRendered();
            // At most a quarter of the time is spent here.
            if (more || this.text !== text || this.whole !== whole)
                this.schedule(Math.max(30, 3 * took));
            else this.root.removeAttribute("aria-busy");
        }, ms);
    }

    // True: there is more to show.
    private render(began: number): boolean {
        while (this.start < this.text.length) {
            if (performance.now() - began > sliceMs) return true;
            const piece = this.nextPiece();
            this.box ??= this.root.appendChild(h("div", { class: "block" }));
            piece.show(this.box);
            if (!piece.final) return false;
            if (!this.box.firstChild) this.box.remove();
            this.box = null;
            this.start += piece.length;
        }
        return false;
    }

    private nextPiece(): Piece {
        const fence = opening.exec(this.text.slice(this.start, this.start + 1000));
        return fence ? this.codePiece(fence[0], fence[1]!, fence[2]!) : this.textPiece();
    }

    private codePiece(head: string, fence: string, info: string): Piece {
        if (!head.endsWith("\n") && !this.whole)
            // the language may not be complete
            return { length: 0, final: false, show: (box) => box.replaceChildren() };
        const from = this.start + head.length;
        const end = fenceEnd(this.text, fence, from);
        const final = this.whole || (end !== null && end.next < this.text.length);
        const code = this.text.slice(from, end ? end.code : this.text.length).replace(/\n$/, "");
        if (this.code?.start !== this.start)
            this.code = { start: this.start, block: new CodeBlock(info) };
        const { block } = this.code;
        return {
            length: (end ? end.next : this.text.length) - this.start,
            final,
            show: (box) => {
                block.set(code);
                if (block.element.parentNode !== box) box.replaceChildren(block.element);
            },
        };
    }

    private textPiece(): Piece {
        const tail = this.text.slice(this.start, this.start + maxBlock + 1);
        if (tail.length <= maxBlock) return parsedPiece(tail, this.whole);
        const cut = tail.lastIndexOf("\n\n");
        if (cut > 0) return parsedPiece(tail.slice(0, cut + 2), true);
        const item = tail.search(lastItem);
        if (item > 0) return parsedPiece(tail.slice(0, item + 1), true);
        const end = this.text.indexOf("\n\n", this.start);
        const text = this.text.slice(this.start, end < 0 ? undefined : end + 2);
        return plainPiece(text, end >= 0 || this.whole);
    }
}
