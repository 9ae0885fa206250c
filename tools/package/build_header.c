/* The public header of a package: C99 and C++, one struct member a tensor. See build.h. */
#include "tools/package/build.h"

#include <inttypes.h>

#define SIZE_LIMIT (INT64_C(1) << 40) /* bound that frontends give sizes without a known end */

typedef struct status_row {
    const char *name, *text;
} status_row;

/* "[N, 1, 8, 8]", safe in a comment. */
static void put_shape(const build_ports *ports, const build_port *port, st_str *out)
{
    st_str text;
    st_str_init(&text, out->mem);
    for (uint32_t a = 0; a < port->rank; a++) {
        st_str_add(&text, a > 0 ? ", " : "");
        build_sym_text(ports->v, port->dims[a], &text);
    }
    st_str_add(out, "[");
    build_remark(text.data != NULL ? text.data : "", out);
    st_str_add(out, "]");
    st_str_deinit(&text);
}

static void put_member(const build_ports *ports, const build_port *port, bool is_output,
                       st_str *out)
{
    st_str_addf(out, "    struct { /* %s", port->dtype);
    put_shape(ports, port, out);
    st_str_add(out, "; in the model '");
    build_remark(port->name, out);
    st_str_addf(out, "' */\n        %s%s *data;\n", is_output ? "" : "const ", port->c_type);
    if (is_output) {
        st_str_add(out, "        uint64_t bytes; /* room at data */\n");
    }
    if (port->rank > 0) {
        st_str_addf(out, "        int64_t shape[%u];\n", port->rank);
    }
    st_str_addf(out, "    } %s;\n", port->id);
}

static void put_struct(const build_facts *f, const char *what, const build_port *list, uint32_t n,
                       bool is_output, st_str *out)
{
    st_str_addf(out, "typedef struct %s_%s {\n", f->name, what);
    for (uint32_t i = 0; i < n; i++) {
        put_member(f->ports, &list[i], is_output, out);
    }
    if (n == 0) {
        st_str_add(out, "    int none;\n");
    }
    st_str_addf(out, "} %s_%s;\n\n", f->name, what);
}

/* One size of an input as the caller sets it: the number, or what the model calls it. */
static void put_size(const build_ports *ports, const build_port *port, uint32_t axis, st_str *out)
{
    st_str text;
    st_str_init(&text, out->mem);
    build_sym_text(ports->v, port->dims[axis], &text);
    st_str_addf(out, " *     in.%s.shape[%u] = ", port->id, axis);
    build_remark(text.data != NULL ? text.data : "", out);
    st_str_add(out, ";\n");
    st_str_deinit(&text);
}

/* Every input with all its axes, every output. */
static void put_example(const build_facts *f, st_str *out)
{
    const build_ports *p = f->ports;
    const char *n = f->name;
    st_str_addf(out,
                " *\n"
                " *     %s_inputs in = {0};\n"
                " *     %s_outputs out = {0};\n",
                n, n);
    for (uint32_t i = 0; i < p->n_in; i++) {
        st_str_addf(out, " *     in.%s.data = ...;\n", p->in[i].id);
        for (uint32_t a = 0; a < p->in[i].rank; a++) {
            put_size(p, &p->in[i], a, out);
        }
    }
    st_str_addf(out, " *     int status = %s_sizes(&in, &out, NULL);\n", n);
    for (uint32_t i = 0; i < p->n_out; i++) {
        st_str_addf(out, " *     out.%s.data = malloc(out.%s.bytes);\n", p->out[i].id,
                    p->out[i].id);
    }
    st_str_addf(out, " *     status = %s_run(&in, &out, NULL, 0);\n *\n", n);
}

/* "N from 2 on", for each symbol of the inputs. */
static void put_ranges(const build_ports *p, st_str *out)
{
    const char *before = " * Sizes: ";
    for (uint32_t i = 0; i < p->v->n_symbols; i++) {
        const stator_atom_row *atom = p->symbols[i];
        if (atom == NULL) {
            continue;
        }
        st_str_add(out, before);
        build_remark(stator_string_at(p->v, atom->name), out);
        st_str_addf(out, " from %" PRId64, atom->lo > 0 ? atom->lo : 0);
        if (atom->hi < SIZE_LIMIT) {
            st_str_addf(out, " to %" PRId64, atom->hi);
        } else {
            st_str_add(out, " on");
        }
        if (atom->divisor > 1) {
            st_str_addf(out, " in steps of %" PRId64, atom->divisor);
        }
        before = ",\n *   ";
    }
    st_str_add(out, before[0] == ',' ? ".\n" : "");
}

