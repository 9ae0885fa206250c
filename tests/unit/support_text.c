#include "support_text.h"

#include <criterion/criterion.h>
#include <string.h>

void text_world_init(text_world *w)
{
    stator_diag *err = NULL;
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_optable_init(&w->ops, &w->mem, &err), STATOR_OK, "%s", st_diag_text(err));
}

void text_world_deinit(text_world *w)
{
    st_optable_deinit(&w->ops);
    cr_assert_eq(w->mem.live_blocks, 0, "%llu blocks are left",
                 (unsigned long long)w->mem.live_blocks);
}

stator_status text_read(text_world *w, const void *bytes, uint64_t len, const char *dir,
                        const char *path, text_graph *out, stator_diag **err)
{
    stator_builder *b = NULL;
    *out = (text_graph){NULL, NULL};
    stator_status status = st_module_create(&w->mem, NULL, &w->ops, &out->module, err);
    if (status != STATOR_OK) {
        return status;
    }
    status = st_builder_create(out->module, "main", &b, err);
    if (status == STATOR_OK) {
        status = st_is_binary(bytes, len) ? st_parse_binary(b, bytes, len, path, err)
                                          : st_parse_text(b, bytes, len, "t.stir", dir, err);
        if (status == STATOR_OK) {
            status = st_builder_finish(b, &out->graph, err);
        } else {
            st_builder_abort(b);
        }
    }
    if (status != STATOR_OK) {
        text_graph_free(out);
    }
    return status;
}

void text_graph_free(text_graph *g)
{
    st_module_destroy(g->module);
    *g = (text_graph){NULL, NULL};
}

char *text_print(text_world *w, const stator_graph *graph, uint64_t *out_len, stator_diag **err)
{
    st_str text;
    st_str_init(&text, &w->mem);
    if (st_print_graph(graph, NULL, &text, err) != STATOR_OK) {
        st_str_deinit(&text);
        return NULL;
    }
    return st_str_take(&text, out_len);
}

text_graph text_read_good(text_world *w, const char *text)
{
    text_graph g;
    stator_diag *err = NULL;
    cr_assert_eq(text_read(w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    return g;
}

/* Text of what these bytes read back as; the test fails when they cannot be read. */
static char *print_of(text_world *w, const void *bytes, uint64_t len)
{
    text_graph g;
    stator_diag *err = NULL;
    uint64_t n = 0;
    cr_assert_eq(text_read(w, bytes, len, NULL, NULL, &g, &err), STATOR_OK, "%s\n%.4000s",
                 st_diag_text(err), st_is_binary(bytes, len) ? "(binary)" : (const char *)bytes);
    char *text = text_print(w, g.graph, &n, &err);
    cr_assert_not_null(text, "%s", st_diag_text(err));
    text_graph_free(&g);
    return text;
}

static void check_binary(text_world *w, const stator_graph *graph, const char *expected)
{
    st_str bytes;
    stator_diag *err = NULL;
    st_str_init(&bytes, &w->mem);
    cr_assert_eq(st_write_binary(graph, &bytes, &err), STATOR_OK, "%s", st_diag_text(err));
    char *text = print_of(w, bytes.data, bytes.len);
    cr_assert_str_eq(text, expected);
    st_free(&w->mem, text);
    st_str_deinit(&bytes);
}

void text_check(text_world *w, const char *text, const char *expected)
{
    text_graph g;
    stator_diag *err = NULL;
    uint64_t len = 0;
    cr_assert_eq(text_read(w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    char *printed = text_print(w, g.graph, &len, &err);
    cr_assert_not_null(printed, "%s", st_diag_text(err));
    cr_assert_str_eq(printed, expected);
    char *again = print_of(w, printed, len);
    cr_assert_str_eq(again, expected);
    check_binary(w, g.graph, expected);
    st_free(&w->mem, again);
    st_free(&w->mem, printed);
    text_graph_free(&g);
}

stator_status text_check_stable(text_world *w, const void *bytes, uint64_t len)
{
    text_graph g;
    stator_diag *err = NULL;
    uint64_t n = 0;
    const stator_status status = text_read(w, bytes, len, NULL, NULL, &g, &err);
    if (status == STATOR_OK) {
        char *printed = text_print(w, g.graph, &n, &err);
        cr_assert_not_null(printed, "%s", st_diag_text(err));
        char *again = print_of(w, printed, n);
        cr_assert_str_eq(again, printed);
        check_binary(w, g.graph, printed);
        st_free(&w->mem, again);
        st_free(&w->mem, printed);
        text_graph_free(&g);
    }
    st_diag_release(err);
    return status;
}

uint64_t text_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}
