/* Runs the C compiler on text and loads what comes out, for tests of printed kernels. */
#ifndef STATOR_TESTS_SUPPORT_CC_H
#define STATOR_TESTS_SUPPORT_CC_H

typedef struct cc_module {
    char folder[64];
    void *handle;
} cc_module;

/* Is there a `cc`? */
int cc_is_there(void);
/* Compiles as C11, or what `flags` (words, NULL at the end) say; fails the test with the compiler's
 * messages. */
void cc_module_init(cc_module *m, const char *text, const char *const *flags);
void *cc_module_symbol(const cc_module *m, const char *name); /* fails the test when not there */
void cc_module_deinit(cc_module *m);

#endif
