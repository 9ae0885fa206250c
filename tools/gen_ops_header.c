/* Writes <stator/ops.h>: for each op of ir/ops.def an enumerator STATOR_OPCODE_<op>, its id in
 * every graph, and for each of its attributes an enumerator STATOR_<op>_<attr> that names the
 * attribute's place in the dense list of attributes.
 *
 * In: ir/ops.def, read at compile time as stringised rows. Out: the header, at argv[1].
 * The rows are not compiled as C here (they name functions of the core); only the text of `.attrs`
 * is looked at: "axis:int=-1; keepdims:int=0" gives places 0 and 1. A row that says nothing of its
 * gradient ends the build. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct op_row {
    const char *name;
    const char *columns;
} op_row;

static const op_row rows[] = {
#define STATOR_OP(name, ...) {#name, #__VA_ARGS__},
#if __has_include("ir/ops.def")
#include "ir/ops.def"
#endif
    {NULL, NULL}};

/* The text after ".<column> =", or NULL. Strings in other columns are skipped over, so that a doc
 * which mentions ".attrs" does not mislead. */
static const char *find_column(const char *text, const char *column)
{
    size_t length = strlen(column);
    bool in_string = false;
    for (const char *p = text; *p != '\0'; p++) {
        if (in_string && *p == '\\' && p[1] != '\0') {
            p++;
        } else if (*p == '"') {
            in_string = !in_string;
        } else if (!in_string && *p == '.' && strncmp(p + 1, column, length) == 0 &&
                   !isalnum((unsigned char)p[1 + length]) && p[1 + length] != '_') {
            p += 1 + length;
            while (*p != '\0' && *p != '=') {
                p++;
            }
            return *p == '=' ? p + 1 : NULL;
        }
    }
    return NULL;
}

/* Joins the adjacent string literals at p into out; 0 when p holds none or out is too small. */
static bool read_strings(const char *p, char *out, size_t out_size)
{
    size_t n = 0;
    bool any = false;
    for (;;) {
        while (isspace((unsigned char)*p)) {
            p++;
        }
        if (*p != '"') {
            break;
        }
        any = true;
        for (p++; *p != '\0' && *p != '"'; p++) {
            if (n + 1 >= out_size) {
                return false;
            }
            out[n++] = *p;
        }
        if (*p == '"') {
            p++;
        }
    }
    out[n] = '\0';
    return any;
}

/* One enumerator for each "name:kind" between semicolons. */
static bool write_places(FILE *out, const char *op, const char *attrs)
{
    int place = 0;
    for (const char *p = attrs; *p != '\0';) {
        while (isspace((unsigned char)*p) || *p == ';') {
            p++;
        }
        const char *begin = p;
        while (isalnum((unsigned char)*p) || *p == '_') {
            p++;
        }
        int length = (int)(p - begin);
        if (length == 0) {
            if (*p == '\0') {
                break;
            }
            fprintf(stderr, "ops.def: op %s: cannot read attributes at '%s'\n", op, p);
            return false;
        }
        fprintf(out, "    STATOR_%s_%.*s = %d,\n", op, length, begin, place++);
        for (int depth = 0; *p != '\0' && (*p != ';' || depth > 0); p++) {
            depth += *p == '[' || *p == '(' ? 1 : *p == ']' || *p == ')' ? -1 : 0;
        }
    }
    fprintf(out, "    STATOR_%s_attr_count = %d,\n", op, place);
    return true;
}

/* Does the row say what its gradient is: a rule, its decomposition's, or none and why? */
static bool has_gradient_column(const op_row *row)
{
    static const char *const columns[] = {"grad", "differentiate", "no_grad", "body", "decompose"};
    bool found = false;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        found = found || find_column(row->columns, columns[i]) != NULL;
    }
    if (!found) {
        fprintf(stderr, "ops.def: op %s does not say what its gradient is\n", row->name);
    }
    return found;
}

static bool write_row(FILE *out, const op_row *row)
{
    static char attrs[1 << 14];
    const char *column = find_column(row->columns, "attrs");
    attrs[0] = '\0';
    if (column != NULL && !read_strings(column, attrs, sizeof attrs)) {
        fprintf(stderr, "ops.def: op %s: .attrs is not a string literal\n", row->name);
        return false;
    }
    return has_gradient_column(row) && write_places(out, row->name, attrs);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: gen_ops_header FILE\n");
        return 2;
    }
    FILE *out = fopen(argv[1], "w");
    if (out == NULL) {
        perror(argv[1]);
        return 1;
    }
    fputs(
        "/* The built-in ops and the places of their attributes, generated from ir/ops.def. Do "
        "not\n"
        " * edit. */\n#ifndef STATOR_OPS_H\n#define STATOR_OPS_H\n\n"
        "/* stator_node_row.op of nodes of built-in ops; ops of libraries have larger ids. Below "
        "ABI\n"
        " * 1.0 an op may be inserted: a plugin that is not built with its host asks find_op. */\n"
        "enum stator_opcode {\n    STATOR_OPCODE_none = 0,\n",
        out);
    bool ok = true;
    int code = 1;
    for (const op_row *row = rows; row->name != NULL; row++) {
        fprintf(out, "    STATOR_OPCODE_%s = %d,\n", row->name, code++);
    }
    fprintf(out, "    STATOR_OPCODE_end = %d\n};\n\nenum stator_op_attr_place {\n", code);
    for (const op_row *row = rows; row->name != NULL; row++) {
        ok = write_row(out, row) && ok;
    }
    fputs("    STATOR_ops_end = 0\n};\n\n#endif\n", out);
    ok = fclose(out) == 0 && ok;
    if (!ok) {
        remove(argv[1]);
    }
    return ok ? 0 : 1;
}
