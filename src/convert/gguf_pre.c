#include "convert/gguf_pre.h"

#include <string.h>

/* ---- patterns ---- */

/* What most of them are made of. */
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define REST "|\\s+(?!\\S)|\\s+"
#define SPACES "\\s*[\\r\\n]+" REST
#define WORDS(digits) ENDINGS "|" LETTERS "|\\p{N}" digits "|" MARKS "|" SPACES

/* Words of upper letters and then lower ones, with what may follow them. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(after, digits)                                                               \
    BEFORE UPPER "*" LOWER "+" after "|" BEFORE UPPER "+" LOWER "*" after "|\\p{N}" digits \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

#define CJK "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define CJK_WIDE "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define ASCII_MARK "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define MARKED(marks, spaces) \
    ASCII_MARK "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+" marks "|" spaces

#define NOT_HAN(class) "(?:(?!\\p{Han})" class ")"
#define HAN_WORDS                                                                          \
    "\\p{Han}+|" BEFORE NOT_HAN(UPPER) "*" NOT_HAN(LOWER) "+" ENDINGS "?|" BEFORE NOT_HAN( \
        UPPER) "+" NOT_HAN(LOWER) "*" ENDINGS "?|\\p{N}{1,3}|" MARKS "|" SPACES

#define LINES "[^\\n]+|[\\n]+"
#define FALCON_MARKS "[\\p{P}\\$\\+<=>\\^~\\|`]+"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

static const char *const gpt2[] = {MC_GGUF_GPT2, NULL};
static const char *const digits_gpt2[] = {MC_GGUF_DIGIT, MC_GGUF_GPT2, NULL};
static const char *const llama3[] = {WORDS("{1,3}"), NULL};
static const char *const qwen2[] = {WORDS(""), NULL};
static const char *const qwen35[] = {
    ENDINGS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
    NULL};
static const char *const gpt4o[] = {CASED(ENDINGS "?", "{1,3}"), NULL};
static const char *const tekken[] = {CASED("", ""), NULL};
static const char *const deepseek3[] = {"\\p{N}{1,3}", CJK, MARKED("[\r\n]*", "\\s*[\r\n]+" REST),
                                        NULL};
static const char *const spark[] = {"\\p{N}{1,3}", CJK, MARKED("", "[\r\n]" REST), MC_GGUF_DIGIT,
                                    NULL};
/* clang-format off */
static const char *const deepseek_llm[] = {
    "[\r\n]",
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
    "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-"
    "\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18"
    "-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2"
    "-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-"
    "\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-"
    "\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-"
    "\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-"
    "\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", "\\s+$", CJK_WIDE,
    MC_GGUF_DIGIT, NULL};
/* clang-format on */
static const char *const deepseek_coder[] = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                                             CJK_WIDE, MC_GGUF_DIGIT, NULL};
static const char *const falcon[] = {FALCON_MARKS, MC_GGUF_GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const bloom[] = {BLOOM, NULL};
static const char *const viking[] = {BLOOM, MC_GGUF_DIGIT, NULL};
static const char *const jais2[] = {
    ENDINGS "|" LETTERS "|\\p{N}{1,3}|" MARKS
            "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|"
            "\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}",
    NULL};
static const char *const youtu[] = {
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
    "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" CJK,
    CASED(ENDINGS "?", ""), NULL};
static const char *const chameleon[] = {"<sentinel:[0-9]+>",
                                        "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                                        "([\\t\\n]|    |  )",
                                        MC_GGUF_DIGIT,
                                        "[\\p{P}!-/:-@\\[-`{-~]",
                                        MC_GGUF_GPT2,
                                        NULL};
static const char *const tiny_aya[] = {"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(ENDINGS "?", "{1,3}"),
                                       NULL};
static const char *const kimi[] = {HAN_WORDS, NULL};
static const char *const superbpe[] = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))", NULL};
static const char *const bailing[] = {
    "'(?i:[sdmt]|ll|ve|re)|" LETTERS "|\\p{N}|" MARKS "|\\s*[\\r\\n]" REST, NULL};
static const char *const seed[] = {
    ENDINGS "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+" REST, NULL};
