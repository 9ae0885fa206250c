/* Constants as text. Reading trusts nothing: the type's byte count is computed with checked
 * arithmetic, memory for inline elements is asked for only when the rest of the text could hold as
 * many, and a path must stay below the model's folder also after symbolic links are resolved. */
#define _GNU_SOURCE /* realpath */
#include "ir/text/text_data.h"

#include "ir/text/text_literal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_BYTES 16u

void st_text_files_deinit(st_text_files *files)
{
    for (uint32_t i = 0; i < files->files.count; i++) {
        st_file_release(files->files.data[i]);
    }
    st_vec_free(files->mem, &files->files);
}

/* ---- files ---- */

static bool has_parent_part(const char *path)
{
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return true;
        }
    }
    return false;
}

/* The path with links resolved, or a reason why it is refused. */
static const char *resolve_below(const char *dir, const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX], joined[PATH_MAX];
    if (*path == '\0' || *path == '/') {
        return "must be a relative path";
    }
    if (has_parent_part(path)) {
        return "must not contain '..'";
    }
    const int n = snprintf(joined, sizeof joined, "%s/%s", *dir ? dir : ".", path);
    if (n < 0 || (size_t)n >= sizeof joined || realpath(*dir ? dir : ".", folder) == NULL) {
        return "cannot be resolved";
    }
    if (realpath(joined, out) == NULL) {
        return "does not exist or cannot be read";
    }
    const size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(out, folder, len) == 0 && out[len] == '/' ? NULL
                                                             : "leads out of the model's folder";
}

static stator_status open_file(const st_lexer *lex, uint64_t at, st_text_files *files,
                               const char *path, st_file **out)
{
    char real[PATH_MAX];
    ST_LEX_FAIL_AT_IF(files->dir == NULL, lex, at,
                      "file(\"%s\") is refused: this text came without a folder to read from",
                      path);
    const char *reason = resolve_below(files->dir, path, real);
    ST_LEX_FAIL_AT_IF(reason, lex, at, "file(\"%s\") %s", path, reason);
    for (uint32_t i = 0; i < files->files.count; i++) {
        if (strcmp(st_file_path(files->files.data[i]), real) == 0) {
            *out = files->files.data[i];
            return STATOR_OK;
        }
    }
    st_file **slot = st_vec_push(files->mem, &files->files);
    ST_TRY_MEM(slot, lex->err);
    *slot = NULL;
    ST_TRY(st_file_open(files->mem, real, slot, lex->err));
    *out = *slot;
    return STATOR_OK;
}

static stator_status parse_file(st_lexer *lex, st_text_files *files, uint64_t bytes,
                                stator_blob **out)
{
    const uint64_t at = lex->token.offset;
    uint64_t offset = 0, size = 0;
    st_file *file = NULL;
    st_str path;
    ST_TRY(st_lex_next(lex));
    ST_TRY(st_lex_expect(lex, '('));
    st_str_init(&path, files->mem);
    stator_status status = st_lex_string(lex, "a path in quotes", false, &path);
    ST_TRY_DONE(status);
    ST_TRY_DONE(st_lex_expect(lex, ','));
    ST_TRY_DONE(st_lex_u64(lex, "an offset", INT64_MAX, &offset));
    ST_TRY_DONE(st_lex_expect(lex, ','));
    ST_TRY_DONE(st_lex_u64(lex, "a number of bytes", INT64_MAX, &size));
    ST_TRY_DONE(st_lex_expect(lex, ')'));
    if (size != bytes) {
        ST_TRY_DONE(st_lex_fail_at(lex, at, "file(...) names %llu bytes, the type has %llu",
                                   (unsigned long long)size, (unsigned long long)bytes));
    }
    ST_TRY_DONE(open_file(lex, at, files, path.data ? path.data : "", &file));
    ST_TRY_DONE(st_blob_from_file(files->mem, file, offset, size, 0, out, lex->err));
done:
    st_str_deinit(&path);
    return status;
}

/* ---- hashes ---- */

