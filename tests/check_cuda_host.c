/* check_cuda_host.c - tests/cuda/host.h and host.cc: what kernels may use works, what a device
 * would answer with a hang or with noise is a report. Kernels: tests/cuda/check_host.cu. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/half.h"
#include "support/cast.h"
#include "support/draw.h"
#include "support/kernels.h"

Suite *cuda_host_suite(void);

#define LIBRARY "build/test-castings/check_host.so"
#define PORTABLE "build/test-castings/check_host-ucontext.so"

enum { SEEDS = 12 };

typedef unsigned long long word;

static void *library;
static char report[512];

/* A pointer as a kernel takes it. */
static word at(const void *p) { return (word)(uintptr_t)p; }

static int launch_shaped(const char *kernel, const unsigned grid[3], const unsigned block[3],
                         word shared, const word *words, int count, word seed) {
    sc_host_launch_fn *call;
    *(void **)&call = dlsym(library, "sc_host_launch");
    ck_assert(call != NULL);
    void *function = dlsym(library, kernel);
    ck_assert_msg(function != NULL, "%s", dlerror());
    return call(function, grid, block, shared, words, count, seed, report, sizeof report);
}

/* Along x. */
static int launch(const char *kernel, unsigned blocks, unsigned threads, const word *words,
                  int count, word seed) {
    const unsigned grid[3] = { blocks, 1, 1 }, block[3] = { threads, 1, 1 };
    return launch_shaped(kernel, grid, block, 0, words, count, seed);
}

#define LAUNCH(kernel, blocks, threads, seed, ...)                                                 \
    ck_assert_msg(!launch(kernel, blocks, threads, (const word[]){ __VA_ARGS__ },                  \
                          (int)(sizeof((const word[]){ __VA_ARGS__ }) / sizeof(word)), seed),      \
                  "%s", report)

static void build_kernels(void) {
    kernels_build(LIBRARY, "tests/cuda/check_host.cu", "");
    library = kernels_open(LIBRARY);
}

/* Fibers as processors have them that host.cc does not know. */
static void build_portable(void) {
    kernels_build(PORTABLE, "tests/cuda/check_host.cu", "-DSC_HOST_UCONTEXT");
    library = kernels_open(PORTABLE);
}

static void close_kernels(void) { dlclose(library); }

/* -4 … 4, with more bits than a half has. */
static float draw_float(uint64_t *state) { return (float)draw(state, 65537) / 8192 - 4; }

START_TEST(a_thread_knows_its_place) {
    const unsigned grid[3] = { 3, 2, 2 }, block[3] = { 5, 3, 2 };
    enum { BLOCKS = 12, BLOCK_THREADS = 30 };
    static int y[BLOCKS * BLOCK_THREADS][6];
    const word words[] = { at(y) };
    memset(y, -1, sizeof y);
    ck_assert_int_eq(launch_shaped("index_kernel", grid, block, 0, words, 1, (word)_i), 0);
    for (int i = 0; i < BLOCKS * BLOCK_THREADS; i++) {
        const int t = i % BLOCK_THREADS, b = i / BLOCK_THREADS;
        const int want[6] = { t % 5, t / 5 % 3, t / 15, b % 3, b / 3 % 2, b / 6 };
        ck_assert_mem_eq(y[i], want, sizeof want);
    }
}
END_TEST

START_TEST(barriers_hold_all_threads) {
    float x[512], y[512];
    for (int i = 0; i < 512; i++)
        x[i] = (float)i;
    for (unsigned times = 1; times <= 8; times++) {
        LAUNCH("reverse_kernel", 2, 256, (word)_i, at(x), at(y), times);
        for (int i = 0; i < 512; i++)
            ck_assert_float_eq(y[i], times % 2 ? x[i / 256 * 256 + 255 - i % 256] : x[i]);
    }
}
END_TEST