static const char *const no_endings[] = {LETTERS "|\\p{N}|" MARKS "|" SPACES, NULL};
static const char *const afmoe[] = {
    "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
    "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
    "\u1100-\u11ff]+",
    MARKED("[\\r\\n]*", SPACES), NULL};
static const char *const laguna[] = {LINES, WORDS(""), NULL};
static const char *const exaone_moe[] = {
    ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]" REST,
    NULL};
static const char *const minicpm5[] = {"\\p{N}{1,3}", WORDS("+"), NULL};
static const char *const lines[] = {LINES, NULL};
static const char *const unnamed[] = {FALCON_MARKS, MC_GGUF_GPT2, "\\p{N}+", "[0-9][0-9][0-9]",
                                      NULL};

/* ---- names ---- */

/* clang-format off */
static const mc_gguf_pre rows[] = {
    /* names, splits; ignore_merges, bos, sep, nfc, blanks */
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", llama3,
     true, true, false, false, false},
    {"qwen2 kormo f2llmv2 megrez", qwen2, false, false, false, true, false},
    {"deepseek-r1-qwen", qwen2, false, true, false, true, false},
    {"qwen35", qwen35, false, false, false, true, false},
    {"stablelm2 hunyuan solar-open grok-2", qwen2, false, false, false, false, false},
    {"dbrx smaug-bpe chatglm-bpe", llama3, false, false, false, false, false},
    {"glm4 glm5", llama3, true, false, false, false, false},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum exaone4 jais "
     "trillion granite-docling", gpt2, false, false, false, false, false},
    {"roberta-bpe jina-v1-en jina-v2-code", gpt2, false, false, true, false, false},
    {"olmo mpt modern-bert", gpt2, false, false, false, true, false},
    {"smollm starcoder refact codeshell exaone minerva-7b mellum2", digits_gpt2, false, false,
     false, false, false},
    {"command-r", digits_gpt2, false, false, false, true, false},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", gpt4o, false, false, false, false, false},
    {"granite-embed-multi-97m", gpt4o, true, false, false, false, false},
    {"tekken", tekken, true, true, false, false, false},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", deepseek3, false, false, false, false, false},
    {"deepseek-llm", deepseek_llm, false, false, false, false, false},
    {"deepseek-coder", deepseek_coder, false, false, false, false, false},
    {"spark2_5", spark, false, false, false, false, false},
    {"youtu", youtu, true, false, false, false, false},
    {"falcon", falcon, false, false, false, false, false},
    {"bloom poro-chat gpt3-finnish", bloom, false, false, false, false, false},
    {"viking", viking, false, false, false, false, false},
    {"jais-2", jais2, false, false, false, false, false},
    {"chameleon", chameleon, false, true, false, false, false},
    {"tiny_aya cohere2moe", tiny_aya, false, false, false, false, false},
    {"kimi-k2", kimi, false, false, false, false, false},
    {"superbpe", superbpe, false, false, false, false, false},
    {"bailingmoe bailingmoe2 llada-moe", bailing, false, false, false, false, false},
    {"seed-coder", seed, false, false, false, false, false},
    {"ufakzeka", no_endings, false, false, false, false, false},
    {"afmoe", afmoe, false, false, false, false, false},
    {"laguna", laguna, false, false, false, false, false},
    {"exaone-moe", exaone_moe, false, false, false, false, false},
    {"minicpm5", minicpm5, true, false, false, false, false},
    {"gemma4 granite-embed-multi-311m", lines, false, true, false, false, true},
    {"sarvam-moe", lines, false, false, false, false, true},
    {"default", unnamed, false, false, false, false, false},
};
/* clang-format on */

const mc_gguf_pre *mc_gguf_pre_at(size_t i) {
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

/* The name at the beginning of a list of names. */
static mc_str first_name(const char *names) {
    return (mc_str){names, strcspn(names, " ")};
}

static bool lists(const char *names, mc_str name) {
    for (;;) {
        mc_str one = first_name(names);
        if (mc_str_eq(one, name)) return true;
        if (!one.ptr[one.len]) return false;
        names += one.len + 1;
    }
}

const mc_gguf_pre *mc_gguf_pre_find(mc_str name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (lists(rows[i].names, name)) return &rows[i];
    return NULL;
}

mc_str mc_gguf_pre_name(const mc_gguf_pre *pre) {
    return first_name(pre->names);
}
