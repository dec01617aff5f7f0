// The view of the server: its models, and what /metrics says as small plots.

import { ApiError, readModels, request, setLoaded } from "./api";
import { announce, formatBytes, formatCount, formatSeconds, h } from "./dom";
import { History, isChief, ofModel, rank, type Series } from "./metrics";
import { PullForm } from "./pull";
import type { Model } from "./types";

const periodMs = 2000;
const maxPlots = 60;

export class ServerView {
    private history = new History();
    private shown = false;
    private timer = 0;
    private list: Model[] = [];
    private busy = new Map<string, string>(); // models that are loaded or closed: what is said of it
    private error = h("p", { class: "error", role: "alert", hidden: true });
    private pull = new PullForm(() => this.modelsChanged());
    private state = h("p", { class: "state", role: "status" });
    private models = h("tbody");
    private chief = h("div", { class: "plots" });
    private others = h("div", { class: "plots" });
    private plots = new Map<string, Plot>();
    private all = h("tbody");
    private details = h(
        "details",
        { class: "all" },
        h("summary", null, "All figures"),
        this.others,
        h("div", { class: "table-box" }, h("table", null, this.all)),
    );

    constructor(root: HTMLElement) {
        const titles = ["Model", "Kind", "Loaded", "Context", "Under way", "Waiting"].map(
            (title, i) => h("th", { scope: "col", align: i > 2 ? "right" : null }, title),
        );
        root.append(
            h("h1", null, "Server"),
            this.state,
            h("h2", null, "Models"),
            box(h("thead", null, h("tr", null, ...titles)), this.models),
            this.error,
            this.pull.element,
            h("h2", null, "Now"),
            this.chief,
            this.details,
        );
        this.details.addEventListener("toggle", () => this.listAll());
    }

    open(): void {
        if (this.shown) return;
        this.shown = true;
        void this.poll();
    }

    close(): void {
        this.shown = false;
        clearTimeout(this.timer);
    }

    private async poll(): Promise<void> {
        clearTimeout(this.timer);
        if (!document.hidden) {
            await Promise.allSettled([this.readHealth(), this.readModels(), this.readMetrics()]);
            this.showModels();
        }
        if (this.shown) this.timer = window.setTimeout(() => void this.poll(), periodMs);
    }

    private async readHealth(): Promise<void> {
        let text = "Ready";
        let kind = "good";
        try {
            await request("/health");
        } catch (error) {
            const { status, message } = error as ApiError;
            kind = "bad";
            text = status === 503 ? `Not ready: ${message}` : message;
        }
        if (this.state.textContent !== text) this.state.textContent = text;
        this.state.className = `state ${kind}`;
    }

    private async readModels(): Promise<void> {
        const { models, downloads } = await readModels();
        this.list = models;
        this.pull.element.hidden = !downloads;
    }

    private modelsChanged(): void {
        document.dispatchEvent(new CustomEvent("mica-models"));
        if (this.shown) void this.poll();
    }

    // Loads a model, or closes it.
    private async toggle(model: Model, button: HTMLButtonElement): Promise<void> {
        const loads = model.loaded === false;
        this.busy.set(model.id, loads ? "Loading…" : "Closing…");
        button.textContent = this.busy.get(model.id)!;
        button.setAttribute("aria-disabled", "true");
        this.error.hidden = true;
        try {
            await setLoaded(model.id, loads);
            announce(`${model.id} is ${loads ? "loaded" : "closed"}.`);
        } catch (error) {
            this.error.textContent = `${model.id}: ${(error as Error).message}`;
            this.error.hidden = false;
        }
        this.busy.delete(model.id);
        this.modelsChanged();
    }

    private showModels(): void {
        const { families } = this.history;
        const count = (name: string, { id }: Model) => ofModel(families.get(name), id);
        const focused = (document.activeElement as HTMLElement | null)?.dataset["model"];
        this.models.replaceChildren(
            ...this.list.map((model) =>
                modelRow(
                    model,
                    count("mica_requests_running", model),
                    count("mica_requests_waiting", model),
                    this.button(model),
                ),
            ),
        );
        if (focused !== undefined)
            this.models
                .querySelector<HTMLElement>(`[data-model="${CSS.escape(focused)}"]`)
                ?.focus();
    }

    private button(model: Model): HTMLElement {
        const busy = this.busy.get(model.id);
        const label = model.loaded === false ? "Load" : "Close";
        const button = h(
            "button",
            {
                "type": "button",
                "class": "text-button",
                "data-model": model.id,
                "aria-label": `${label} ${model.id}`,
                "aria-disabled": busy ? "true" : undefined,
                "onclick": () => {
                    if (!this.busy.has(model.id)) void this.toggle(model, button);
                },
            },
            busy ?? label,
        );
        return button;
    }

