// Server-sent events of a response, as the HTML standard describes them: comments, events of
// several data lines, any line ending. The data is handed out, and comments to whom wants them.

const maxEvent = 16 << 20; // characters: a server that never ends a line must not fill the memory

export async function readEvents(
    body: ReadableStream<Uint8Array>,
    onData: (data: string) => void,
    onComment?: (text: string) => void,
): Promise<void> {
    const reader = body
        .pipeThrough(new TextDecoderStream() as never)
        .getReader() as ReadableStreamDefaultReader<string>;
    const parser = new EventParser(onData, onComment);
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return parser.end();
        parser.add(value);
    }
}

// Lines of a response, as JSON of one line each comes.
export async function readLines(
    body: ReadableStream<Uint8Array>,
    onLine: (line: string) => void,
): Promise<void> {
    const reader = body
        .pipeThrough(new TextDecoderStream() as never)
        .getReader() as ReadableStreamDefaultReader<string>;
    for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) return onLine(rest);
        const lines = (rest + value).split("\n");
        rest = lines.pop()!;
        if (rest.length > maxEvent) throw new Error("the server sent an endless line");
        for (const line of lines) onLine(line);
    }
}

export class EventParser {
    private rest = "";
    private data: string[] = [];
    private size = 0;

    constructor(
        private onData: (data: string) => void,
        private onComment: (text: string) => void = () => {},
    ) {}

    add(text: string): void {
        const split = this.rest.endsWith("\r") || /[\r\n]/.test(text);
        this.rest += text;
        if (this.rest.length + this.size > maxEvent)
            throw new Error("the server sent an endless event");
        if (!split) return;
        const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
        this.rest = lines.pop()!;
        for (const line of lines) this.line(line);
    }

    end(): void {
        if (this.rest) this.line(this.rest.replace(/\r$/, ""));
        this.line("");
    }

    private line(line: string): void {
        if (line === "") {
            if (this.data.length) this.onData(this.data.join("\n"));
            this.data = [];
            this.size = 0;
        } else if (line.startsWith("data:")) {
            this.data.push(line.slice(line[5] === " " ? 6 : 5));
            this.size += line.length;
        } else if (line.startsWith(":")) {
            this.onComment(line.slice(1).trim());
        }
    }
}
