// Starts the page: its parts, buttons, keys and views.

import { App } from "./app";
import { announce, h, icon, notice } from "./dom";
import { ServerView } from "./server";
import { addPresets, listPresets, readPresets } from "./presets";
import { listHeadings, loadConversation } from "./store";
import { fileName, fromJson, maxImport, saveFile, toJson, toMarkdown } from "./transfer";
import type { IconName } from "./dom";
import type { Conversation } from "./types";

const find = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const narrow = matchMedia("(max-width: 760px)");

const app = new App(() => {
    if (location.hash === "#server") location.hash = "";
    closeDrawer();
});
const server = new ServerView(find("#server"));

function button(selector: string, name: IconName, run: () => void): void {
    const element = find<HTMLButtonElement>(selector);
    element.prepend(icon(name));
    element.addEventListener("click", run);
}

// Side panels.

function setOpen(id: string, open: boolean): void {
    document.body.classList.toggle(`${id}-open`, open);
    find(`#toggle-${id}`).setAttribute("aria-expanded", String(open));
    find(`#${id}`).inert = !open;
    try {
        if (!narrow.matches) localStorage.setItem(`mica.open.${id}`, open ? "1" : "");
    } catch {
        /* off */
    }
}

function isOpen(id: string): boolean {
    return document.body.classList.contains(`${id}-open`);
}

function toggle(id: string): void {
    const open = !isOpen(id);
    if (open && narrow.matches) for (const other of ["sidebar", "settings"]) setOpen(other, false);
    setOpen(id, open);
    if (open && (id === "settings" || narrow.matches))
        find(`#${id}`).querySelector<HTMLElement>("textarea, input, button")?.focus();
}

function closeDrawer(): void {
    if (narrow.matches && isOpen("sidebar")) setOpen("sidebar", false);
}

function initialPanels(): void {
    const stored = (id: string, otherwise: boolean): boolean => {
        try {
            const value = localStorage.getItem(`mica.open.${id}`);
            return value === null ? otherwise : value === "1";
        } catch {
            return otherwise;
        }
    };
    setOpen("sidebar", !narrow.matches && stored("sidebar", true));
    setOpen("settings", !narrow.matches && stored("settings", false));
}

// Light and dark.

const themes = ["auto", "light", "dark"];

function setTheme(theme: string): void {
    document.documentElement.dataset["theme"] = theme;
    const label = `Colours: ${theme === "auto" ? "as the system's" : theme}`;
    const element = find("#theme");
    element.setAttribute("aria-label", label);
    element.title = label;
    try {
        localStorage.setItem("mica.theme", theme);
    } catch {
        /* off */
    }
}

function nextTheme(): void {
    const at = themes.indexOf(document.documentElement.dataset["theme"] ?? "auto");
    setTheme(themes[(at + 1) % themes.length]!);
    announce(find("#theme").title);
}

// Views.

function showView(): void {
    const isServer = location.hash === "#server";
    document.body.classList.toggle("server-view", isServer);
    find("#server").hidden = !isServer;
    find("#chat").hidden = isServer;
    find("#toggle-server").setAttribute("aria-pressed", String(isServer));
    if (isServer) return server.open();
    server.close();
    if (app.models.length) void app.loadModels();
}

function toggleServer(): void {
    location.hash = location.hash === "#server" ? "" : "#server";
    closeDrawer();
}

// Export and import.

async function exportAll(): Promise<void> {
    const conversations: Conversation[] = [];
    for (const { id } of listHeadings()) {
        const conversation = await loadConversation(id);
        if (conversation) conversations.push(conversation);
    }
    saveFile("mica-conversations.json", "application/json", toJson(conversations, listPresets()));
    announce(`${conversations.length} conversations exported.`);
}

function exportCurrent(markdown: boolean): void {
    const { current } = app;
    if (markdown) saveFile(fileName(current, "md"), "text/markdown", toMarkdown(current));
    else saveFile(fileName(current, "json"), "application/json", toJson([current]));
}

