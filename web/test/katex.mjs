// KaTeX as the page has it.
export { default } from "katex";
