/* The ELF reader behind elf_reader.h. Layout of what is followed:
 *
 *   header -> program headers -> PT_NOTE segments   -> notes (owner "Stator" type 1, "GNU" type 3)
 *                             -> PT_DYNAMIC segment -> DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH
 *                                                      (strings through DT_STRTAB, whose address
 *                                                      PT_LOAD segments turn into a file offset)
 */
#define _GNU_SOURCE
#include "core/plugins/elf_reader.h"

#include "core/base/check.h"
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    PHDRS_MAX = 256,
    DYNAMIC_MAX = 4096,
    NEEDED_MAX = 512,
    NOTE_SEGMENT_MAX = 1024 * 1024,
    SONAME_MAX = 512,
    PATH_LIST_MAX = 8192,
    BUILD_ID_MAX = 64,
    NOTE_TYPE_STATOR = 1
};

typedef struct elf_file {
    const st_elf_source *source;
    st_arena *arena;
    st_elf *out;
    Elf64_Ehdr header;
    Elf64_Phdr *phdrs;
    uint64_t strtab_offset;
    uint64_t strtab_size;
} elf_file;

typedef struct dynamic_facts {
    uint64_t strtab_address;
    uint64_t strtab_size;
    uint64_t soname, rpath, runpath; /* string offsets + 1, 0: absent */
    uint32_t needed_count;
} dynamic_facts;

