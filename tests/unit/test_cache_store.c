/* The folder of the compile cache: entries come back whole or not at all, whoever writes, however a
 * writer ends, and whatever is done to the files. */
#define _GNU_SOURCE
#include "core/cache/cache_store.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD 300000u
#define NAMES 4u

static char root[64];
static st_mem mem;

static void begin(void)
{
    (void)snprintf(root, sizeof root, "/tmp/stator-cache-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    st_mem_init(&mem, NULL, NULL, NULL, 0);
}

static void end(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(mem.live_blocks, 0);
}

TestSuite(cache_store, .init = begin, .fini = end);

static void open_store(st_cache_store *store, uint64_t cap)
{
    st_cache_store_open(store, &mem, root, cap, 2);
    st_cache_store_make(store);
    cr_assert_geq(store->fd, 0, "%s", store->reason);
}

/* Payload of (name, version): every byte tells both. */
static void fill(uint8_t *bytes, uint32_t n, uint32_t k, uint32_t version)
{
    for (uint32_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(i * 7u + k * 31u + version * 101u);
    }
}

static void name_of(uint32_t k, char key[32], char name[ST_CACHE_NAME_BYTES])
{
    (void)snprintf(key, 32, "graph: %u", k);
    st_cache_name(key, strlen(key), name);
}

static int put(st_cache_store *store, uint32_t kind, uint32_t k, uint32_t version, uint32_t n)
{
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    uint8_t *bytes = malloc(n + 1u);
    name_of(k, key, name);
    fill(bytes, n, k, version);
    const int is_ok = st_cache_write(store, kind, name, key, bytes, n);
    free(bytes);
    return is_ok;
}

/* 1: there and one of the versions; 0: not there; -1: wrong bytes. */
static int look(st_cache_store *store, uint32_t k, uint32_t versions, uint32_t n)
{
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    st_cache_bytes entry;
    int answer = -1;
    name_of(k, key, name);
    if (!st_cache_read(store, ST_CACHE_CODE, name, key, &entry)) {
        return 0;
    }
    uint8_t *want = malloc(n + 1u);
    for (uint32_t v = 0; v < versions && entry.size_bytes == n; v++) {
        fill(want, n, k, v);
        answer = memcmp(entry.payload, want, n) == 0 ? 1 : answer;
    }
    free(want);
    st_free(&mem, entry.file);
    return answer;
}

static void path_of(uint32_t k, const char *ending, char path[256])
{
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    name_of(k, key, name);
    (void)snprintf(path, 256, "%s/programs/%s.%s", root, name, ending);
}

Test(cache_store, get_returns_what_was_put)
{
    st_cache_store store;
    open_store(&store, 1u << 30);
    cr_assert_eq(look(&store, 1, 1, PAYLOAD), 0);
    cr_assert(put(&store, ST_CACHE_CODE, 1, 0, PAYLOAD));
    cr_assert_eq(look(&store, 1, 1, PAYLOAD), 1);
    cr_assert(put(&store, ST_CACHE_CODE, 1, 1, PAYLOAD)); /* replaced */
    cr_assert_eq(look(&store, 1, 1, PAYLOAD), -1);
    cr_assert_eq(look(&store, 1, 2, PAYLOAD), 1);
    cr_assert(put(&store, ST_CACHE_CODE, 2, 0, 0)); /* nothing is something */
    cr_assert_eq(look(&store, 2, 1, 0), 1);
    struct stat st;
    char path[256];
    path_of(1, "code", path);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600);
    (void)snprintf(path, sizeof path, "%s/programs", root);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700);
    st_cache_store_close(&store);
}

Test(cache_store, another_key_is_a_miss)
{
    st_cache_store store;
    st_cache_bytes entry;
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    open_store(&store, 1u << 30);
    cr_assert(put(&store, ST_CACHE_CODE, 1, 0, 100));
    name_of(1, key, name);
    cr_assert_not(st_cache_read(&store, ST_CACHE_CODE, name, "graph: 10", &entry));
    cr_assert_not(st_cache_read(&store, ST_CACHE_DATA, name, key, &entry));
    cr_assert(st_cache_read(&store, ST_CACHE_CODE, name, key, &entry));
    st_free(&mem, entry.file);
    st_cache_store_close(&store);
}

