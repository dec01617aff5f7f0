// The settings of the conversation that is shown; what is left empty is the server's default.

import { apiKey, setApiKey } from "./api";
import { h } from "./dom";
import type { Settings } from "./types";

interface NumberField {
    name: string;
    label: string;
    hint: string;
    min: number;
    max: number;
    step: number | "any";
}

const numbers: NumberField[] = [
    { name: "temperature", label: "Temperature", hint: "0 is greedy", min: 0, max: 2, step: "any" },
    {
        name: "top_p",
        label: "Top p",
        hint: "likeliest tokens up to this sum",
        min: 0,
        max: 1,
        step: "any",
    },
    {
        name: "top_k",
        label: "Top k",
        hint: "this many of the likeliest",
        min: 0,
        max: 1000000,
        step: 1,
    },
    {
        name: "min_p",
        label: "Min p",
        hint: "relative to the likeliest",
        min: 0,
        max: 1,
        step: "any",
    },
    {
        name: "max_tokens",
        label: "Tokens at most",
        hint: "of an answer",
        min: 1,
        max: 10000000,
        step: 1,
    },
    {
        name: "seed",
        label: "Seed",
        hint: "same seed, same answer",
        min: 0,
        max: 9007199254740991,
        step: 1,
    },
    {
        name: "frequency_penalty",
        label: "Frequency penalty",
        hint: "−2 to 2",
        min: -2,
        max: 2,
        step: "any",
    },
    {
        name: "presence_penalty",
        label: "Presence penalty",
        hint: "−2 to 2",
        min: -2,
        max: 2,
        step: "any",
    },
];

const efforts = [
    ["", "Default"],
    ["none", "None"],
    ["minimal", "Minimal"],
    ["low", "Low"],
    ["medium", "Medium"],
    ["high", "High"],
];
const switches = [
    ["", "Default"],
    ["on", "On"],
    ["off", "Off"],
];

let nextId = 0;

function field(
    label: string,
    hint: string,
    control: HTMLElement,
    error?: HTMLElement,
): HTMLElement {
    control.id = `field-${++nextId}`;
    const about = `${control.id}-hint`;
    control.setAttribute("aria-describedby", about);
    return h(
        "div",
        { class: "field" },
        h("label", { for: control.id }, label),
        control,
        error ?? null,
        h("p", { class: "hint", id: about }, hint),
    );
}

// "" if the text is JSON of that kind.
export function jsonProblem(text: string, kind: "object" | "array"): string {
    if (!text.trim()) return "";
    try {
        const value: unknown = JSON.parse(text);
        const right =
            kind === "array"
                ? Array.isArray(value)
                : typeof value === "object" && value !== null && !Array.isArray(value);
        return right ? "" : `This must be a JSON ${kind}.`;
    } catch (error) {
        return `Not JSON: ${(error as Error).message}`;
    }
}

export class SettingsPanel {
    private settings: Settings | null = null;

    constructor(
        private form: HTMLElement,
        private changed: () => void,
    ) {}

    show(settings: Settings): void {
        this.settings = settings;
        this.form.replaceChildren(
            this.group(
                "Instructions",
                this.text(
                    "system",
                    "System prompt",
                    5,
                    "Told to the model before the first message.",
                ),
            ),
            this.group(
                "Sampling",
                h("div", { class: "grid" }, ...numbers.map((number) => this.number(number))),
                this.stops(),
            ),
            this.group(
                "Thinking",
                h(
                    "div",
                    { class: "grid" },
                    this.choice("thinking", "Thinking", switches, "where the model can do both"),
                    this.choice("effort", "Effort", efforts, "where the model knows efforts"),
                ),
            ),
            this.group(
                "Structured output",
                ...this.json(
                    "schemaOn",
                    "schema",
                    "object",
                    "Answers follow this schema",
                    "JSON schema",
                    "Every answer will be a JSON document that the schema admits.",
                ),
            ),
            this.group(
                "Tools",
                ...this.json(
                    "toolsOn",
                    "tools",
                    "array",
                    "Offer these tools",
                    "Tools",
                    "A JSON array of functions, as OpenAI has them. You give their results.",
                ),
            ),
            this.group("Access", this.key()),
        );
    }

