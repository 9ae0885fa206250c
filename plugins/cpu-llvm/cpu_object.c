/* The loader of object code; see the header. Formats: System V ABI, AMD64 supplement 1.0;
 * relocations that position-independent code of the small model has. */
#define _GNU_SOURCE
#include "cpu_object.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTIONS_MAX 4096u
#define IMAGE_MAX ((uint64_t)1 << 30) /* 32-bit distances reach all of it */
#define IMPORT_BYTES 16u              /* jmp *8(%rip), padding, address */
#define NOT_LOADED UINT64_MAX

typedef struct loader {
    st_mem *mem;
    cpu_image *image;
    Elf64_Ehdr head;
    cpu_resolve_fn resolve;
    void *self;
    char *msg;
    uint64_t msg_size;
    stator_status status;
} loader;

static stator_status fail(loader *l, stator_status status, const char *what, const char *name)
{
    if (l->status == STATOR_OK) {
        (void)snprintf(l->msg, (size_t)l->msg_size, "object code cannot be loaded: %s%s%s", what,
                       name ? " " : "", name ? name : "");
        l->status = status;
    }
    return l->status;
}

/* ---- reading ---- */

static bool read_at(const cpu_image *image, uint64_t offset, void *out, uint64_t size)
{
    if (offset > image->object_size || size > image->object_size - offset) {
        return false;
    }
    memcpy(out, image->object + offset, size);
    return true;
}

static bool section_at(const cpu_image *image, uint32_t index, Elf64_Shdr *out)
{
    Elf64_Ehdr head;
    return index < image->n_sections && read_at(image, 0, &head, sizeof head) &&
           read_at(image, head.e_shoff + (uint64_t)index * sizeof *out, out, sizeof *out) &&
           (out->sh_type == SHT_NOBITS || (out->sh_offset <= image->object_size &&
                                           out->sh_size <= image->object_size - out->sh_offset));
}

static bool symbol_at(const cpu_image *image, uint32_t index, Elf64_Sym *out)
{
    Elf64_Shdr section;
    return index < image->n_symbols && section_at(image, image->symbols, &section) &&
           read_at(image, section.sh_offset + (uint64_t)index * sizeof *out, out, sizeof *out);
}

/* The name of a symbol; "" when it has none or a broken one. */
static const char *symbol_name(const cpu_image *image, const Elf64_Sym *symbol)
{
    Elf64_Shdr table;
    Elf64_Shdr names;
    if (!section_at(image, image->symbols, &table) || !section_at(image, table.sh_link, &names) ||
        symbol->st_name >= names.sh_size) {
        return "";
    }
    const char *name = (const char *)image->object + names.sh_offset + symbol->st_name;
    return memchr(name, 0, names.sh_size - symbol->st_name) ? name : "";
}

static stator_status read_head(loader *l)
{
    cpu_image *image = l->image;
    if (!read_at(image, 0, &l->head, sizeof l->head) ||
        memcmp(l->head.e_ident, ELFMAG, SELFMAG) != 0 || l->head.e_ident[EI_CLASS] != ELFCLASS64 ||
        l->head.e_ident[EI_DATA] != ELFDATA2LSB || l->head.e_type != ET_REL ||
        l->head.e_shentsize != sizeof(Elf64_Shdr)) {
        return fail(l, STATOR_DATA_LOSS, "it is no relocatable ELF file of 64 bits", NULL);
    }
    if (l->head.e_machine != EM_X86_64) {
        return fail(l, STATOR_UNSUPPORTED, "it is for another processor than x86-64", NULL);
    }
    if (l->head.e_shnum == 0 || l->head.e_shnum > SECTIONS_MAX) {
        return fail(l, STATOR_DATA_LOSS, "its number of sections is wrong", NULL);
    }
    image->n_sections = l->head.e_shnum;
    for (uint32_t s = 0; s < image->n_sections; s++) {
        Elf64_Shdr section;
        if (!section_at(image, s, &section)) {
            return fail(l, STATOR_DATA_LOSS, "a section lies outside the file", NULL);
        }
        if (section.sh_type == SHT_SYMTAB) {
            image->symbols = s;
            image->n_symbols = (uint32_t)(section.sh_size / sizeof(Elf64_Sym));
        }
    }
    return STATOR_OK;
}

/* ---- placing ---- */

static bool align_up(uint64_t *at, uint64_t align)
{
    if (align == 0 || align > 4096u || (align & (align - 1u)) != 0) {
        return false;
    }
    *at = (*at + align - 1u) & ~(align - 1u);
    return true;
}

