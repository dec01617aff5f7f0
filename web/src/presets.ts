// Presets: settings by name, kept in this browser. A preset has all settings but the model.

import { readSettings } from "./transfer";
import type { Preset, Settings } from "./types";

const storeName = "mica.presets";
export const maxPresets = 100;
export const maxPresetName = 60;

let memory = "[]"; // where the browser keeps nothing

export function presetOf(name: string, settings: Settings): Preset {
    return { name, settings: { ...structuredClone(settings), model: "" } };
}

// What is known of a list of presets: of a file, or of the storage.
export function readPresets(value: unknown): Preset[] {
    if (!Array.isArray(value)) return [];
    const presets: Preset[] = [];
    for (const entry of value) {
        const name = typeof entry?.name === "string" ? entry.name.trim() : "";
        if (!name || presets.length >= maxPresets) continue;
        presets.push(presetOf(name.slice(0, maxPresetName), readSettings(entry.settings)));
    }
    return presets;
}

export function listPresets(): Preset[] {
    let text = memory;
    try {
        text = localStorage.getItem(storeName) ?? "[]";
    } catch {
        /* off */
    }
    try {
        return readPresets(JSON.parse(text));
    } catch {
        return [];
    }
}

function keep(presets: Preset[]): void {
    if (presets.length > maxPresets)
        throw new Error(`There are ${maxPresets} presets: delete one before you save another.`);
    presets.sort((a, b) => a.name.localeCompare(b.name));
    memory = JSON.stringify(presets);
    try {
        localStorage.setItem(storeName, memory);
    } catch (error) {
        if ((error as Error).name === "QuotaExceededError")
            throw new Error("The storage is full: the preset is not saved.");
    }
}

// Saves a preset, in place of another of its name.
export function savePreset(preset: Preset): void {
    keep([...listPresets().filter(({ name }) => name !== preset.name), preset]);
}

export function deletePreset(name: string): void {
    keep(listPresets().filter((preset) => preset.name !== name));
}

export function sameSettings(a: Settings, b: Settings): boolean {
    const text = (settings: Settings) =>
        JSON.stringify(readSettings({ ...settings, model: "" }), (_, value) =>
            value && typeof value === "object" && !Array.isArray(value)
                ? Object.fromEntries(Object.entries(value).sort())
                : value,
        );
    return text(a) === text(b);
}

// Adds those of a file; one whose name is taken by other settings gets a number. Returns how many
// are new.
export function addPresets(added: Preset[]): number {
    const presets = listPresets();
    let count = 0;
    for (const preset of added) {
        const named = (name: string) => presets.find((other) => other.name === name);
        let { name } = preset;
        for (let n = 2; named(name) && !sameSettings(named(name)!.settings, preset.settings); n++)
            name = `${preset.name} (${n})`;
        if (named(name)) continue;
        presets.push({ ...preset, name });
        count++;
    }
    if (count) keep(presets);
    return count;
}
