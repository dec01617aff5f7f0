// Formulas in answers: where they are in Markdown, and TeX as MathML (KaTeX), which the browser sets
// in the fonts that it has. `$$`, `\[` and `\(` hold formulas, and `$` where it cannot be a price or
// a variable of a shell; LaTeX's environments of formulas are some without marks, too. What is no
// TeX, or too long, is shown as it was written.

import katex from "katex";
import type { MarkedExtension, TokenizerAndRendererExtension, Tokens } from "marked";

const maxFormula = 4000; // characters
const maxFormulas = 400; // that are set anew in one block
const maxKept = 500;

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const source = (text: string) => `<code>${text.replace(/[&<>]/g, (c) => escapes[c]!)}</code>`;

const kept = new Map<string, string>(); // HTML by display and TeX: the block that streams repeats
let left = maxFormulas;
let open = false; // text will be added

// Before a block is read. streaming: its end may be a formula whose end is to come.
export function beginBlock(streaming: boolean): void {
    left = maxFormulas;
    open = streaming;
}

function formula({ raw, text, display }: Tokens.Generic): string {
    const key = `${display} ${text}`;
    let html = kept.get(key);
    if (html) return html;
    if (text.length > maxFormula || left <= 0) return source(raw);
    left--;
    try {
        html = katex.renderToString(text, {
            output: "mathml",
            displayMode: display,
            strict: "ignore",
            errorColor: "currentColor", // of commands that are not allowed here
            maxSize: 20,
            maxExpand: 500,
        });
    } catch {
        html = source(raw); // no TeX, or nested too deep
    }
    if (kept.size >= maxKept) kept.clear();
    kept.set(key, html);
    return html;
}

interface Found {
    raw: string;
    text: string;
    display: boolean;
}

const closings: Record<string, string> = { "$$": "$$", "\\[": "\\]", "\\(": "\\)" };
const environment = /^\\begin\{((?:equation|align|alignat|gather|CD)\*?)\}/;

// What ends the formula that begins here; undefined: none does.
function closingOf(src: string): string | undefined {
    const name = environment.exec(src)?.[1];
    return name ? `\\end{${name}}` : closings[src.slice(0, 2)];
}

// A formula at the beginning of the text, in its marks.
function marked(src: string): Found | undefined {
    const closing = closingOf(src);
    if (!closing) return undefined;
    const end = src.indexOf(closing, 2);
    if (end < 0) return undefined;
    const raw = src.slice(0, end + closing.length);
    const text = closing.length > 2 ? raw : raw.slice(2, -2).trim();
    return text ? { raw, text, display: closing !== "\\)" } : undefined;
}

const dollars = /^\$((?:\\[^\n]|[^\\$\n]){1,500}?)\$(?![\p{L}\p{N}$])/u;

function dollar(src: string, before: string): Found | undefined {
    if (/[\p{L}\p{N}$\\]$/u.test(before)) return undefined;
    const found = dollars.exec(src);
    if (!found || found[1] !== found[1]!.trim()) return undefined;
    return { raw: found[0], text: found[1]!, display: false };
}