static stator_status lay_out(loader *l)
{
    cpu_image *image = l->image;
    uint64_t at = 0;
    image->offsets = st_alloc(l->mem, image->n_sections * sizeof *image->offsets, 16);
    if (image->offsets == NULL) {
        return fail(l, STATOR_RESOURCE_EXHAUSTED, "out of memory", NULL);
    }
    for (uint32_t s = 0; s < image->n_sections; s++) {
        Elf64_Shdr section;
        image->offsets[s] = NOT_LOADED;
        if (!section_at(image, s, &section) || !(section.sh_flags & SHF_ALLOC)) {
            continue;
        }
        if (!align_up(&at, section.sh_addralign ? section.sh_addralign : 1u) ||
            section.sh_size > IMAGE_MAX || at + section.sh_size > IMAGE_MAX) {
            return fail(l, STATOR_DATA_LOSS, "a section's size or alignment is wrong", NULL);
        }
        image->offsets[s] = at;
        at += section.sh_size;
    }
    (void)align_up(&at, IMPORT_BYTES);
    image->imports = at;
    image->size = at + (uint64_t)image->n_symbols * IMPORT_BYTES + 1u;
    if (image->size > IMAGE_MAX) {
        return fail(l, STATOR_DATA_LOSS, "it is too large", NULL);
    }
    return STATOR_OK;
}

static stator_status map(loader *l)
{
    cpu_image *image = l->image;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    image->size = (image->size + page - 1u) / page * page;
    void *base =
        mmap(NULL, (size_t)image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        image->size = 0;
        return fail(l, STATOR_RESOURCE_EXHAUSTED, "no memory for the code", NULL);
    }
    image->base = base;
    st_mem_charge(l->mem, (int64_t)image->size);
    for (uint32_t s = 0; s < image->n_sections; s++) {
        Elf64_Shdr section;
        if (image->offsets[s] != NOT_LOADED && section_at(image, s, &section) &&
            section.sh_type != SHT_NOBITS) {
            memcpy(image->base + image->offsets[s], image->object + section.sh_offset,
                   section.sh_size);
        }
    }
    return STATOR_OK;
}

/* ---- symbols ---- */

static uint8_t *import_entry(const cpu_image *image, uint32_t symbol)
{
    return image->base + image->imports + (uint64_t)symbol * IMPORT_BYTES;
}

/* Where a symbol that the object defines lies; NULL when it defines none. */
static const uint8_t *defined_at(const cpu_image *image, const Elf64_Sym *symbol)
{
    const uint32_t s = symbol->st_shndx;
    if (s == SHN_UNDEF || s >= image->n_sections || image->offsets[s] == NOT_LOADED ||
        symbol->st_value > image->size - image->offsets[s]) {
        return NULL;
    }
    return image->base + image->offsets[s] + symbol->st_value;
}

/* Each symbol gets an entry that holds its address; unknown ones only matter when they are used. */
static void fill_imports(loader *l)
{
    static const uint8_t jump[8] = {0xff, 0x25, 0x02, 0, 0, 0, 0x66, 0x90}; /* jmp *2(%rip); nop */
    const cpu_image *image = l->image;
    for (uint32_t i = 0; i < image->n_symbols; i++) {
        Elf64_Sym symbol;
        const void *to = NULL;
        if (!symbol_at(image, i, &symbol)) {
            continue;
        }
        to = defined_at(image, &symbol);
        if (to == NULL && symbol.st_shndx == SHN_UNDEF) {
            const char *name = symbol_name(image, &symbol);
            to = name[0] ? l->resolve(l->self, name) : NULL;
        }
        memcpy(import_entry(image, i), jump, sizeof jump);
        memcpy(import_entry(image, i) + sizeof jump, &to, sizeof to);
    }
}

/* The address a relocation means: of the symbol, its import entry, or the entry's address field. */
static const uint8_t *meant(loader *l, uint32_t index, bool want_slot)
{
    Elf64_Sym symbol;
    void *to = NULL;
    if (!symbol_at(l->image, index, &symbol)) {
        (void)fail(l, STATOR_DATA_LOSS, "a relocation names no symbol", NULL);
        return NULL;
    }
    uint8_t *entry = import_entry(l->image, index);
    memcpy(&to, entry + 8, sizeof to);
    if (to == NULL) {
        (void)fail(l, STATOR_NOT_FOUND, "it calls an unknown function,",
                   symbol_name(l->image, &symbol));
        return NULL;
    }
    const uint8_t *defined = defined_at(l->image, &symbol);
    return want_slot ? entry + 8 : defined ? defined : entry;
}

/* ---- relocations ---- */

