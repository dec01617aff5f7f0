// What the mock answers, by the end of the user's message.

const words = (text) => text.match(/\s*\S+\s*/g) ?? [];
const tokens = (text) => text.match(/[\s\S]{1,4}/g);

const code = `Here is a short one:

\`\`\`python
def mean(values):
    """The mean of some numbers."""
    return sum(values) / len(values)  # fails on none
\`\`\`

It takes **linear** time. See [the docs](https://example.com/a).`;

const showcase = `The **key-value cache** keeps what attention has already computed, so each new \
token costs one row instead of the whole prompt.

1. *Prefill* reads the prompt once and fills the cache.
2. *Decode* adds one row a step.

| Model | Layers | Bytes a token |
|:--|--:|--:|
| Qwen3 0.6B | 28 | 114,688 |
| Llama 3.2 1B | 16 | 32,768 |

\`\`\`c
size_t cache_bytes(const config *c, size_t tokens)
{
    /* keys and values, half precision */
    return 2 * c->layers * c->kv_heads * c->head_dim * 2 * tokens;
}
\`\`\`

With a prompt of 8,192 tokens the first model needs **0.94 GB**.`;

const hostile = `<script>window.hacked = 1</script><img src=x onerror="window.hacked=2">
<svg onload="window.hacked=3"></svg><iframe srcdoc="<script>parent.hacked=4</script>"></iframe>

[click](javascript:window.hacked=5) [two](JaVaScRiPt:window.hacked=6) \
[three](data:text/html,<script>hacked=7</script>) \
[four](vbscript:x) [five](//example.com) <a href="javascript:hacked=8" onclick="hacked=9">six</a>

![pixel](https://tracker.example/pixel.png) ![x](x" onerror="window.hacked=10)

<style>body{display:none}</style><form action="/v1/models"><button id="send">x</button></form>
<div id="status" onmouseover="hacked=11">\`</code><script>hacked=12</script>\`</div>

\`\`\`html"><script>window.hacked=13</script>
<script>window.hacked = 14</script>
\`\`\`

[ok](https://example.com/ok "t\\" onclick=hacked=15")`;

const formulas =
    String.raw`The roots are $x_{1,2} = \frac{-b \pm \sqrt{b^2-4ac}}{2a}$, and \(a*b*c\) is no emphasis.

$$
\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}

$$

\[
\begin{aligned}
\nabla \cdot \mathbf{E} &= \frac{\rho}{\varepsilon_0} \\
\mathcal{L} &\in \mathbb{R}^n
\end{aligned}
\]

It costs $5, or $6 in $HOME/$USER; BACKTICK$x$BACKTICK is code, and so is

    $y$

| f | g |
|---|---|
| $\alpha$ | \(\boxed{z}\) |`.replaceAll("BACKTICK", "`");

const environments = String.raw`Text \begin{equation} a_1 *b* a_2 \end{equation} and

\begin{align*}
x &= 1 \\

y &= 2
\end{align*}

   \begin{gather}z\end{gather}.

This is \begin{itemize} no formula \end{itemize}, nor is \begin{equation} x.`;

const display = String.raw`Look:

$$
\sum_{k=1}^{n} a_k *b* c_k

+ \prod_{k=1}^{n} d_k = \text{a long formula that takes a while to come}
$$

After it.`;

const badFormulas = [
    String.raw`One: $\frac{1$ and $\nosuch{x}$, $\href{javascript:window.hacked=1}{x}$,`,
    String.raw`$\htmlStyle{position:fixed}{x}$ $\includegraphics{https://tracker.example/x.png}$`,
    String.raw`$\text{<img src=x onerror=window.hacked=1>}$ $\rule{9999em}{9999em}$`,
    String.raw`$\kern{-9999em}\colorbox{red}{over all}$ $\def\a{\a\a}\a$`,
    `$$${"{".repeat(3000)}x${"}".repeat(3000)}$$`,
    `$$${"x".repeat(9000)}$$`,
    "\nlast word",
].join("\n\n");

function* endless() {
    for (let i = 0; ; i++) yield `word${i} `;
}