bool st_elf_read_at(const st_elf_source *source, uint64_t offset, void *dst, uint64_t n)
{
    uint64_t end;
    if (!st_add_u64(offset, n, &end) || end > source->size) {
        return false;
    }
    if (source->bytes != NULL) {
        memcpy(dst, source->bytes + offset, n);
        return true;
    }
    uint64_t done = 0;
    while (done < n) {
        const ssize_t got = pread(source->fd, (char *)dst + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        ST_NEED(got > 0);
        done += (uint64_t)got;
    }
    return true;
}

uint32_t st_elf_host_machine(void)
{
#if defined(__x86_64__)
    return EM_X86_64;
#elif defined(__aarch64__)
    return EM_AARCH64;
#else
    return EM_NONE;
#endif
}

const char *st_elf_machine_name(uint32_t machine)
{
    switch (machine) {
    case EM_386:
        return "x86 (32 bits)";
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "AArch64";
    case EM_ARM:
        return "Arm (32 bits)";
    case EM_RISCV:
        return "RISC-V";
    case EM_PPC64:
        return "PowerPC 64";
    case EM_S390:
        return "S/390";
    case EM_MIPS:
        return "MIPS";
    case EM_SPARCV9:
        return "SPARC V9";
    case EM_LOONGARCH:
        return "LoongArch";
    default:
        return NULL;
    }
}

static stator_status read_header(elf_file *f, stator_diag **err)
{
    unsigned char ident[EI_NIDENT + 4];
    ST_FAIL_IF(f->source->size == 0, err, STATOR_DATA_LOSS, "the file is empty");
    ST_FAIL_IF(!st_elf_read_at(f->source, 0, ident, sizeof ident) ||
                   memcmp(ident, ELFMAG, SELFMAG) != 0,
               err, STATOR_DATA_LOSS, "the file is not an ELF shared object");
    f->out->class_bits = ident[EI_CLASS] == ELFCLASS64 ? 64u : 32u;
    f->out->is_big_endian = ident[EI_DATA] == ELFDATA2MSB;
    const unsigned lo = f->out->is_big_endian ? 1u : 0u;
    const uint32_t type = (uint32_t)ident[16 + lo] | (uint32_t)ident[17 - lo] << 8;
    f->out->machine = (uint32_t)ident[18 + lo] | (uint32_t)ident[19 - lo] << 8;
    ST_FAIL_IF((ident[EI_CLASS] != ELFCLASS64 && ident[EI_CLASS] != ELFCLASS32) ||
                   (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB),
               err, STATOR_DATA_LOSS, "the ELF header names no known class or byte order");
    ST_FAIL_IF(type != ET_DYN, err, STATOR_DATA_LOSS,
               "the file is an ELF file of type %u, not a shared object", (unsigned)type);
    if (f->out->class_bits != 64 || f->out->is_big_endian) {
        return STATOR_OK;
    }
    ST_FAIL_IF(!st_elf_read_at(f->source, 0, &f->header, sizeof f->header), err, STATOR_DATA_LOSS,
               "the file ends inside its ELF header");
    f->out->is_read = 1;
    return STATOR_OK;
}

/* A range the header names must lie in the file; also catches files that were cut. */
static stator_status check_range(const elf_file *f, const char *what, uint64_t offset,
                                 uint64_t size, stator_diag **err)
{
    uint64_t end;
    ST_FAIL_IF(!st_add_u64(offset, size, &end) || end > f->source->size, err, STATOR_DATA_LOSS,
               "the file is truncated: %s should end at byte %llu, the file has %llu", what,
               (unsigned long long)(offset + size), (unsigned long long)f->source->size);
    return STATOR_OK;
}

static stator_status read_phdrs(elf_file *f, stator_diag **err)
{
    const Elf64_Ehdr *h = &f->header;
    ST_FAIL_IF(h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 || h->e_phnum > PHDRS_MAX,
               err, STATOR_DATA_LOSS, "the ELF header is corrupt: %u program headers of %u bytes",
               (unsigned)h->e_phnum, (unsigned)h->e_phentsize);
    const uint64_t size = (uint64_t)h->e_phnum * sizeof(Elf64_Phdr);
    ST_TRY(check_range(f, "the program header table", h->e_phoff, size, err));
    if (h->e_shoff != 0) {
        ST_TRY(check_range(f, "the section table", h->e_shoff,
                           (uint64_t)h->e_shnum * h->e_shentsize, err));
    }
    f->phdrs = st_arena_alloc(f->arena, size, 8);
    ST_TRY_MEM(f->phdrs, err);
    ST_FAIL_IF(!st_elf_read_at(f->source, h->e_phoff, f->phdrs, size), err, STATOR_DATA_LOSS,
               "the program header table cannot be read");
    for (uint32_t i = 0; i < h->e_phnum; i++) {
        ST_TRY(check_range(f, "a segment", f->phdrs[i].p_offset, f->phdrs[i].p_filesz, err));
    }
    return STATOR_OK;
}

int32_t st_elf_scan_notes(const uint8_t *bytes, uint64_t size, uint64_t align,
                          const uint8_t **out_note, uint64_t *out_note_len,
                          const uint8_t **out_build_id, uint64_t *out_build_id_len)
{
    const uint64_t pad = align == 8 ? 7 : 3;
    int32_t found = 0;
    uint64_t at = 0;
    while (size - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, bytes + at, sizeof note);
        const uint64_t name_at = at + sizeof note;
        const uint64_t desc_at = name_at + (((uint64_t)note.n_namesz + pad) & ~pad);
        const uint64_t desc_end = desc_at + note.n_descsz;
        if (desc_at > size || desc_end > size) {
            return -1;
        }
        const uint8_t *name = bytes + name_at;
        if (note.n_namesz == 7 && memcmp(name, "Stator", 7) == 0 &&
            note.n_type == NOTE_TYPE_STATOR) {
            *out_note = bytes + desc_at;
            *out_note_len = note.n_descsz;
            found++;
        } else if (out_build_id != NULL && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
                   note.n_type == NT_GNU_BUILD_ID) {
            *out_build_id = bytes + desc_at;
            *out_build_id_len = note.n_descsz;
        }
        const uint64_t next = (desc_end + pad) & ~pad;
        if (next >= size) {
            break;
        }
        at = next;
    }
    return found;
}

static const char *to_hex(st_arena *arena, const uint8_t *bytes, uint64_t n)
{
    static const char digits[] = "0123456789abcdef";
    char *text = st_arena_alloc(arena, 2 * n + 1, 1);
    if (text == NULL) {
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * n] = '\0';
    return text;
}

