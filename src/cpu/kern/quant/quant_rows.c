#include "cpu/kern/kern.h"

mk_qrows mk_qrows_further(mk_qrows w, int64_t codes, int64_t scales) {
    int64_t bytes = scales * (w.mode == MK_AFFINE ? mk_type_bytes(w.type) : 1);
    w.codes += codes;
    w.scales = (const char *)w.scales + bytes;
    if (w.biases) w.biases = (const char *)w.biases + bytes;
    return w;
}

mk_qrows mk_qrows_at(const mk_qrows *w, int64_t r) {
    return mk_qrows_further(*w, r * w->codes_stride, r * w->scales_stride);
}
