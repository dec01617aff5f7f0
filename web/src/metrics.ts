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
    private last = new Map<string, Family>();
    private lastAt = 0;

    add(text: string, at: number): Map<string, Family> {
        const families = parseMetrics(text);
        const seconds = (at - this.lastAt) / 1000;
        for (const family of families.values()) {
            if (!family.name.startsWith("mica_") || family.type === "untyped") continue;
            const before = this.last.get(family.name);
            const value =
                family.type === "gauge"
                    ? total(family, "")
                    : before && seconds > 0
                      ? this.change(family, before, seconds)
                      : null;
            if (value !== null && Number.isFinite(value)) this.push(family, value);
        }
        this.last = families;
        this.lastAt = at;
        return families;
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
    const title = base[0]!.toUpperCase() + base.slice(1);
    return family.type === "counter" ? { title, unit: unit ? `${unit}/s` : "/s" } : { title, unit };
}
