/*
 * check_examples.c - what the READMEs quote is what comes out, and a casting is of use to C and
 * C++.
 *
 * In a README a fenced block whose first line begins with "$ " is a transcript: commands, each with
 * the output that it must print. They run at the root of the repository, in order, with
 * build/slipcast standing for the program under test.
 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "support/run.h"

Suite *examples_suite(void);

enum { LINE = 4096, TEXT = 65536 };

static void run_command(const char *file, const char *command, const char *wanted) {
    static const char program[] = "build/slipcast";
    const bool ours = !strncmp(command, program, strlen(program));
    char *printed;
    const int status = run(&printed, NULL, "%s%s", ours ? "$SLIPCAST" : "",
                           command + (ours ? strlen(program) : 0));
    ck_assert_msg(!status, "%s: $ %s: exit status %d", file, command, status);
    ck_assert_msg(!strcmp(printed, wanted), "%s: $ %s: printed\n%swanted\n%s", file, command,
                  printed, wanted);
    free(printed);
}

/* Runs every transcript of the file; a command may go on behind a backslash. */
static void run_transcripts(const char *file) {
    static char command[TEXT], wanted[TEXT];
    char line[LINE];
    bool fenced = false, first = false, transcript = false, more = false;
    int commands = 0;
    FILE *f = fopen(file, "r");
    ck_assert_msg(f != NULL, "%s: cannot be opened", file);
    unsetenv("MAKEFLAGS"); /* transcripts call make as a user does */
    unsetenv("MFLAGS");
    unsetenv("MAKELEVEL");
    *command = *wanted = 0;
    while (fgets(line, sizeof line, f)) {
        const bool fence = !strncmp(line, "```", 3), prompt = !strncmp(line, "$ ", 2);
        if (*command && !more && (fence || prompt)) {
            run_command(file, command, wanted);
            commands++;
            *command = *wanted = 0;
        }
        if (fence) {
            fenced = first = !fenced;
            transcript = false;
            continue;
        }
        transcript |= first && prompt;
        first = false;
        if (!transcript)
            continue;
        ck_assert_uint_lt(strlen(command) + strlen(wanted) + strlen(line), TEXT);
        if (prompt || more) {
            line[strcspn(line, "\n")] = 0;
            const size_t end = strlen(line);
            more = end && line[end - 1] == '\\';
            line[more ? end - 1 : end] = 0;
            strcat(command, line + (prompt ? 2 : 0));
        } else
            strcat(wanted, line);
    }
    fclose(f);
    ck_assert_msg(!fenced, "%s: a block is not closed", file);
    ck_assert_msg(commands > 0, "%s: quotes no command with its output", file);
}

START_TEST(a_readme_quotes_what_its_commands_print) {
    static const char *const files[] = { "README.md", "examples/austen/README.md", "docs/plan.md" };
    run_transcripts(files[_i]);
}
END_TEST

/* "1,2,3" from [1, 2, 3]. */
static void list_text(char *text, const cJSON *list) {
    const cJSON *item;
    *text = 0;
    cJSON_ArrayForEach(item, list)
        sprintf(text + strlen(text), "%s%d", *text ? "," : "", item->valueint);
}

static void compare_last_line(const char *printed, const char *wanted, const char *what) {
    const size_t all = strlen(printed), tail = strlen(wanted);
    ck_assert_msg(all >= tail && !strcmp(printed + all - tail, wanted), "%s: printed\n%swanted\n%s",
                  what, printed, wanted);
}

START_TEST(a_linked_and_an_opened_casting_write_what_the_reference_writes) {
    run_transcripts("examples/link/README.md");
    run_transcripts("examples/dlopen/README.md");
    sc_error err = { 0 };
    cJSON *json;
    ck_assert_msg(!sc_json_read(&json, "tests/reference/austen/expected.json", 1 << 24, &err), "%s",
                  err.message);
    const cJSON *one;
    cJSON_ArrayForEach(one, sc_json_get(json, "cases")) {
        char ids[LINE], wanted[LINE], *printed;
        const cJSON *tokens = sc_json_get(one, "tokens");
        list_text(ids, sc_json_get(one, "prompt"));
        list_text(wanted, tokens);
        strcat(wanted, "\n");
        ck_assert_int_eq(run(&printed, NULL, "build/link build/austen/austen.weights %s %d", ids,
                             cJSON_GetArraySize(tokens)),
                         0);
        ck_assert_str_eq(printed, wanted);
        free(printed);
        ck_assert_int_eq(run(&printed, NULL,
                             "build/dlopen build/austen/libausten.so build/austen/austen.weights "
                             "%s %d",
                             ids, cJSON_GetArraySize(tokens)),
                         0);
        compare_last_line(printed, wanted, one->string);
        free(printed);
    }
    cJSON_Delete(json);
}
END_TEST

#define EXPORT                                                                                     \
    "$SLIPCAST export examples/austen -o build/austen --name austen --quiet && "                   \
    "make -s -C build/austen && "

START_TEST(the_program_of_the_readme_compiles_and_runs) {
    char *printed;
    unsetenv("MAKEFLAGS");
    ck_assert_int_eq(run(&printed, NULL,
                         EXPORT
                         "sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >build/readme.c && "
                         "cc -std=c11 -Wall -Wextra -Werror -Ibuild/austen build/readme.c "
                         "build/austen/libausten.a -lm -pthread -o build/readme && "
                         "build/readme build/austen/austen.weights"),
                     0);
    ck_assert_str_eq(printed, "12\n");
    free(printed);
}
END_TEST

START_TEST(the_header_of_a_casting_is_good_cpp) {
    unsetenv("MAKEFLAGS");
    ck_assert_int_eq(
        run(NULL, NULL,
            EXPORT
            "{ ! command -v g++ >build/g++ || echo '#include \"austen.h\"' | "
            "g++ -fsyntax-only -Wall -Wextra -Wpedantic -Werror -Ibuild/austen -x c++ - ; }"),
        0);
}
END_TEST

START_TEST(the_script_of_smollm2_is_one) {
    ck_assert_int_eq(run(NULL, NULL, "sh -n examples/smollm2/run.sh"), 0);
}
END_TEST

Suite *examples_suite(void) {
    Suite *suite = suite_create("examples");
    TCase *tests = tcase_create("readmes and programs");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, a_readme_quotes_what_its_commands_print, 0, 3);
    tcase_add_test(tests, a_linked_and_an_opened_casting_write_what_the_reference_writes);
    tcase_add_test(tests, the_program_of_the_readme_compiles_and_runs);
    tcase_add_test(tests, the_header_of_a_casting_is_good_cpp);
    tcase_add_test(tests, the_script_of_smollm2_is_one);
    suite_add_tcase(suite, tests);
    return suite;
}