/* What CUDA's guide says of the lane that each lane takes from, in the order of shuffle_kernel. */
static int shuffle_source(int kind, int lane, int by) {
    const int width = kind < 4 ? 32 : 8, part = lane / width * width;
    int source = lane;
    switch (kind % 4) {
    case 0:
        return part + by % width;
    case 1:
        source = lane - by;
        return source < part ? lane : source;
    case 2:
        source = lane + by;
        return source >= part + width ? lane : source;
    default:
        source = lane ^ by;
        return source >= part + width ? lane : source;
    }
}

START_TEST(shuffles_take_from_the_right_lane) {
    static const int by[] = { 0, 1, 2, 3, 5, 8, 16, 21, 31 };
    for (size_t n = 0; n < sizeof by / sizeof *by; n++) {
        int y[8][32];
        LAUNCH("shuffle_kernel", 1, 32, (word)_i, at(y), (word)by[n]);
        for (int kind = 0; kind < 8; kind++)
            for (int lane = 0; lane < 32; lane++)
                ck_assert_msg(y[kind][lane] == 100 + shuffle_source(kind, lane, by[n]),
                              "shuffle %d by %d, lane %d: %d", kind, by[n], lane, y[kind][lane]);
    }
}
END_TEST

START_TEST(shuffles_carry_every_type) {
    float y[3][64];
    LAUNCH("shuffle_types_kernel", 1, 64, (word)_i, at(y));
    for (int i = 0; i < 64; i++) {
        const int warp = i / 32, next = i % 32 == 31 ? i : i + 1;
        ck_assert_float_eq(y[0][i], warp ? 1520.0f : 496.0f);
        ck_assert_float_eq(y[1][i], 2147483648.0f + (float)next);
        ck_assert_float_eq(y[2][i], (float)(warp * 32 + 3));
    }
}
END_TEST

START_TEST(votes_count_the_lanes_of_the_mask) {
    static const struct {
        unsigned predicates;
    } table[] = { { 0 }, { 0xffffffff }, { 0xfff }, { 0xfffff000 }, { 0x01000800 } };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        unsigned y[32][4];
        int predicate[32];
        for (int lane = 0; lane < 32; lane++)
            predicate[lane] = table[n].predicates >> lane & 1 ? 3 + lane : 0;
        LAUNCH("vote_kernel", 1, 32, (word)_i, at(y), at(predicate));
        for (int lane = 0; lane < 32; lane++) {
            const unsigned mask = lane < 12 ? 0xfff : 0xfffff000;
            const unsigned votes = table[n].predicates & mask;
            ck_assert_uint_eq(y[lane][0], votes);
            ck_assert_uint_eq(y[lane][1], votes != 0);
            ck_assert_uint_eq(y[lane][2], votes == mask);
            ck_assert_uint_eq(y[lane][3], table[n].predicates == 0);
        }
    }
}
END_TEST

START_TEST(atomics_lose_nothing) {
    enum { BLOCKS = 20, BLOCK_THREADS = 96 };
    unsigned number = 5, wrapped = 0, arrived = 0;
    int total = 0;
    float sum = 0, of_block[BLOCKS], all = -1;
    LAUNCH("atomic_kernel", BLOCKS, BLOCK_THREADS, (word)_i, at(&number), at(&total), at(&sum),
           at(&wrapped), at(&arrived), at(of_block), at(&all));
    ck_assert_uint_eq(number, 5 + BLOCKS * BLOCK_THREADS);
    ck_assert_int_eq(total, -2 * BLOCKS * BLOCK_THREADS);
    ck_assert_float_eq(sum, 0.5f * BLOCKS * BLOCK_THREADS);
    ck_assert_uint_eq(wrapped, BLOCKS * BLOCK_THREADS % 7);
    ck_assert_uint_eq(arrived, 0);
    ck_assert_float_eq(all, 210);
}
END_TEST

