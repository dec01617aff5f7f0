// The numbers among the settings, and their ranges.

export interface NumberField {
    name: string;
    label: string;
    hint: string;
    min: number;
    max: number;
    whole?: boolean;
    range?: string; // as it is told; "min to max" otherwise
}

// With the limits of the server.
export const numbers: NumberField[] = [
    { name: "temperature", label: "Temperature", hint: "0 is greedy", min: 0, max: 100 },
    { name: "top_p", label: "Top p", hint: "likeliest tokens up to this sum", min: 0, max: 1 },
    {
        name: "top_k",
        label: "Top k",
        hint: "this many of the likeliest",
        min: 0,
        max: 1e9,
        whole: true,
        range: "0: all",
    },
    { name: "min_p", label: "Min p", hint: "relative to the likeliest", min: 0, max: 1 },
    {
        name: "max_tokens",
        label: "Tokens at most",
        hint: "of an answer",
        min: 1,
        max: 2147483647,
        whole: true,
        range: "1 or more",
    },
    {
        name: "seed",
        label: "Seed",
        hint: "same seed, same answer",
        min: -9007199254740991,
        max: 9007199254740991,
        whole: true,
        range: "whole",
    },
    { name: "frequency_penalty", label: "Frequency penalty", hint: "by count", min: -2, max: 2 },
    { name: "presence_penalty", label: "Presence penalty", hint: "once", min: -2, max: 2 },
    {
        name: "repetition_penalty",
        label: "Repetition penalty",
        hint: "1 is none",
        min: 0.01,
        max: 100,
    },
];

const told = (n: number) => n.toLocaleString("en-US").replace("-", "−");
export const rangeOf = ({ min, max, range }: NumberField) =>
    range ?? `${told(min)} to ${told(max)}`;

// What is wrong with a number's field; "" if nothing is.
export function numberProblem(field: NumberField, text: string, value: number): string {
    const { min, max, whole } = field;
    if (!text) return "";
    if (Number.isNaN(value)) return "This is no number.";
    if (value < min) return `At least ${told(min)}.`;
    if (value > max) return `At most ${told(max)}.`;
    return whole && !Number.isInteger(value) ? "A whole number." : "";
}
