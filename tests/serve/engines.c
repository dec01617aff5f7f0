/* Models of several engines in one server: mica's own, and one that mica does not know, which a
 * bridge to nothing computes (engine/fake_bridge.h): its answer is the prompt. */
#define _POSIX_C_SOURCE 200809L
#include "engine/fake_bridge.h"
#include "loading.h"

#include <stdio.h>
#include <stdlib.h>

#define SAY(model) "{\"model\": \"" model "\", \"prompt\": \"one two\", \"max_tokens\": 3}"

static char *program; /* this one, which plays Python */

/* The text that a model of the other engine answers with. */
static void check_novel(const mica_server *server) {
    mc_json_doc *doc = client_json(server, "POST", "/v1/completions", SAY("novel"), 200);
    check_text(mc_json_root(doc), "choices.0.text", MC_STR("one two"));
    mc_json_close(&doc);
}

/* What native's models share, their device, is nothing to other engines: a model of another one is
 * loaded between two of native's. */
static void test_models_of_two_engines(void **state) {
    (void)state;
    const mica_model_options model = {.struct_bytes = sizeof model,
                                      .arithmetic = MICA_ARITHMETIC_EXACT};
    char *own = test_format("%s/default", test_models_dir());
    fixture f = {.root = test_temp_dir()};
    link_model(f.root, "a", own);
    link_model(f.root, "novel", own);
    char *config = test_format("%s/novel/config.json", f.root);
    assert_int_equal(remove(config), 0);
    test_write_below(f.root, "novel/config.json", "{\"model_type\": \"novel\"}");
    char *novel = test_format("%s/novel", f.root);
    const char *names[] = {"default", "novel"}, *folders[] = {own, novel}, *places[] = {f.root};
    const mica_loading_options options = {.struct_bytes = sizeof options,
                                          .names = names,
                                          .folders = folders,
                                          .count = 2,
                                          .places = places,
                                          .place_count = 1,
                                          .model = &model};
    assert_int_equal(mica_server_open(NULL, &f.server), MICA_OK);
    if (mica_server_load(f.server, &options) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_true(answers(f.server, ASK("default")));
    check_novel(f.server);
    assert_true(answers(f.server, ASK("a")));
    assert_true(runs(f.server, "default,novel,a,"));
    free(config);
    free(novel);
    free(own);
    close_fixture(&f);
    goldens_close();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_of_two_engines),
    };
    if (fake_bridge_is(argc, argv)) return fake_bridge_run(argc, argv);
    program = test_program(argv[0]);
    setenv("MICA_MLX_LM_PYTHON", program, 1);
    int failed = cmocka_run_group_tests_name("serve/engines", tests, NULL, NULL);
    free(program);
    return failed;
}
