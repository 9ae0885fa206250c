/* Fuzz target of the readers behind the plugin listing: any bytes are tried as a plugin file (ELF,
 * note, needed libraries), as the JSON of a note, and as the dynamic linker's cache file. */
#include "core/plugins/elf_reader.h"
#include "core/plugins/ldcache.h"
#include "core/plugins/note.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is promised of a note that was taken. */
static void check_note(const st_note *note)
{
    if (note->name == NULL || note->version == NULL || note->item_count == 0) {
        abort();
    }
    for (uint32_t i = 0; i < note->item_count; i++) {
        if (!st_item_name_ok(note->items[i].kind, note->items[i].name)) {
            abort();
        }
    }
    for (uint32_t i = 0; i < note->requires_count; i++) {
        if (note->requires_[i][0] == '\0') {
            abort();
        }
    }
}

static void try_note(st_arena *arena, const char *text, uint64_t len)
{
    st_note note;
    stator_diag *err = NULL;
    const stator_status status = st_note_parse(text, len, arena, &note, &err);
    if (status == STATOR_OK) {
        check_note(&note);
    } else if (err == NULL || st_diag_text(err)[0] == '\0') {
        abort(); /* every refusal has a sentence */
    }
    st_diag_release(err);
}

static void try_file(st_arena *arena, const uint8_t *data, size_t size)
{
    const st_elf_source source = {.bytes = data, .fd = -1, .size = size};
    st_elf elf;
    stator_diag *err = NULL;
    if (st_elf_read(&source, arena, &elf, &err) == STATOR_OK && elf.is_read) {
        for (uint32_t i = 0; i < elf.needed_count; i++) {
            if (strlen(elf.needed[i]) > size) {
                abort();
            }
        }
        if (elf.note != NULL) {
            try_note(arena, elf.note, elf.note_len);
        }
    }
    st_diag_release(err);
}

static void try_cache(const uint8_t *data, size_t size)
{
    uint32_t at = 0;
    const char *path;
    while ((path = st_ldcache_lookup(data, size, "libc.so.6", &at)) != NULL) {
        if ((const uint8_t *)path < data || (const uint8_t *)path + strlen(path) >= data + size) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    st_mem mem;
    st_arena arena;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_arena_init(&arena, &mem);
    try_file(&arena, data, size);
    try_note(&arena, (const char *)data, size < ST_ELF_NOTE_MAX ? size : ST_ELF_NOTE_MAX);
    try_cache(data, size);
    st_arena_deinit(&arena);
    if (mem.live_blocks != 0) {
        abort();
    }
    return 0;
}
