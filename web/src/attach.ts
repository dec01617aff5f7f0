// Text files that are sent with a message.

import { formatBytes } from "./dom";
import type { TextFile } from "./types";

const maxFileBytes = 1 << 20;
const maxFiles = 20;

// The files' texts; said gets a sentence for each that is refused.
export async function readFiles(
    files: File[],
    room: number,
    said: (text: string) => void,
): Promise<TextFile[]> {
    const texts: TextFile[] = [];
    for (const file of files) {
        if (room + texts.length >= maxFiles) {
            said(`${file.name}: at most ${maxFiles} files go with a message.`);
            break;
        }
        const problem = await readFile(file, texts);
        if (problem) said(`${file.name}: ${problem}`);
    }
    return texts;
}

async function readFile(file: File, texts: TextFile[]): Promise<string> {
    if (/^(image|audio|video)\//.test(file.type)) return "only text can be attached.";
    if (file.size > maxFileBytes)
        return `its ${formatBytes(file.size)} are more than ${formatBytes(maxFileBytes)}.`;
    try {
        const bytes = await file.arrayBuffer();
        const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
        if (text.includes("\0")) return "it is not a text.";
        texts.push({ name: file.name.slice(0, 200), text });
        return "";
    } catch {
        return "it is not a text in UTF-8, or cannot be read.";
    }
}