static void put_head(const build_facts *f, st_str *out)
{
    st_str_add(out, "/* Made by stator build from ");
    build_remark(f->model, out);
    st_str_add(out, " for processors: ");
    build_remark(f->cpu, out);
    st_str_add(out, ".\n");
    put_example(f, out);
    put_ranges(f->ports, out);
    st_str_addf(
        out,
        " * Tensors are dense, row-major, aligned to 16 bytes; an output shares no memory with\n"
        " * another tensor. Functions keep no state and may be called from any threads at once.\n"
        " * Work is spread over OpenMP's threads: OMP_NUM_THREADS, omp_set_num_threads. */\n"
        "#ifndef STATOR_BUILD_%s_H\n"
        "#define STATOR_BUILD_%s_H\n"
        "\n"
        "#include <stdint.h>\n"
        "\n"
        "#ifdef __cplusplus\n"
        "extern \"C\" {\n"
        "#endif\n\n",
        f->upper, f->upper);
}

static void put_statuses(const build_facts *f, st_str *out)
{
    static const status_row rows[] = {
        {"OK", "the outputs are written"},
        {"NULL_POINTER", "an argument, or the data of a tensor that is not empty, is NULL"},
        {"BAD_SHAPE", "an input's shape is not one of those stated below"},
        {"NO_ROOM", "an output's `bytes`, or the workspace, is too small"},
        {"NOT_ALIGNED", "data at no multiple of 16, or the workspace at none of 64"},
        {"OVERLAP", "an output shares memory with another tensor or the workspace"},
        {"NO_MEMORY", "no memory for the workspace"},
        {"BAD_CPU", "the processor lacks what the code was compiled for"},
        {"BAD_INDEX", "an element of an input is an index outside its axis"}};
    const size_t n = sizeof rows / sizeof rows[0];
    st_str_addf(out, "enum %s_status {\n", f->name);
    for (size_t i = 0; i < n; i++) {
        st_str_addf(out, "    %s_STATUS_%s = %zu%s /* %s */\n", f->upper, rows[i].name, i,
                    i + 1u < n ? "," : "", rows[i].text);
    }
    st_str_add(out, "};\n\n");
}

static void put_functions(const build_facts *f, st_str *out)
{
    const char *n = f->name;
    st_str_addf(
        out,
        "/* From the shapes of the inputs (their data may be NULL): shape and bytes of each "
        "output\n"
        " * and, when workspace_bytes is not NULL, the size of the workspace. */\n"
        "int %s_sizes(const %s_inputs *in, %s_outputs *out, uint64_t *workspace_bytes);\n"
        "\n"
        "/* Runs the model; writes the outputs and their shapes. `workspace`: scratch memory of\n"
        " * workspace_bytes bytes, aligned to 64, for this call alone; NULL: taken and given back\n"
        " * here, which costs time in large models. */\n"
        "int %s_run(const %s_inputs *in, %s_outputs *out, void *workspace,\n"
        "    uint64_t workspace_bytes);\n"
        "\n"
        "/* A status in words. */\n"
        "const char *%s_status_text(int status);\n"
        "\n",
        n, n, n, n, n, n, n);
    st_str_addf(out,
                "typedef struct %s_port {\n"
                "    const char *name;  /* as the model says it */\n"
                "    const char *dtype; /* \"f32\", \"i64\", ...; bf16, f16 and f8 travel as their "
                "bits */\n"
                "    uint32_t bytes;    /* of an element */\n"
                "    uint32_t rank;\n"
                "    const int64_t *dims;          /* -1: stated by dim_names */\n"
                "    const char *const *dim_names; /* \"N\", \"2*N + 1\"; NULL for numbers */\n"
                "} %s_port;\n"
                "\n"
                "uint32_t %s_input_count(void);\n"
                "uint32_t %s_output_count(void);\n"
                "/* NULL past the end. */\n"
                "const %s_port *%s_input(uint32_t index);\n"
                "const %s_port *%s_output(uint32_t index);\n"
                "\n"
                "#ifdef __cplusplus\n"
                "}\n"
                "#endif\n"
                "#endif\n",
                n, n, n, n, n, n, n, n);
}

void build_header(const build_facts *facts, st_str *out)
{
    put_head(facts, out);
    put_statuses(facts, out);
    put_struct(facts, "inputs", facts->ports->in, facts->ports->n_in, false, out);
    put_struct(facts, "outputs", facts->ports->out, facts->ports->n_out, true, out);
    put_functions(facts, out);
}