/* Each byte of an entry, and each length of its file. */
Test(cache_store, damaged_entry_is_a_miss_and_is_removed)
{
    const uint32_t n = 40;
    st_cache_store store;
    char path[256];
    open_store(&store, 1u << 30);
    cr_assert(put(&store, ST_CACHE_CODE, 1, 0, n));
    path_of(1, "code", path);
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    for (off_t at = 0; at < st.st_size; at++) {
        for (int is_cut = 0; is_cut < 2; is_cut++) {
            cr_assert(put(&store, ST_CACHE_CODE, 1, 0, n));
            const int fd = open(path, O_RDWR);
            uint8_t byte = 0;
            if (is_cut) {
                cr_assert_eq(ftruncate(fd, at), 0);
            } else {
                cr_assert_eq(pread(fd, &byte, 1, at), 1);
                byte ^= 0x40;
                cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
            }
            (void)close(fd);
            cr_assert_eq(look(&store, 1, 1, n), 0, "byte %ld", (long)at);
            cr_assert_eq(access(path, F_OK) == 0, is_cut && at == 0);
        }
    }
    st_cache_store_close(&store);
}

Test(cache_store, map_returns_the_stored_data)
{
    const uint32_t n = (3u << 20) + 5u;
    st_cache_store store;
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    char path[256];
    const void *data = NULL;
    open_store(&store, 1u << 30);
    name_of(3, key, name);
    cr_assert_null(st_cache_map(&store, name, key, n));
    cr_assert(put(&store, ST_CACHE_DATA, 3, 0, n));
    for (int again = 0; again < 3; again++) {
        stator_blob *blob = st_cache_map(&store, name, key, n);
        cr_assert_not_null(blob);
        cr_assert_eq(st_blob_get(blob, &data, NULL), STATOR_OK);
        cr_assert_eq((uintptr_t)data % 64u, 0);
        uint8_t *want = malloc(n);
        fill(want, n, 3, 0);
        cr_assert_eq(memcmp(data, want, n), 0);
        free(want);
        st_blob_release(blob);
    }
    cr_assert_null(st_cache_map(&store, name, key, n - 1u));
    path_of(3, "data", path);
    const int fd = open(path, O_RDWR);
    cr_assert_eq(pwrite(fd, "x", 1, 2 << 20), 1);
    (void)close(fd);
    cr_assert_null(st_cache_map(&store, name, key, n));
    cr_assert_neq(access(path, F_OK), 0);
    st_cache_store_close(&store);
}

static uint32_t count_files(const char *with)
{
    char path[96];
    uint32_t n = 0;
    (void)snprintf(path, sizeof path, "%s/programs", root);
    DIR *dir = opendir(path);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += strstr(e->d_name, with) != NULL;
    }
    (void)closedir(dir);
    return n;
}

