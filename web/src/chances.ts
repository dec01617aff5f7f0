// The tokens of an answer and how likely each was: the likeliest in its place are told below.

import { h } from "./dom";
import type { Message, TokenChance } from "./types";

const steps = [0.9, 0.5, 0.2, 0.05]; // a token below the n-th has the class chance-n

export function percent(p: number): string {
    if (p >= 0.9995) return "100 %";
    return p >= 0.001 ? `${(p * 100).toFixed(1)} %` : "below 0.1 %";
}

function spell(text: string): string {
    return text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣") || "(nothing)";
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// The text in front of each token, and behind the last one; null within a character, and behind
// what is none.
export function textsBefore(tokens: TokenChance[]): (string | null)[] {
    const texts: (string | null)[] = [""];
    let text = "";
    let rest: number[] = []; // bytes of a character that is not whole
    for (const token of tokens) {
        if (rest.length <= 4) rest.push(...(token.bytes ?? encoder.encode(token.text)));
        try {
            text += decoder.decode(Uint8Array.from(rest));
            rest = [];
            texts.push(text);
        } catch {
            texts.push(null);
        }
    }
    return texts;
}

// fork: the reader wants the answer to go on from another token, of this place.
export class Chances {
    readonly element: HTMLElement;
    private spans: HTMLElement[];
    private card = h("div", { "class": "chance-card", "aria-live": "polite" });
    private at = -1;
    private before: (string | null)[];

    constructor(
        { content, tokens: known = [] }: Message,
        private fork: ((before: string, text: string) => void) | null,
    ) {
        const tokens = [...known];
        this.before = textsBefore(tokens);
        const whole = this.before[tokens.length]!; // null, of an answer that was stopped, say
        const same = whole === null || content.startsWith(whole);
        if (whole !== null && same && whole.length < content.length)
            tokens.push({ text: content.slice(whole.length), p: null, others: [] });
        if (!same && !whole.startsWith(content)) this.fork = null; // the answer is another one
        this.spans = tokens.map((token) => tokenSpan(token));
        const text = h(
            "div",
            { "class": "chances-text", "role": "listbox", "aria-label": "Tokens" },
            ...this.spans,
        );
        const show = (event: Event) => {
            const i = this.spans.indexOf(event.target as HTMLElement);
            if (i >= 0) this.show(i, tokens);
        };
        text.addEventListener("pointerover", show);
        text.addEventListener("click", (event) => {
            show(event);
            (event.target as HTMLElement).focus();
        });
        text.addEventListener("focusin", show);
        text.addEventListener("keydown", (event) => this.key(event, tokens));
        this.element = h("div", { class: "chances" }, text, this.card);
        this.spans[0]?.setAttribute("tabindex", "0");
        this.card.append(h("p", { class: "hint" }, "Choose a token: arrow keys, or a click."));
    }

    private key(event: KeyboardEvent, tokens: TokenChance[]): void {
        const to = {
            ArrowLeft: this.at - 1,
            ArrowRight: this.at + 1,
            Home: 0,
            End: tokens.length - 1,
        }[event.key];
        if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        this.spans[to]?.focus();
    }

    private show(i: number, tokens: TokenChance[]): void {
        if (i === this.at) return;
        const old = this.spans[this.at];
        old?.setAttribute("aria-selected", "false");
        old?.setAttribute("tabindex", "-1");
        this.at = i;
        this.spans[i]!.setAttribute("aria-selected", "true");
        this.spans[i]!.setAttribute("tabindex", "0");
        const { text, p, others } = tokens[i]!;
        const before = this.before[i]!;
        const list =
            others.some(([other]) => other === text) || p === null
                ? others
                : [[text, p] as const, ...others];
        this.card.replaceChildren(
            p === null ? h("p", null, "This came without probabilities.") : "",
            ...list.map(([other, chance]) => this.row(other, chance, other === text, before)),
        );
    }

    private row(text: string, p: number, chosen: boolean, before: string | null): HTMLElement {
        const { fork } = this;
        const meter = h("meter", { "value": p, "min": 0, "max": 1, "aria-hidden": "true" });
        return h(
            "div",
            { class: chosen ? "chance-row chosen" : "chance-row" },
            h("code", null, spell(text)),
            meter,
            h("span", { class: "figures" }, percent(p)),
            !chosen && fork && before !== null && text && !text.includes("\ufffd")
                ? h(
                      "button",
                      {
                          "type": "button",
                          "class": "text-button",
                          "aria-label": `Go on with ${spell(text)} instead`,
                          "onclick": () => fork(before, text),
                      },
                      "Go on with this",
                  )
                : h("span", null, chosen ? "chosen" : ""),
        );
    }
}

function tokenSpan({ text, p }: TokenChance): HTMLElement {
    const step = p === null ? 0 : steps.filter((limit) => p < limit).length;
    return h(
        "span",
        {
            "class": `token chance-${step}`,
            "role": "option",
            "tabindex": "-1",
            "aria-selected": "false",
            "aria-label": p === null ? spell(text.slice(0, 80)) : `${spell(text)}, ${percent(p)}`,
        },
        text,
    );
}
