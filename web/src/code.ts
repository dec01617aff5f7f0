// Code blocks: highlighted where the language is known, copied by a click.

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cmake from "highlight.js/lib/languages/cmake";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { copyText, h, icon } from "./dom";
import { highlightedFragment } from "./sanitize";

const languages = {
    bash,
    c,
    cmake,
    cpp,
    csharp,
    css,
    diff,
    dockerfile,
    go,
    ini,
    java,
    javascript,
    json,
    kotlin,
    lua,
    makefile,
    markdown,
    php,
    python,
    ruby,
    rust,
    sql,
    swift,
    typescript,
    xml,
    yaml,
};
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

const maxHighlighted = 30000; // characters; some grammars take more than linear time
const maxShown = 100000; // before the reader asks for the rest

export class CodeBlock {
    readonly element: HTMLElement;
    private code = h("code");
    private text = "";
    private language: string;

    constructor(info: string) {
        const name = info
            .trim()
            .split(/[\s{,]/, 1)[0]!
            .toLowerCase()
            .slice(0, 30);
        this.language = hljs.getLanguage(name) ? name : "";
        const copy = h(
            "button",
            {
                "type": "button",
                "class": "text-button copy",
                "aria-label": "Copy the code",
                "onclick": () => void copyText(this.text, copy),
            },
            icon("copy"),
            h("span", null, "Copy"),
        );
        this.element = h(
            "figure",
            { class: "code" },
            h("figcaption", null, h("span", null, name || "text"), copy),
            h("pre", { "tabindex": "0", "aria-label": name ? `Code, ${name}` : "Code" }, this.code),
        );
    }

    // Highlighted anew each time: the caller says how often.
    set(text: string): void {
        if (text === this.text) return;
        const old = this.text;
        this.text = text;
        if (text.length > maxShown) return this.setLong(text, old);
        if (this.language && text.length <= maxHighlighted) {
            const { value } = hljs.highlight(text, {
                language: this.language,
                ignoreIllegals: true,
            });
            this.code.replaceChildren(highlightedFragment(value));
        } else if (
            old &&
            text.startsWith(old) &&
            this.code.lastChild?.nodeType === Node.TEXT_NODE
        ) {
            this.code.append(text.slice(old.length));
        } else {
            this.code.textContent = text;
        }
    }

    private setLong(text: string, old: string): void {
        if (old.length <= maxShown) {
            this.code.textContent = text.slice(0, maxShown);
            const more = h(
                "button",
                {
                    type: "button",
                    class: "text-button",
                    onclick: () => {
                        this.code.textContent = this.text;
                        more.remove();
                    },
                },
                "Show all",
            );
            this.element.append(more);
        }
    }
}
