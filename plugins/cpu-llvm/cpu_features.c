/* The features that generated code may use; see the header. Bits: Intel's manual, volume 2, CPUID;
 * AMD's volume 3, appendix E (lzcnt). A feature that is not here is never used by code with a
 * level that is set. */
#include "cpu_features.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum reg { EAX = 0, EBX = 1, ECX = 2, EDX = 3 };
#define OS_AVX 0x6u     /* XCR0: SSE and AVX state */
#define OS_AVX512 0xe6u /* XCR0: SSE, AVX and AVX-512 state */

typedef struct feature {
    const char *name; /* LLVM's */
    uint32_t level;   /* level that has the feature; UINT32_MAX: none */
    uint32_t leaf, subleaf, reg, bit;
    uint32_t os; /* bits of XCR0 that it needs */
} feature;

#define NO_LEVEL UINT32_MAX

static const feature features[] = {
    {"sse3", CPU_V2, 1, 0, ECX, 0, 0},
    {"ssse3", CPU_V2, 1, 0, ECX, 9, 0},
    {"cx16", CPU_V2, 1, 0, ECX, 13, 0},
    {"sse4.1", CPU_V2, 1, 0, ECX, 19, 0},
    {"sse4.2", CPU_V2, 1, 0, ECX, 20, 0},
    {"popcnt", CPU_V2, 1, 0, ECX, 23, 0},
    {"avx", CPU_V3, 1, 0, ECX, 28, OS_AVX},
    {"f16c", CPU_V3, 1, 0, ECX, 29, OS_AVX},
    {"fma", CPU_V3, 1, 0, ECX, 12, OS_AVX},
    {"movbe", CPU_V3, 1, 0, ECX, 22, 0},
    {"avx2", CPU_V3, 7, 0, EBX, 5, OS_AVX},
    {"bmi", CPU_V3, 7, 0, EBX, 3, 0},
    {"bmi2", CPU_V3, 7, 0, EBX, 8, 0},
    {"lzcnt", CPU_V3, 0x80000001u, 0, ECX, 5, 0},
    {"avx512f", CPU_V4, 7, 0, EBX, 16, OS_AVX512},
    {"avx512dq", CPU_V4, 7, 0, EBX, 17, OS_AVX512},
    {"avx512cd", CPU_V4, 7, 0, EBX, 28, OS_AVX512},
    {"avx512bw", CPU_V4, 7, 0, EBX, 30, OS_AVX512},
    {"avx512vl", CPU_V4, 7, 0, EBX, 31, OS_AVX512},
    {"avx512ifma", NO_LEVEL, 7, 0, EBX, 21, OS_AVX512},
    {"avx512vbmi", NO_LEVEL, 7, 0, ECX, 1, OS_AVX512},
    {"avx512vbmi2", NO_LEVEL, 7, 0, ECX, 6, OS_AVX512},
    {"gfni", NO_LEVEL, 7, 0, ECX, 8, OS_AVX},
    {"avx512vnni", NO_LEVEL, 7, 0, ECX, 11, OS_AVX512},
    {"avx512bitalg", NO_LEVEL, 7, 0, ECX, 12, OS_AVX512},
    {"avx512vpopcntdq", NO_LEVEL, 7, 0, ECX, 14, OS_AVX512},
    {"avxvnni", NO_LEVEL, 7, 1, EAX, 4, OS_AVX},
    {"avx512bf16", NO_LEVEL, 7, 1, EAX, 5, OS_AVX512},
};
#define N_FEATURES (sizeof features / sizeof features[0])

static const char *const level_names[] = {"native", "x86-64", "x86-64-v2", "x86-64-v3",
                                          "x86-64-v4"};

uint32_t cpu_level_of(const char *text)
{
    for (uint32_t i = 0; text != NULL && i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            return i;
        }
    }
    return CPU_NATIVE;
}

