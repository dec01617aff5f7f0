// The list of conversations.

import { h, iconButton, isSending } from "./dom";
import { listHeadings, searchConversations } from "./store";
import type { Heading } from "./types";

export interface SidebarActions {
    open: (id: string) => void;
    rename: (id: string, title: string) => void;
    remove: (heading: Heading) => void;
}

const dayMs = 86400000;
const maxShown = 300;

function ageOf(updated: number): string {
    const today = new Date().setHours(0, 0, 0, 0);
    if (updated >= today) return "Today";
    if (updated >= today - dayMs) return "Yesterday";
    return updated >= today - 7 * dayMs ? "This week" : "Earlier";
}

export class Sidebar {
    private list = document.querySelector<HTMLElement>("#conversations")!;
    private search = document.querySelector<HTMLInputElement>("#search")!;
    private searching: AbortController | null = null;
    private timer = 0;
    private current = "";

    constructor(private actions: SidebarActions) {
        this.search.addEventListener("input", () => {
            clearTimeout(this.timer);
            this.timer = window.setTimeout(() => void this.find(), 150);
        });
    }

    show(current: string): void {
        this.current = current;
        if (this.search.value.trim()) return;
        this.fill(listHeadings());
    }

    private fill(headings: Heading[]): void {
        const items: HTMLElement[] = [];
        let age = "";
        for (const heading of headings.slice(0, maxShown)) {
            if (ageOf(heading.updated) !== age) {
                age = ageOf(heading.updated);
                items.push(h("li", { class: "age" }, age));
            }
            items.push(this.item(heading));
        }
        if (!items.length) items.push(h("li", { class: "age" }, "None yet"));
        if (headings.length > maxShown)
            items.push(h("li", { class: "age" }, "Search for older ones"));
        this.list.replaceChildren(...items);
    }

    private async find(): Promise<void> {
        this.searching?.abort();
        const words = this.search.value.trim();
        if (!words) return this.fill(listHeadings());
        this.searching = new AbortController();
        const { signal } = this.searching;
        const found: Heading[] = [];
        await searchConversations(words, (heading) => found.push(heading), signal);
        if (!signal.aborted) this.fill(found);
    }

    private item(heading: Heading): HTMLElement {
        const title = heading.title || "New conversation";
        const open = h(
            "button",
            {
                "type": "button",
                "class": "open",
                title,
                "onclick": () => this.actions.open(heading.id),
                "aria-current": heading.id === this.current ? "true" : undefined,
            },
            title,
        );
        const item = h(
            "li",
            { class: "item" },
            open,
            iconButton("edit", `Rename ${title}`, () => this.rename(item, heading)),
            iconButton("trash", `Delete ${title}`, () => this.actions.remove(heading)),
        );
        return item;
    }

    private rename(item: HTMLElement, heading: Heading): void {
        let open = true;
        const input = h("input", {
            "type": "text",
            "value": heading.title,
            "maxlength": 200,
            "aria-label": "Title",
            "onkeydown": (event: KeyboardEvent) => {
                event.stopPropagation();
                if (isSending(event)) close(true);
                if (event.key === "Escape") close(false);
            },
            "onblur": () => close(true),
        });
        const close = (save: boolean) => {
            if (!open) return;
            open = false;
            const title = input.value.trim();
            if (save && title && title !== heading.title) this.actions.rename(heading.id, title);
            else this.show(this.current);
        };
        item.replaceChildren(input);
        input.select();
    }
}
