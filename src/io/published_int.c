/* Published matrices of integers, with a scale and a zero point for each group:
 *
 *     w[row, column] = scale[row, group] * (code - zero[row, group])
 *
 * compressed-tensors: bits of codes follow each other along rows, plus half their range; zero
 * points likewise, along columns of rows. Older versions (0.14) have no code in two words. GPTQ:
 * along columns, and zero points along rows, less one in its first version. AWQ: words hold 8 rows
 * of a column, the even ones first. */
#include "io/published_kind.h"

#define KNOWN_BITS (1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8)

static bool is_known(int64_t bits) {
    return bits >= 2 && bits <= 8 && (KNOWN_BITS >> bits & 1);
}

static mica_status check_bits(const mc_published *m, int64_t bits) {
    if (is_known(bits)) return MICA_OK;
    return mc_published_bad(m->part[MC_PART_CODES], MICA_ESHAPE,
                            "its codes have %lld bits; mica reads 2, 3, 4, 5, 6 and 8",
                            (long long)bits);
}

/* The i-th number of `bits` bits in a run of words that are `step` apart. */
static int bits_at(const uint32_t *words, int64_t step, int64_t i, int bits) {
    int64_t at = i * bits, word = at / 32;
    int shift = (int)(at % 32);
    uint32_t x = words[word * step] >> shift;
    if (shift + bits > 32) x |= words[(word + 1) * step] << (32 - shift);
    return (int)(x & ((1u << bits) - 1));
}

static int64_t words_of(int64_t n, int64_t bits) {
    return (n * bits + 31) / 32;
}

/* Checks that a part is a matrix of a kind. errors  MICA_EDTYPE, MICA_ESHAPE */
static mica_status check_part(const mc_weight_tensor *t, const char *kind, int64_t rows,
                              int64_t columns) {
    if (!mc_published_is_kind(t, kind))
        return mc_published_bad(t, MICA_EDTYPE, "is %s, want %s", t->kind, kind);
    if (t->ndim == 2 && t->shape[0] == rows && t->shape[1] == columns) return MICA_OK;
    return mc_published_bad(t, MICA_ESHAPE, "want [%lld,%lld]", (long long)rows,
                            (long long)columns);
}

/* Whether columns are in the order of their groups, if that was read. */
static mica_status check_order(const mc_published_facts *facts, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_ORDER];
    m->plain = !t || !facts->shuffled;
    if (!t) return MICA_OK;
    if (!mc_published_is_kind(t, "I32"))
        return mc_published_bad(t, MICA_EDTYPE, "is %s, want I32", t->kind);
    if (t->ndim != 1 || t->shape[0] != m->in)
        return mc_published_bad(t, MICA_ESHAPE, "want [%lld]", (long long)m->in);
    const int32_t *order = t->data;
    if (!order) return MICA_OK;
    m->plain = true;
    for (int64_t i = 0; i < m->in; i++) {
        if (order[i] < 0 || order[i] >= mc_published_groups(m))
            return mc_published_bad(t, MICA_EFORMAT, "column %lld is of group %d, of %lld",
                                    (long long)i, (int)order[i], (long long)mc_published_groups(m));
        m->plain = m->plain && order[i] == i / m->group;
    }
    return MICA_OK;
}

static mica_status middle(const mc_published *m, int64_t row, int64_t group, int *zero) {
    (void)row;
    (void)group;
    *zero = 1 << (m->bits - 1);
    return MICA_OK;
}

/* ---- compressed-tensors ---- */

/* The words of n codes, or zero points. */
static int64_t packed_words(const mc_published *m, int64_t n) {
    int64_t each = 32 / m->bits;
    return m->whole ? (n + each - 1) / each : words_of(n, m->bits);
}

/* The i-th code in a run of words that are `step` apart. */
static int packed_at(const mc_published *m, const uint32_t *words, int64_t step, int64_t i) {
    int64_t each = 32 / m->bits;
    if (!m->whole) return bits_at(words, step, i, m->bits);
    return (int)(words[i / each * step] >> (i % each * m->bits) & ((1u << m->bits) - 1));
}

