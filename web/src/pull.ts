// Has the server download a model of the hub, where it allows that.

import { ApiError, pullModel, type PullProgress } from "./api";
import { announce, formatBytes, h } from "./dom";

export class PullForm {
    readonly element: HTMLElement;
    private name = h("input", {
        "type": "text",
        "placeholder": "ORG/NAME",
        "autocomplete": "off",
        "spellcheck": "false",
        "aria-label": "Model to download",
        "aria-describedby": "pull-hint",
    });
    private button = h("button", { type: "submit", class: "button" }, "Download");
    private bar = h("progress", { "max": "1", "hidden": true, "aria-label": "Download" });
    private text = h("p", { class: "figures", role: "status" });
    private error = h("p", { class: "error", role: "alert", hidden: true });
    private running: AbortController | null = null;

    constructor(private done: () => void) {
        this.element = h(
            "form",
            {
                class: "pull",
                hidden: true,
                onsubmit: (event: Event) => {
                    event.preventDefault();
                    if (this.running) this.running.abort();
                    else void this.pull();
                },
            },
            h("h2", null, "Download a model"),
            h("div", { class: "row" }, this.name, this.button),
            h("p", { class: "hint", id: "pull-hint" }, "Of the hub, into this server's cache."),
            this.bar,
            this.text,
            this.error,
        );
    }

    private async pull(): Promise<void> {
        const model = this.name.value.trim();
        if (!/^[^/\s]+\/[^/\s]+$/.test(model)) {
            this.fail("Write ORG/NAME, as the hub calls the model.");
            return this.name.focus();
        }
        this.running = new AbortController();
        this.set(true);
        try {
            await pullModel(model, this.running.signal, (progress) => this.show(progress));
            this.text.textContent = `${model} is there: it can be chosen at the top.`;
            this.name.value = "";
            announce(`${model} was downloaded.`);
        } catch (error) {
            const stopped = (error as Error).name === "AbortError";
            this.text.textContent = stopped
                ? "Stopped. What has come is kept: the next download goes on from it."
                : "";
            if (!stopped) this.fail((error as ApiError).message);
        }
        this.running = null;
        this.set(false);
        this.done();
    }

    private set(running: boolean): void {
        this.button.textContent = running ? "Stop" : "Download";
        this.name.readOnly = running;
        this.bar.hidden = !running;
        this.bar.removeAttribute("value");
        if (running) this.fail("");
        if (running) this.text.textContent = "Asking the hub…";
    }

    private fail(text: string): void {
        this.error.textContent = text;
        this.error.hidden = !text;
        this.name.setAttribute("aria-invalid", String(Boolean(text)));
    }

    private show({ status, total, completed }: PullProgress): void {
        if (!total) return;
        const done = completed ?? 0;
        this.bar.value = done / total;
        const text = `${status ?? "pulling"}: ${formatBytes(done)} of ${formatBytes(total)}`;
        this.text.textContent = text;
    }
}