static void set_age(const char *path, time_t seconds)
{
    const struct timespec then[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    cr_assert_eq(utimensat(AT_FDCWD, path, then, 0), 0);
}

/* Data first, then what was not used for longest; what is read becomes young. */
Test(cache_store, size_limit_evicts_data_then_least_recently_used)
{
    st_cache_store store;
    char path[256];
    open_store(&store, 1000000);
    cr_assert(put(&store, ST_CACHE_DATA, 9, 0, PAYLOAD));
    for (uint32_t k = 0; k < NAMES; k++) {
        cr_assert(put(&store, ST_CACHE_CODE, k, 0, PAYLOAD));
        path_of(k, "code", path);
        set_age(path, 1000 - (time_t)k);
    }
    cr_assert_eq(look(&store, 0, 1, PAYLOAD), 1);
    st_cache_evict(&store);
    cr_assert_eq(count_files(".data"), 0);
    cr_assert_eq(count_files(".code"), 3);
    cr_assert_eq(look(&store, 0, 1, PAYLOAD), 1);
    cr_assert_eq(look(&store, 1, 1, PAYLOAD), 0);
    cr_assert_eq(look(&store, 3, 1, PAYLOAD), 1);
    cr_assert_not(put(&store, ST_CACHE_CODE, 5, 0, 600000)); /* more than half of all */
    st_cache_store_close(&store);
}

/* Looking makes nothing. */
Test(cache_store, folder_is_created_by_the_first_put)
{
    st_cache_store store;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/programs", root);
    st_cache_store_open(&store, &mem, root, 1u << 30, 1);
    cr_assert_eq(store.fd, -1);
    cr_assert_str_eq(store.reason, "");
    cr_assert_str_eq(store.folder, path);
    cr_assert_neq(access(path, F_OK), 0);
    st_cache_store_make(&store);
    cr_assert_geq(store.fd, 0);
    st_cache_store_close(&store);
}

Test(cache_store, folder_of_another_user_is_refused)
{
    st_cache_store store;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/programs", root);
    cr_assert_eq(mkdir(path, 0755), 0);
    st_cache_store_open(&store, &mem, root, 1u << 30, 1);
    cr_assert_eq(store.fd, -1);
    cr_assert_not_null(strstr(store.reason, "0700"));
    cr_assert_not(put(&store, ST_CACHE_CODE, 1, 0, 10)); /* harmless without a folder */
    cr_assert_eq(look(&store, 1, 1, 10), 0);
    st_cache_evict(&store);
    st_cache_store_close(&store);
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(symlink("/tmp", path), 0);
    st_cache_store_open(&store, &mem, root, 1u << 30, 1);
    cr_assert_eq(store.fd, -1);
    st_cache_store_close(&store);
    st_cache_store_open(&store, &mem, "/proc/no/such", 1u << 30, 1);
    st_cache_store_make(&store);
    cr_assert_eq(store.fd, -1);
    cr_assert_str_neq(store.reason, "");
    st_cache_store_close(&store);
    st_cache_store_open(&store, &mem, NULL, 1u << 30, 1);
    cr_assert_eq(store.fd, -1);
    st_cache_store_close(&store);
}

/* A link in the place of an entry is not followed. */
Test(cache_store, symbolic_link_as_entry_is_not_followed)
{
    st_cache_store store;
    char path[256];
    char other[256];
    open_store(&store, 1u << 30);
    cr_assert(put(&store, ST_CACHE_CODE, 1, 0, 50));
    path_of(1, "code", path);
    (void)snprintf(other, sizeof other, "%s/elsewhere", root);
    cr_assert_eq(rename(path, other), 0);
    cr_assert_eq(symlink(other, path), 0);
    cr_assert_eq(look(&store, 1, 1, 50), 0);
    st_cache_store_close(&store);
}

/* Each context of a process has a store that counts its temporary files for itself, and a process
 * that was killed may have left one of any number. */
Test(cache_store, existing_temporary_names_are_passed_over)
{
    st_cache_store a;
    st_cache_store b;
    char path[256];
    open_store(&a, 1u << 30);
    open_store(&b, 1u << 30);
    for (uint32_t i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof path, "%s/programs/.tmp-%ld-%u", root, (long)getpid(), i);
        FILE *taken = fopen(path, "w");
        cr_assert_not_null(taken);
        cr_assert_eq(fclose(taken), 0);
    }
    cr_assert(put(&a, ST_CACHE_CODE, 1, 0, 500));
    cr_assert(put(&b, ST_CACHE_CODE, 2, 0, 500));
    cr_assert_eq(look(&b, 1, 1, 500), 1);
    cr_assert_eq(look(&a, 2, 1, 500), 1);
    cr_assert_eq(access(path, F_OK), 0, "the file of another writer stays");
    st_cache_store_close(&a);
    st_cache_store_close(&b);
}

/* ---- written and mapped ---- */

static int is_right(stator_blob *blob, uint32_t k, uint32_t n)
{
    const void *data = NULL;
    uint8_t *want = malloc(n);
    fill(want, n, k, 0);
    const int is_ok = st_blob_size(blob) == n && st_blob_get(blob, &data, NULL) == STATOR_OK &&
                      (uintptr_t)data % 64u == 0 && memcmp(data, want, n) == 0;
    free(want);
    return is_ok;
}

/* 1: the entry is there and right; 0: not there; -1: wrong. */
static int look_mapped(st_cache_store *store, uint32_t k, uint32_t n)
{
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    name_of(k, key, name);
    stator_blob *blob = st_cache_map(store, name, key, n);
    const int answer = blob == NULL ? 0 : is_right(blob, k, n) ? 1 : -1;
    st_blob_release(blob);
    return answer;
}

Test(cache_store, mapping_survives_rewrite_and_removal)
{
    const uint32_t n = (2u << 20) + 5u;
    st_cache_store store;
    char key[32];
    char name[ST_CACHE_NAME_BYTES];
    name_of(1, key, name);
    open_store(&store, 1u << 30);
    cr_assert_eq(look_mapped(&store, 1, n), 0);
    cr_assert(put(&store, ST_CACHE_DATA, 1, 0, n));
    stator_blob *blob = st_cache_map(&store, name, key, n);
    cr_assert_not_null(blob);
    cr_assert(put(&store, ST_CACHE_DATA, 1, 1, n));
    st_cache_remove(&store, ST_CACHE_DATA, name);
    cr_assert(is_right(blob, 1, n)); /* what is mapped lives on */
    st_blob_release(blob);
    cr_assert_eq(count_files(".tmp-"), 0);
    st_cache_store_close(&store);
}

