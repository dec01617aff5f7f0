// The one place where HTML becomes elements. marked and highlight.js give HTML in which text is
// escaped; DOMPurify takes out whatever is not on these lists all the same. The page's policy
// (require-trusted-types-for) lets no other code turn a string into elements.

import DOMPurify from "dompurify";

const answerTags = [
    "p",
    "br",
    "hr",
    "strong",
    "em",
    "del",
    "code",
    "blockquote",
    "ul",
    "ol",
    "li",
    "a",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "pre",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
    "#text",
];

// What KaTeX writes of MathML. No element of it has a link, loads or runs anything.
const formulaTags = [
    "math",
    "semantics",
    "annotation",
    "mrow",
    "mi",
    "mn",
    "mo",
    "ms",
    "mtext",
    "mspace",
    "mfrac",
    "msqrt",
    "mroot",
    "msub",
    "msup",
    "msubsup",
    "munder",
    "mover",
    "munderover",
    "mtable",
    "mtr",
    "mtd",
    "mlabeledtr",
    "menclose",
    "mpadded",
    "mphantom",
    "mstyle",
];
const formulaAttributes = [
    "accent",
    "accentunder",
    "columnalign",
    "columnlines",
    "columnspacing",
    "depth",
    "display",
    "displaystyle",
    "encoding",
    "fence",
    "height",
    "linethickness",
    "lspace",
    "mathbackground",
    "mathcolor",
    "mathsize",
    "mathvariant",
    "maxsize",
    "minsize",
    "movablelimits",
    "notation",
    "rowspacing",
    "rspace",
    "scriptlevel",
    "separator",
    "stretchy",
    "symmetric",
    "voffset",
    "width",
];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.tagName !== "A") return;
    if (!node.hasAttribute("href")) return;
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
});

export function answerFragment(html: string): DocumentFragment {
    return DOMPurify.sanitize(html, {
        ALLOWED_TAGS: [...answerTags, ...formulaTags],
        ALLOWED_ATTR: ["href", "title", "align", "start", ...formulaAttributes],
        ADD_URI_SAFE_ATTR: ["align", "start", ...formulaAttributes],
        ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
        ALLOW_DATA_ATTR: false,
        ALLOW_ARIA_ATTR: false,
        RETURN_DOM_FRAGMENT: true,
    });
}

export function highlightedFragment(html: string): DocumentFragment {
    return DOMPurify.sanitize(html, {
        ALLOWED_TAGS: ["span", "#text"],
        ALLOWED_ATTR: ["class"],
        ALLOW_DATA_ATTR: false,
        ALLOW_ARIA_ATTR: false,
        RETURN_DOM_FRAGMENT: true,
    });
}
