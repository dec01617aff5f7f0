/* Arrays as text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "device/device.h"
#include "exec/element.h"

enum { EDGE = 3, DIGITS = 6, MAX_DIGITS = 17, ELEMENT = 64, INDENT = sizeof "array(" };

/* What is written, and where to. */
typedef struct printer {
    mica_device *device;
    const mc_node *node;
    const char *data; /* the first element; NULL: each is read by itself */
    int64_t edge;     /* elements shown at either end of a longer axis; -1: all are */
    int digits;
    char *buffer;
    size_t bytes, length; /* room in the buffer; what the whole text has so far */
    mica_status status;
} printer;

static void put(printer *p, const char *text) {
    size_t n = strlen(text), at = p->length;
    p->length += n;
    if (at + 1 >= p->bytes) return;
    if (n > p->bytes - 1 - at) n = p->bytes - 1 - at;
    memcpy(p->buffer + at, text, n);
    p->buffer[at + n] = 0;
}

/* ---- elements ---- */

/* A float as printf's %g has it, whatever the locale's decimal point is, and NaN's sign. */
static void put_real(printer *p, double value) {
    char text[ELEMENT], plain[ELEMENT];
    size_t n = 0;
    snprintf(text, sizeof text, "%.*g", p->digits, value);
    for (const char *c = text; *c; c++) {
        if (strchr("0123456789+-einfa", *c))
            plain[n++] = *c;
        else if (n == 0 || plain[n - 1] != '.') /* of one byte or several */
            plain[n++] = '.';
    }
    plain[n] = 0;
    put(p, value != value ? "nan" : plain);
}

/* "1+2j" */
static void put_complex(printer *p, uint64_t bits) {
    double imaginary = mc_f32_from_bits((uint32_t)(bits >> 32));
    put_real(p, mc_f32_from_bits((uint32_t)bits));
    if (!signbit(imaginary) || imaginary != imaginary) put(p, "+");
    put_real(p, imaginary);
    put(p, "j");
}

static void put_value(printer *p, mica_dtype dtype, uint64_t bits) {
    char text[ELEMENT] = "";
    if (dtype == MICA_BOOL)
        put(p, bits ? "True" : "False");
    else if (dtype == MICA_C64)
        put_complex(p, bits);
    else if (mc_element_is_real(dtype))
        put_real(p, mc_element_real(dtype, bits));
    else if (mica_dtype_is_signed(dtype))
        snprintf(text, sizeof text, "%lld", (long long)mc_element_signed(dtype, bits));
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)bits);
    put(p, text);
}

/* The element that is so many elements from the first. */
static void put_element(printer *p, int64_t offset) {
    mica_dtype dtype = p->node->layout.dtype;
    size_t bytes = mica_dtype_bytes(dtype);
    int64_t at = offset * (int64_t)bytes;
    uint64_t bits = 0; /* little-endian, as all of mica's formats */
    if (p->data)
        memcpy(&bits, p->data + at, bytes);
    else
        p->status = mc_storage_read(p->device, p->node->storage,
                                    (size_t)(p->node->offset_bytes + at), &bits, bytes);
    put_value(p, dtype, bits);
}

/* ---- axes ---- */

static bool is_cut(const printer *p, int64_t length) {
    return p->edge >= 0 && length - p->edge > p->edge; /* 2 * edge may overflow */
}

/* What stands between two of an axis. */
static void put_separator(printer *p, int axis) {
    if (axis == p->node->layout.ndim - 1) {
        put(p, ", ");
        return;
    }
    put(p, ",\n");
    for (int i = 0; i < INDENT + axis; i++)
        put(p, " ");
}

/* The elements from axis on, of which the first is `offset` elements from the array's first. Calls
 * itself for the next axis. */
static void put_axis(printer *p, int axis, int64_t offset) {
    const mc_layout *l = &p->node->layout;
    if (axis == l->ndim) {
        put_element(p, offset);
        return;
    }
    int64_t length = l->shape[axis];
    put(p, "[");
    for (int64_t i = 0; i < length && p->status == MICA_OK; i++) {
        if (i > 0) put_separator(p, axis);
        if (is_cut(p, length) && i == p->edge) {
            put(p, "...");
            i = length - p->edge - 1;
        } else {
            put_axis(p, axis + 1, offset + i * l->strides[axis]);
        }
    }
    put(p, "]");
}

/* ---- the whole ---- */

/* Whether few of the elements are shown. */
static bool is_cut_anywhere(const printer *p) {
    for (int i = 0; i < p->node->layout.ndim; i++)
        if (is_cut(p, p->node->layout.shape[i])) return true;
    return false;
}

static mica_status put_array(printer *p) {
    const mc_layout *l = &p->node->layout;
    void *owned = NULL;
    const void *data = &p->node->value;
    bool here = p->node->scalar || mc_layout_size(l) == 0;
    if (!here && (p->node->storage->host || !is_cut_anywhere(p)))
        MC_TRY(
            mc_storage_view(p->device, p->node->storage, p->node->offset_bytes, l, &data, &owned));
    else if (!here)
        data = NULL;
    p->data = data;
    put(p, "array(");
    if (mc_layout_size(l) == 0)
        put(p, "[]");
    else
        put_axis(p, 0, 0);
    put(p, ", dtype=");
    put(p, mica_dtype_name(l->dtype));
    put(p, ")");
    mc_free(owned);
    return p->status;
}

mica_status mica_array_text(mica_array x, const mica_text_options *options, char *buffer,
                            size_t bytes, size_t *length) {
    mica_text_options o;
    if (length) *length = 0;
    if (!buffer && bytes > 0) return mc_fail(MICA_EINVAL, "array_text: buffer is NULL");
    if (bytes > 0) *buffer = 0;
    MC_TRY(MC_OPTIONS_COPY(mica_text_options, digits, &o, options));
    if (o.edge < -1 || o.digits < 0 || o.digits > MAX_DIGITS)
        return mc_fail(MICA_EINVAL,
                       "array_text: edge %lld, digits %lld: want an edge of -1 or more, and at "
                       "most %d digits",
                       (long long)o.edge, (long long)o.digits, MAX_DIGITS);
    MC_TRY(mc_check_valid(x, "array_text"));
    MC_TRY(mica_eval(x.scope, x));
    printer p = {.device = mica_scope_device(x.scope),
                 .node = mc_node_of(x),
                 .edge = o.edge ? o.edge : EDGE,
                 .digits = o.digits ? (int)o.digits : DIGITS,
                 .buffer = buffer,
                 .bytes = bytes};
    mica_status status = put_array(&p);
    if (status != MICA_OK && bytes > 0) *buffer = 0;
    if (status == MICA_OK && length) *length = p.length;
    return status;
}