/* Whether so many codes of so many bits are the words of a row, one way or the other. */
static bool fits_words(int64_t columns, int64_t bits, mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES];
    int64_t words = codes->shape[codes->ndim - 1];
    if (columns < 1 || !is_known(bits)) return false;
    m->in = columns;
    m->bits = (int)bits;
    m->whole = false;
    if (packed_words(m, columns) == words) return true;
    m->whole = true;
    return packed_words(m, columns) == words;
}

/* The same of the columns of all groups. */
static bool fits_groups(const mc_published_facts *facts, int64_t bits, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    int64_t groups = t->ndim >= 2 ? t->shape[t->ndim - 1] : 1;
    for (size_t i = 0; groups > 1 && i < facts->n_groups; i++)
        if (facts->groups[i] > 0 && facts->groups[i] <= INT32_MAX / groups &&
            fits_words(groups * facts->groups[i], bits, m))
            return true;
    return false;
}

/* Columns, and bits of a code: the files' weight_shape says how many there are, and the config
 * where that is not read. Where it is, a matrix may have other bits than the config says of
 * another. */
static mica_status find_columns(const mc_published_facts *facts, mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES], *shape = m->part[MC_PART_SHAPE];
    int64_t words = codes->shape[codes->ndim - 1], bits = facts->bits ? facts->bits : 4;
    int64_t columns = bits > 0 ? words * 32 / bits : 0;
    if (shape && shape->data && mc_published_size(shape) >= 2 &&
        (mc_published_is_kind(shape, "I64") || mc_published_is_kind(shape, "I32"))) {
        int64_t last = mc_published_size(shape) - 1;
        columns = mc_published_is_kind(shape, "I64") ? ((const int64_t *)shape->data)[last]
                                                     : ((const int32_t *)shape->data)[last];
        if (columns < 1 || columns > words * 16)
            return mc_published_bad(shape, MICA_EFORMAT, "says %lld columns of %lld words",
                                    (long long)columns, (long long)words);
        if (fits_words(columns, bits, m)) return MICA_OK;
        bits = words * 32 / columns;
    } else if (fits_groups(facts, bits, m)) {
        return MICA_OK;
    }
    MC_TRY(check_bits(m, bits));
    if (fits_words(columns, bits, m)) return MICA_OK;
    return mc_published_bad(codes, MICA_ESHAPE, "%lld columns of %lld bits are not %lld words",
                            (long long)columns, (long long)bits, (long long)words);
}

/* Scales of integers: [rows, groups], or one for each row, or one. */
static mica_status find_groups(const mc_published_facts *facts, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    int64_t groups = t->ndim >= 2 ? t->shape[t->ndim - 1] : 1;
    m->group = m->in;
    if (groups > 1) MC_TRY(mc_published_find_group(facts, groups, m));
    return mc_published_find_grid(1, m->group, m);
}

static mica_status check_zeros(const mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_ZEROS];
    if (!t) return MICA_OK;
    if (m->stacked)
        return mc_published_bad(t, MICA_EUNSUPPORTED, "zero points of experts in one tensor");
    if (mc_published_is_kind(t, "I8") && mc_published_size(t) == 1) return MICA_OK;
    if (mc_published_is_kind(t, "I8")) return check_part(t, "I8", m->out, mc_published_groups(m));
    return check_part(t, "I32", packed_words(m, m->out), mc_published_groups(m));
}

static mica_status fit_packed(const mc_published_facts *facts, mc_published *m) {
    MC_TRY(mc_published_find_rows(1, m));
    MC_TRY(find_columns(facts, m));
    MC_TRY(find_groups(facts, m));
    MC_TRY(check_order(facts, m));
    return check_zeros(m);
}