START_TEST(a_histogram_has_all_that_is_added) {
    int32_t y[4] = { 0 };
    LAUNCH("shared_add_kernel", 1, 64, (word)_i, at(y), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(y[i], 16 * i + 4 * (15 * 16 / 2));
}
END_TEST

/* 41: the second warp is whole no longer. */
START_TEST(threads_that_return_hold_nobody_up) {
    float y[256] = { 0 };
    LAUNCH("return_kernel", 1, 256, (word)_i, at(y), 41);
    for (int i = 0; i < 256; i++)
        ck_assert_float_eq(y[i], i >= 41 ? 0.0f : (float)(41 - i + (i % 2 ? 0 : 1000)));
}
END_TEST

/* Row by row against a sum in double; a and b differ in every row and column, so a fragment at the
 * wrong place shows. The bound: 16 products and as many roundings of a float. */
START_TEST(mma_is_the_product) {
    for (int is_half = 0; is_half < 2; is_half++) {
        uint16_t a[16][16], b[16][8];
        float d[16][8], before[16][8];
        uint64_t state = (uint64_t)(2 * _i + is_half + 1);
        for (int i = 0; i < 16 * 16; i++) {
            const float x = draw_float(&state);
            (&a[0][0])[i] = is_half ? sc_to_f16(x) : sc_to_bf16(x);
        }
        for (int i = 0; i < 16 * 8; i++) {
            const float x = draw_float(&state);
            (&b[0][0])[i] = is_half ? sc_to_f16(x) : sc_to_bf16(x);
            (&d[0][0])[i] = (&before[0][0])[i] = draw_float(&state);
        }
        LAUNCH("mma_kernel", 1, 32, (word)_i, at(a), at(b), at(d), (word)is_half);
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 8; column++) {
                double want = (double)before[row][column], size = fabs(want);
                for (int k = 0; k < 16; k++) {
                    const double product =
                        (double)(is_half ? sc_from_f16(a[row][k]) : sc_from_bf16(a[row][k])) *
                        (double)(is_half ? sc_from_f16(b[k][column]) : sc_from_bf16(b[k][column]));
                    want += product;
                    size += fabs(product);
                }
                ck_assert_double_le(fabs((double)d[row][column] - want), 16 * 0x1p-24 * size);
            }
    }
}
END_TEST

START_TEST(all_words_arrive) {
    long long y[15] = { 0 };
    word words[SC_HOST_WORDS + 1] = { at(y) };
    for (int i = 1; i < SC_HOST_WORDS; i++)
        words[i] = (word)-1 - (word)i;
    ck_assert_int_eq(launch("words_kernel", 1, 1, words, SC_HOST_WORDS, 0), 0);
    for (int i = 0; i < 15; i++)
        ck_assert_int_eq(y[i], -2 - i);
    ck_assert_int_ne(launch("words_kernel", 1, 1, words, SC_HOST_WORDS + 1, 0), 0);
    ck_assert_str_eq(report, "17 words, a kernel takes at most 16");
}
END_TEST

START_TEST(numbers_keep_their_bits) {
    _Alignas(16) const float x[4] = { 1.25f, -2, 3.5f, 4 };
    _Alignas(16) float y[4], z[5];
    LAUNCH("numbers_kernel", 1, 1, 0, at(x), at(y), at(z));
    ck_assert_mem_eq(x, y, sizeof x);
    const float want[5] = { 3.5f, 1.5f, 2.5f, 7, 4 };
    ck_assert_mem_eq(z, want, sizeof z);
}
END_TEST

START_TEST(lanes_learn_through_others) {
    float y = 0;
    LAUNCH("part_kernel", 1, 32, (word)_i, at(&y));
    ck_assert_float_eq(y, 3);
}
END_TEST

/* Blocks come whole, threads between two barriers too: every pair once in every phase. */
static void run_order(int (*y)[2], unsigned blocks, unsigned threads, word seed) {
    unsigned counter = 0;
    LAUNCH("order_kernel", blocks, threads, seed, at(y), at(&counter));
    ck_assert_uint_eq(counter, 2 * blocks * threads);
    for (unsigned phase = 0; phase < 2 * blocks; phase++) {
        unsigned char seen[64] = { 0 };
        for (unsigned i = 0; i < threads; i++) {
            const int *turn = y[phase * threads + i];
            ck_assert_int_eq(turn[0], y[phase / 2 * 2 * threads][0]);
            ck_assert_int_eq(seen[turn[1]]++, 0);
        }
    }
}