const inline: TokenizerAndRendererExtension = {
    name: "formula",
    level: "inline",
    start: (src) => {
        const at = src.search(/\$|\\[([]|\\begin\{/);
        return at < 0 ? undefined : at;
    },
    tokenizer(src, tokens) {
        const found = marked(src) ?? dollar(src, tokens[tokens.length - 1]?.raw ?? "");
        return found && { type: "formula", ...found };
    },
    renderer: formula,
};

// A block of its own may have empty lines in it; while it streams it is shown as it is written.
const block: TokenizerAndRendererExtension = {
    name: "formulaBlock",
    level: "block",
    start: (src) => {
        const at = src.search(/\n {0,3}(?:\$\$|\\\[|\\begin\{)/);
        return at < 0 ? undefined : at + 1;
    },
    tokenizer(src) {
        const indent = /^ {0,3}(?=\$\$|\\\[|\\begin\{)/.exec(src)?.[0].length;
        if (indent === undefined) return undefined;
        const found = marked(src.slice(indent));
        if (!found) {
            const closing = closingOf(src.slice(indent));
            if (!closing || !open || src.includes(closing, indent + 2)) return undefined;
            return { type: "formulaBlock", raw: src, text: src, pending: true };
        }
        const rest = /^[ \t]*[.,;]?[ \t]*(?:\n+|$)/.exec(src.slice(indent + found.raw.length));
        if (!rest) return undefined; // text follows: it is in a paragraph
        const raw = src.slice(0, indent + found.raw.length + rest[0].length);
        return { type: "formulaBlock", ...found, raw, mark: rest[0].trim() };
    },
    renderer: (token) =>
        token["pending"]
            ? `<p>${source(token.raw)}</p>`
            : `<p>${formula(token)}${token["mark"] as string}</p>`,
};

export const formulas: MarkedExtension = { extensions: [block, inline] };

// Letters of an alphabet: where its A, a, 0, Alpha and alpha are in Unicode. Browsers know no other
// mathvariant than "normal".
const alphabets: Record<string, (number | null)[]> = {
    "bold": [0x1d400, 0x1d41a, 0x1d7ce, 0x1d6a8, 0x1d6c2],
    "italic": [0x1d434, 0x1d44e, null, 0x1d6e2, 0x1d6fc],
    "bold-italic": [0x1d468, 0x1d482, 0x1d7ce, 0x1d71c, 0x1d736],
    "script": [0x1d49c, 0x1d4b6, null, null, null],
    "bold-script": [0x1d4d0, 0x1d4ea, null, null, null],
    "fraktur": [0x1d504, 0x1d51e, null, null, null],
    "bold-fraktur": [0x1d56c, 0x1d586, null, null, null],
    "double-struck": [0x1d538, 0x1d552, 0x1d7d8, null, null],
    "sans-serif": [0x1d5a0, 0x1d5ba, 0x1d7e2, null, null],
    "bold-sans-serif": [0x1d5d4, 0x1d5ee, 0x1d7ec, 0x1d756, 0x1d770],
    "sans-serif-italic": [0x1d608, 0x1d622, null, null, null],
    "sans-serif-bold-italic": [0x1d63c, 0x1d656, null, 0x1d790, 0x1d7aa],
    "monospace": [0x1d670, 0x1d68a, 0x1d7f6, null, null],
};
const firsts = [
    ["A", "Z"],
    ["a", "z"],
    ["0", "9"],
    ["Α", "Ω"],
    ["α", "ω"],
] as const;
// Those that Unicode had before.
const elders: Record<string, string> = {
    "italic h": "ℎ",
    ...pairs("script", "BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ"),
    ...pairs("fraktur", "CHIRZ", "ℭℌℑℜℨ"),
    ...pairs("double-struck", "CHNPQRZ", "ℂℍℕℙℚℝℤ"),
};

function pairs(variant: string, from: string, to: string): Record<string, string> {
    return Object.fromEntries([...from].map((letter, i) => [`${variant} ${letter}`, to[i]!]));
}

export function inAlphabet(variant: string, text: string): string {
    const alphabet = alphabets[variant];
    if (!alphabet) return text;
    return text.replace(/[A-Za-z0-9Α-Ωα-ω]/g, (letter) => {
        const elder = elders[`${variant} ${letter}`];
        if (elder) return elder;
        const at = firsts.findIndex(([first, last]) => letter >= first && letter <= last);
        const base = alphabet[at];
        const step = letter.charCodeAt(0) - firsts[at]![0].charCodeAt(0);
        return base ? String.fromCodePoint(base + step) : letter;
    });
}

// What MathML of browsers leaves out: alphabets, and how tables are aligned, spaced and ruled.
export function finishFormulas(fragment: DocumentFragment): void {
    for (const element of fragment.querySelectorAll("[mathvariant]")) {
        const variant = element.getAttribute("mathvariant")!;
        if (variant === "normal") continue;
        if (!element.firstElementChild)
            element.textContent = inAlphabet(variant, element.textContent!);
        element.removeAttribute("mathvariant");
    }
    for (const table of fragment.querySelectorAll("mtable")) alignTable(table);
    for (const math of fragment.querySelectorAll('math[display="block"]')) {
        const box = document.createElement("span");
        box.className = "formula-box";
        math.replaceWith(box);
        box.append(math);
    }
}

function alignTable(table: Element): void {
    const list = (name: string) => (table.getAttribute(name) ?? "").split(" ").filter(Boolean);
    const [aligns, gaps, rules] = [list("columnalign"), list("columnspacing"), list("columnlines")];
    const gapAfter = (i: number) => gaps[Math.min(i, gaps.length - 1)] ?? "1em";
    for (const row of table.children) {
        const cells = [...row.children] as HTMLElement[];
        cells.forEach(({ style }, i) => {
            const align = aligns[Math.min(i, aligns.length - 1)];
            if (align) style.textAlign = align;
            style.paddingLeft = i ? `calc(${gapAfter(i - 1)} / 2)` : "0";
            style.paddingRight = i < cells.length - 1 ? `calc(${gapAfter(i)} / 2)` : "0";
            const rule = i < cells.length - 1 ? rules[Math.min(i, rules.length - 1)] : undefined;
            if (rule === "solid" || rule === "dashed") style.borderRight = `1px ${rule}`;
        });
    }
}