static mica_status fit_int8(const mc_published_facts *facts, mc_published *m) {
    MC_TRY(mc_published_find_rows(1, m));
    m->bits = 8;
    m->plain = true;
    MC_TRY(find_groups(facts, m));
    return check_zeros(m);
}

static void packed_codes(const mc_published *m, int64_t row, uint8_t *codes) {
    const uint32_t *words = m->part[MC_PART_CODES]->data;
    words += row * packed_words(m, m->in);
    for (int64_t i = 0; i < m->in; i++)
        codes[i] = (uint8_t)packed_at(m, words, 1, i);
}

static void int8_codes(const mc_published *m, int64_t row, uint8_t *codes) {
    const uint8_t *bytes = (const uint8_t *)m->part[MC_PART_CODES]->data + row * m->in;
    for (int64_t i = 0; i < m->in; i++)
        codes[i] = bytes[i] ^ 0x80;
}

/* Bytes are as they are, words as codes are. */
static mica_status packed_zero(const mc_published *m, int64_t row, int64_t group, int *zero) {
    const mc_weight_tensor *t = m->part[MC_PART_ZEROS];
    int64_t groups = mc_published_groups(m);
    MC_TRY(middle(m, row, group, zero));
    if (!t) return MICA_OK;
    if (!mc_published_is_kind(t, "I8")) {
        *zero = packed_at(m, (const uint32_t *)t->data + group, groups, row);
        return MICA_OK;
    }
    int own = ((const int8_t *)t->data)[mc_published_size(t) == 1 ? 0 : row * groups + group];
    if (own < -*zero || own >= *zero)
        return mc_published_bad(t, MICA_EFORMAT, "zero point %d is not within %d and %d", own,
                                -*zero, *zero - 1);
    *zero += own;
    return MICA_OK;
}

/* ---- GPTQ ---- */

/* Scales [groups, rows], zero points in words [groups, words]. */
static mica_status find_turned_scales(const mc_published_facts *facts, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES], *zeros = m->part[MC_PART_ZEROS];
    m->turned = true;
    MC_TRY(mc_published_find_group(facts, t->shape[0], m));
    return check_part(zeros, "I32", t->shape[0], words_of(m->out, m->bits));
}

/* Whether codes and scales have two axes, and zero points are there. */
static mica_status check_turned(const mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES], *scales = m->part[MC_PART_SCALES];
    const mc_weight_tensor *zeros = m->part[MC_PART_ZEROS];
    if (!zeros) return mc_published_bad(codes, MICA_ENOENT, "has no qzeros beside it");
    if (scales->ndim != 2 || zeros->ndim != 2 || !scales->has_dtype ||
        !mica_dtype_is_float(scales->dtype) || scales->dtype == MICA_F64)
        return mc_published_bad(scales, MICA_ESHAPE,
                                "scales and zero points want two axes, and scales floats");
    return MICA_OK;
}

static bool is_turned(const mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES], *scales = m->part[MC_PART_SCALES];
    return codes->ndim == 2 && scales->ndim == 2 && codes->shape[1] == scales->shape[1];
}

static mica_status fit_gptq(const mc_published_facts *facts, mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES];
    MC_TRY(check_turned(m));
    MC_TRY(mc_published_find_rows(1, m));
    int64_t words = m->out, rows = m->in; /* which find_rows takes for these */
    int64_t zero_words = m->part[MC_PART_ZEROS]->shape[1];
    if (zero_words > INT32_MAX || words > INT32_MAX)
        return mc_published_bad(codes, MICA_ESHAPE, "is too large");
    int64_t bits = zero_words * 32 / rows;
    MC_TRY(check_bits(m, bits));
    if (words * 32 % bits)
        return mc_published_bad(codes, MICA_ESHAPE, "%lld words are no codes of %lld bits",
                                (long long)words, (long long)bits);
    m->bits = (int)bits;
    m->out = rows;
    m->in = words * 32 / bits;
    m->plus_one = !facts->v2;
    MC_TRY(find_turned_scales(facts, m));
    return check_order(facts, m);
}