START_TEST(a_seed_is_an_order) {
    enum { BLOCKS = 10, BLOCK_THREADS = 64, TURNS = 2 * BLOCKS * BLOCK_THREADS };
    static int y[SEEDS][TURNS][2], again[TURNS][2];
    for (int seed = 0; seed < SEEDS; seed++) {
        run_order(y[seed], BLOCKS, BLOCK_THREADS, (word)seed);
        run_order(again, BLOCKS, BLOCK_THREADS, (word)seed);
        ck_assert_mem_eq(y[seed], again, sizeof again);
        for (int other = 0; other < seed; other++)
            ck_assert_mem_ne(y[seed], y[other], sizeof again);
    }
    for (int i = 0; i < TURNS; i++) {
        ck_assert_int_eq(y[0][i][0], i / BLOCK_THREADS / 2);
        ck_assert_int_eq(y[0][i][1], i % BLOCK_THREADS);
    }
    int blocks_moved = 0, threads_moved = 0, phases_differ = 0;
    for (int seed = 1; seed < SEEDS; seed++) {
        blocks_moved += y[seed][0][0] != 0;
        threads_moved += y[seed][0][1] != 0;
        for (int i = 0; i < BLOCK_THREADS; i++)
            phases_differ += y[seed][i][1] != y[seed][BLOCK_THREADS + i][1];
    }
    ck_assert_int_gt(blocks_moved, SEEDS / 2);
    ck_assert_int_gt(threads_moved, SEEDS / 2);
    ck_assert_int_gt(phases_differ, SEEDS);
}
END_TEST

/* In ascending order, so the first that meets the mistake is known. second: word after y. */
static const struct {
    const char *kernel;
    unsigned blocks, threads;
    long long second;
    const char *message; /* NULL: nothing is wrong */
} reports[] = {
    { "half_barrier_kernel", 1, 32, 0,
      "block (0,0,0), thread (0,0,0): line 3: shuffle with mask ffffffff: thread (16,0,0) never "
      "comes, it waits at line 5 (__syncthreads)" },
    { "two_barriers_kernel", 1, 64, 0,
      "block (0,0,0), thread (1,0,0): line 3: __syncthreads, but thread (0,0,0) waits at that of "
      "line 5" },
    { "missing_lane_kernel", 1, 6, 0, NULL }, /* the others have returned: no lane is awaited */
    { "two_operations_kernel", 1, 32, 0,
      "block (0,0,0), thread (1,0,0): line 3: __syncwarp, but thread (0,0,0) of the same mask "
      "waits at line 5 (shuffle)" },
    { "own_lane_kernel", 1, 32, 0,
      "block (0,0,0), thread (0,0,0): line 2: __any_sync: mask 2 is without the lane itself, 0" },
    { "gone_lane_kernel", 1, 32, 0,
      "block (0,0,0), thread (8,0,0): line 4: shuffle: takes from lane 24, which takes no part" },
    { "part_mma_kernel", 1, 32, 0,
      "block (0,0,0), thread (0,0,0): line 5: mma_bf16: only the lanes 7fffffff of the warp take "
      "part" },
    { "unwritten_kernel", 1, 64, 0,
      "block (0,0,0), thread (7,0,0): tile[7]: read before it was written" },
    { "other_block_kernel", 2, 1, 0,
      "block (1,0,0), thread (0,0,0): tile[0]: read before it was written" },
    { "above_kernel", 1, 1, 63, NULL },
    { "above_kernel", 1, 1, 64,
      "block (0,0,0), thread (0,0,0): tile[64]: out of bounds, it has 64 elements" },
    { "above_kernel", 1, 1, -1,
      "block (0,0,0), thread (0,0,0): tile[-1]: out of bounds, it has 64 elements" },
    { "read_race_kernel", 1, 64, 0,
      "block (0,0,0), thread (1,0,0): tile[1]: written (after line 4), but thread (0,0,0) read it "
      "and no barrier lies between" },
    { "write_race_kernel", 1, 64, 0,
      "block (0,0,0), thread (1,0,0): tile[0]: written (after line 0), but thread (0,0,0) wrote it "
      "and no barrier lies between" },
    { "same_value_kernel", 1, 64, 0, NULL },
    { "overwrite_kernel", 1, 64, 0,
      "block (0,0,0), thread (1,0,0): tile[1]: written (after line 4), but thread (0,0,0) read it "
      "and no barrier lies between" },
    { "overwrite_kernel", 1, 32, 1, NULL },
    { "overwrite_kernel", 1, 64, 1,
      "block (0,0,0), thread (32,0,0): tile[32]: written (after line 8), but thread (31,0,0) read "
      "it and no barrier lies between" },
    { "overwrite_kernel", 1, 64, 2, NULL },
    { "several_readers_kernel", 1, 64, 0,
      "block (0,0,0), thread (63,0,0): tile[0]: written (after line 7), but threads of several "
      "warps read it and no barrier lies between" },
    { "warp_race_kernel", 1, 32, 1, NULL },
    { "warp_race_kernel", 1, 32, 0,
      "block (0,0,0), thread (16,0,0): tile[16]: written (after line 4), but thread (15,0,0) read "
      "it and no barrier lies between" },
    { "large_kernel", 1, 1, 0, NULL },
    { "shared_add_kernel", 1, 64, 0, NULL },
    { "shared_add_kernel", 1, 64, 1,
      "block (0,0,0), thread (0,0,0): count[0]: read (after line 6), but threads add to it and no "
      "barrier lies between" },
    { "shared_add_kernel", 1, 64, 2,
      "block (0,0,0), thread (4,0,0): count[0]: added to (after line 0), but thread (0,0,0) wrote "
      "it and no barrier lies between" },
    { "shared_add_kernel", 1, 64, 3,
      "block (0,0,0), thread (0,0,0): count[0]: added to before it was written" },
};