const table = (rows, columns) =>
    [
        `|${"a|".repeat(columns)}`,
        `|${"-|".repeat(columns)}`,
        ...Array.from({ length: rows }, () => `|${"b|".repeat(columns)}`),
    ].join("\n");

const call = (index, id, name, pieces) => [
    { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] },
    ...pieces.map((part) => ({ tool_calls: [{ index, function: { arguments: part } }] })),
];

// A token that is a part of a character: the text comes with the last one.
const part = (bytes) => ({ bytes });

export const answers = {
    "plain": () => ({ pieces: words("Mica splits into thin sheets. That is all.") }),
    "code": () => ({ pieces: tokens(code) }),
    "How does a KV cache work?": () => ({
        ms: 8,
        pieces: [
            ...words("The user wants the idea, the cost, and a number. Keep it short.").map(
                (part) => ({ reasoning_content: part }),
            ),
            ...tokens(showcase),
        ],
    }),
    "think": () => ({
        ms: 5,
        pieces: [
            ...words("First I count the sheets.").map((part) => ({ reasoning_content: part })),
            ...words("There are **three**."),
        ],
    }),
    "tool": () => ({
        finish: "tool_calls",
        pieces: [
            ...call(0, "call_1", "get_weather", ['{"city":', ' "Oslo"}']),
            ...call(1, "call_2", "get_time", ["{}"]),
        ],
    }),
    "after tool": () => ({ pieces: words("It is raining there.") }),
    "slow": () => ({ ms: 25, pieces: endless() }),
    "endless prompt": () => ({ firstMs: 2 ** 31 - 1, pieces: ["late"] }),
    "going on": () => ({ pieces: words(" ginning, and **this is the end**.") }),
    "formulas": () => ({ pieces: tokens(formulas) }),
    "environments": () => ({ pieces: tokens(environments) }),
    "long display": () => ({ ms: 15, pauseAt: 12, pieces: tokens(display) }),
    "bad formulas": () => ({ pieces: [badFormulas] }),
    "json": () => ({ pieces: tokens('{"name": "mica"}') }),
    "hostile": () => ({ pieces: tokens(hostile) }),
    "table": () => ({ pieces: tokens(table(3, 3)) }),
    "wide": () => ({ pieces: [table(3, 16000), "\n\nafter the wide table"] }),
    "tall": () => ({ pieces: [table(20000, 5), "\n\nafter the tall table"] }),
    "one line": () => ({
        pieces: [...Array.from({ length: 16 }, () => "x".repeat(1 << 16)), "\n\nafter the line"],
    }),
    "one code line": () => ({
        pieces: [
            "```js\n",
            ...Array.from({ length: 16 }, () => "y=(".repeat(1 << 14)),
            "\n```\n\nafter the code",
        ],
    }),
    "nested": () => ({
        pieces: [
            ">".repeat(9000),
            "\n\n",
            "- ".repeat(5000),
            "\n\n",
            "_a".repeat(5900),
            "\n\n",
            `${"a.".repeat(5900)}@`,
            "\n\n",
            "[".repeat(11000),
            "\n\nafter",
        ],
    }),
    "many": () => ({
        pieces: Array.from({ length: 20000 }, (_, i) => (i % 20 ? `w${i} ` : "\n\n")),
    }),
    "broken": () => ({ pieces: words("This is the beg"), breaks: true }),
    "fails": () => ({ pieces: words("Some"), error: "the device is out of memory" }),
    "too long": () => ({
        status: 400,
        message: "the prompt has 40,000 tokens, the context 32,768",
    }),
    "busy": () => ({ status: 429, message: "the queue is full", headers: { "Retry-After": "7" } }),
    "only thoughts": () => ({
        finish: "length",
        pieces: words("First I count").map((part) => ({ reasoning_content: part })),
    }),
    "emoji": () => ({ pieces: ["It is ", part([0xf0, 0x9f]), part([0x91, 0x8d]), "."] }),
    "cut": () => ({ finish: "length", pieces: words("Once upon a") }),
};
