/*
 * embed.c - the build's own tool: writes the files of its arguments as the C table of template.h,
 * and a sum over those behind --.
 *
 *   embed FILE... -- SOURCE... >embedded.c
 *
 * Numbers instead of string literals: C promises no literal beyond 4095 characters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long bytes_of(const char *path, int index) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    long size = 0;
    printf("/* %s */\nstatic const unsigned char bytes_%d[] = {", path, index);
    for (int c; (c = getc(file)) != EOF; size++)
        printf("%s%d,", size % 24 ? "" : "\n", c);
    printf("\n0};\n"); /* the NUL behind it */
    const int failed = ferror(file);
    if (failed)
        perror(path);
    fclose(file);
    return failed ? -1 : size;
}

/* FNV-1a over the file's bytes (Fowler, Noll and Vo). */
static int add_to_sum(unsigned long long *sum, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    for (int c; (c = getc(file)) != EOF;)
        *sum = (*sum ^ (unsigned)c) * 0x100000001b3;
    const int failed = ferror(file);
    if (failed)
        perror(path);
    fclose(file);
    return failed ? -1 : 0;
}

int main(int argc, char **argv) {
    unsigned long long sum = 0xcbf29ce484222325;
    int files = 1;
    while (files < argc && strcmp(argv[files], "--"))
        files++;
    for (int i = files + 1; i < argc; i++)
        if (add_to_sum(&sum, argv[i]) < 0)
            return EXIT_FAILURE;
    long *sizes = calloc((size_t)argc, sizeof *sizes);
    if (!sizes)
        return EXIT_FAILURE;
    printf("/* Made by codegen/embed.c from the files named below. */\n"
           "#include \"../../codegen/template.h\"\n");
    for (int i = 1; i < files; i++)
        if ((sizes[i] = bytes_of(argv[i], i)) < 0) {
            free(sizes);
            return EXIT_FAILURE;
        }
    printf("const struct sc_embedded sc_embedded[] = {\n");
    for (int i = 1; i < files; i++)
        printf("    { \"%s\", bytes_%d, %ld },\n", argv[i], i, sizes[i]);
    printf("    { 0, 0, 0 },\n};\nconst int sc_embedded_count = %d;\n", files - 1);
    printf("const unsigned long long sc_sources_sum = %lluu;\n", sum);
    free(sizes);
    if (fflush(stdout) || ferror(stdout)) {
        perror("embed");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
