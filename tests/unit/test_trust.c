/* Owners and modes: the rule of docs/plugins.md for files, folders and the folders above, also
 * for root over a tree of another user, umask 0002, and a clone below /tmp. */
#define _GNU_SOURCE
#include "core/plugins/trust.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers that no passwd file has. */
enum { ME = 3000001, LIB = 3000002, STRANGER = 3000003 };

static const st_trust trust = {
    .euid = ME, .egid = ME, .has_lib = 1, .lib_uid = LIB, .lib_gid = LIB};

static int check(uint32_t uid, uint32_t gid, mode_t mode, int is_above, char *reason)
{
    struct stat st = {0};
    st.st_uid = uid;
    st.st_gid = gid;
    st.st_mode = mode;
    reason[0] = '\0';
    return st_trust_check_stat(&trust, &st, "/x/plugin.so", is_above, reason, 512);
}

Test(trust, owner_of_a_file_decides)
{
    char reason[512];
    cr_expect(check(0, 0, S_IFREG | 0644, 0, reason));
    cr_expect(check(ME, ME, S_IFREG | 0644, 0, reason));
    cr_expect(check(LIB, LIB, S_IFREG | 0755, 0, reason), "the owner of libstator is trusted");
    cr_expect_not(check(STRANGER, STRANGER, S_IFREG | 0644, 0, reason));
    cr_expect_not_null(strstr(reason, "belongs to user 3000003"));
    cr_expect_not(check(STRANGER, STRANGER, S_IFDIR | 0755, 1, reason));
}

Test(trust, files_writable_by_untrusted_users_are_refused)
{
    char reason[512];
    cr_expect_not(check(ME, ME, S_IFREG | 0646, 0, reason));
    cr_expect_not_null(strstr(reason, "writable by every user (mode 0646)"));
    cr_expect(check(ME, ME, S_IFREG | 0664, 0, reason), "umask 0002");
    cr_expect(check(LIB, LIB, S_IFREG | 0664, 0, reason), "umask 0002, tree of another user");
    cr_expect_not(check(ME, STRANGER, S_IFREG | 0664, 0, reason));
    cr_expect_not_null(strstr(reason, "writable by group 3000003"));
    cr_expect(check(ME, STRANGER, S_IFREG | 0644, 0, reason));
    cr_expect(check(0, 0, S_IFDIR | 0775, 0, reason));
    cr_expect_not(check(0, STRANGER, S_IFDIR | 0775, 0, reason));
}

Test(trust, writable_parent_folder_is_refused_unless_sticky)
{
    char reason[512];
    cr_expect(check(0, 0, S_IFDIR | S_ISVTX | 0777, 1, reason), "/tmp above is fine");
    cr_expect_not(check(0, 0, S_IFDIR | S_ISVTX | 0777, 0, reason), "/tmp itself is not");
    cr_expect_not(check(STRANGER, STRANGER, S_IFDIR | S_ISVTX | 0777, 1, reason));
    cr_expect_not(check(0, 0, S_IFDIR | 0777, 1, reason));
}

/* The group that may write libstator.so may write plugins, when nobody can say whose it is. */
Test(trust, group_that_may_write_the_library_is_trusted)
{
    const struct stat st = {.st_uid = LIB, .st_gid = STRANGER, .st_mode = S_IFREG | 0664};
    char reason[512];
    st_trust shared = trust;
    shared.lib_gid = STRANGER;
    cr_expect_not(st_trust_check_stat(&shared, &st, "/x", false, reason, sizeof reason));
    shared.lib_group_writes = 1;
    cr_expect(st_trust_check_stat(&shared, &st, "/x", false, reason, sizeof reason));
}

Test(trust, folders_of_the_file_system)
{
    char folder[] = "/tmp/stator-trust-XXXXXX";
    char inner[64];
    char reason[512];
    st_trust mine;
    st_trust_init(&mine, NULL);
    cr_assert_not_null(mkdtemp(folder));
    snprintf(inner, sizeof inner, "%s/inner", folder);
    cr_assert_eq(mkdir(inner, 0755), 0);
    cr_expect(st_trust_check_folder(&mine, inner, reason, sizeof reason), "%s", reason);
    cr_assert_eq(chmod(folder, 0777), 0);
    cr_expect_not(st_trust_check_folder(&mine, inner, reason, sizeof reason));
    cr_expect_not_null(strstr(reason, folder));
    cr_expect_not(st_trust_check_folder(&mine, "relative", reason, sizeof reason));
    cr_expect_not(st_trust_check_folder(&mine, "/nonexistent/folder", reason, sizeof reason));
    cr_expect_not(st_trust_check_folder(&mine, "/etc/passwd", reason, sizeof reason));
    rmdir(inner);
    rmdir(folder);
}

/* Run as root: a tree that belongs to somebody else is refused without libstator in it and trusted
 * with it. As another user there is no way to make such a tree. */
Test(trust, root_over_a_tree_of_another_user)
{
    char folder[] = "/tmp/stator-trust-XXXXXX";
    char lib[64];
    char reason[512];
    if (geteuid() != 0) {
        cr_skip_test("only root can give a folder to another user");
    }
    cr_assert_not_null(mkdtemp(folder));
    snprintf(lib, sizeof lib, "%s/libstator.so", folder);
    FILE *file = fopen(lib, "w");
    cr_assert_not_null(file);
    fclose(file);
    cr_assert_eq(chown(lib, STRANGER, STRANGER), 0);
    cr_assert_eq(chown(folder, STRANGER, STRANGER), 0);
    cr_assert_eq(chmod(folder, 0775), 0);
    st_trust alone;
    st_trust with_lib;
    st_trust_init(&alone, NULL);
    st_trust_init(&with_lib, lib);
    cr_expect_not(st_trust_check_folder(&alone, folder, reason, sizeof reason));
    cr_expect(st_trust_check_folder(&with_lib, folder, reason, sizeof reason), "%s", reason);
    unlink(lib);
    rmdir(folder);
}
