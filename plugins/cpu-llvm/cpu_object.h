/* Loads object code without LLVM: ELF files of x86-64, relocatable, position-independent.
 *
 *   | sections that are allocated, each aligned | one import entry a symbol |      one mapping
 *
 * An import entry is a jump through the address behind it, so calls reach functions anywhere. The
 * mapping is written first and executable afterwards, never both. Everything in the file is
 * checked: objects may come from a cache. */
#ifndef STATOR_CPU_LLVM_CPU_OBJECT_H
#define STATOR_CPU_LLVM_CPU_OBJECT_H

#include "core/base/alloc.h"

typedef struct cpu_image {
    uint8_t *base;
    uint64_t size;
    const uint8_t *object; /* borrowed until cpu_image_seal */
    uint64_t object_size;
    uint64_t *offsets; /* positions of sections in the mapping, UINT64_MAX: none */
    uint64_t imports;  /* offset of the entries */
    uint32_t n_sections;
    uint32_t symbols; /* section of the symbol table */
    uint32_t n_symbols;
} cpu_image;

/* Address of a function that code may call, NULL unknown. */
typedef const void *(*cpu_resolve_fn)(void *self, const char *name);

/* `object` must stay while cpu_image_find is used. The text of an error goes to msg. */
stator_status cpu_image_load(st_mem *mem, const uint8_t *object, uint64_t size,
                             cpu_resolve_fn resolve, void *self, cpu_image *out, char *msg,
                             uint64_t msg_size);
/* Address of a defined symbol, NULL: there is none of that name. */
const void *cpu_image_find(const cpu_image *image, const char *name);
/* Every function that is defined, with its size in bytes. */
void cpu_image_each_function(const cpu_image *image,
                             void (*fn)(void *self, const char *name, const void *address,
                                        uint64_t size),
                             void *self);
/* The object is no longer needed. */
void cpu_image_seal(st_mem *mem, cpu_image *image);
void cpu_image_unload(st_mem *mem, cpu_image *image);

#endif