    private async readMetrics(): Promise<void> {
        const text = (await (await request("/metrics")).text()).slice(0, 4 << 20);
        this.history.add(text, performance.now());
        for (const series of this.history.series.values()) {
            const plot = this.plots.get(series.name) ?? this.addPlot(series);
            plot?.draw(series);
        }
        if (this.details.open) this.listAll();
    }

    private addPlot(series: Series): Plot | undefined {
        if (this.plots.size >= maxPlots) return undefined;
        const plot = new Plot(series, this.history.families.get(series.name)?.help ?? "");
        this.plots.set(series.name, plot);
        const into = isChief(series.name) ? this.chief : this.others;
        const after = [...into.children].find(
            (other) => rank((other as HTMLElement).dataset["name"]!) > rank(series.name),
        );
        into.insertBefore(plot.element, after ?? null);
        return plot;
    }

    private listAll(): void {
        const rows: HTMLElement[] = [];
        for (const { name, help, samples } of this.history.families.values())
            for (const { labels, value } of samples.slice(0, 50)) {
                if (labels.startsWith("_bucket")) continue;
                rows.push(
                    h(
                        "tr",
                        { title: help },
                        h("td", null, h("code", null, name + labels)),
                        h("td", { align: "right" }, String(value)),
                    ),
                );
            }
        this.all.replaceChildren(...rows.slice(0, 1000));
    }
}

const box = (...parts: HTMLElement[]) =>
    h("div", { class: "table-box" }, h("table", null, ...parts));

function modelRow(
    model: Model,
    running: number | null,
    waiting: number | null,
    action: HTMLElement,
): HTMLElement {
    const length = Number(model.max_model_len ?? model["context_length"]);
    const adapter = model.parent ?? (model.id.includes(":") ? model.id.split(":")[0] : "");
    const figure = (value: number | null) =>
        h("td", { align: "right" }, value === null ? "–" : formatCount(value));
    return h(
        "tr",
        null,
        h("td", null, model.id),
        h("td", null, adapter ? `adapter of ${adapter}` : "model"),
        h("td", null, model.loaded === false ? "no " : "yes ", action),
        figure(length || null),
        figure(running),
        figure(waiting),
    );
}

function formatValue(value: number, unit: string): string {
    const rate = unit.endsWith("/s");
    const base = rate ? unit.slice(0, -2) : unit;
    const text =
        base === "bytes"
            ? formatBytes(Math.round(value))
            : base === "s" && !rate
              ? formatSeconds(value)
              : base === "%"
                ? `${(value * 100).toFixed(1)} %`
                : value >= 100 || Number.isInteger(value)
                  ? formatCount(value)
                  : value.toPrecision(2);
    return rate ? `${text}${base === "s" ? " s" : ""}/s` : text;
}

const width = 240;
const height = 56;

class Plot {
    readonly element: HTMLElement;
    private value = h("span", { class: "value" });
    private range = h("span", { class: "range" });
    private svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    private area = document.createElementNS("http://www.w3.org/2000/svg", "path");
    private line = document.createElementNS("http://www.w3.org/2000/svg", "path");

    constructor(series: Series, help: string) {
        this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
        this.svg.setAttribute("preserveAspectRatio", "none");
        this.svg.setAttribute("role", "img");
        this.area.setAttribute("class", "area");
        this.line.setAttribute("class", "line");
        this.svg.append(this.area, this.line);
        this.element = h(
            "figure",
            { "class": "plot", "title": help, "data-name": series.name },
            h("figcaption", null, h("span", { class: "title" }, series.title), this.value),
            this.svg,
            this.range,
        );
    }

    draw({ points, title, unit }: Series): void {
        const top = Math.max(...points, 0);
        const low = Math.min(...points, 0);
        const span = top - low || 1;
        const step = width / Math.max(29, points.length - 1); // a minute at least
        const from = width - (points.length - 1) * step;
        const yOf = (value: number) =>
            (height - 3 - ((height - 6) * (value - low)) / span).toFixed(1);
        const places = points.map((value, i) => `${(from + i * step).toFixed(1)} ${yOf(value)}`);
        const path = `M${places.join("L")}`;
        this.line.setAttribute("d", path);
        this.area.setAttribute("d", `${path}V${height}H${from.toFixed(1)}Z`);
        const now = formatValue(points[points.length - 1]!, unit);
        this.value.textContent = now;
        this.range.textContent = `up to ${formatValue(top, unit)}`;
        this.svg.setAttribute(
            "aria-label",
            `${title}: now ${now}, at most ${formatValue(top, unit)}`,
        );
    }
}
