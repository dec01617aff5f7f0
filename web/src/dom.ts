// Elements without a framework: h("button", { class: "x", onclick: f }, "text").

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

function setProp(element: HTMLElement, key: string, value: unknown): void {
    if (value === undefined || value === null || value === false) return;
    if (key.startsWith("on") && typeof value === "function")
        element.addEventListener(key.slice(2), value as EventListener);
    else if (key === "value" || key === "checked") Object.assign(element, { [key]: value });
    else element.setAttribute(key, value === true ? "" : String(value));
}

export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    props: Props | null = null,
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const key in props) setProp(element, key, props[key]);
    for (const child of children) if (child) element.append(child);
    return element;
}

// Outlines on a grid of 24.
const shapes = {
    menu: "M4 7h16M4 12h16M4 17h10",
    plus: "M12 5v14M5 12h14",
    send: "M12 19V5M6 11l6-6 6 6",
    stop: "M7 7h10v10H7z",
    onward: "M5 6l7 6-7 6zM14 6l6 6-6 6",
    bars: "M5 20v-6M10 20V8M15 20v-9M20 20V4",
    copy: "M9 9h10v10H9zM5 15V5h10",
    check: "M5 12.5l4.5 4.5L19 7.5",
    edit: "M5 19h3.5L18.5 9 15 5.5 5 15.5zM13 7.5l3.5 3.5",
    again: "M18.5 9A7 7 0 1 0 19 13M19 5v4.5h-4.5",
    branch: "M7 5v14M7 14c6 0 10-2 10-8M14 8.5L17 5.5l3 3",
    trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
    attach:
        "M18 11.5l-6.5 6.5a4 4 0 0 1-5.6-5.6l7.4-7.4a2.7 2.7 0 0 1 3.8 3.8l-7 7" +
        "a1.3 1.3 0 0 1-1.9-1.9L14 7.5",
    sliders:
        "M4 8h9M19 8h1M4 16h1M11 16h9M13 8a3 3 0 1 0 6 0 3 3 0 1 0-6 0" +
        "M5 16a3 3 0 1 0 6 0 3 3 0 1 0-6 0",
    pulse: "M3 12h4l3-7 4 14 3-7h4",
    close: "M6 6l12 12M18 6L6 18",
    left: "M14 6l-6 6 6 6",
    right: "M10 6l6 6-6 6",
    down: "M6 10l6 6 6-6",
    save: "M12 4v11M7 11l5 5 5-5M5 20h14",
    load: "M12 16V5M7 9l5-5 5 5M5 20h14",
    theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
    help: "M9 9.5a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.1-1.5 2.4M12 18v.1",
    key: "M8 15a3.5 3.5 0 1 0 0-.1M10.5 12.5L19 4M16 7l3 3",
};
export type IconName = keyof typeof shapes;

export function icon(name: IconName): SVGSVGElement {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", shapes[name]);
    svg.append(path);
    return svg;
}

// Enter alone in a field of several lines, and not where it chooses a word of an input method.
export function isSending(event: KeyboardEvent): boolean {
    const composes = event.isComposing || event.keyCode === 229;
    return event.key === "Enter" && !event.shiftKey && !composes;
}

// A button that shows only an icon; its label is for screen readers and the tooltip.
export function iconButton(
    name: IconName,
    label: string,
    onclick: (event: MouseEvent) => void,
    props: Props = {},
): HTMLButtonElement {
    const { class: extra, ...rest } = props;
    return h(
        "button",
        {
            "type": "button",
            "aria-label": label,
            "title": label,
            onclick,
            ...rest,
            "class": extra ? `icon-button ${extra}` : "icon-button",
        },
        icon(name),
    );
}

// Copies text and says so on the button for a moment.
export async function copyText(text: string, button: HTMLElement): Promise<void> {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        if (!copyBySelection(text)) return notice("copy", "Copying is not allowed here.");
    }
    announce("Copied.");
    button.dataset["copied"] = "";
    setTimeout(() => delete button.dataset["copied"], 1200);
}

// Pages of plain http from another machine have no clipboard.
function copyBySelection(text: string): boolean {
    const area = h("textarea", { class: "hidden", value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
}

// What screen readers say, politely. An equal text is said again.
export function announce(text: string): void {
    const region = document.getElementById("status")!;
    region.textContent = "";
    setTimeout(() => (region.textContent = text), 50);
}

// A line above the composer that stays until it is closed or replaced by one with the same key, or
// until what its action does is done.
export function notice(
    key: string,
    text: string,
    action?: { label: string; run: () => unknown },
): void {
    dismiss(key);
    const line = h(
        "div",
        { "class": "notice", "data-key": key, "role": "alert" },
        h("span", null, text),
    );
    if (action) {
        const run = async () => {
            button.disabled = true;
            await action.run();
            line.remove();
        };
        const button = h(
            "button",
            { type: "button", class: "text-button", onclick: run },
            action.label,
        );
        line.append(button);
    }
    line.append(iconButton("close", "Close the notice", () => line.remove()));
    document.getElementById("notices")!.append(line);
}

export function dismiss(key: string): void {
    document.querySelector(`.notice[data-key="${key}"]`)?.remove();
}

export function formatCount(n: number): string {
    return Math.round(n).toLocaleString("en-US");
}

// Three significant digits, with a thin unit: 12.3 s, 450 ms, 2 min 5 s.
export function formatSeconds(seconds: number): string {
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function formatBytes(bytes: number): string {
    const units = ["bytes", "KB", "MB", "GB", "TB"];
    let at = 0;
    while (bytes >= 1000 && at < 4) {
        bytes /= 1000;
        at++;
    }
    return `${at ? bytes.toPrecision(3) : bytes} ${units[at]}`;
}
