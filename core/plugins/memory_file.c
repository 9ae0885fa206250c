/* Small files in which a run remembers what it found of plugins, for the next one; they lie beside
 * the compiled programs. Lines of fields with tabs between. What cannot be read or written is not
 * remembered. */
#define _GNU_SOURCE
#include "core/base/cache_root.h"
#include "core/base/fdio.h"
#include "core/plugins/registry_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_MAX (1024 * 1024)

bool st_memory_file_path(const st_registry *registry, const char *name, bool makes_folders,
                         char out[ST_MEMORY_PATH])
{
    const char *own =
        (registry->flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv("STATOR_CACHE_DIR") : NULL;
    ST_NEED(st_cache_root(own, out));
    if (makes_folders) {
        (void)st_make_folders(out);
    }
    strcat(out, "/"); /* there is room */
    strcat(out, name);
    return true;
}

char *st_memory_file_read(st_mem *mem, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    char *text = NULL;
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        st.st_size <= MEMORY_MAX) {
        const st_elf_source file = {.fd = fd, .size = (uint64_t)st.st_size};
        text = st_alloc(mem, file.size + 1, 1);
        if (text != NULL && !st_elf_read_at(&file, 0, text, file.size)) {
            st_free(mem, text);
            text = NULL;
        }
        if (text != NULL) {
            text[file.size] = '\0';
        }
    }
    close(fd);
    return text;
}

void st_memory_file_replace(const char *path, const st_str *text)
{
    char temporary[ST_MEMORY_PATH + 32];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return;
    }
    const bool is_written = st_write_all(fd, text->data, text->len);
    if (close(fd) != 0 || !is_written || rename(temporary, path) != 0) {
        unlink(temporary);
    }
}

uint32_t st_memory_file_split(char *line, char **fields, uint32_t max)
{
    uint32_t n = 0;
    while (line != NULL && n < max) {
        fields[n++] = strsep(&line, "\t");
    }
    return n;
}

void st_memory_file_field(st_str *out, const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        st_str_addn(out, *text == '\t' || *text == '\n' ? " " : text, 1);
    }
}
