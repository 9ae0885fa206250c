/* Who may have written a plugin file? The rule of docs/plugins.md, "Trust":
 *
 *   file and its folder   owned by root, the effective user, or the owner of libstator.so; not
 *                         writable by others; group-writable only for that owner's primary group
 *   folders above         the same, or a root-owned sticky folder such as /tmp
 *
 * In: modes and owners as stat gives them. Out: 1, or 0 with a sentence that names the path.
 * An owner without a passwd entry (a container's uid): its primary group is taken to be the one of
 * the same number, or for the effective user the effective group; or the group that may write
 * libstator.so itself, which could already run what it likes in this process. */
#ifndef STATOR_PLUGINS_TRUST_H
#define STATOR_PLUGINS_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct st_trust {
    uint32_t euid;
    uint32_t egid;
    uint32_t has_lib;
    uint32_t lib_uid;
    uint32_t lib_gid;
    uint32_t lib_group_writes;
} st_trust;

/* Collects the identity of this process; lib_path is libstator.so or NULL. */
void st_trust_init(st_trust *trust, const char *lib_path);
/* Checks owner and mode of one file or folder whose status is `st`. is_above: a folder above the
 * plugin's own. */
bool st_trust_check_stat(const st_trust *trust, const struct stat *st, const char *path,
                         bool is_above, char *reason, size_t reason_size);
/* Checks an absolute folder without symbolic links and every folder above it. */
bool st_trust_check_folder(const st_trust *trust, const char *folder, char *reason,
                           size_t reason_size);

#endif
