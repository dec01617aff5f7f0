// Prometheus' text format, and what it says over time.

export interface Sample {
    labels: string;
    value: number;
}
export interface Family {
    name: string;
    type: string;
    help: string;
    samples: Sample[];
}

export function parseMetrics(text: string): Map<string, Family> {
    const families = new Map<string, Family>();
    const family = (name: string): Family => {
        let found = families.get(name);
        if (!found) families.set(name, (found = { name, type: "untyped", help: "", samples: [] }));
        return found;
    };
    for (const line of text.split("\n")) {
        const about = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
        if (about) {
            family(about[2]!)[about[1] === "HELP" ? "help" : "type"] = about[3]!;
            continue;
        }
        const sample = /^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
        if (!sample) continue;
        const [, name, labels = "", value] = sample as unknown as [
            string,
            string,
            string?,
            string?,
        ];
        const part = name.replace(/_(bucket|sum|count)$/, "");
        const histogram = families.get(part)?.type;
        const of = histogram === "histogram" || histogram === "summary" ? part : name;
        family(of).samples.push({
            labels: of === name ? labels : name.slice(part.length) + labels,
            value: Number(value),
        });
    }
    return families;
}

// A line of a plot: gauges as they are, counters as their rate, histograms as their mean.
export interface Series {
    name: string;
    title: string;
    unit: string;
    points: number[];
}

const kept = 120; // points: four minutes

export class History {
    readonly series = new Map<string, Series>();
    families = new Map<string, Family>(); // of the last look
    private lastAt = 0;

    add(text: string, at: number): void {
        const families = parseMetrics(text);
        const seconds = (at - this.lastAt) / 1000;
        for (const family of families.values()) {
            if (!family.name.startsWith("mica_") || family.type === "untyped") continue;
            const before = this.families.get(family.name);
            const value =
                family.type === "gauge"
                    ? total(family, "")
                    : before && seconds > 0
                      ? this.change(family, before, seconds)
                      : null;
            if (value !== null && Number.isFinite(value)) this.push(family, value);
        }
        this.families = families;
        this.lastAt = at;
    }

    private change(family: Family, before: Family, seconds: number): number | null {
        if (family.type === "counter")
            return Math.max(0, total(family, "") - total(before, "")) / seconds;
        const count = total(family, "_count") - total(before, "_count");
        return count > 0 ? (total(family, "_sum") - total(before, "_sum")) / count : null;
    }

    private push(family: Family, value: number): void {
        let series = this.series.get(family.name);
        if (!series) {
            series = { ...caption(family), name: family.name, points: [] };
            this.series.set(family.name, series);
        }
        series.points.push(value);
        if (series.points.length > kept) series.points.shift();
    }
}

function total(family: Family, part: string): number {
    let sum = 0;
    for (const { labels, value } of family.samples)
        if (part === "" || labels === part || labels.startsWith(`${part}{`)) sum += value;
    return sum;
}

// What is shown first, in this order.
const titles: Record<string, string> = {
    mica_requests_running: "Answers under way",
    mica_requests_waiting: "Requests waiting",
    mica_generated_tokens_total: "Tokens of answers",
    mica_prompt_tokens_total: "Tokens of prompts",
    mica_cached_tokens_total: "Of these, cached",
    mica_cache_bytes: "Caches",
    mica_first_token_seconds: "Time to the first token",
    mica_answer_seconds: "Time of an answer",
};

export const isChief = (name: string): boolean => name in titles;

// The order of the plots: the chief ones, then the others as they came.
export function rank(name: string): number {
    const at = Object.keys(titles).indexOf(name);
    return at < 0 ? 1000 : at;
}

// The sum of a family's samples of one model.
export function ofModel(family: Family | undefined, model: string): number | null {
    const label = `model=${JSON.stringify(model)}`;
    const own = family?.samples.filter(({ labels }) => labels.includes(label)) ?? [];
    return own.length ? own.reduce((sum, { value }) => sum + value, 0) : null;
}

function caption(family: Family): { title: string; unit: string } {
    const words = family.name.replace(/^mica_/, "").replace(/_total$/, "");
    const unit = /_bytes$/.test(words)
        ? "bytes"
        : /_seconds$/.test(words)
          ? "s"
          : /_(ratio|perc)$/.test(words)
            ? "%"
            : "";
    const base = words.replace(/_(bytes|seconds|ratio|perc)$/, "").replace(/_/g, " ");
    const title = titles[family.name] ?? base[0]!.toUpperCase() + base.slice(1);
    return family.type === "counter" ? { title, unit: unit ? `${unit}/s` : "/s" } : { title, unit };
}
