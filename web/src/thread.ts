// The messages of the conversation that is shown.

import { MessageView, type MessageActions } from "./message";
import type { Run } from "./run";
import { allChildren, shownPath } from "./tree";
import type { Conversation, Message } from "./types";

const atOnce = 40; // of the last messages; others when they come near the view

export class Thread {
    private views: MessageView[] = [];
    private follow = true; // the end stays in view
    private lastTop = 0;
    private near: IntersectionObserver; // reveals what comes near the view
    private latest: HTMLButtonElement;
    private list: HTMLElement;

    constructor(
        private scroller: HTMLElement,
        private actions: MessageActions,
    ) {
        this.list = scroller.querySelector(".thread")!;
        this.latest = document.querySelector("#latest")!;
        this.latest.onclick = () => this.toEnd();
        this.near = new IntersectionObserver((entries) => this.reveal(entries), {
            root: scroller,
            rootMargin: "1500px 0px",
        });
        scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    }

    // Shows the conversation's branch; views of messages that stay are kept.
    show(conversation: Conversation | null, run: Run | undefined): void {
        const path = conversation ? shownPath(conversation) : [];
        const old = new Map(this.views.map((view) => [view.message.id, view]));
        const children = conversation ? allChildren(conversation) : new Map<string, Message[]>();
        const viewOf = (message: Message, i: number) => {
            const siblings = children.get(message.parent ?? "")!;
            const place = { index: siblings.indexOf(message), count: siblings.length };
            const kept = old.get(message.id);
            if (kept && kept.message === message && kept.sameAs(place, i === path.length - 1)) {
                old.delete(message.id);
                return kept;
            }
            const last = i === path.length - 1;
            const waits = i < path.length - atOnce;
            const view = new MessageView(message, place, this.actions, last, waits);
            if (waits) this.near.observe(view.element);
            return view;
        };
        // From the end, which is in view: texts are set in the order in which they are made.
        this.views = path.map((_, i) => viewOf(path.at(-1 - i)!, path.length - 1 - i)).reverse();
        for (const view of old.values()) {
            view.dispose();
            this.near.unobserve(view.element);
            view.element.remove();
        }
        this.views.forEach((view, i) => {
            if (this.list.children[i] !== view.element)
                this.list.insertBefore(view.element, this.list.children[i] ?? null);
        });
        if (run) this.update(run);
        this.offerResults();
        document.body.classList.toggle("empty", path.length === 0);
    }

    private reveal(entries: IntersectionObserverEntry[]): void {
        const shown = entries.filter((entry) => entry.isIntersecting).map(({ target }) => target);
        if (!shown.length) return;
        const views = new Map(this.views.map((view) => [view.element as Element, view]));
        for (const element of shown) {
            this.near.unobserve(element);
            views.get(element)?.reveal();
        }
    }

    update(run: Run): void {
        this.views.find((view) => view.message === run.message)?.update(run);
        this.stay();
    }

    finish(run: Run): void {
        this.views.find((view) => view.message === run.message)?.update(undefined);
        this.offerResults();
        this.stay();
    }

    // Of the last message, tool calls without results.
    private offerResults(): void {
        const last = this.views[this.views.length - 1];
        if (last?.message.toolCalls?.length && !last.element.classList.contains("running"))
            last.askResults(last.message.toolCalls);
    }

    // The last message of the user, for the key that edits it.
    lastUser(): MessageView | undefined {
        return [...this.views].reverse().find((view) => view.message.role === "user");
    }

    focusAt(step: number): void {
        const at = this.views.findIndex((view) => view.element.contains(document.activeElement));
        const next = this.views[at < 0 ? this.views.length - 1 : at + step];
        next?.element.focus();
        next?.element.scrollIntoView({ block: "nearest" });
    }

    // The reader has scrolled away if the top went up and the end is out of view: that the end runs
    // away below happens with every line of an answer.
    private noteScroll(): void {
        const { scrollHeight, scrollTop, clientHeight } = this.scroller;
        const gap = scrollHeight - scrollTop - clientHeight;
        if (gap < 60) this.follow = true;
        else if (scrollTop < this.lastTop - 2) this.follow = false;
        this.lastTop = scrollTop;
        this.latest.hidden = this.follow || gap < 60;
    }

    stay(): void {
        this.noteScroll();
        if (this.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
        this.lastTop = this.scroller.scrollTop;
    }

    toEnd(): void {
        this.scroller.scrollTop = this.scroller.scrollHeight;
        this.stay();
    }
}
