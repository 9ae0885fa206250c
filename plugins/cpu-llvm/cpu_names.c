/* perf: tools/perf/Documentation/jit-interface.txt of Linux. gdb: "JIT Compilation Interface" of
 * its manual: a list of object files in memory, their sections' addresses filled in, and a function
 * that gdb breaks on when the list has changed. The names of both are given from outside. */
#include "cpu_names.h"

#include "core/base/fdio.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- gdb ---- */

typedef struct gdb_entry {
    struct gdb_entry *next;
    struct gdb_entry *prev;
    const char *object;
    uint64_t size;
} gdb_entry;

typedef struct gdb_list {
    uint32_t version;
    uint32_t action; /* 0 nothing, 1 added, 2 removed */
    gdb_entry *changed;
    gdb_entry *first;
} gdb_list;

struct cpu_named {
    gdb_entry entry;
    char *object;
};

void __jit_debug_register_code(void);
/* gdb finds both by these names; one list serves the process. */
gdb_list __jit_debug_descriptor = {1, 0, NULL, NULL};
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;

/* gdb's breakpoint; the barrier keeps the calls. */
void __attribute__((noinline)) __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

static void announce(gdb_entry *entry, uint32_t action)
{
    __jit_debug_descriptor.action = action;
    __jit_debug_descriptor.changed = entry;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = 0;
    __jit_debug_descriptor.changed = NULL;
}

static void add_to_list(gdb_entry *entry)
{
    (void)pthread_mutex_lock(&list_mutex);
    entry->next = __jit_debug_descriptor.first;
    if (entry->next != NULL) {
        entry->next->prev = entry;
    }
    __jit_debug_descriptor.first = entry;
    announce(entry, 1);
    (void)pthread_mutex_unlock(&list_mutex);
}

static void remove_from_list(gdb_entry *entry)
{
    (void)pthread_mutex_lock(&list_mutex);
    if (entry->next != NULL) {
        entry->next->prev = entry->prev;
    }
    if (entry->prev != NULL) {
        entry->prev->next = entry->next;
    } else {
        __jit_debug_descriptor.first = entry->next;
    }
    announce(entry, 2);
    (void)pthread_mutex_unlock(&list_mutex);
}

/* The object with the addresses its sections were loaded at. The loader has checked its tables. */
static void write_addresses(const cpu_image *image, char *object)
{
    Elf64_Ehdr head;
    memcpy(&head, object, sizeof head);
    for (uint32_t s = 0; s < image->n_sections; s++) {
        char *at = object + head.e_shoff + (uint64_t)s * sizeof(Elf64_Shdr);
        Elf64_Shdr section;
        memcpy(&section, at, sizeof section);
        if (section.sh_flags & SHF_ALLOC) {
            section.sh_addr = (uint64_t)(uintptr_t)(image->base + image->offsets[s]);
            memcpy(at, &section, sizeof section);
        }
    }
}

/* ---- perf ---- */

static void write_line(void *self, const char *name, const void *address, uint64_t size)
{
    (void)fprintf(self, "%llx %llx %s\n", (unsigned long long)(uintptr_t)address,
                  (unsigned long long)size, name);
}

static void write_map(const cpu_image *image)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    (void)pthread_mutex_lock(&list_mutex);
    const uint32_t held = st_file_limit_hold();
    FILE *file = fopen(path, "a");
    if (file != NULL) {
        cpu_image_each_function(image, write_line, file);
        (void)fclose(file);
    }
    st_file_limit_release(held);
    (void)pthread_mutex_unlock(&list_mutex);
}

cpu_named *cpu_names_add(st_mem *mem, const cpu_image *image)
{
    cpu_named *named = st_calloc(mem, 1, sizeof *named);
    char *object = st_alloc(mem, image->object_size, 16);
    write_map(image);
    if (named == NULL || object == NULL) {
        st_free(mem, named);
        st_free(mem, object);
        return NULL;
    }
    memcpy(object, image->object, image->object_size);
    write_addresses(image, object);
    *named = (cpu_named){.entry = {.object = object, .size = image->object_size}, .object = object};
    add_to_list(&named->entry);
    return named;
}

void cpu_names_remove(st_mem *mem, cpu_named *named)
{
    if (named != NULL) {
        remove_from_list(&named->entry);
        st_free(mem, named->object);
        st_free(mem, named);
    }
}