uint32_t cpu_level_vector_bytes(uint32_t level)
{
    return level == CPU_NATIVE ? 0 : level == CPU_V4 ? 64 : level == CPU_V3 ? 32 : 16;
}

/* ---- this machine ---- */

static bool machine_has(const feature *f)
{
#if defined(__x86_64__)
    uint32_t r[4] = {0};
    uint32_t low = 0;
    uint32_t high = 0;
    if (!__get_cpuid_count(1, 0, &r[0], &r[1], &r[2], &r[3])) {
        return false;
    }
    if ((r[ECX] >> 27 & 1u) != 0) { /* the system uses XSAVE: XCR0 may be read */
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    }
    return (low & f->os) == f->os &&
           __get_cpuid_count(f->leaf, f->subleaf, &r[0], &r[1], &r[2], &r[3]) &&
           (r[f->reg] >> f->bit & 1u) != 0;
#else
    (void)f;
    return 0;
#endif
}

static bool is_wanted(const feature *f, uint32_t level)
{
    return level == CPU_NATIVE ? machine_has(f) : f->level <= level;
}

const char *cpu_features_missing(uint32_t level)
{
    for (size_t i = 0; level != CPU_NATIVE && i < N_FEATURES; i++) {
        if (is_wanted(&features[i], level) && !machine_has(&features[i])) {
            return features[i].name;
        }
    }
    return NULL;
}

/* ---- texts ---- */

void cpu_features_print(uint32_t level, st_str *out)
{
    const char *between = "";
    for (size_t i = 0; i < N_FEATURES; i++) {
        if (is_wanted(&features[i], level)) {
            st_str_addf(out, "%s+%s", between, features[i].name);
            between = ",";
        }
    }
}

static const char check_head[] =
    "/* Has this processor what the code was compiled for? Made by Stator. */\n"
    "#include <cpuid.h>\n"
    "\n"
    "__attribute__((visibility(\"hidden\"))) int stator_package_cpu(void);\n"
    "\n"
    "__attribute__((unused)) static int has(unsigned leaf, unsigned subleaf, int reg, int bit)\n"
    "{\n"
    "    unsigned r[4] = {0};\n"
    "    return __get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]) &&\n"
    "           (r[reg] >> bit & 1u) != 0;\n"
    "}\n"
    "\n"
    "/* The registers that the system saves. */\n"
    "__attribute__((unused)) static int saves(unsigned wanted)\n"
    "{\n"
    "    unsigned low = 0;\n"
    "    unsigned high = 0;\n"
    "    if (has(1, 0, 2, 27)) {\n"
    "        __asm__ volatile(\"xgetbv\" : \"=a\"(low), \"=d\"(high) : \"c\"(0));\n"
    "    }\n"
    "    return (low & wanted) == wanted;\n"
    "}\n"
    "\n"
    "static int look(void)\n"
    "{\n";

void cpu_features_print_check(uint32_t level, st_str *out)
{
    uint32_t os = 0;
    for (size_t i = 0; i < N_FEATURES; i++) {
        os |= is_wanted(&features[i], level) ? features[i].os : 0u;
    }
    st_str_add(out, check_head);
    st_str_addf(out, "    return saves(0x%xu)", os);
    for (size_t i = 0; i < N_FEATURES; i++) {
        const feature *f = &features[i];
        if (is_wanted(f, level)) {
            st_str_addf(out, " &&\n           has(0x%xu, %u, %u, %u) /* %s */", f->leaf, f->subleaf,
                        f->reg, f->bit, f->name);
        }
    }
    st_str_add(out, ";\n"
                    "}\n"
                    "\n"
                    "int stator_package_cpu(void)\n"
                    "{\n"
                    "    static int known; /* 1 no, 2 yes */\n"
                    "    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);\n"
                    "    if (answer == 0) {\n"
                    "        answer = 1 + look();\n"
                    "        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);\n"
                    "    }\n"
                    "    return answer == 2;\n"
                    "}\n");
}