static stator_status apply(loader *l, const Elf64_Shdr *target, uint64_t base,
                           const Elf64_Rela *rela)
{
    const uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    const bool is_wide = type == R_X86_64_64 || type == R_X86_64_PC64;
    const bool is_slot =
        type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
    if (!is_wide && !is_slot && type != R_X86_64_PC32 && type != R_X86_64_PLT32) {
        char number[16];
        (void)snprintf(number, sizeof number, "%u", type);
        return fail(l, STATOR_UNSUPPORTED, "unknown relocation", number);
    }
    const uint64_t bytes = is_wide ? 8u : 4u;
    if (rela->r_offset > target->sh_size || bytes > target->sh_size - rela->r_offset) {
        return fail(l, STATOR_DATA_LOSS, "a relocation lies outside its section", NULL);
    }
    const uint8_t *to = meant(l, (uint32_t)ELF64_R_SYM(rela->r_info), is_slot);
    if (to == NULL) {
        return l->status;
    }
    uint8_t *patched = l->image->base + base + rela->r_offset;
    const uint64_t value = (uint64_t)(uintptr_t)to + (uint64_t)rela->r_addend -
                           (type == R_X86_64_64 ? 0 : (uint64_t)(uintptr_t)patched);
    if (!is_wide && (int64_t)value != (int64_t)(int32_t)(uint32_t)value) {
        return fail(l, STATOR_DATA_LOSS, "a distance does not fit 32 bits", NULL);
    }
    memcpy(patched, &value, bytes);
    return STATOR_OK;
}

static stator_status relocate(loader *l)
{
    const cpu_image *image = l->image;
    for (uint32_t s = 0; s < image->n_sections; s++) {
        Elf64_Shdr section;
        Elf64_Shdr target;
        if (!section_at(image, s, &section) || section.sh_type != SHT_RELA ||
            section.sh_info >= image->n_sections || image->offsets[section.sh_info] == NOT_LOADED ||
            !section_at(image, section.sh_info, &target)) {
            continue;
        }
        for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Rela); i++) {
            Elf64_Rela rela;
            if (!read_at(image, section.sh_offset + i * sizeof rela, &rela, sizeof rela) ||
                apply(l, &target, image->offsets[section.sh_info], &rela) != STATOR_OK) {
                return fail(l, STATOR_DATA_LOSS, "a relocation lies outside the file", NULL);
            }
        }
    }
    return STATOR_OK;
}

static stator_status protect(loader *l)
{
    if (mprotect(l->image->base, (size_t)l->image->size, PROT_READ | PROT_EXEC) != 0) {
        return fail(l, STATOR_PERMISSION_DENIED, "the system does not let memory become executable",
                    NULL);
    }
    return STATOR_OK;
}

stator_status cpu_image_load(st_mem *mem, const uint8_t *object, uint64_t size,
                             cpu_resolve_fn resolve, void *self, cpu_image *out, char *msg,
                             uint64_t msg_size)
{
    *out = (cpu_image){.object = object, .object_size = size};
    loader l = {.mem = mem,
                .image = out,
                .resolve = resolve,
                .self = self,
                .msg = msg,
                .msg_size = msg_size};
    stator_status status = read_head(&l);
    status = status == STATOR_OK ? lay_out(&l) : status;
    status = status == STATOR_OK ? map(&l) : status;
    if (status == STATOR_OK) {
        fill_imports(&l);
        status = relocate(&l);
    }
    status = status == STATOR_OK ? protect(&l) : status;
    if (status != STATOR_OK) {
        cpu_image_unload(mem, out);
    }
    return status;
}

void cpu_image_each_function(const cpu_image *image,
                             void (*fn)(void *self, const char *name, const void *address,
                                        uint64_t size),
                             void *self)
{
    for (uint32_t i = 0; image->object != NULL && i < image->n_symbols; i++) {
        Elf64_Sym symbol;
        if (symbol_at(image, i, &symbol) && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            defined_at(image, &symbol) != NULL) {
            fn(self, symbol_name(image, &symbol), defined_at(image, &symbol), symbol.st_size);
        }
    }
}

typedef struct wanted {
    const char *name;
    const void *address;
} wanted;

static void note_function(void *self, const char *name, const void *address, uint64_t size)
{
    wanted *w = self;
    (void)size;
    if (strcmp(name, w->name) == 0) {
        w->address = address;
    }
}

const void *cpu_image_find(const cpu_image *image, const char *name)
{
    wanted w = {name, NULL};
    cpu_image_each_function(image, note_function, &w);
    return w.address;
}

void cpu_image_seal(st_mem *mem, cpu_image *image)
{
    st_free(mem, image->offsets);
    image->offsets = NULL;
    image->object = NULL;
    image->object_size = 0;
}

void cpu_image_unload(st_mem *mem, cpu_image *image)
{
    if (image->base != NULL) {
        (void)munmap(image->base, (size_t)image->size);
        st_mem_charge(mem, -(int64_t)image->size);
    }
    cpu_image_seal(mem, image);
    *image = (cpu_image){.base = NULL};
}
