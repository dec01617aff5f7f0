// A script or style with all that it imports, as one text.
import { build } from "esbuild";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

// KaTeX writes MathML here, which needs no fonts: its drawings for HTML, and the sizes of its own
// fonts' characters, are left out. Which characters a font has decides how MathML names a letter.
const drawings = {
    svgGeometry:
        "export const path = {}, phasePath = null, sqrtPath = null, innerPath = null, tallDelim = null",
    delimiter:
        "export const sizeToMaxHeight = [0, 1.2, 1.8, 2.4, 3], makeSqrtImage = null, " +
        "makeSizedDelim = null, makeCustomSizedDelim = null, makeLeftRightDelim = null",
};
const withoutDrawings = {
    name: "without-drawings",
    setup({ initialOptions, onResolve, onLoad }) {
        const folder = fileURLToPath(new URL("node_modules/katex", import.meta.url));
        initialOptions.define = { __VERSION__: '""' };
        onResolve({ filter: /^katex$/ }, () => ({ path: `${folder}/katex.ts` }));
        onResolve({ filter: /\.scss$/ }, () => ({ path: "none", namespace: "none" }));
        onLoad({ filter: /.*/, namespace: "none" }, () => ({ contents: "" }));
        onLoad({ filter: /src\/(svgGeometry|delimiter)\.ts$/ }, ({ path }) => ({
            contents: drawings[basename(path, ".ts")],
        }));
        onLoad({ filter: /fontMetricsData\.js$/ }, async ({ path }) => {
            const fonts = structuredClone((await import(path)).default);
            for (const font of Object.values(fonts))
                for (const character in font) font[character] = 1;
            return { contents: `export default ${JSON.stringify(fonts)}` };
        });
    },
};

export async function bundle(entry, format = "iife") {
    const { outputFiles } = await build({
        entryPoints: [entry],
        bundle: true,
        minify: true,
        write: false,
        target: "es2022",
        format,
        charset: "utf8",
        legalComments: "none",
        plugins: [withoutDrawings],
        logLevel: "warning",
    });
    return outputFiles[0].text.trim();
}
