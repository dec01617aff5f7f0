// The settings of the conversation that is shown; what is left empty is the server's default.

import { apiKey, setApiKey } from "./api";
import { announce, h, iconButton } from "./dom";
import { numberProblem, numbers, rangeOf, type NumberField } from "./numbers";
import {
    deletePreset,
    listPresets,
    maxPresetName,
    presetOf,
    sameSettings,
    savePreset,
} from "./presets";
import type { Settings } from "./types";

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

const maxStops = 4; // of the server

let nextId = 0;

function field(
    label: string,
    hint: string,
    control: HTMLElement,
    error?: HTMLElement,
    range?: string,
): HTMLElement {
    control.id = `field-${++nextId}`;
    const about = `${control.id}-hint`;
    const described = [about];
    if (range) described.unshift(`${control.id}-range`);
    if (error) described.unshift((error.id = `${control.id}-error`));
    control.setAttribute("aria-describedby", described.join(" "));
    return h(
        "div",
        { class: "field" },
        h(
            "div",
            { class: "field-head" },
            h("label", { for: control.id }, label),
            range ? h("span", { class: "range", id: `${control.id}-range` }, range) : null,
        ),
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
    private problems = new Map<HTMLElement, string>(); // of fields: what is wrong, with their names
    private presets = h("select", { "aria-label": "Preset" });
    private remove = iconButton("trash", "Delete the preset", () => this.deletePreset());

    constructor(
        private form: HTMLElement,
        private onChanged: () => void,
    ) {
        this.presets.onchange = () => this.usePreset();
        addEventListener("storage", () => this.showPresets()); // of another window
        document.addEventListener("mica-presets", () => this.showPresets());
    }

    private changed(): void {
        this.onChanged();
        this.showPresets();
    }

    show(settings: Settings): void {
        this.settings = settings;
        this.problems.clear();
        this.form.replaceChildren(
            this.group("Preset", ...this.presetRows()),
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
                this.chances(),
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
        this.showPresets();
    }

    // What keeps a request from being sent; "" if nothing does.
    problem(): string {
        const [first] = this.problems.values();
        if (first) return first;
        const { schemaOn, schema, toolsOn, tools } = this.settings!;
        const wrong = schemaOn ? jsonProblem(schema, "object") : "";
        if (wrong) return `The schema: ${wrong}`;
        const others = toolsOn ? jsonProblem(tools, "array") : "";
        return others ? `The tools: ${others}` : "";
    }

    // The field that is wrong.
    focusProblem(): void {
        const [first] = this.problems.keys();
        const wrong = first ?? this.form.querySelector<HTMLElement>("[aria-invalid=true]");
        wrong?.focus();
        wrong?.scrollIntoView({ block: "center" });
    }

    // Tells a problem beside its field, and keeps it from being overlooked.
    private mark(control: HTMLElement, error: HTMLElement, label: string, problem: string): void {
        if (error.textContent !== problem) error.textContent = problem;
        error.hidden = !problem;
        control.setAttribute("aria-invalid", String(Boolean(problem)));
        if (problem) this.problems.set(control, `${label}: ${problem}`);
        else this.problems.delete(control);
    }

    private presetRows(): HTMLElement[] {
        const error = h("p", { class: "error", role: "alert", hidden: true });
        const name = h("input", {
            "type": "text",
            "maxlength": maxPresetName,
            "placeholder": "Name",
            "aria-label": "Name of the preset",
            "onkeydown": (event: KeyboardEvent) => {
                if (event.key === "Enter" && !event.isComposing) save();
            },
        });
        const save = () => {
            try {
                const problem = this.problem();
                if (problem) throw new Error(problem);
                const given = name.value.trim() || this.presets.value;
                if (!given) throw new Error("Give the preset a name.");
                savePreset(presetOf(given, this.settings!));
                name.value = "";
                error.hidden = true;
                this.showPresets(given);
                announce(`The preset ${given} is saved.`);
            } catch (problem) {
                error.textContent = (problem as Error).message;
                error.hidden = false;
            }
        };
        return [
            h("div", { class: "row" }, this.presets, this.remove),
            h(
                "div",
                { class: "row" },
                name,
                h("button", { type: "button", class: "button", onclick: save }, "Save"),
            ),
            error,
            h("p", { class: "hint" }, "All settings but the model, kept in this browser."),
        ];
    }

    // The preset that the settings are, if they are one.
    private showPresets(name?: string): void {
        const { settings } = this;
        if (!settings) return;
        const presets = listPresets();
        const chosen = name ?? this.presets.value;
        const equal = presets.filter((preset) => sameSettings(preset.settings, settings));
        const shown = equal.find((preset) => preset.name === chosen) ?? equal[0];
        this.presets.replaceChildren(
            new Option(presets.length ? "Own settings" : "None yet", ""),
            ...presets.map((preset) => new Option(preset.name, preset.name)),
        );
        this.presets.value = shown?.name ?? "";
        this.remove.disabled = !shown;
    }

    private usePreset(): void {
        const preset = listPresets().find(({ name }) => name === this.presets.value);
        if (!preset || !this.settings) return this.showPresets();
        Object.assign(this.settings, preset.settings, { model: this.settings.model });
        this.show(this.settings);
        this.changed();
        this.presets.focus();
        announce(`The preset ${preset.name} is used.`);
    }

    private deletePreset(): void {
        const name = this.presets.value;
        if (!name || !confirm(`Delete the preset “${name}”?`)) return;
        deletePreset(name);
        this.showPresets();
        this.presets.focus();
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

    private number(wanted: NumberField): HTMLElement {
        const { name, label, hint, whole } = wanted;
        const error = h("p", { class: "error", role: "alert", hidden: true });
        const input = h("input", {
            "type": "text",
            "inputmode": whole ? "numeric" : "decimal",
            "autocomplete": "off",
            "placeholder": "default",
            "data-name": name,
            "value": String(this.settings!.sampling[name] ?? ""),
            "oninput": () => {
                const value = check();
                if (value === undefined) delete this.settings!.sampling[name];
                else this.settings!.sampling[name] = value;
                this.changed();
            },
        });
        // What is out of the range is kept, too, and told: also that of another day, or of a file.
        const check = (): number | undefined => {
            const text = input.value
                .trim()
                .replace("−", "-")
                .replace(/^(-?\d*),(\d+)$/, "$1.$2");
            const value = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : NaN;
            this.mark(input, error, label, numberProblem(wanted, text, value));
            return Number.isFinite(value) ? value : undefined;
        };
        check();
        return field(label, hint, input, error, rangeOf(wanted));
    }

    private stops(): HTMLElement {
        const error = h("p", { class: "error", role: "alert", hidden: true });
        const area = h("textarea", {
            rows: 2,
            value: this.settings!.stop.join("\n"),
            oninput: () => {
                this.settings!.stop = area.value.split("\n").filter(Boolean);
                check();
                this.changed();
            },
        });
        const check = () => {
            const { length } = this.settings!.stop;
            const problem = length > maxStops ? `${length} are too many.` : "";
            this.mark(area, error, "Stop texts", problem);
        };
        check();
        return field("Stop texts", "One a line; each ends an answer.", area, error, "4 at most");
    }

    private chances(): HTMLElement {
        const box = h("input", {
            type: "checkbox",
            role: "switch",
            checked: this.settings!.chances,
            onchange: () => {
                this.settings!.chances = box.checked;
                this.changed();
            },
        });
        return h("label", { class: "switch" }, box, "Token probabilities");
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
