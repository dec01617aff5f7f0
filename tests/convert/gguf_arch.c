/* The table of architectures: every family has one, or a reason why not. */
#include "convert/gguf_arch.h"
#include "model/family.h"
#include "support/support.h"

#include <string.h>

/* Families that GGUF files do not hold, and why. */
static const struct {
    const char *family, *why;
} none[] = {
    {"lfm3", "llama.cpp knows LFM 2 and its experts, and no architecture for LFM 3"},
};

static bool is_held(const char *family) {
    const mc_gguf_arch *arch;
    for (size_t i = 0; (arch = mc_gguf_arch_at(i)); i++)
        if (mc_gguf_arch_holds(arch, family)) return true;
    return false;
}

static bool has_reason(const char *family) {
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(none[i].family, family) == 0) return true;
    return false;
}

static void test_families(void **state) {
    (void)state;
    const mc_family *family;
    for (size_t i = 0; (family = mc_family_at(i)); i++) {
        if (!is_held(family->name) && !has_reason(family->name))
            fail_msg("no architecture of gguf_arch.c holds the family %s, and no reason is given",
                     family->name);
        if (is_held(family->name) && has_reason(family->name))
            fail_msg("the family %s has an architecture, and a reason for none", family->name);
    }
}

/* What a row names is there. */
static void test_rows(void **state) {
    (void)state;
    const mc_gguf_arch *arch;
    for (size_t i = 0; (arch = mc_gguf_arch_at(i)); i++) {
        size_t held = 0;
        for (size_t k = 0; k < sizeof arch->families / sizeof *arch->families; k++) {
            const mc_family *family;
            size_t j = 0;
            if (!arch->families[k]) continue;
            while ((family = mc_family_at(j)) && strcmp(family->name, arch->families[k]) != 0)
                j++;
            if (!family) fail_msg("%s: there is no family %s", arch->name, arch->families[k]);
            held++;
        }
        if (!held) fail_msg("%s holds no family", arch->name);
        assert_non_null(arch->model_type);
        assert_non_null(arch->architecture);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families),
                                       cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests_name("convert/gguf_arch", tests, NULL, NULL);
}