static void gptq_codes(const mc_published *m, int64_t row, uint8_t *codes) {
    const uint32_t *words = (const uint32_t *)m->part[MC_PART_CODES]->data + row;
    for (int64_t i = 0; i < m->in; i++)
        codes[i] = (uint8_t)bits_at(words, m->out, i, m->bits);
}

static mica_status gptq_zero(const mc_published *m, int64_t row, int64_t group, int *zero) {
    const uint32_t *words = m->part[MC_PART_ZEROS]->data;
    *zero = bits_at(words + group * words_of(m->out, m->bits), 1, row, m->bits);
    if (m->plus_one) ++*zero;
    return MICA_OK;
}

/* ---- AWQ ---- */

static bool is_awq(const mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES], *scales = m->part[MC_PART_SCALES];
    return codes->ndim == 2 && scales->ndim == 2 && codes->shape[1] <= INT32_MAX &&
           codes->shape[1] * 8 == scales->shape[1];
}

static mica_status fit_awq(const mc_published_facts *facts, mc_published *m) {
    MC_TRY(check_turned(m));
    MC_TRY(mc_published_find_rows(1, m));
    int64_t columns = m->out;
    m->out = m->in * 8;
    m->in = columns;
    m->bits = 4;
    m->plain = true;
    return find_turned_scales(facts, m);
}

/* Where a word of AWQ has the row: row 2 i in nibble i, 2 i + 1 in nibble 4 + i. */
static int awq_shift(int64_t row) {
    int at = (int)(row % 8);
    return 4 * (at / 2 + (at % 2 ? 4 : 0));
}

static void awq_codes(const mc_published *m, int64_t row, uint8_t *codes) {
    const uint32_t *words = (const uint32_t *)m->part[MC_PART_CODES]->data + row / 8;
    int64_t step = m->out / 8;
    int shift = awq_shift(row);
    for (int64_t i = 0; i < m->in; i++)
        codes[i] = words[i * step] >> shift & 15;
}

static mica_status awq_zero(const mc_published *m, int64_t row, int64_t group, int *zero) {
    const uint32_t *words = m->part[MC_PART_ZEROS]->data;
    *zero = (int)(words[group * (m->out / 8) + row / 8] >> awq_shift(row) & 15);
    return MICA_OK;
}

#define GPTQ_PARTS \
    { [MC_PART_ZEROS] = ".qzeros", [MC_PART_ORDER] = ".g_idx" }

const mc_published_kind mc_published_packed = {
    .what = "compressed-tensors",
    .codes = "_packed",
    .dtype = "I32",
    .scales = {"_scale"},
    .parts =
        {[MC_PART_ZEROS] = "_zero_point", [MC_PART_ORDER] = "_g_idx", [MC_PART_SHAPE] = "_shape"},
    .fit = fit_packed,
    .codes_of = packed_codes,
    .zero_of = packed_zero,
};

const mc_published_kind mc_published_int8 = {
    .what = "int8",
    .codes = "",
    .dtype = "I8",
    .scales = {"_scale"},
    .parts = {[MC_PART_ZEROS] = "_zero_point"},
    .fit = fit_int8,
    .codes_of = int8_codes,
    .zero_of = packed_zero,
};

const mc_published_kind mc_published_gptq = {
    .what = "GPTQ",
    .codes = ".qweight",
    .dtype = "I32",
    .scales = {".scales"},
    .parts = GPTQ_PARTS,
    .is = is_turned,
    .fit = fit_gptq,
    .codes_of = gptq_codes,
    .zero_of = gptq_zero,
    .turned = true,
};

const mc_published_kind mc_published_awq = {
    .what = "AWQ",
    .codes = ".qweight",
    .dtype = "I32",
    .scales = {".scales"},
    .parts = GPTQ_PARTS,
    .is = is_awq,
    .fit = fit_awq,
    .codes_of = awq_codes,
    .zero_of = awq_zero,
};
