/* Error texts. A diag is process memory (it may outlive the context it speaks of). When there is no
 * memory for a text, a static immutable diag of the same code is handed out; changing or releasing
 * that one does nothing.
 *
 * Text: [prefix: ]* message [\n  at NODE (FILE:LINE): NOTE]*. It is printable UTF-8: other bytes
 * are
 * there as \xNN, line breaks too but for those before a blank, which are the notes'. */
#include "core/base/diag.h"

#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct stator_diag {
    stator_status code;
    uint32_t is_static;
    char *text;
    char *hint;
    st_diag_node *nodes; /* in order of naming */
    st_diag_node *last_node;
};

/* Texts of static diags are written nowhere: every function that changes a diag looks at is_static.
 */
static const stator_diag static_diags[] = {
#define STATOR_STATUS(name, number, text_)                                                         \
    {(number), 1,    (char *)(uintptr_t)(text_ " (no memory left for the full message)"),          \
     NULL,     NULL, NULL},
#include <stator/status.def>
#undef STATOR_STATUS
};

static stator_diag *static_diag(stator_status code)
{
    const size_t n = sizeof static_diags / sizeof static_diags[0];
    const stator_diag *found = &static_diags[2]; /* UNKNOWN */
    for (size_t i = 0; i < n; i++) {
        if (static_diags[i].code == code) {
            found = &static_diags[i];
        }
    }
    return (stator_diag *)(uintptr_t)found;
}

/* A copy that may be shown: what names of others brought in is escaped. NULL when memory is
 * missing. */
static char *printable(const char *text, uint64_t n, enum st_lines lines)
{
    const uint64_t size = st_printable(NULL, text, n, lines);
    char *copy = size < UINT64_MAX ? st_process_alloc(size + 1u) : NULL;
    if (copy != NULL) {
        (void)st_printable(copy, text, n, lines);
        copy[size] = '\0';
    }
    return copy;
}

static char *vformat(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *raw = n < 0 ? NULL : st_process_alloc((uint64_t)n + 1u);
    char *text = NULL;
    if (raw != NULL) {
        vsnprintf(raw, (size_t)n + 1u, format, again);
        text = printable(raw, (uint64_t)n, ST_LINES_INDENTED);
    }
    va_end(again);
    st_process_free(raw);
    return text;
}

/* A diag that owns text; the static one when text or memory is missing. */
static stator_diag *wrap(stator_status code, char *text)
{
    stator_diag *diag = text != NULL ? st_process_alloc(sizeof *diag) : NULL;
    if (diag == NULL) {
        st_process_free(text);
        return static_diag(code);
    }
    *diag = (stator_diag){.code = code, .text = text};
    return diag;
}

stator_diag *st_diag_create(stator_status code, const char *text, uint64_t len)
{
    if (text == NULL) {
        text = "no message was given";
        len = strlen(text);
    }
    /* A length that no text has is found before the text is read. */
    char *room = len < UINT64_MAX ? st_process_alloc(len + 1u) : NULL;
    st_process_free(room);
    return wrap(code, room != NULL ? printable(text, len, ST_LINES_INDENTED) : NULL);
}

stator_status st_fail(stator_diag **err, stator_status code, const char *format, ...)
{
    if (err != NULL && *err == NULL) {
        va_list args;
        va_start(args, format);
        *err = wrap(code, vformat(format, args));
        va_end(args);
    }
    return code;
}

stator_status st_fail_oom(stator_diag **err)
{
    if (err != NULL && *err == NULL) {
        *err = static_diag(STATOR_RESOURCE_EXHAUSTED);
    }
    return STATOR_RESOURCE_EXHAUSTED;
}

/* Replaces the text by front + back; keeps the old one when memory is missing. */
static void join(stator_diag *diag, const char *front, const char *back)
{
    const size_t n = strlen(front);
    const size_t m = strlen(back);
    char *text = st_process_alloc((uint64_t)n + m + 1u);
    if (text != NULL) {
        memcpy(text, front, n);
        memcpy(text + n, back, m + 1u);
        st_process_free(diag->text);
        diag->text = text;
    }
}