// One file after another: a preset's number, and what is shown at last, follow their order.
let imported = Promise.resolve();

async function importFile(file: File): Promise<void> {
    if (file.size > maxImport) return notice("import", "The file is too large to be read.");
    try {
        const { conversations, presets } = fromJson(await file.text());
        const added = addPresets(readPresets(presets));
        if (added) document.dispatchEvent(new CustomEvent("mica-presets"));
        const saved = await app.save(...conversations);
        announce(`${saved} conversations${added ? ` and ${added} presets` : ""} imported.`);
        if (saved === 1) await app.open(conversations[0]!.id);
    } catch (error) {
        notice("import", (error as Error).message);
    }
}

function transferButtons(): void {
    const picker = h("input", {
        "type": "file",
        "accept": ".json,application/json",
        "hidden": true,
        "data-name": "import",
    });
    document.body.append(picker);
    picker.onchange = () => {
        const file = picker.files?.[0];
        picker.value = "";
        if (file) imported = imported.then(() => importFile(file));
    };
    button("#import", "load", () => picker.click());
    button("#export-all", "save", () => void exportAll());
    button("#export-json", "save", () => exportCurrent(false));
    button("#export-md", "save", () => exportCurrent(true));
}

// Keys.

function onKey(event: KeyboardEvent): void {
    const typing = (event.target as HTMLElement).matches("input, textarea, select");
    if (event.key === "Escape") return escape();
    if ((event.ctrlKey || event.metaKey) && event.shiftKey) {
        const key = event.key.toLowerCase();
        if (key === "o") {
            event.preventDefault();
            app.newChat();
        }
        if (key === "s") {
            event.preventDefault();
            toggle("settings");
        }
        return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
}

const keys: Record<string, () => void> = {
    "/": () => app.composer.focus(),
    "?": () => find<HTMLDialogElement>("#help").showModal(),
    "j": () => app.thread.focusAt(1),
    "k": () => app.thread.focusAt(-1),
    "e": () => app.editLast(),
    "s": () => toggleServer(),
};

function escape(): void {
    if (find<HTMLDialogElement>("#help").open) return;
    if (narrow.matches && (isOpen("sidebar") || isOpen("settings"))) {
        const id = isOpen("sidebar") ? "sidebar" : "settings";
        setOpen(id, false);
        return find(`#toggle-${id}`).focus();
    }
    app.stop();
}

function askKey(event: Event): void {
    const again = (event as CustomEvent<() => void>).detail;
    if (!isOpen("settings")) toggle("settings");
    const input = find<HTMLInputElement>("[data-name=key]");
    input.focus();
    input.scrollIntoView({ block: "center" });
    input.addEventListener("change", () => again(), { once: true });
}

function openProblem(): void {
    if (!isOpen("settings")) toggle("settings");
}

function start(): void {
    setTheme(
        (() => {
            try {
                return localStorage.getItem("mica.theme") ?? "auto";
            } catch {
                return "auto";
            }
        })(),
    );
    initialPanels();
    button("#toggle-sidebar", "menu", () => toggle("sidebar"));
    button("#toggle-settings", "sliders", () => toggle("settings"));
    button("#close-settings", "close", () => {
        toggle("settings");
        find("#toggle-settings").focus();
    });
    button("#toggle-server", "pulse", toggleServer);
    button("#new", "plus", () => app.newChat());
    button("#theme", "theme", nextTheme);
    button("#show-help", "help", () => find<HTMLDialogElement>("#help").showModal());
    find("#latest").prepend(icon("down"));
    transferButtons();
    find("#scrim").onclick = () => {
        setOpen("sidebar", false);
        setOpen("settings", false);
    };
    narrow.addEventListener("change", initialPanels);
    addEventListener("hashchange", showView);
    addEventListener("keydown", onKey);
    document.addEventListener("mica-key", askKey);
    document.addEventListener("mica-problem", openProblem, { capture: true }); // and then the field
    find("#settings-form").addEventListener("submit", (event) => event.preventDefault());
    showView();
    void app.start();
}

start();
