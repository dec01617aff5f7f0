// Bundles the page into one file: node build.mjs OUT. tools/build-web runs it.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { bundle } from "./bundle.mjs";

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// The packages in the bundle, and whose they are: the page itself says so.
const bundled = {
    "dompurify": "Copyright Dr.-Ing. Mario Heiderich, Cure53",
    "highlight.js": "Copyright (c) 2006, Ivan Sagalaev",
    "katex": "Copyright (c) 2013-2020 Khan Academy and other contributors",
    "marked": "Copyright (c) 2018+, MarkedJS; 2011-2018, Christopher Jeffrey",
};
const names = Object.keys(bundled);
const licence = (name) => readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
const notices = names.map((name) => {
    const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
    return `  ${name} ${version}, ${license}. ${bundled[name]}.`;
});

const script = await bundle("src/main.ts");
const style = await bundle("src/style.css");
if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its element");

const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "img-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dompurify",
].join("; ");

let page = readFileSync("src/index.html", "utf8");
for (const [place, text] of [
    [
        "<head>",
        `<head>\n<!-- Built from web/. It holds\n${notices.join("\n")}\n` +
            "  Their licences: web/dist/LICENSES in mica's source. -->",
    ],
    ['Content-Security-Policy" content="', `Content-Security-Policy" content="${policy}`],
    ["<style>", `<style>${style}`],
    ["<script>", `<script>${script}`],
]) {
    if (page.split(place).length !== 2) throw new Error(`src/index.html: not one ${place}`);
    page = page.replace(place, () => text);
}
const out = process.argv[2];
writeFileSync(`${out}/index.html`, page);
writeFileSync(
    `${out}/LICENSES`,
    names.map((name) => `${name}\n${"=".repeat(name.length)}\n\n${licence(name)}\n`).join("\n\n"),
);
