/* The optional allow-list: with STATOR_PLUGIN_ALLOW=FILE only plugins whose SHA-256 stands in FILE
 * are usable. Lines are those of sha256sum (64 hexadecimal digits, then anything); '#' begins a
 * comment. A list that cannot be read, or that others may write, allows nothing. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include "core/base/map.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LIST_MAX = 1024 * 1024, DIGEST_TEXT = 64 };

void st_allow_list_init(st_allow_list *list, st_mem *mem, const st_trust *trust, const char *path)
{
    char why[1024];
    struct stat st;
    *list = (st_allow_list){.mem = mem, .path = path};
    const int fd = path != NULL && path[0] == '/' ? st_plugin_open(path, &st, why, sizeof why) : -1;
    if (fd < 0) {
        return;
    }
    if (st.st_size <= LIST_MAX && st_trust_check_stat(trust, &st, path, false, why, sizeof why)) {
        const st_elf_source file = {.fd = fd, .size = (uint64_t)st.st_size};
        list->text = st_alloc(mem, file.size + 1, 1);
        if (list->text != NULL && st_elf_read_at(&file, 0, list->text, file.size)) {
            list->text[file.size] = '\0';
        } else {
            st_free(mem, list->text);
            list->text = NULL;
        }
    }
    close(fd);
}

void st_allow_list_deinit(st_allow_list *list)
{
    st_free(list->mem, list->text);
    list->text = NULL;
}

/* 0 when the file cannot be read (or held in memory). */
static bool digest_of(const st_allow_list *list, int fd, uint64_t size, char out[DIGEST_TEXT + 1])
{
    static const char digits[] = "0123456789abcdef";
    const st_elf_source file = {.fd = fd, .size = size};
    uint8_t sum[32];
    uint8_t *bytes = st_alloc(list->mem, size, 16);
    const bool ok = bytes != NULL && st_elf_read_at(&file, 0, bytes, size);
    if (ok) {
        st_sha256(bytes, size, sum);
        for (int i = 0; i < 32; i++) {
            out[2 * i] = digits[sum[i] >> 4];
            out[2 * i + 1] = digits[sum[i] & 15];
        }
        out[DIGEST_TEXT] = '\0';
    }
    st_free(list->mem, bytes);
    return ok;
}

static bool has_line(const char *text, const char *digest)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        if (n >= DIGEST_TEXT && strncasecmp(text, digest, DIGEST_TEXT) == 0 &&
            strchr(" \t\r\n", text[DIGEST_TEXT]) != NULL) {
            return true;
        }
        text += n + (text[n] == '\n');
    }
    return false;
}

bool st_allow_list_check(const st_allow_list *list, int fd, uint64_t size, char *reason,
                         size_t reason_size)
{
    char digest[DIGEST_TEXT + 1];
    if (list->path == NULL) {
        return true;
    }
    if (list->text == NULL) {
        snprintf(
            reason, reason_size,
            "the allow-list %s cannot be read or is writable by others, so no plugin is allowed",
            list->path);
        return false;
    }
    if (!digest_of(list, fd, size, digest)) {
        snprintf(reason, reason_size, "its SHA-256 cannot be computed");
        return false;
    }
    if (!has_line(list->text, digest)) {
        snprintf(reason, reason_size, "its SHA-256 %s is not in the allow-list %s", digest,
                 list->path);
        return false;
    }
    return true;
}
