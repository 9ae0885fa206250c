/* Reads what the registry needs of an ELF file without running or mapping it: machine, notes, build
 * id, needed sonames, search paths. The file is hostile input: every offset and count is checked
 * against the file's size, reads go through pread so that a file cut meanwhile is an error and not
 * a signal.
 *
 * In: an open file or bytes in memory. Out: st_elf, its strings in the caller's arena.
 * Only 64-bit little-endian files are read past their header; others report class and machine.
 * Source: System V ABI, "Object Files" and "Program Loading"; gABI note sections. */
#ifndef STATOR_PLUGINS_ELF_READER_H
#define STATOR_PLUGINS_ELF_READER_H

#include "core/base/arena.h"
#include "core/base/diag.h"

typedef struct st_elf_source {
    const uint8_t *bytes; /* NULL: read from fd */
    int fd;
    uint64_t size;
} st_elf_source;

typedef struct st_elf {
    uint32_t class_bits; /* 32 or 64 */
    uint32_t is_big_endian;
    uint32_t machine; /* e_machine */
    uint32_t is_read; /* past the header: the members below are set */
    const char *note; /* text of the Stator note, or NULL; not NUL-terminated inside */
    uint64_t note_len;
    const char *build_id; /* hexadecimal, or NULL */
    const char *soname;   /* NULL: none */
    const char *rpath;    /* DT_RPATH, NULL when there is a DT_RUNPATH */
    const char *runpath;
    const char *const *needed;
    uint32_t needed_count;
} st_elf;

#define ST_ELF_NOTE_MAX (64u * 1024u) /* bytes of JSON */

/* DATA_LOSS with a sentence when the file is no ELF shared object or is cut or corrupt. */
stator_status st_elf_read(const st_elf_source *source, st_arena *arena, st_elf *out_elf,
                          stator_diag **err);
/* Reads n bytes at offset; 0 when the source has fewer. */
bool st_elf_read_at(const st_elf_source *source, uint64_t offset, void *dst, uint64_t n);

/* Finds the Stator note (and, when out_build_id is not NULL, the GNU build id) in the bytes of one
 * PT_NOTE segment. Returns the number of Stator notes in it, -1 when the segment is malformed. */
int32_t st_elf_scan_notes(const uint8_t *bytes, uint64_t size, uint64_t align,
                          const uint8_t **out_note, uint64_t *out_note_len,
                          const uint8_t **out_build_id, uint64_t *out_build_id_len);

uint32_t st_elf_host_machine(void);
const char *st_elf_machine_name(uint32_t machine); /* "x86-64", "AArch64", ...; NULL unknown */

#endif