START_TEST(mistakes_are_reported) {
    float y[64] = { 0 };
    const word words[] = { at(y), (word)reports[_i].second };
    const int rc = launch(reports[_i].kernel, reports[_i].blocks, reports[_i].threads, words, 2, 0);
    ck_assert_str_eq(report, reports[_i].message ? reports[_i].message : "");
    ck_assert_int_eq(rc, reports[_i].message != NULL);
    /* In any other order there is a mistake too, or none; and the next launch is as good as new. */
    for (word seed = 1; seed < SEEDS; seed++)
        ck_assert_int_eq(
            launch(reports[_i].kernel, reports[_i].blocks, reports[_i].threads, words, 2, seed),
            reports[_i].message != NULL);
    float x[256], turned[256];
    for (int i = 0; i < 256; i++)
        x[i] = (float)i;
    LAUNCH("reverse_kernel", 1, 256, 1, at(x), at(turned), 1);
    ck_assert_float_eq(turned[0], 255);
}
END_TEST

START_TEST(sixteen_bytes_must_be_aligned) {
    static const char *const messages[] = {
        "block (0,0,0), thread (0,0,0): line 4: load16: address ends in 4, it must be a multiple "
        "of 16",
        "block (0,0,0), thread (0,0,0): line 6: load16_cached: address ends in 8, it must be a "
        "multiple of 16",
        "block (0,0,0), thread (0,0,0): line 8: store16: address ends in 1, it must be a multiple "
        "of 16",
    };
    _Alignas(16) unsigned char x[32] = { 0 }, y[32];
    const word words[] = { at(x), at(y), (word)_i };
    ck_assert_int_eq(launch("misaligned_kernel", 1, 1, words, 3, 0), 1);
    ck_assert_str_eq(report, messages[_i]);
}
END_TEST

