#include "io/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
enum { ALIGNMENT = 64, PREFIX_BYTES = 10 };

static const struct {
    const char *descr;
    mica_dtype dtype;
} kinds[] = {
    {"|b1", MICA_BOOL}, {"|u1", MICA_U8},   {"|i1", MICA_I8},   {"<u2", MICA_U16},
    {"<i2", MICA_I16},  {"<u4", MICA_U32},  {"<i4", MICA_I32},  {"<u8", MICA_U64},
    {"<i8", MICA_I64},  {"<f2", MICA_F16},  {"<f4", MICA_F32},  {"<c8", MICA_C64},
    {"<f8", MICA_F64},  {"<V2", MICA_BF16}, {"|V2", MICA_BF16}, {"<u1", MICA_U8},
    {"<i1", MICA_I8},   {"<b1", MICA_BOOL},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- reading ---- */

typedef struct reader {
    const char *at, *end;
    const char *name;
} reader;

static mica_status bad(const reader *r, const char *why) {
    return mc_fail(MICA_EFORMAT, "%s: the header of an array of numpy: %s", r->name, why);
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
        r->at++;
}

/* Takes a character, after blanks. */
static bool take_char(reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* Takes a text in quotes, which holds no backslash. */
static bool take_text(reader *r, char *out, size_t bytes) {
    skip_blanks(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return false;
    char quote = *r->at++;
    size_t n = 0;
    while (r->at < r->end && *r->at != quote) {
        if (n + 1 >= bytes || *r->at == '\\') return false;
        out[n++] = *r->at++;
    }
    out[n] = 0;
    return take_char(r, quote);
}

static bool take_word(reader *r, const char *word) {
    size_t len = strlen(word);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) return false;
    r->at += len;
    return true;
}

static bool take_number(reader *r, int64_t *value) {
    skip_blanks(r);
    *value = 0;
    if (r->at == r->end || *r->at < '0' || *r->at > '9') return false;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (*value > (INT64_MAX - 9) / 10) return false;
        *value = *value * 10 + (*r->at - '0');
    }
    return true;
}

static mica_status read_shape(reader *r, mc_npy *npy) {
    if (!take_char(r, '(')) return bad(r, "its shape is none");
    while (!take_char(r, ')')) {
        int64_t dim;
        if (!take_number(r, &dim)) return bad(r, "its shape is none");
        if (npy->ndim == MICA_MAX_NDIM)
            return mc_fail(MICA_EUNSUPPORTED, "%s: an array of more than %d axes", r->name,
                           MICA_MAX_NDIM);
        npy->shape[npy->ndim++] = dim;
        if (!take_char(r, ',') && (r->at == r->end || *r->at != ')'))
            return bad(r, "its shape is none");
    }
    return MICA_OK;
}

static mica_status read_descr(reader *r, mc_npy *npy) {
    if (take_text(r, npy->descr, sizeof npy->descr)) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: an array of structures", r->name);
}

static mica_status read_member(reader *r, mc_npy *npy, unsigned *seen) {
    char key[16];
    if (!take_text(r, key, sizeof key) || !take_char(r, ':')) return bad(r, "want a dict");
    unsigned bit = strcmp(key, "descr") == 0           ? 1
                   : strcmp(key, "fortran_order") == 0 ? 2
                   : strcmp(key, "shape") == 0         ? 4
                                                       : 0;
    if (!bit || (*seen & bit)) return bad(r, "an unknown key, or one that is there twice");
    *seen |= bit;
    if (bit == 1) return read_descr(r, npy);
    if (bit == 4) return read_shape(r, npy);
    npy->fortran = take_word(r, "True");
    return npy->fortran || take_word(r, "False") ? MICA_OK : bad(r, "fortran_order is no bool");
}

static mica_status read_dict(reader *r, mc_npy *npy) {
    unsigned seen = 0;
    if (!take_char(r, '{')) return bad(r, "want a dict");
    while (!take_char(r, '}')) {
        MC_TRY(read_member(r, npy, &seen));
        if (!take_char(r, ',') && (r->at == r->end || *r->at != '}')) return bad(r, "want a dict");
    }
    skip_blanks(r);
    if (r->at != r->end) return bad(r, "something follows the dict");
    return seen == 7 ? MICA_OK : bad(r, "descr, fortran_order or shape is missing");
}

/* Finds the dtype and the size of the elements. */
static mica_status find_kind(const reader *r, mc_npy *npy) {
    static const char others[] = "fiucb";
    const char *d = npy->descr;
    uint64_t width = 0, n = 1;
    for (size_t i = 0; i < N_KINDS && !npy->has_dtype; i++)
        if (strcmp(d, kinds[i].descr) == 0) {
            npy->has_dtype = true;
            npy->dtype = kinds[i].dtype;
            width = mica_dtype_bytes(npy->dtype);
        }
    if (!width && (d[0] == '<' || d[0] == '|') && d[1] && strchr(others, d[1]) && d[2] >= '1' &&
        d[2] <= '9' && !d[3])
        width = (uint64_t)(d[2] - '0');
    if (!width && strcmp(d, "<c16") == 0) width = 16;
    if (!width && strcmp(d, "<f16") == 0) width = 16;
    if (!width)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: an array of numpy's kind '%s'; mica reads little-endian numbers and "
                       "bools",
                       r->name, d);
    for (int i = 0; i < npy->ndim; i++)
        if (npy->shape[i] == 0) n = 0;
    for (int i = 0; i < npy->ndim && n; i++) {
        if ((uint64_t)npy->shape[i] > INT64_MAX / 16 / n) return bad(r, "its size overflows");
        n *= (uint64_t)npy->shape[i];
    }
    npy->bytes = n * width;
    return MICA_OK;
}

