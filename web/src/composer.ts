// Where messages are written.

import { readFiles } from "./attach";
import { dismiss, h, icon, iconButton, isSending, notice } from "./dom";
import type { TextFile } from "./types";

export class Composer {
    private area = document.querySelector<HTMLTextAreaElement>("#input")!;
    private send = document.querySelector<HTMLButtonElement>("#send")!;
    private chips = document.querySelector<HTMLElement>("#chips")!;
    private picker = h("input", { type: "file", multiple: true, hidden: true });
    private files: TextFile[] = [];
    private running = false;

    constructor(
        private onSend: (text: string, files: TextFile[]) => boolean, // false: not now, it stays
        private onStop: () => void,
    ) {
        this.area.addEventListener("input", () => this.fit());
        this.area.addEventListener("keydown", (event) => this.key(event));
        this.area.addEventListener("paste", (event) => {
            const files = [...(event.clipboardData?.files ?? [])];
            if (files.length) {
                event.preventDefault();
                void this.add(files);
            }
        });
        this.send.addEventListener("click", () => (this.running ? this.onStop() : this.submit()));
        const attach = document.querySelector<HTMLButtonElement>("#attach")!;
        attach.append(icon("attach"));
        attach.onclick = () => this.picker.click();
        this.picker.onchange = () => {
            void this.add([...this.picker.files!]);
            this.picker.value = "";
        };
        attach.after(this.picker);
        this.acceptDrops(document.querySelector<HTMLElement>("main")!);
        this.setRunning(false);
    }

    setRunning(running: boolean): void {
        this.running = running;
        if (!running) dismiss("running");
        const label = running ? "Stop" : "Send";
        this.send.replaceChildren(icon(running ? "stop" : "send"));
        this.send.setAttribute("aria-label", label);
        this.send.title = running ? "Stop (Escape)" : "Send (Enter)";
        this.send.classList.toggle("stop", running);
        this.fit();
    }

    focus(): void {
        this.area.focus();
    }

    private key(event: KeyboardEvent): void {
        if (!isSending(event)) return;
        event.preventDefault();
        if (!this.running) return this.submit();
        if (this.area.value.trim())
            notice("running", "An answer is under way: stop it (Escape), or wait for its end.");
    }

    private submit(): void {
        const text = this.area.value.trim();
        if (!text && !this.files.length) return this.area.focus();
        if (!this.onSend(text, this.files)) return;
        this.area.value = "";
        this.files = [];
        this.showChips();
    }

    private fit(): void {
        this.area.style.height = "auto";
        this.area.style.height = `${Math.min(this.area.scrollHeight, innerHeight * 0.4)}px`;
        this.send.disabled = !this.running && !this.area.value.trim() && !this.files.length;
    }

    private async add(files: File[]): Promise<void> {
        const texts = await readFiles(files, this.files.length, (text) => notice("file", text));
        this.files.push(...texts);
        this.showChips();
        this.area.focus();
    }

    private showChips(): void {
        this.chips.replaceChildren(
            ...this.files.map((file) =>
                h(
                    "li",
                    { class: "chip" },
                    icon("attach"),
                    h("span", null, file.name),
                    iconButton("close", `Remove ${file.name}`, () => {
                        this.files.splice(this.files.indexOf(file), 1);
                        this.showChips();
                        this.area.focus();
                    }),
                ),
            ),
        );
        this.chips.hidden = this.files.length === 0;
        this.fit();
    }

    private acceptDrops(main: HTMLElement): void {
        main.addEventListener("dragover", (event) => {
            if (!event.dataTransfer?.types.includes("Files")) return;
            event.preventDefault();
            main.classList.add("dropping");
        });
        main.addEventListener("dragleave", (event) => {
            if (!main.contains(event.relatedTarget as Node)) main.classList.remove("dropping");
        });
        main.addEventListener("drop", (event) => {
            main.classList.remove("dropping");
            const files = [...(event.dataTransfer?.files ?? [])];
            if (files.length) {
                event.preventDefault();
                void this.add(files);
            }
        });
    }
}