static const struct {
    unsigned grid[3], block[3];
    word shared;
    const char *message;
} sizes[] = {
    { { 1, 1, 1 }, { 1024, 1, 1 }, 0, "" },
    { { 1, 1, 1 }, { 4, 4, 64 }, 0, "" },
    { { 1, 65535, 1 }, { 1, 1, 1 }, 0, "" },
    { { 0, 1, 1 }, { 1, 1, 1 }, 0, "grid (0,1,1) is outside 1 … (2147483647,65535,65535)" },
    { { 1, 65536, 1 }, { 1, 1, 1 }, 0, "grid (1,65536,1) is outside 1 … (2147483647,65535,65535)" },
    { { 1, 1, 1 }, { 1, 0, 1 }, 0, "block (1,0,1) is outside 1 … (1024,1024,64)" },
    { { 1, 1, 1 }, { 1, 1, 65 }, 0, "block (1,1,65) is outside 1 … (1024,1024,64)" },
    { { 1, 1, 1 }, { 32, 33, 1 }, 0, "block (32,33,1) has 1056 threads, more than 1024" },
    { { 1, 1, 1 }, { 1, 1, 1 }, 49153, "49153 bytes of shared memory, more than 49152" },
    { { 1, 1, 1 },
      { 1, 1, 1 },
      49149,
      "block (0,0,0), thread (0,0,0): tile: the shared arrays so far take 49153 bytes, more than "
      "49152" },
};

START_TEST(sizes_are_those_of_a_device) {
    float y[1] = { 0 };
    const word words[] = { at(y) };
    const int rc = launch_shaped("same_value_kernel", sizes[_i].grid, sizes[_i].block,
                                 sizes[_i].shared, words, 1, 0);
    ck_assert_str_eq(report, sizes[_i].message);
    ck_assert_int_eq(rc, *sizes[_i].message != 0);
}
END_TEST

Suite *cuda_host_suite(void) {
    Suite *suite = suite_create("cuda_host");
    if (!kernels_available("cuda_host"))
        return suite;
    TCase *works = tcase_create("works");
    tcase_add_unchecked_fixture(works, build_kernels, close_kernels);
    tcase_set_timeout(works, 60);
    tcase_add_loop_test(works, a_thread_knows_its_place, 0, SEEDS);
    tcase_add_loop_test(works, barriers_hold_all_threads, 0, SEEDS);
    tcase_add_loop_test(works, shuffles_take_from_the_right_lane, 0, SEEDS);
    tcase_add_loop_test(works, shuffles_carry_every_type, 0, SEEDS);
    tcase_add_loop_test(works, votes_count_the_lanes_of_the_mask, 0, SEEDS);
    tcase_add_loop_test(works, atomics_lose_nothing, 0, SEEDS);
    tcase_add_loop_test(works, threads_that_return_hold_nobody_up, 0, SEEDS);
    tcase_add_loop_test(works, a_histogram_has_all_that_is_added, 0, SEEDS);
    tcase_add_loop_test(works, mma_is_the_product, 0, SEEDS);
    tcase_add_test(works, all_words_arrive);
    tcase_add_test(works, numbers_keep_their_bits);
    tcase_add_loop_test(works, lanes_learn_through_others, 0, SEEDS);
    tcase_add_test(works, a_seed_is_an_order);
    tcase_add_loop_test(works, mistakes_are_reported, 0, (int)(sizeof reports / sizeof *reports));
    tcase_add_loop_test(works, sixteen_bytes_must_be_aligned, 0, 3);
    tcase_add_loop_test(works, sizes_are_those_of_a_device, 0, (int)(sizeof sizes / sizeof *sizes));
    suite_add_tcase(suite, works);
    if (strstr(cast_sanitize, "address")) /* it warns of swapcontext */
        return suite;
    TCase *portable = tcase_create("portable");
    tcase_add_unchecked_fixture(portable, build_portable, close_kernels);
    tcase_set_timeout(portable, 60);
    tcase_add_loop_test(portable, barriers_hold_all_threads, 0, 2);
    tcase_add_loop_test(portable, mma_is_the_product, 0, 2);
    tcase_add_loop_test(portable, mistakes_are_reported, 0,
                        (int)(sizeof reports / sizeof *reports));
    suite_add_tcase(suite, portable);
    return suite;
}