Test(cache_store, failed_put_leaves_no_file)
{
    st_cache_store store;
    char path[256];
    open_store(&store, 10u * PAYLOAD);
    cr_assert_not(put(&store, ST_CACHE_DATA, 1, 0, 6u * PAYLOAD)); /* more than half of all */
    path_of(1, "data", path); /* a folder in the place of the entry */
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_not(put(&store, ST_CACHE_DATA, 1, 0, PAYLOAD));
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(count_files("."), 2, "the folder itself and the one above");
    cr_assert_eq(count_files(".tmp-"), 0);
    st_cache_store_close(&store);
}

/* ---- processes ---- */

static void write_for_ever(void)
{
    st_cache_store store;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_cache_store_open(&store, &mem, root, 1u << 30, 1);
    st_cache_store_make(&store);
    for (uint32_t i = 0;; i++) {
        (void)put(&store, ST_CACHE_CODE, i % NAMES, i / NAMES % 2u, PAYLOAD);
        (void)put(&store, ST_CACHE_DATA, i % NAMES, 0, PAYLOAD);
    }
}

/* Killed in the middle, again and again: entries are whole; what is left over goes when it is old.
 */
Test(cache_store, killed_writer_leaves_whole_entries)
{
    st_cache_store store;
    char path[320];
    for (uint32_t round = 0; round < 20; round++) {
        const pid_t child = fork();
        if (child == 0) {
            write_for_ever();
        }
        const struct timespec wait = {0, 3000000 + (long)round * 700000};
        (void)nanosleep(&wait, NULL);
        cr_assert_eq(kill(child, SIGKILL), 0);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        open_store(&store, 1u << 30);
        for (uint32_t k = 0; k < NAMES; k++) {
            cr_assert_geq(look(&store, k, 2, PAYLOAD), 0);
            cr_assert_geq(look_mapped(&store, k, PAYLOAD), 0);
        }
        st_cache_store_close(&store);
    }
    open_store(&store, 1u << 30);
    (void)snprintf(path, sizeof path, "%s/programs/.tmp-1-2", root);
    cr_assert_geq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    st_cache_evict(&store);
    cr_assert_eq(access(path, F_OK), 0); /* young: its writer may be alive */
    set_age(path, 7200);
    st_cache_evict(&store);
    cr_assert_neq(access(path, F_OK), 0);
    st_cache_store_close(&store);
}

static int read_and_write(uint32_t seed)
{
    st_cache_store store;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_cache_store_open(&store, &mem, root, 2000000, 1);
    st_cache_store_make(&store);
    for (uint32_t i = 0; i < 60; i++) {
        seed = seed * 1103515245u + 12345u;
        const uint32_t k = seed >> 16 & 3u;
        if ((seed >> 20 & 3u) == 0 && !put(&store, ST_CACHE_CODE, k, seed >> 24 & 1u, PAYLOAD)) {
            return 1;
        }
        if (look(&store, k, 2, PAYLOAD) < 0) {
            return 2;
        }
        if (i % 16 == 0) {
            st_cache_evict(&store);
        }
    }
    return 0;
}

Test(cache_store, concurrent_processes_read_whole_entries)
{
    pid_t children[8];
    for (uint32_t i = 0; i < 8; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(read_and_write(i + 1u));
        }
    }
    for (uint32_t i = 0; i < 8; i++) {
        int status = 0;
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    }
    cr_assert_eq(count_files(".tmp-"), 0);
}

/* No file may grow past a limit: as on a full disk, a write ends in the middle. */
static int write_on_full_disk(void)
{
    st_cache_store store;
    const struct rlimit limit = {100000, 100000};
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_cache_store_open(&store, &mem, root, 1u << 30, 1);
    st_cache_store_make(&store);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || !put(&store, ST_CACHE_CODE, 1, 0, 1000)) {
        return 1;
    }
    errno = 0;
    if (put(&store, ST_CACHE_CODE, 1, 1, PAYLOAD) || errno != EFBIG) {
        return 2;
    }
    return look(&store, 1, 1, 1000) == 1 ? 0 : 3; /* what was there stays */
}

Test(cache_store, full_disk_keeps_older_entries)
{
    const pid_t child = fork();
    if (child == 0) {
        _exit(write_on_full_disk());
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    cr_assert_eq(count_files(".tmp-"), 0);
}
