/* Owner and mode checks; see trust.h for the rule. */
#define _GNU_SOURCE
#include "core/plugins/trust.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PASSWD_BUFFER = 16384, PATH_SIZE = 4096 };

void st_trust_init(st_trust *trust, const char *lib_path)
{
    struct stat st;
    *trust = (st_trust){.euid = (uint32_t)geteuid(), .egid = (uint32_t)getegid()};
    if (lib_path != NULL && stat(lib_path, &st) == 0) {
        trust->has_lib = 1;
        trust->lib_uid = (uint32_t)st.st_uid;
        trust->lib_gid = (uint32_t)st.st_gid;
        trust->lib_group_writes = (st.st_mode & S_IWGRP) != 0;
    }
}

static bool is_trusted_owner(const st_trust *trust, uint32_t uid)
{
    return uid == 0 || uid == trust->euid || (trust->has_lib && uid == trust->lib_uid);
}

/* Is gid the primary group of the owner? */
static bool is_primary_group(const st_trust *trust, uint32_t uid, uint32_t gid)
{
    char buffer[PASSWD_BUFFER];
    struct passwd entry;
    struct passwd *found = NULL;
    if (uid == gid && uid == 0) {
        return true;
    }
    if (getpwuid_r((uid_t)uid, &entry, buffer, sizeof buffer, &found) == 0 && found != NULL) {
        return (uint32_t)found->pw_gid == gid;
    }
    return gid == uid || (uid == trust->euid && gid == trust->egid) ||
           (trust->lib_group_writes && gid == trust->lib_gid);
}

bool st_trust_check_stat(const st_trust *trust, const struct stat *st, const char *path,
                         bool is_above, char *reason, size_t reason_size)
{
    const char *what = S_ISDIR(st->st_mode) ? "folder" : "file";
    if (is_above && S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0 && st->st_uid == 0) {
        return true;
    }
    if (!is_trusted_owner(trust, (uint32_t)st->st_uid)) {
        snprintf(reason, reason_size,
                 "the %s %s belongs to user %u, who is neither root, the current user nor the "
                 "owner of libstator",
                 what, path, (unsigned)st->st_uid);
        return false;
    }
    if ((st->st_mode & S_IWOTH) != 0) {
        snprintf(reason, reason_size, "the %s %s is writable by every user (mode %04o)", what, path,
                 (unsigned)(st->st_mode & 07777));
        return false;
    }
    if ((st->st_mode & S_IWGRP) != 0 &&
        !is_primary_group(trust, (uint32_t)st->st_uid, (uint32_t)st->st_gid)) {
        snprintf(reason, reason_size,
                 "the %s %s is writable by group %u, which is not its owner's primary group (mode "
                 "%04o)",
                 what, path, (unsigned)st->st_gid, (unsigned)(st->st_mode & 07777));
        return false;
    }
    return true;
}

bool st_trust_check_folder(const st_trust *trust, const char *folder, char *reason,
                           size_t reason_size)
{
    char path[PATH_SIZE];
    const size_t n = strlen(folder);
    if (folder[0] != '/' || n >= sizeof path) {
        snprintf(reason, reason_size, "the folder's path is not absolute or too long");
        return false;
    }
    memcpy(path, folder, n + 1);
    for (bool is_above = false;; is_above = true) {
        struct stat st;
        if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
            snprintf(reason, reason_size, "%s is not a folder that can be checked", path);
            return false;
        }
        if (!st_trust_check_stat(trust, &st, path, is_above, reason, reason_size)) {
            return false;
        }
        char *slash = strrchr(path, '/');
        if (path[1] == '\0') {
            return true;
        }
        slash[slash == path] = '\0'; /* "/a" becomes "/" */
    }
}