static int32_t hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hash(const st_str *text, uint8_t out[HASH_BYTES])
{
    if (text->len != 2u * HASH_BYTES) {
        return false;
    }
    for (uint32_t i = 0; i < HASH_BYTES; i++) {
        const int high = hex_digit(text->data[2 * i]), low = hex_digit(text->data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static stator_status parse_hash(st_lexer *lex, st_mem *mem, uint64_t bytes, stator_blob **out)
{
    const uint64_t at = lex->token.offset;
    uint8_t hash[HASH_BYTES];
    uint64_t size = 0;
    st_str text;
    ST_TRY(st_lex_next(lex));
    ST_TRY(st_lex_expect(lex, '('));
    st_str_init(&text, mem);
    stator_status status = st_lex_string(lex, "32 hexadecimal digits in quotes", false, &text);
    const bool is_hash = status == STATOR_OK && read_hash(&text, hash);
    st_str_deinit(&text);
    ST_TRY(status);
    ST_TRY(st_lex_expect(lex, ','));
    ST_TRY(st_lex_u64(lex, "a number of bytes", INT64_MAX, &size));
    ST_TRY(st_lex_expect(lex, ')'));
    ST_LEX_FAIL_AT_IF(!is_hash || size != bytes, lex, at,
                      is_hash ? "hash(...) names %llu bytes, the type has %llu"
                              : "hash(...) needs 32 lower-case hexadecimal digits",
                      (unsigned long long)size, (unsigned long long)bytes);
    *out = st_blob_from_hash(mem, hash, size);
    return *out ? STATOR_OK : st_fail_oom(lex->err);
}

/* ---- inline ---- */

static stator_status parse_elements(st_lexer *lex, uint32_t dtype, uint64_t count, void *data)
{
    ST_TRY(st_lex_expect(lex, '{'));
    for (uint64_t i = 0; i < count; i++) {
        ST_LEX_FAIL_IF(st_lex_is(lex, '}'), lex, "%llu elements are given, the type has %llu",
                       (unsigned long long)i, (unsigned long long)count);
        if (i > 0) {
            ST_TRY(st_lex_expect(lex, ','));
        }
        ST_TRY(st_literal_parse(lex, dtype, data, i));
    }
    ST_LEX_FAIL_IF(st_lex_is(lex, ','), lex, "more elements are given than the %llu of the type",
                   (unsigned long long)count);
    return st_lex_expect(lex, '}');
}

static stator_status parse_inline(st_lexer *lex, st_mem *mem, uint32_t dtype, uint64_t count,
                                  uint64_t bytes, stator_blob **out)
{
    void *data = NULL;
    if (count > lex->len - lex->token.offset) { /* an element takes a byte at least */
        return st_lex_fail(lex, "the type has %llu elements, the rest of the text fewer bytes",
                           (unsigned long long)count);
    }
    stator_blob *blob = st_blob_alloc(mem, bytes, &data);
    ST_TRY_MEM(blob, lex->err);
    if (bytes) {
        memset(data, 0, bytes);
    }
    const stator_status status = parse_elements(lex, dtype, count, data);
    if (status != STATOR_OK) {
        st_blob_release(blob);
        return status;
    }
    *out = blob;
    return STATOR_OK;
}

stator_status st_text_parse_data(st_lexer *lex, const st_module *m, st_text_files *files,
                                 stator_ref type, stator_blob **out)
{
    const stator_type_row *row = st_seg_at(&m->types, type);
    uint64_t count = 0, bytes = 0;
    *out = NULL;
    ST_LEX_FAIL_IF(!st_type_static_size(m, type, &count, &bytes), lex,
                   "a constant needs sizes that are plain integers and fit in memory");
    if (st_lex_is_word(lex, "file")) {
        return parse_file(lex, files, bytes, out);
    }
    if (st_lex_is_word(lex, "hash")) {
        return parse_hash(lex, files->mem, bytes, out);
    }
    ST_FAIL_BY_IF(st_lex_expected, !st_lex_is(lex, '{'), lex, "'{', file(...) or hash(...)");
    return parse_inline(lex, files->mem, row->dtype, count, bytes, out);
}

/* ---- printing ---- */

static stator_status print_hash(stator_blob *blob, st_str *out, stator_diag **err)
{
    uint8_t hash[HASH_BYTES];
    ST_TRY(st_blob_hash(blob, hash, err));
    st_str_add(out, "hash(\"");
    for (uint32_t i = 0; i < HASH_BYTES; i++) {
        st_str_addf(out, "%02x", hash[i]);
    }
    st_str_addf(out, "\", %llu)", (unsigned long long)st_blob_size(blob));
    return STATOR_OK;
}

static stator_status print_placed(const st_print_options *options, stator_blob *blob, st_str *out,
                                  stator_diag **err)
{
    const char *path = NULL;
    uint64_t offset = 0;
    ST_TRY(options->place(options->self, blob, &path, &offset, err));
    st_str_add(out, "file(");
    st_print_quoted(out, path);
    st_str_addf(out, ", %llu, %llu)", (unsigned long long)offset,
                (unsigned long long)st_blob_size(blob));
    return STATOR_OK;
}

/* Was the blob made from hash(...)? Then there is nothing else to print. */
static bool is_hash_only(stator_blob *blob)
{
    const void *data = NULL;
    stator_diag *reason = NULL;
    const bool is_unread = st_blob_file(blob, NULL) == NULL &&
                           st_blob_get(blob, &data, &reason) == STATOR_FAILED_PRECONDITION;
    st_diag_release(reason);
    return is_unread;
}

stator_status st_text_print_data(const st_module *m, const st_print_options *options,
                                 stator_ref type, stator_blob *blob, st_str *out, stator_diag **err)
{
    const stator_type_row *row = st_seg_at(&m->types, type);
    const void *data = NULL;
    uint64_t count = 0, bytes = 0;
    ST_FAIL_IF(!st_type_static_size(m, type, &count, &bytes) || bytes != st_blob_size(blob), err,
               STATOR_INTERNAL, "a constant of %llu bytes has a type of %llu",
               (unsigned long long)st_blob_size(blob), (unsigned long long)bytes);
    if (is_hash_only(blob)) {
        return print_hash(blob, out, err);
    }
    if (count > ST_TEXT_INLINE_MAX) {
        const bool is_placed = options && options->place && !(options->flags & ST_PRINT_HASHES);
        return is_placed ? print_placed(options, blob, out, err) : print_hash(blob, out, err);
    }
    ST_TRY(st_blob_get(blob, &data, err));
    st_str_add(out, "{");
    for (uint64_t i = 0; i < count; i++) {
        st_str_add(out, i ? ", " : "");
        st_literal_print(out, row->dtype, data, i);
    }
    st_str_add(out, "}");
    return STATOR_OK;
}