static stator_status take_notes(elf_file *f, const Elf64_Phdr *segment, stator_diag **err)
{
    if (segment->p_filesz == 0) {
        return STATOR_OK;
    }
    ST_FAIL_IF(segment->p_filesz > NOTE_SEGMENT_MAX, err, STATOR_DATA_LOSS,
               "a note segment of %llu bytes is too large", (unsigned long long)segment->p_filesz);
    uint8_t *bytes = st_arena_alloc(f->arena, segment->p_filesz, 8);
    ST_TRY_MEM(bytes, err);
    ST_FAIL_IF(!st_elf_read_at(f->source, segment->p_offset, bytes, segment->p_filesz), err,
               STATOR_DATA_LOSS, "a note segment cannot be read");
    const uint8_t *note = NULL;
    const uint8_t *id = NULL;
    uint64_t note_len = 0;
    uint64_t id_len = 0;
    const int32_t found = st_elf_scan_notes(bytes, segment->p_filesz, segment->p_align, &note,
                                            &note_len, &id, &id_len);
    ST_FAIL_IF(found < 0, err, STATOR_DATA_LOSS, "a note segment is malformed");
    ST_FAIL_IF(found > 1 || (found == 1 && f->out->note != NULL), err, STATOR_DATA_LOSS,
               "the file holds more than one Stator note");
    if (found == 1) {
        ST_FAIL_IF(note_len > ST_ELF_NOTE_MAX, err, STATOR_DATA_LOSS,
                   "the Stator note has %llu bytes, at most %u fit", (unsigned long long)note_len,
                   ST_ELF_NOTE_MAX);
        f->out->note = (const char *)note;
        f->out->note_len = note_len;
    }
    if (id != NULL && id_len > 0 && id_len <= BUILD_ID_MAX && f->out->build_id == NULL) {
        f->out->build_id = to_hex(f->arena, id, id_len);
        return f->out->build_id != NULL ? STATOR_OK : st_fail_oom(err);
    }
    return STATOR_OK;
}

/* File offset of a virtual address, and how many bytes of its segment follow it. */
static bool offset_of(const elf_file *f, uint64_t address, uint64_t *out_offset, uint64_t *out_left)
{
    for (uint32_t i = 0; i < f->header.e_phnum; i++) {
        const Elf64_Phdr *p = &f->phdrs[i];
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) {
            *out_offset = p->p_offset + (address - p->p_vaddr);
            *out_left = p->p_filesz - (address - p->p_vaddr);
            return true;
        }
    }
    return false;
}

static stator_status read_string(elf_file *f, uint64_t at, uint64_t max, const char **out,
                                 stator_diag **err)
{
    ST_FAIL_IF(at >= f->strtab_size, err, STATOR_DATA_LOSS,
               "a name lies outside the dynamic string table");
    uint64_t n = f->strtab_size - at;
    n = n < max ? n : max;
    char chunk[64];
    uint64_t len = 0;
    bool done = false;
    while (len < n && !done) {
        const uint64_t part = n - len < sizeof chunk ? n - len : sizeof chunk;
        ST_FAIL_IF(!st_elf_read_at(f->source, f->strtab_offset + at + len, chunk, part), err,
                   STATOR_DATA_LOSS, "the dynamic string table cannot be read");
        const char *nul = memchr(chunk, 0, part);
        len += nul != NULL ? (uint64_t)(nul - chunk) : part;
        done = nul != NULL;
    }
    ST_FAIL_IF(!done, err, STATOR_DATA_LOSS, "a name in the dynamic string table has no end");
    char *text = st_arena_alloc(f->arena, len + 1, 1);
    ST_TRY_MEM(text, err);
    ST_FAIL_IF(!st_elf_read_at(f->source, f->strtab_offset + at, text, len), err, STATOR_DATA_LOSS,
               "the dynamic string table cannot be read");
    text[len] = '\0';
    *out = text;
    return STATOR_OK;
}

static void collect_facts(const Elf64_Dyn *dyn, uint64_t n, dynamic_facts *facts)
{
    for (uint64_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
        const uint64_t v = dyn[i].d_un.d_val;
        switch (dyn[i].d_tag) {
        case DT_STRTAB:
            facts->strtab_address = v;
            break;
        case DT_STRSZ:
            facts->strtab_size = v;
            break;
        case DT_SONAME:
            facts->soname = v + 1;
            break;
        case DT_RPATH:
            facts->rpath = v + 1;
            break;
        case DT_RUNPATH:
            facts->runpath = v + 1;
            break;
        case DT_NEEDED:
            facts->needed_count++;
            break;
        default:
            break;
        }
    }
}

