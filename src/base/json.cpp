#include "base/json.h"

#include "base/alloc.h"
#include "base/json_fault.h"
#include "base/system.h"

#include <simdjson.h>

#include <cstring>
#include <limits>
#include <new>

/* A document of simdjson is a tape of 64-bit words (its doc/tape.md) and a buffer of strings. An
 * mc_json is the document and an index on the tape, as simdjson's tape_ref. */
struct mc_json_doc {
    simdjson::dom::document dom;
};

namespace {

using simdjson::internal::tape_ref;
using simdjson::internal::tape_type;

constexpr size_t max_depth = MC_JSON_DEPTH;
constexpr size_t large_text = size_t{4} << 20;
constexpr size_t root_at = 1; /* word 0 of the tape frames the document */

/* Frees with mc_free, so that early returns leak nothing. */
struct text_owner {
    char *data = nullptr;
    text_owner() = default;
    text_owner(const text_owner &) = delete;
    text_owner &operator=(const text_owner &) = delete;
    ~text_owner() { mc_free(data); }
};

/* Allocates memory for text and for the padding that simdjson reads beyond its end. */
bool alloc_padded(size_t len, text_owner &out) {
    if (len > std::numeric_limits<size_t>::max() - simdjson::SIMDJSON_PADDING) return false;
    out.data = static_cast<char *>(mc_alloc(len + simdjson::SIMDJSON_PADDING));
    if (out.data) std::memset(out.data + len, 0, simdjson::SIMDJSON_PADDING);
    return out.data;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A text that is copied with changes. out NULL: only counts. */
struct rewriting {
    const char *text;
    size_t len;
    bool python; /* the words NaN, Infinity and -Infinity are values */
    char *out;
    size_t n; /* written */

    void put(char c) {
        if (out) out[n] = c;
        n++;
    }
    void put_text(const char *s) {
        while (*s)
            put(*s++);
    }
};

/* Copies the integer at text[at], and appends the exponent "e0" to one of 19 digits and more, which
 * may not fit 64 bits: it becomes a float. tokenizer_config.json's model_max_length of 10^30 needs
 * that. Returns the place behind it. */
size_t widen_integer(rewriting &r, size_t at) {
    const char *text = r.text;
    size_t begin = at, len = r.len;
    while (at < len && is_digit(text[at]))
        r.put(text[at++]);
    bool whole = at == len || (text[at] != '.' && text[at] != 'e' && text[at] != 'E');
    bool fraction = begin > 0 && (std::strchr(".eE+", text[begin - 1]) != nullptr ||
                                  (text[begin - 1] == '-' && begin > 1 &&
                                   (text[begin - 2] == 'e' || text[begin - 2] == 'E')));
    if (whole && !fraction && at - begin >= 19) r.put_text("e0");
    return at;
}

/* Writes one of Python's words at text[at] as the object that transformers has for it, which is
 * JSON. Returns the place behind the word; `at`: there is none. */
size_t rewrite_word(rewriting &r, size_t at) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (const char *word : words) {
        size_t n = std::strlen(word);
        if (r.len - at < n || std::memcmp(r.text + at, word, n) != 0) continue;
        r.put_text("{\"__float__\":\"");
        r.put_text(word);
        r.put_text("\"}");
        return at + n;
    }
    return at;
}

/* Copies text, but for what simdjson does not take. Returns the new length. */
size_t rewrite(const char *text, size_t len, bool python, char *out) {
    rewriting r = {text, len, python, out, 0};
    bool in_string = false;
    for (size_t i = 0; i < len;) {
        if (!in_string && is_digit(text[i])) {
            i = widen_integer(r, i);
            continue;
        }
        size_t behind = python && !in_string ? rewrite_word(r, i) : i;
        if (behind > i) {
            i = behind;
            continue;
        }
        if (in_string && text[i] == '\\' && i + 1 < len)
            r.put(text[i++]);
        else if (text[i] == '"')
            in_string = !in_string;
        r.put(text[i++]);
    }
    return r.n;
}

/* simdjson allocates for the worst case, and touches only what this text needs. For a long text
 * half of the time to parse were page faults: large pages avoid them. */
void prefer_large_pages(size_t len, simdjson::dom::parser &parser, simdjson::dom::document &dom) {
    mc_prefer_large_pages(dom.tape.get(), len * sizeof(uint64_t));
    mc_prefer_large_pages(dom.string_buf.get(), len);
    mc_prefer_large_pages(parser.implementation->structural_indexes.get(), len * sizeof(uint32_t));
}

template <class Implementation> const simdjson::implementation &made_once() {
    static const Implementation made;
    return made;
}

/* The implementation for this processor. simdjson's default choice calls a function that must not
 * throw; before version 3.9.2 that function allocates, so that the process would end without
 * memory. Here the implementation is made by code that may throw, and the exception is caught. */
const simdjson::implementation &implementation() {
#if defined(__x86_64__) && SIMDJSON_IMPLEMENTATION_HASWELL
    const auto &avx2 = made_once<simdjson::haswell::implementation>();
    if (avx2.supported_by_runtime_system()) return avx2;
#endif
    return made_once<simdjson::SIMDJSON_BUILTIN_IMPLEMENTATION::implementation>();
}

/* text: [len], and its padding. */
simdjson::error_code parse_padded(const char *text, size_t len, simdjson::dom::document &dom) {
    if (mc_alloc_should_fail()) return simdjson::MEMALLOC;
    simdjson::dom::parser parser;
    size_t capacity = len < 32 ? 32 : len;
    simdjson::error_code error = implementation().create_dom_parser_implementation(
        capacity, max_depth, parser.implementation);
    if (!error) error = dom.allocate(capacity);
    if (error) return error;
    if (len >= large_text) prefer_large_pages(len, parser, dom);
    return parser.parse_into_document(dom, text, len, false).error();
}

/* Parses a text once more, rewritten. Returns the first error if there is nothing to rewrite. */
simdjson::error_code parse_rewritten(const char *text, size_t len, bool python,
                                     simdjson::dom::document &dom, simdjson::error_code error) {
    size_t new_len = rewrite(text, len, python, nullptr);
    if (new_len == len) return error;
    text_owner copy;
    if (!alloc_padded(new_len, copy)) return simdjson::MEMALLOC;
    rewrite(text, len, python, copy.data);
    return parse_padded(copy.data, new_len, dom);
}

/* The error in words that follow "it". */
const char *reason(simdjson::error_code error) {
    switch (error) {
    case simdjson::EMPTY:
        return "is empty";
    case simdjson::DEPTH_ERROR:
        return "is nested deeper than 256 levels";
    case simdjson::CAPACITY:
        return "is larger than 4 GB";
    case simdjson::UTF8_ERROR:
        return "is not UTF-8";
    case simdjson::STRING_ERROR:
        return "has a malformed string";
    case simdjson::UNCLOSED_STRING:
        return "has a string without an end";
    case simdjson::UNESCAPED_CHARS:
        return "has a control character in a string";
    case simdjson::NUMBER_ERROR:
        return "has a malformed number";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR:
        return "has a word that is not true, false or null";
    default:
        return "has a syntax error, or ends too early";
    }
}

/* The error, with the place in the text if it is found again there. */
mica_status fail_at_fault(const char *text, size_t len, const char *name, bool python,
                          simdjson::error_code error) {
    mc_json_fault fault;
    if (!mc_json_find_fault(text, len, python, &fault))
        return mc_fail(MICA_EFORMAT, "%s: not valid JSON: it %s", name, reason(error));
    return mc_fail(MICA_EFORMAT, "%s: not valid JSON: it %s (line %zu, column %zu%s%s)", name,
                   fault.why, fault.line, fault.column, fault.field[0] ? ", in " : "", fault.field);
}

/* text: [len], and its padding. */
mica_status parse(const char *text, size_t len, const char *name, bool python, mc_json_doc &doc) {
    if (len >= 3 && std::memcmp(text, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
        text += 3;
        len -= 3;
    }
    simdjson::error_code error = parse_padded(text, len, doc.dom);
    /* simdjson's versions return different errors for an integer that is too large. */
    if (error != simdjson::SUCCESS && error != simdjson::MEMALLOC) {
        error = parse_rewritten(text, len, python, doc.dom, error);
    }
    if (error == simdjson::MEMALLOC) return mc_fail_nomem(name);
    return error ? fail_at_fault(text, len, name, python, error) : MICA_OK;
}

/* text: [len], and its padding. */
mica_status make_doc(const char *text, size_t len, const char *name, bool python,
                     mc_json_doc **doc) {
    void *memory = mc_alloc(sizeof(mc_json_doc));
    if (!memory) return mc_fail_nomem(name);
    mc_json_doc *made = new (memory) mc_json_doc;
    mica_status status;
    try {
        status = parse(text, len, name, python, *made);
    } catch (const std::bad_alloc &) {
        status = mc_fail_nomem(name);
    }
    if (status != MICA_OK) {
        mc_json_close(&made);
        return status;
    }
    *doc = made;
    return MICA_OK;
}

tape_ref ref(mc_json v) {
    return tape_ref(static_cast<const simdjson::dom::document *>(v.doc), v.at);
}

mc_str view(const tape_ref &r) {
    return mc_str{r.get_c_str(), r.get_string_length()};
}

} // namespace

mica_status mc_json_parse(const char *text, size_t len, const char *name, mc_json_doc **doc) {
    *doc = nullptr;
    text_owner padded;
    if (!alloc_padded(len, padded)) return mc_fail_nomem(name);
    if (len) std::memcpy(padded.data, text, len);
    return make_doc(padded.data, len, name, false, doc);
}

mica_status mc_json_load(const char *path, mc_file_kind kind, mc_json_doc **doc) {
    *doc = nullptr;
    mc_filemap file;
    MC_TRY(mc_filemap_read(path, kind, simdjson::SIMDJSON_PADDING, nullptr, &file));
    mica_status status = mc_file_check_pointer(path, file.data, file.size);
    if (status == MICA_OK)
        status = make_doc(reinterpret_cast<const char *>(file.data), file.size, path, true, doc);
    mc_filemap_close(&file);
    return status;
}

void mc_json_close(mc_json_doc **doc) {
    if (!*doc) return;
    (*doc)->~mc_json_doc();
    mc_free(*doc);
    *doc = nullptr;
}

mc_json mc_json_root(const mc_json_doc *doc) {
    return mc_json{&doc->dom, root_at};
}

mc_json_type mc_json_get_type(mc_json v) {
    if (!v.doc) return MC_JSON_NONE;
    switch (ref(v).tape_ref_type()) {
    case tape_type::NULL_VALUE:
        return MC_JSON_NULL;
    case tape_type::TRUE_VALUE:
    case tape_type::FALSE_VALUE:
        return MC_JSON_BOOL;
    case tape_type::INT64:
        return MC_JSON_INT;
    case tape_type::UINT64: /* above the range of int64 */
    case tape_type::DOUBLE:
        return MC_JSON_FLOAT;
    case tape_type::STRING:
        return MC_JSON_STRING;
    case tape_type::START_ARRAY:
        return MC_JSON_ARRAY;
    case tape_type::START_OBJECT:
        return MC_JSON_OBJECT;
    default:
        return MC_JSON_NONE;
    }
}

bool mc_json_exists(mc_json v) {
    mc_json_type type = mc_json_get_type(v);
    return type != MC_JSON_NONE && type != MC_JSON_NULL;
}

bool mc_json_get_bool(mc_json v, bool *out) {
    if (mc_json_get_type(v) != MC_JSON_BOOL) return false;
    *out = ref(v).tape_ref_type() == tape_type::TRUE_VALUE;
    return true;
}

bool mc_json_get_int(mc_json v, int64_t *out) {
    mc_json_type type = mc_json_get_type(v);
    if (type == MC_JSON_INT) {
        *out = ref(v).next_tape_value<int64_t>();
        return true;
    }
    double d = 0;
    /* 2^63 is the first float past the range. A whole float within the range converts exactly. */
    if (!mc_json_get_float(v, &d) || !(d >= -0x1p63 && d < 0x1p63)) return false;
    int64_t whole = static_cast<int64_t>(d);
    if (static_cast<double>(whole) < d || static_cast<double>(whole) > d) return false;
    *out = whole;
    return true;
}

bool mc_json_get_uint(mc_json v, uint64_t *out) {
    int64_t whole = 0;
    if (v.doc && ref(v).tape_ref_type() == tape_type::UINT64) {
        *out = ref(v).next_tape_value<uint64_t>();
        return true;
    }
    if (mc_json_get_type(v) != MC_JSON_INT || !mc_json_get_int(v, &whole) || whole < 0)
        return false;
    *out = static_cast<uint64_t>(whole);
    return true;
}

bool mc_json_get_float(mc_json v, double *out) {
    if (!v.doc) return false;
    tape_ref r = ref(v);
    switch (r.tape_ref_type()) {
    case tape_type::INT64:
        *out = static_cast<double>(r.next_tape_value<int64_t>());
        return true;
    case tape_type::UINT64:
        *out = static_cast<double>(r.next_tape_value<uint64_t>());
        return true;
    case tape_type::DOUBLE:
        *out = r.next_tape_value<double>();
        return true;
    default:
        return false;
    }
}

bool mc_json_get_str(mc_json v, mc_str *out) {
    if (mc_json_get_type(v) != MC_JSON_STRING) return false;
    *out = view(ref(v));
    return true;
}

mc_json mc_json_find(mc_json v, const char *key) {
    mc_json found = {nullptr, 0};
    if (mc_json_get_type(v) != MC_JSON_OBJECT) return found;
    mc_str wanted = mc_str_of(key);
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        if (mc_str_eq(it.key, wanted)) found = it.value;
    }
    return found;
}

mc_json_iter mc_json_begin(mc_json v) {
    mc_json_iter it = {{nullptr, 0}, {v.doc, 0}, 0, 0, false};
    mc_json_type type = mc_json_get_type(v);
    if (type != MC_JSON_ARRAY && type != MC_JSON_OBJECT) return it;
    it.object = type == MC_JSON_OBJECT;
    it.next = v.at + 1;
    it.end = ref(v).after_element() - 1; /* the word of the closing brace */
    return it;
}

bool mc_json_next(mc_json_iter *it) {
    if (it->next >= it->end) return false;
    if (it->object) {
        it->key = view(ref(mc_json{it->value.doc, it->next}));
        it->next++;
    }
    it->value.at = it->next;
    it->next = ref(it->value).after_element();
    return true;
}

size_t mc_json_count(mc_json v) {
    mc_json_iter it = mc_json_begin(v);
    if (it.next >= it.end) return 0;
    constexpr uint32_t saturated = simdjson::internal::JSON_COUNT_MASK;
    uint32_t counted = ref(v).scope_count();
    if (counted < saturated) return counted;
    size_t n = 0;
    while (mc_json_next(&it))
        n++;
    return n;
}