void st_diag_note(stator_diag *diag, const char *node, const char *file, uint32_t line,
                  const char *text)
{
    if (diag == NULL || diag->is_static) {
        return;
    }
    const bool has_node = node != NULL && node[0] != '\0';
    const bool has_file = file != NULL && file[0] != '\0';
    const bool has_text = text != NULL && text[0] != '\0';
    char number[16] = "";
    if (has_file && line != 0) {
        snprintf(number, sizeof number, ":%u", line);
    }
    const char *const parts[] = {"\n ",
                                 has_node ? " at " : "",
                                 has_node ? node : "",
                                 has_file ? " (" : "",
                                 has_file ? file : "",
                                 number,
                                 has_file ? ")" : "",
                                 has_text && (has_node || has_file) ? ": "
                                 : has_text                         ? " "
                                                                    : "",
                                 has_text ? text : ""};
    uint64_t len = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        len += st_printable(NULL, parts[i], strlen(parts[i]), ST_LINES_INDENTED);
    }
    char *note = st_process_alloc(len + 1u);
    if (note == NULL) {
        return;
    }
    note[len] = '\0';
    len = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        len += st_printable(note + len, parts[i], strlen(parts[i]), ST_LINES_INDENTED);
    }
    join(diag, diag->text, note);
    st_process_free(note);
}

void st_diag_set_hint(stator_diag *diag, const char *format, ...)
{
    if (diag == NULL || diag->is_static) {
        return;
    }
    va_list args;
    va_start(args, format);
    char *hint = vformat(format, args);
    va_end(args);
    if (hint != NULL) {
        st_process_free(diag->hint);
        diag->hint = hint;
    }
}

void st_diag_prefix(stator_diag *diag, const char *format, ...)
{
    if (diag == NULL || diag->is_static) {
        return;
    }
    va_list args;
    va_start(args, format);
    char *prefix = vformat(format, args);
    va_end(args);
    if (prefix != NULL) {
        char *old = diag->text;
        diag->text = prefix;
        join(diag, prefix, ": ");
        char *front = diag->text;
        diag->text = NULL;
        join(diag, front, old);
        if (diag->text == NULL) { /* no memory: stays as it was */
            diag->text = old;
        } else {
            st_process_free(old);
        }
        st_process_free(front);
    }
}

void st_diag_add_node(stator_diag *diag, stator_ref node, const char *reason)
{
    if (diag == NULL || diag->is_static) {
        return;
    }
    const size_t n = reason != NULL ? strlen(reason) : 0;
    st_diag_node *named = st_process_alloc(sizeof *named + n + 1u);
    if (named == NULL) {
        return;
    }
    char *copy = (char *)(named + 1);
    if (n != 0) {
        memcpy(copy, reason, n);
    }
    copy[n] = '\0';
    *named = (st_diag_node){.node = node, .reason = copy};
    if (diag->last_node != NULL) {
        diag->last_node->next = named;
    } else {
        diag->nodes = named;
    }
    diag->last_node = named;
}

const st_diag_node *st_diag_nodes(const stator_diag *diag)
{
    return diag != NULL ? diag->nodes : NULL;
}

const char *st_diag_text(const stator_diag *diag)
{
    return diag != NULL ? diag->text : "";
}

const char *st_diag_hint(const stator_diag *diag)
{
    return diag != NULL ? diag->hint : NULL;
}

stator_status st_diag_code(const stator_diag *diag)
{
    return diag != NULL ? diag->code : STATOR_OK;
}

stator_diag *st_diag_copy(const stator_diag *diag)
{
    if (diag == NULL || diag->is_static) {
        return (stator_diag *)(uintptr_t)diag;
    }
    stator_diag *copy = st_diag_create(diag->code, diag->text, strlen(diag->text));
    if (diag->hint != NULL) {
        st_diag_set_hint(copy, "%s", diag->hint);
    }
    for (const st_diag_node *at = diag->nodes; at != NULL; at = at->next) {
        st_diag_add_node(copy, at->node, at->reason);
    }
    return copy;
}

void st_diag_release(stator_diag *diag)
{
    if (diag != NULL && !diag->is_static) {
        while (diag->nodes != NULL) {
            st_diag_node *named = diag->nodes;
            diag->nodes = named->next;
            st_process_free(named);
        }
        st_process_free(diag->text);
        st_process_free(diag->hint);
        st_process_free(diag);
    }
}

stator_status st_diag_give(stator_status status, stator_diag *diag, stator_diag **err)
{
    if (err != NULL && *err == NULL) {
        *err = diag;
    } else {
        st_diag_release(diag);
    }
    return status;
}

static void set_hint(stator_diag *diag, const char *hint)
{
    if (hint != NULL) {
        st_diag_set_hint(diag, "%s", hint);
    }
}

const stator_diag_api st_diag_api = {.struct_size = sizeof st_diag_api,
                                     .create = st_diag_create,
                                     .add_note = st_diag_note,
                                     .set_hint = set_hint,
                                     .text = st_diag_text,
                                     .hint = st_diag_hint,
                                     .release = st_diag_release,
                                     .add_node = st_diag_add_node};