mica_status mc_npy_parse(const uint8_t *bytes, size_t size, const char *name, mc_npy *npy) {
    reader r = {.name = name};
    *npy = (mc_npy){0};
    if (size < PREFIX_BYTES + 2 || memcmp(bytes, magic, sizeof magic) != 0)
        return bad(&r, "does not begin as one");
    int version = bytes[6], count = version == 1 ? 2 : 4;
    if (version < 1 || version > 3)
        return mc_fail(MICA_EUNSUPPORTED, "%s: version %d of numpy's format", name, version);
    size_t len = 0, begin = 8 + (size_t)count;
    for (int i = count; i-- > 0;)
        len = len << 8 | bytes[8 + i];
    if (len > MC_NPY_MAX_HEADER) return bad(&r, "is too long");
    if (len > size - begin) return bad(&r, "is cut short");
    r.at = (const char *)bytes + begin;
    r.end = r.at + len;
    npy->header = begin + len;
    MC_TRY(read_dict(&r, npy));
    if (npy->ndim < 2) npy->fortran = false;
    return find_kind(&r, npy);
}

/* ---- writing ---- */

mica_status mc_npy_put_header(mica_dtype dtype, const int64_t *shape, int ndim, mc_buffer *out) {
    const char *descr = NULL;
    size_t begin = out->len;
    for (size_t i = 0; i < N_KINDS && !descr; i++)
        if (kinds[i].dtype == dtype) descr = kinds[i].descr;
    bool done = mc_buffer_add(out, magic, sizeof magic) && mc_buffer_add(out, "\1\0\0\0", 4) &&
                mc_buffer_printf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; done && i < ndim; i++)
        done = mc_buffer_printf(out, i + 1 < ndim || ndim == 1 ? "%" PRId64 "," : "%" PRId64,
                                shape[i]) &&
               (i + 1 == ndim || mc_buffer_add_byte(out, ' '));
    done = done && mc_buffer_add_text(out, "), }");
    while (done && (out->len - begin + 1) % ALIGNMENT != 0)
        done = mc_buffer_add_byte(out, ' ');
    if (!done || !mc_buffer_add_byte(out, '\n')) return mc_fail_nomem("an array's header");
    size_t len = out->len - begin - PREFIX_BYTES;
    out->data[begin + 8] = (char)(len & 255);
    out->data[begin + 9] = (char)(len >> 8);
    return MICA_OK;
}