    // What keeps a request from being sent; "" if nothing does.
    static problem(settings: Settings): string {
        const schema = settings.schemaOn ? jsonProblem(settings.schema, "object") : "";
        if (schema) return `The schema: ${schema}`;
        const tools = settings.toolsOn ? jsonProblem(settings.tools, "array") : "";
        return tools ? `The tools: ${tools}` : "";
    }

    private group(title: string, ...children: HTMLElement[]): HTMLElement {
        return h("fieldset", null, h("legend", null, title), ...children);
    }

    private text(name: "system", label: string, rows: number, hint: string): HTMLElement {
        const area = h("textarea", {
            rows,
            value: this.settings![name],
            oninput: () => {
                this.settings![name] = area.value;
                this.changed();
            },
        });
        return field(label, hint, area);
    }

    private number({ name, label, hint, min, max, step }: NumberField): HTMLElement {
        const input = h("input", {
            "type": "number",
            min,
            max,
            step,
            "inputmode": "decimal",
            "placeholder": "default",
            "data-name": name,
            "value": String(this.settings!.sampling[name] ?? ""),
            "oninput": () => {
                const valid = input.value !== "" && input.checkValidity();
                if (valid) this.settings!.sampling[name] = input.valueAsNumber;
                else delete this.settings!.sampling[name];
                input.setAttribute("aria-invalid", String(!input.checkValidity()));
                this.changed();
            },
        });
        return field(label, hint, input);
    }

    private stops(): HTMLElement {
        const area = h("textarea", {
            rows: 2,
            value: this.settings!.stop.join("\n"),
            oninput: () => {
                this.settings!.stop = area.value.split("\n").filter(Boolean).slice(0, 4);
                this.changed();
            },
        });
        return field("Stop texts", "One a line, four at most; each ends an answer.", area);
    }

    private choice(
        name: "thinking" | "effort",
        label: string,
        options: string[][],
        hint: string,
    ): HTMLElement {
        const select = h(
            "select",
            {
                onchange: () => {
                    this.settings![name] = select.value;
                    this.changed();
                },
            },
            ...options.map(([value, text]) => h("option", { value }, text)),
        );
        select.value = this.settings![name];
        return field(label, hint, select);
    }

    private json(
        on: "schemaOn" | "toolsOn",
        name: "schema" | "tools",
        kind: "object" | "array",
        switchLabel: string,
        label: string,
        hint: string,
    ): HTMLElement[] {
        const error = h("p", { class: "error", role: "alert" });
        const check = () => {
            const problem = jsonProblem(area.value, kind);
            error.textContent = problem;
            error.hidden = !problem;
            area.setAttribute("aria-invalid", String(Boolean(problem)));
        };
        const area = h("textarea", {
            rows: 6,
            class: "mono",
            spellcheck: "false",
            value: this.settings![name],
            oninput: () => {
                this.settings![name] = area.value;
                check();
                this.changed();
            },
        });
        const box = h("input", {
            type: "checkbox",
            role: "switch",
            checked: this.settings![on],
            onchange: () => {
                this.settings![on] = box.checked;
                this.changed();
            },
        });
        check();
        return [h("label", { class: "switch" }, box, switchLabel), field(label, hint, area, error)];
    }

    private key(): HTMLElement {
        const input = h("input", {
            "type": "password",
            "autocomplete": "off",
            "value": apiKey(),
            "id": "api-key",
            "data-name": "key",
            "onchange": () => {
                setApiKey(input.value.trim());
                this.changed();
            },
        });
        return field("API key", "Kept until this tab is closed, and never exported.", input);
    }
}
