// The view of the server: its models, and what /metrics says as small plots.

import { ApiError, listModels, request } from "./api";
import { formatBytes, formatCount, formatSeconds, h } from "./dom";
import { History, type Family, type Series } from "./metrics";
import type { Model } from "./types";

const periodMs = 2000;

export class ServerView {
    private history = new History();
    private timer = 0;
    private state = h("p", { class: "state", role: "status" });
    private models = h("tbody");
    private plots = h("div", { class: "plots" });
    private cards = new Map<string, Plot>();
    private all = h("tbody");
    private details = h(
        "details",
        { class: "all" },
        h("summary", null, "All figures"),
        h("div", { class: "table-box" }, h("table", null, this.all)),
    );

    constructor(root: HTMLElement) {
        root.append(
            h("h1", null, "Server"),
            this.state,
            h("h2", null, "Models"),
            h(
                "div",
                { class: "table-box" },
                h(
                    "table",
                    null,
                    h(
                        "thead",
                        null,
                        h(
                            "tr",
                            null,
                            ...["Model", "Kind", "Context", "Owner"].map((title) =>
                                h("th", { scope: "col" }, title),
                            ),
                        ),
                    ),
                    this.models,
                ),
            ),
            h("h2", null, "Now"),
            this.plots,
            this.details,
        );
    }

    open(): void {
        if (!this.timer) void this.poll();
    }

    close(): void {
        clearTimeout(this.timer);
        this.timer = 0;
    }

    private async poll(): Promise<void> {
        this.timer = window.setTimeout(() => void this.poll(), periodMs);
        if (document.hidden) return;
        await Promise.allSettled([this.readHealth(), this.readModels(), this.readMetrics()]);
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
        const list = await listModels();
        this.models.replaceChildren(...list.map(modelRow));
    }

    private async readMetrics(): Promise<void> {
        const text = (await (await request("/metrics")).text()).slice(0, 4 << 20);
        const families = this.history.add(text, performance.now());
        for (const series of this.history.series.values()) {
            let card = this.cards.get(series.name);
            if (!card) {
                if (this.cards.size >= 60) break;
                card = new Plot(series, families.get(series.name)?.help ?? "");
                this.cards.set(series.name, card);
                this.plots.append(card.element);
            }
            card.draw(series);
        }
        if (this.details.open) this.listAll(families);
    }

    private listAll(families: Map<string, Family>): void {
        const rows: HTMLElement[] = [];
        for (const { name, help, samples } of families.values())
            for (const { labels, value } of samples.slice(0, 50))
                if (!labels.startsWith("_bucket"))
                    rows.push(
                        h(
                            "tr",
                            { title: help },
                            h("td", null, h("code", null, name + labels)),
                            h("td", { class: "figures" }, String(value)),
                        ),
                    );
        this.all.replaceChildren(...rows.slice(0, 1000));
    }
}

function modelRow(model: Model): HTMLElement {
    const length = Number(model.max_model_len ?? model["context_length"]);
    const adapter = model.parent ?? (model.id.includes(":") ? model.id.split(":")[0] : "");
    return h(
        "tr",
        null,
        h("td", null, model.id),
        h("td", null, adapter ? `adapter of ${adapter}` : "model"),
        h("td", { class: "figures" }, length ? formatCount(length) : "–"),
        h("td", null, model.owned_by ?? "–"),
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
        const step = width / 119;
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
