/* check_vector.c - runtime/vector_*.h: weights of two bytes come out as runtime/half.h says. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "../codegen/plan.h"
#include "../runtime/cpu.h"
#include "support/cast.h"
#include "support/run.h"

Suite *vector_suite(void);

static const char *const archs[] = { "generic", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" };
enum { ARCHS = sizeof archs / sizeof *archs };

START_TEST(every_half_is_loaded_as_it_is) {
    const sc_arch *arch = sc_arch_find(archs[_i]);
    ck_assert_ptr_nonnull(arch);
    if (sc_cpu_check(arch->name, NULL)) {
        printf("vector: this machine is no %s, left out\n", arch->name);
        return;
    }
    const int status =
        run(NULL, NULL,
            "mkdir -p build/test-castings && "
            "$CC -std=gnu11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -O1 -Iruntime "
            "-ffp-contract=off %s %s -DVECTOR='\"%s\"' tests/programs/load_halves.c "
            "-o build/test-castings/load_halves-%s && build/test-castings/load_halves-%s >&2",
            arch->cflags, cast_sanitize, arch->vector, arch->name, arch->name);
    ck_assert_int_eq(status, 0);
}
END_TEST

Suite *vector_suite(void) {
    Suite *suite = suite_create("vector");
    TCase *tests = tcase_create("halves");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, every_half_is_loaded_as_it_is, 0, ARCHS);
    suite_add_tcase(suite, tests);
    return suite;
}
