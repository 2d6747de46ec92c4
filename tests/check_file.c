/* check_file.c - files and folders that appear at once, and the digest of what is in them. */
#include "../codegen/file.h"
#include "../codegen/sha256.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char room[64];
static sc_pool *pool;
static mode_t mask;

static void begin(void) {
    strcpy(room, "/tmp/check_file.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(room));
    pool = sc_pool_create();
    mask = umask(077); /* the modes below must not care */
}

static void end(void) {
    char command[128];
    umask(mask);
    sc_pool_destroy(pool);
    snprintf(command, sizeof command, "rm -rf %s", room);
    ck_assert_int_eq(system(command), 0);
}

/* ROOM/NAME, in the pool. */
static char *at(const char *name) { return sc_pool_printf(pool, "%s/%s", room, name); }

static const char *content(const char *name) {
    char *bytes = NULL;
    size_t size;
    return sc_file_read(&bytes, &size, at(name), 1000, pool, NULL) ? NULL : bytes;
}

static int mode(const char *name) {
    struct stat st;
    return stat(at(name), &st) ? -1 : (int)(st.st_mode & 0777);
}

/* Entries of the room, hidden ones too. */
static int entries(void) {
    int count = 0;
    DIR *dir = opendir(room);
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static void casting(const char *name, const char *manifest) {
    sc_folder *folder;
    sc_error err = { 0 };
    ck_assert_msg(!sc_folder_begin(&folder, at(name), &err), "%s", err.message);
    ck_assert_int_eq(sc_folder_write(folder, "manifest.json", manifest, strlen(manifest), &err), 0);
    ck_assert_int_eq(sc_folder_write(folder, "runtime/deep/error.c", "int x;\n", 7, &err), 0);
    ck_assert_msg(!sc_folder_commit(folder, &err), "%s", err.message);
}

START_TEST(a_file_is_written_whole_and_replaced_whole) {
    ck_assert_int_eq(sc_file_write(at("a"), "one", 3, NULL), SC_OK);
    ck_assert_str_eq(content("a"), "one");
    ck_assert_int_eq(sc_file_write(at("a"), "three", 5, NULL), SC_OK);
    ck_assert_str_eq(content("a"), "three");
    ck_assert_int_eq(mode("a"), 0644);
    ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(a_file_over_the_limit_is_refused) {
    char *bytes = NULL;
    size_t size = 0;
    sc_error err;
    ck_assert_int_eq(sc_file_write(at("a"), "12345", 5, NULL), SC_OK);
    ck_assert_int_eq(sc_file_read(&bytes, &size, at("a"), 5, pool, NULL), SC_OK);
    ck_assert_uint_eq(size, 5);
    ck_assert_int_eq(sc_file_read(&bytes, &size, at("a"), 4, pool, &err), SC_EINPUT);
    ck_assert_str_eq(err.message,
                     sc_pool_printf(pool, "%s: 5 bytes, more than the limit of 4", at("a")));
}
END_TEST

START_TEST(what_is_no_file_is_not_read) {
    char *bytes = NULL;
    size_t size;
    sc_error err;
    ck_assert_int_eq(sc_file_read(&bytes, &size, at("no"), 9, pool, &err), SC_EINPUT);
    ck_assert_str_eq(err.message, sc_pool_printf(pool, "%s: No such file or directory", at("no")));
    ck_assert_int_eq(sc_file_read(&bytes, &size, room, 9, pool, &err), SC_EINPUT);
    ck_assert_str_eq(err.message, sc_pool_printf(pool, "%s: not a plain file", room));
}
END_TEST

START_TEST(a_full_disk_is_told_with_its_name) {
    sc_error err;
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        return; /* not everywhere */
    ck_assert_int_eq(sc_file_put(fileno(full), "x", 1, "weights.bin", &err), SC_EENV);
    ck_assert_str_eq(err.message, "weights.bin: No space left on device");
    fclose(full);
    ck_assert_int_eq(sc_file_write(at("no/such/file"), "x", 1, &err), SC_EENV);
    ck_assert_str_eq(err.message,
                     sc_pool_printf(pool, "%s: No such file or directory", at("no/such/file")));
}
END_TEST

START_TEST(a_folder_appears_at_commit_with_fixed_modes) {
    sc_folder *folder;
    int fd;
    ck_assert_int_eq(sc_folder_begin(&folder, at("out/"), NULL), SC_OK);
    ck_assert_int_eq(sc_folder_write(folder, "runtime/error.c", "e", 1, NULL), SC_OK);
    ck_assert_int_eq(sc_folder_write(folder, "runtime/error.h", "h", 1, NULL), SC_OK);
    ck_assert_int_eq(sc_folder_create(folder, "weights.bin", &fd, NULL), SC_OK);
    ck_assert_int_eq(sc_file_put(fd, "abc", 3, "weights.bin", NULL), SC_OK);
    close(fd);
    ck_assert_int_eq(mode("out"), -1);
    ck_assert_int_eq(strncmp(sc_folder_path(folder), at(".out."), strlen(at(".out."))), 0);
    ck_assert_int_eq(sc_folder_commit(folder, NULL), SC_OK);
    ck_assert_int_eq(mode("out"), 0755);
    ck_assert_int_eq(mode("out/runtime"), 0755);
    ck_assert_int_eq(mode("out/runtime/error.c"), 0644);
    ck_assert_int_eq(mode("out/weights.bin"), 0644);
    ck_assert_str_eq(content("out/runtime/error.h"), "h");
    ck_assert_str_eq(content("out/weights.bin"), "abc");
    ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(an_aborted_folder_leaves_nothing) {
    sc_folder *folder;
    casting("out", "old");
    ck_assert_int_eq(sc_folder_begin(&folder, at("out"), NULL), SC_OK);
    ck_assert_int_eq(sc_folder_write(folder, "a/b/c", "x", 1, NULL), SC_OK);
    ck_assert_int_eq(entries(), 2);
    sc_folder_abort(folder);
    ck_assert_int_eq(entries(), 1);
    ck_assert_str_eq(content("out/manifest.json"), "old");
}
END_TEST

START_TEST(a_casting_and_an_empty_folder_are_replaced) {
    casting("out", "old");
    ck_assert_int_eq(sc_file_write(at("out/stale"), "x", 1, NULL), SC_OK);
    casting("out", "new");
    ck_assert_str_eq(content("out/manifest.json"), "new");
    ck_assert_ptr_null(content("out/stale"));
    ck_assert_int_eq(mkdir(at("empty"), 0700), 0);
    casting("empty", "here");
    ck_assert_str_eq(content("empty/manifest.json"), "here");
    ck_assert_int_eq(mode("empty"), 0755);
    ck_assert_int_eq(entries(), 2);
}
END_TEST

START_TEST(anything_else_stays_as_it_is) {
    sc_folder *folder;
    sc_error err;
    ck_assert_int_eq(mkdir(at("home"), 0755), 0);
    ck_assert_int_eq(sc_file_write(at("home/letter"), "dear", 4, NULL), SC_OK);
    ck_assert_int_eq(sc_folder_begin(&folder, at("home"), &err), SC_EUSAGE);
    ck_assert_str_eq(
        err.message,
        sc_pool_printf(pool,
                       "%s: a folder with files but no manifest.json, so no casting to "
                       "replace (choose another place)",
                       at("home")));
    ck_assert_int_eq(sc_folder_begin(&folder, at("home/letter"), &err), SC_EUSAGE);
    ck_assert_str_eq(err.message,
                     sc_pool_printf(pool, "%s: exists and is no folder (choose another place)",
                                    at("home/letter")));
    ck_assert_int_eq(symlink(at("home"), at("link")), 0);
    ck_assert_int_eq(sc_folder_begin(&folder, at("link"), &err), SC_EUSAGE);
    ck_assert_int_eq(sc_folder_begin(&folder, at(".."), &err), SC_EUSAGE);
    ck_assert_str_eq(content("home/letter"), "dear");

    /* It came into being between begin and commit. */
    ck_assert_int_eq(sc_folder_begin(&folder, at("late"), &err), SC_OK);
    ck_assert_int_eq(mkdir(at("late"), 0755), 0);
    ck_assert_int_eq(sc_file_write(at("late/letter"), "dear", 4, NULL), SC_OK);
    ck_assert_int_eq(sc_folder_commit(folder, &err), SC_EUSAGE);
    ck_assert_str_eq(content("late/letter"), "dear");
    ck_assert_int_eq(entries(), 3); /* home, link, late */
}
END_TEST

START_TEST(a_name_that_leaves_the_folder_is_refused) {
    static const char *const names[] = {
        "", "/etc/x", "../x", "a/../x", "a//b", "./a", "a/", ".."
    };
    sc_folder *folder;
    sc_error err;
    ck_assert_int_eq(sc_folder_begin(&folder, at("out"), NULL), SC_OK);
    ck_assert_int_eq(sc_folder_write(folder, names[_i], "x", 1, &err), SC_EUSAGE);
    ck_assert_str_eq(err.message,
                     sc_pool_printf(pool, "%s: leaves the folder %s (name a path below it)",
                                    names[_i], at("out")));
    sc_folder_abort(folder);
    ck_assert_int_eq(entries(), 0);
}
END_TEST

/* FIPS 180-4, the examples of its SHA-256; the first is the well-known empty digest. */
static const struct {
    const char *text, *hex;
} sha_table[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

START_TEST(a_digest_is_the_same_at_once_and_in_pieces) {
    char hex[SC_SHA256_HEX];
    sc_sha256 *digest;
    ck_assert_int_eq(sc_sha256_hex(hex, sha_table[_i].text, strlen(sha_table[_i].text), NULL), 0);
    ck_assert_str_eq(hex, sha_table[_i].hex);
    memset(hex, 'x', sizeof hex);
    ck_assert_int_eq(sc_sha256_begin(&digest, NULL), 0);
    for (const char *from = sha_table[_i].text; *from; from++)
        ck_assert_int_eq(sc_sha256_update(digest, from, 1, NULL), 0);
    ck_assert_int_eq(sc_sha256_finish(digest, hex, NULL), 0);
    ck_assert_str_eq(hex, sha_table[_i].hex);
}
END_TEST

Suite *file_suite(void);
Suite *file_suite(void) {
    Suite *suite = suite_create("file");
    TCase *tcase = tcase_create("file");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_file_is_written_whole_and_replaced_whole);
    tcase_add_test(tcase, a_file_over_the_limit_is_refused);
    tcase_add_test(tcase, what_is_no_file_is_not_read);
    tcase_add_test(tcase, a_full_disk_is_told_with_its_name);
    tcase_add_test(tcase, a_folder_appears_at_commit_with_fixed_modes);
    tcase_add_test(tcase, an_aborted_folder_leaves_nothing);
    tcase_add_test(tcase, a_casting_and_an_empty_folder_are_replaced);
    tcase_add_test(tcase, anything_else_stays_as_it_is);
    tcase_add_loop_test(tcase, a_name_that_leaves_the_folder_is_refused, 0, 8);
    tcase_add_loop_test(tcase, a_digest_is_the_same_at_once_and_in_pieces, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}