static stator_status read_needed(elf_file *f, const Elf64_Dyn *dyn, uint64_t n,
                                 const dynamic_facts *facts, stator_diag **err)
{
    ST_FAIL_IF(facts->needed_count > NEEDED_MAX, err, STATOR_DATA_LOSS,
               "the file names %u needed libraries, more than %d", facts->needed_count, NEEDED_MAX);
    const char **names = st_arena_zalloc(f->arena, facts->needed_count + 1u, sizeof *names);
    ST_TRY_MEM(names, err);
    uint32_t count = 0;
    for (uint64_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
        if (dyn[i].d_tag == DT_NEEDED) {
            ST_TRY(read_string(f, dyn[i].d_un.d_val, SONAME_MAX, &names[count], err));
            count++;
        }
    }
    f->out->needed = names;
    f->out->needed_count = count;
    return STATOR_OK;
}

static stator_status take_dynamic(elf_file *f, const Elf64_Phdr *segment, stator_diag **err)
{
    const uint64_t n = segment->p_filesz / sizeof(Elf64_Dyn);
    ST_FAIL_IF(n > DYNAMIC_MAX, err, STATOR_DATA_LOSS,
               "a dynamic section of %llu entries is too large", (unsigned long long)n);
    Elf64_Dyn *dyn = st_arena_alloc(f->arena, n * sizeof *dyn + 1, 8);
    ST_TRY_MEM(dyn, err);
    ST_FAIL_IF(!st_elf_read_at(f->source, segment->p_offset, dyn, n * sizeof *dyn), err,
               STATOR_DATA_LOSS, "the dynamic section cannot be read");
    dynamic_facts facts = {0};
    collect_facts(dyn, n, &facts);
    uint64_t left = 0;
    ST_FAIL_IF(!offset_of(f, facts.strtab_address, &f->strtab_offset, &left) ||
                   facts.strtab_size > left,
               err, STATOR_DATA_LOSS, "the dynamic string table lies outside the file");
    f->strtab_size = facts.strtab_size;
    ST_TRY(read_needed(f, dyn, n, &facts, err));
    if (facts.soname != 0) {
        ST_TRY(read_string(f, facts.soname - 1, SONAME_MAX, &f->out->soname, err));
    }
    if (facts.runpath != 0) {
        ST_TRY(read_string(f, facts.runpath - 1, PATH_LIST_MAX, &f->out->runpath, err));
    } else if (facts.rpath != 0) {
        ST_TRY(read_string(f, facts.rpath - 1, PATH_LIST_MAX, &f->out->rpath, err));
    }
    return STATOR_OK;
}

stator_status st_elf_read(const st_elf_source *source, st_arena *arena, st_elf *out_elf,
                          stator_diag **err)
{
    *out_elf = (st_elf){0};
    elf_file f = {.source = source, .arena = arena, .out = out_elf};
    ST_TRY(read_header(&f, err));
    if (!out_elf->is_read) {
        return STATOR_OK;
    }
    stator_status status = read_phdrs(&f, err);
    bool has_dynamic = false;
    for (uint32_t i = 0; status == STATOR_OK && i < f.header.e_phnum; i++) {
        if (f.phdrs[i].p_type == PT_NOTE) {
            status = take_notes(&f, &f.phdrs[i], err);
        } else if (f.phdrs[i].p_type == PT_DYNAMIC && !has_dynamic) {
            has_dynamic = true;
            status = take_dynamic(&f, &f.phdrs[i], err);
        }
    }
    if (status == STATOR_OK && !has_dynamic) {
        status = st_fail(err, STATOR_DATA_LOSS, "the file has no dynamic section to link it by");
    }
    if (status != STATOR_OK) {
        out_elf->is_read = 0;
    }
    return status;
}
