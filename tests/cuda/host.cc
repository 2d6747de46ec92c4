/*
 * host.cc - blocks of fibers: runs the kernels that host.h lets compile. One per library.
 *
 * A block's threads stand in a queue. The running one goes on until it waits, then takes the next
 * from the queue and switches to it; there is no scheduler between. When the queue is empty, either
 * all threads that are left wait at one barrier, and go on, or they never will: a report.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Other processors switch by ucontext, which asks the system for every switch. */
#if defined(__x86_64__) && !defined(SC_HOST_UCONTEXT)
#define BY_HAND 1
#else
#define BY_HAND 0
#include <ucontext.h>
#endif

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN 0
#endif

/* The kernel is called with more words than it takes: clang's sanitizer looks at function types. */
#ifdef __clang__
#define CALLS_ANYTHING __attribute__((no_sanitize("function")))
#else
#define CALLS_ANYTHING
#endif

typedef unsigned long long u64;

enum {
    THREADS = SC_HOST_THREADS,
    WARPS = SC_WARPS,
    LANES = 32,
    STACK_BYTES = ASAN ? 256 * 1024 : 64 * 1024,
    TIMES_MAX = 0x40000000 /* see start_times */
};

/* --- fibers --- */

struct fiber {
#if BY_HAND
    void *sp; /* where its registers lie while another runs */
#else
    ucontext_t context;
#endif
    char *stack;
    void *fake; /* ASan's */
};

static fiber fibers[THREADS], home; /* home: the caller of sc_host_launch */
#if ASAN
static const void *home_stack; /* NULL until a fiber has come from home */
static size_t home_stack_bytes;
#endif
static bool made, abandoned; /* abandoned: fibers were left in the middle of a kernel */

static void run_threads(void);

#if BY_HAND
/* Keeps what a call must keep, and comes back on the other stack. */
extern "C" void sc_switch(void **sp, void *to);
__asm__(".text\n"
        ".type sc_switch, @function\n"
        "sc_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sc_switch, . - sc_switch\n");
#endif

/* The first line that runs on a stack, and every line after a switch, tells ASan. */
static void arrived(fiber *self) {
#if ASAN
    const void *from;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self->fake, &from, &bytes);
    if (!home_stack)
        home_stack = from, home_stack_bytes = bytes;
#else
    (void)self;
#endif
}

static void switch_to(fiber *from, fiber *to) {
#if ASAN
    __sanitizer_start_switch_fiber(&from->fake, to == &home ? home_stack : to->stack,
                                   to == &home ? home_stack_bytes : (size_t)STACK_BYTES);
#endif
#if BY_HAND
    sc_switch(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
    arrived(from);
}

/* A fresh fiber that starts in run_threads. Its stack begins some lines lower than its neighbour's,
 * or all stacks would meet in the same lines of the cache. */
static void set_up(int i) {
    fiber *f = &fibers[i];
    f->fake = NULL;
#if ASAN
    __asan_unpoison_memory_region(f->stack, STACK_BYTES);
#endif
#if BY_HAND
    enum { SAVED = 6 };
    char *top = f->stack + STACK_BYTES - (i % 63) * 192;
    void **sp = (void **)(void *)top - SAVED - 2;
    memset(sp, 0, (SAVED + 2) * sizeof *sp);
    *(void (**)(void))(void *)&sp[SAVED] = run_threads; /* where ret goes: sp is 8 past 16 there */
    f->sp = sp;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, run_threads, 0);
#endif
}

/* Stacks lie side by side, each above a page that nobody may touch. Kept for the next launch. */
static bool make_fibers(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), step = STACK_BYTES + page;
#if ASAN
    home_stack = NULL; /* another thread's, perhaps, than at the last launch */
#endif
    if (!made) {
        char *all = (char *)mmap(NULL, step * THREADS, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED)
            return false;
        for (int i = 0; i < THREADS; i++) {
            mprotect(all + (size_t)i * step, page, PROT_NONE);
            fibers[i].stack = all + (size_t)i * step + page;
        }
    }
    for (int i = 0; (!made || abandoned) && i < THREADS; i++)
        set_up(i);
    made = true;
    abandoned = false;
    return true;
}

__attribute__((destructor)) static void drop_fibers(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!made)
        return;
#if ASAN
    for (int i = 0; i < THREADS; i++) /* who gets these addresses next is not to inherit marks */
        __asan_unpoison_memory_region(fibers[i].stack, STACK_BYTES);
#endif
    munmap(fibers[0].stack - page, (STACK_BYTES + page) * THREADS);
}

/* --- the block --- */

enum place { RUNS, AT_BARRIER, AT_WARP, DONE };

/* Lanes that wait for one another: they named the same mask. */
struct meeting {
    unsigned mask, here;
    sc_operation operation;
    int line;
};

struct warp {
    unsigned live; /* lanes that have not returned */
    int meetings;  /* that are open */
    meeting open[LANES];
    sc_lane *lane[LANES];
    unsigned met;                 /* when all live lanes last met */
    unsigned known[LANES][LANES]; /* [a][b]: a has met all that b did before then, by part masks */
};

const sc_thread *sc_self;
sc_index sc_block, sc_block_size, sc_grid_size;
unsigned sc_now, sc_block_start, sc_last_barrier;

static sc_thread threads[THREADS];
static place places[THREADS];
static int lines[THREADS]; /* where a thread waits, or last did */
static warp warps[WARPS];

static unsigned count, live, at_barrier, times_round;
static unsigned dynamic_bytes, shared_bytes;
static int barrier_line;
static unsigned barrier_first; /* the thread that came to it first */
static unsigned short order[THREADS], queue[THREADS];
static unsigned queued, queue_head;

static void *kernel;
static u64 words[SC_HOST_WORDS];
static u64 random_state; /* 0: ascending order */
static char *report;
static size_t report_bytes;
static bool failed;

/* xorshift64*, its upper half scaled to 0 … n - 1. */
static unsigned draw(unsigned n) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (unsigned)(((random_state * 0x2545f4914f6cdd1dull >> 32) * n) >> 32);
}

static void queue_last(unsigned thread) {
    queue[(queue_head + queued++) % THREADS] = (unsigned short)thread;
}

static void queue_first(unsigned thread) {
    queue_head = (queue_head + THREADS - 1) % THREADS;
    queue[queue_head] = (unsigned short)thread;
    queued++;
}

static void say(const char *format, va_list args) {
    if (report && report_bytes)
        vsnprintf(report, report_bytes, format, args);
    failed = true;
}

__attribute__((format(printf, 1, 2))) static int refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return 1;
}

void sc_fault(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const sc_index t = sc_self->index;
    refuse("block (%u,%u,%u), thread (%u,%u,%u): %s", sc_block.x, sc_block.y, sc_block.z, t.x, t.y,
           t.z, text);
    abandoned = true;
    switch_to(&fibers[sc_self->id], &home);
    __builtin_unreachable();
}

/* (x,y,z) of a thread, in one of two places that take turns. */
static const char *name_thread(unsigned thread) {
    static char names[2][40];
    static int turn;
    turn = !turn;
    const sc_index t = threads[thread].index;
    snprintf(names[turn], sizeof names[turn], "(%u,%u,%u)", t.x, t.y, t.z);
    return names[turn];
}

static const char *name_operation(sc_operation operation) {
    static const char *const names[] = { "__syncwarp", "shuffle",  "__ballot_sync", "__any_sync",
                                         "__all_sync", "mma_bf16", "mma_f16" };
    return names[operation];
}

/* Nobody can go on: names a thread that waits and one that it waits for. */
[[noreturn]] static void report_stuck(void) {
    for (unsigned id = 0; id < count; id++) {
        const warp *w = &warps[id / LANES];
        if (places[id] != AT_WARP)
            continue;
        for (int m = 0; m < w->meetings; m++) {
            const meeting *at = &w->open[m];
            const unsigned missing = at->mask & w->live & ~at->here;
            if (!(at->here >> id % LANES & 1) || !missing)
                continue;
            const unsigned other = id / LANES * LANES + (unsigned)__builtin_ctz(missing);
            sc_self = &threads[id];
            sc_fault("line %d: %s with mask %x: thread %s never comes, it waits at line %d%s",
                     at->line, name_operation(at->operation), at->mask, name_thread(other),
                     lines[other], places[other] == AT_BARRIER ? " (__syncthreads)" : "");
        }
    }
    sc_fault("no thread can go on"); /* not reached: somebody waits in a meeting */
}

static void fill_queue(void) {
    if (random_state)
        for (unsigned i = count; i > 1; i--) {
            const unsigned j = draw(i);
            const unsigned short other = order[j];
            order[j] = order[i - 1];
            order[i - 1] = other;
        }
    queued = queue_head = 0;
    for (unsigned i = 0; i < count; i++)
        if (places[order[i]] != DONE) {
            places[order[i]] = RUNS;
            queue[queued++] = order[i];
        }
}

static void release_barrier(void) {
    sc_last_barrier = ++sc_now;
    at_barrier = 0;
    fill_queue();
}

/* The running thread stops here; returns when its turn comes again. */
static void leave(void) {
    const unsigned self = sc_self->id;
    if (!queued) {
        if (!live) {
            switch_to(&fibers[self], &home);
            return;
        }
        if (at_barrier != live)
            report_stuck();
        release_barrier();
    }
    const unsigned next = queue[queue_head];
    queue_head = (queue_head + 1) % THREADS;
    queued--;
    sc_self = &threads[next];
    if (next != self)
        switch_to(&fibers[self], &fibers[next]);
}

void sc_barrier(int line) {
    const unsigned self = sc_self->id;
    if (!at_barrier) {
        barrier_line = line;
        barrier_first = self;
    } else if (line != barrier_line) {
        sc_fault("line %d: __syncthreads, but thread %s waits at that of line %d", line,
                 name_thread(barrier_first), barrier_line);
    }
    at_barrier++;
    places[self] = AT_BARRIER;
    lines[self] = line;
    leave();
}

/* --- warps --- */

static float widen(sc_operation operation, unsigned bits) {
    const unsigned short half = (unsigned short)(bits & 0xffff);
    return operation == SC_MMA_F16 ? float_from_half(half) : float_from_bf16(half);
}

/* PTX's fragments: a pair of elements per register, lane / 4 is the group, lane % 4 its member. */
static void multiply(warp *w, sc_operation operation) {
    float a[16][16], b[16][8];
    for (unsigned lane = 0; lane < LANES; lane++) {
        const unsigned group = lane / 4, pair = lane % 4 * 2;
        for (unsigned r = 0; r < 4; r++) {
            float *to = &a[group + r % 2 * 8][pair + r / 2 * 8];
            to[0] = widen(operation, w->lane[lane]->a[r]);
            to[1] = widen(operation, w->lane[lane]->a[r] >> 16);
        }
        for (unsigned r = 0; r < 2; r++) {
            b[pair + r * 8][group] = widen(operation, w->lane[lane]->b[r]);
            b[pair + r * 8 + 1][group] = widen(operation, w->lane[lane]->b[r] >> 16);
        }
    }
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            float sum = w->lane[lane]->d[i];
            for (unsigned k = 0; k < 16; k++)
                sum += a[row][k] * b[k][column];
            w->lane[lane]->d[i] = sum;
        }
}

static void shuffle(warp *w, unsigned first, unsigned here, int line) {
    u64 value[LANES];
    for (unsigned lane = 0; lane < LANES; lane++)
        if (here >> lane & 1)
            value[lane] = w->lane[lane]->value;
    for (unsigned lane = 0; lane < LANES; lane++)
        if (here >> lane & 1) {
            const unsigned source = w->lane[lane]->source;
            if (!(here >> source & 1)) {
                sc_self = &threads[first + lane];
                sc_fault("line %d: shuffle: takes from lane %u, which takes no part", line, source);
            }
            w->lane[lane]->value = value[source];
        }
}

static void vote(warp *w, unsigned here, sc_operation operation) {
    unsigned votes = 0;
    for (unsigned lane = 0; lane < LANES; lane++)
        if (here >> lane & 1)
            votes |= (unsigned)w->lane[lane]->value << lane;
    const unsigned result = operation == SC_BALLOT ? votes
                            : operation == SC_ANY  ? votes != 0
                                                   : votes == here;
    for (unsigned lane = 0; lane < LANES; lane++)
        if (here >> lane & 1)
            w->lane[lane]->value = result;
}

/* What each lane has met so far, all of them have met now. */
static void meet(warp *w, unsigned here) {
    ++sc_now;
    if (here == w->live) {
        w->met = sc_now;
        return;
    }
    unsigned all[LANES] = { 0 };
    for (unsigned a = 0; a < LANES; a++)
        for (unsigned b = 0; here >> a & 1 && b < LANES; b++)
            if (w->known[a][b] > all[b])
                all[b] = w->known[a][b];
    for (unsigned b = 0; b < LANES; b++)
        if (here >> b & 1)
            all[b] = sc_now;
    for (unsigned a = 0; a < LANES; a++)
        if (here >> a & 1)
            memcpy(w->known[a], all, sizeof all);
}

/* All lanes of meeting m that still live are here: does the operation, lets all but self go on,
 * before the other threads or after them. */
static void hold_meeting(unsigned warp_id, int m, unsigned self) {
    warp *w = &warps[warp_id];
    const meeting at = w->open[m];
    w->open[m] = w->open[--w->meetings];
    if (at.operation == SC_SHUFFLE)
        shuffle(w, warp_id * LANES, at.here, at.line);
    else if (at.operation == SC_MMA_BF16 || at.operation == SC_MMA_F16) {
        if (at.here != 0xffffffff) {
            sc_self = &threads[warp_id * LANES + (unsigned)__builtin_ctz(at.here)];
            sc_fault("line %d: %s: only the lanes %x of the warp take part", at.line,
                     name_operation(at.operation), at.here);
        }
        multiply(w, at.operation);
    } else if (at.operation != SC_SYNC)
        vote(w, at.here, at.operation);
    meet(w, at.here);
    const unsigned turn = random_state ? draw(LANES) : 0, at_once = random_state ? draw(2) : 1;
    for (unsigned i = 0; i < LANES; i++) {
        const unsigned lane = (turn + LANES - 1 - i) % LANES, id = warp_id * LANES + lane;
        if (!(at.here >> lane & 1) || id == self)
            continue;
        places[id] = RUNS;
        if (at_once)
            queue_first(id);
        else
            queue_last(id);
    }
}

void sc_warp(sc_operation operation, unsigned mask, sc_lane *own, int line) {
    const unsigned self = sc_self->id, lane = self % LANES;
    warp *w = &warps[self / LANES];
    int m = 0;
    if (!(mask >> lane & 1))
        sc_fault("line %d: %s: mask %x is without the lane itself, %u", line,
                 name_operation(operation), mask, lane);
    while (m < w->meetings && w->open[m].mask != mask)
        m++;
    meeting *at = &w->open[m];
    if (m == w->meetings) {
        *at = { mask, 0, operation, line };
        w->meetings++;
    } else if (at->operation != operation || at->line != line) {
        const unsigned other = self - lane + (unsigned)__builtin_ctz(at->here);
        sc_fault("line %d: %s, but thread %s of the same mask waits at line %d (%s)", line,
                 name_operation(operation), name_thread(other), at->line,
                 name_operation(at->operation));
    }
    at->here |= 1u << lane;
    w->lane[lane] = own;
    lines[self] = line;
    if (at->here == (mask & w->live)) {
        hold_meeting(self / LANES, m, self);
        if (!random_state || draw(2))
            return;
        queue_last(self);
    } else {
        places[self] = AT_WARP;
    }
    leave();
}

/* Lanes that waited for this one alone go on without it. */
static void end_thread(void) {
    const unsigned self = sc_self->id;
    warp *w = &warps[self / LANES];
    places[self] = DONE;
    live--;
    w->live &= ~(1u << self % LANES);
    for (int m = 0; m < w->meetings;)
        if (w->open[m].here == (w->open[m].mask & w->live))
            hold_meeting(self / LANES, m, self);
        else
            m++;
    leave();
}

/* A fiber's whole life: its thread of one block after the other. */
CALLS_ANYTHING static void run_threads(void) {
    arrived(&fibers[sc_self->id]);
    for (;;) {
        const u64 *w = words;
        void (*run)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);
        *(void **)&run = kernel;
        run(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
            w[14], w[15]);
        end_thread();
    }
}

/* --- shared memory --- */

void sc_enter(sc_array *array) {
    if (array->cleared != times_round) {
        memset(array->shadow, 0, array->count * sizeof *array->shadow);
        array->cleared = times_round;
        array->entered = 0;
    }
    if (array->entered == sc_block_start)
        return;
    array->entered = sc_block_start;
    shared_bytes += array->count * array->element_bytes;
    if (shared_bytes > SC_HOST_SHARED)
        sc_fault("%s: the shared arrays so far take %u bytes, more than %d", array->name,
                 shared_bytes, SC_HOST_SHARED);
}

/* Whether the running thread has met another since that time, which is after the last barrier. */
static bool has_met(unsigned other, unsigned since) {
    const unsigned self = sc_self->id;
    const warp *w = &warps[self / LANES];
    return self == other || (self / LANES == other / LANES &&
                             (w->met > since || w->known[self % LANES][other % LANES] > since));
}

static void report_race(const sc_array *array, long long i, const char *what, unsigned other,
                        const char *did) {
    sc_fault("%s[%lld]: %s (after line %d), but thread %s %s it and no barrier lies between",
             array->name, i, what, lines[sc_self->id], name_thread(other), did);
}

void sc_check_written(const sc_array *array, long long i, const char *what) {
    const sc_shadow *s = &array->shadow[i];
    if (!has_met(s->writer, s->written))
        report_race(array, i, what, s->writer, "wrote");
}

void sc_check_read(const sc_array *array, long long i) {
    const sc_shadow *s = &array->shadow[i];
    const unsigned self = sc_self->id;
    if (s->warp == SC_WARPS)
        sc_fault("%s[%lld]: written (after line %d), but threads of several warps read it and no "
                 "barrier lies between",
                 array->name, i, lines[self]);
    for (unsigned lane = 0; lane < LANES; lane++)
        if (s->lanes >> lane & 1 && !has_met(s->warp * LANES + lane, s->read))
            report_race(array, i, "written", s->warp * LANES + lane, "read");
}

void sc_fault_added(const sc_array *array, long long i, const char *what) {
    sc_fault("%s[%lld]: %s (after line %d), but threads add to it and no barrier lies between",
             array->name, i, what, lines[sc_self->id]);
}

/* --- the launch --- */

/* Times start anew, and with them the shadows, long before they run out. */
static void start_times(void) {
    if (sc_now > TIMES_MAX || !times_round) {
        sc_now = 0;
        times_round++;
        memset(warps, 0, sizeof warps);
    }
}

static void set_order(u64 seed) {
    random_state = seed * 0x9e3779b97f4a7c15ull;
    for (unsigned i = 0; i < count; i++)
        order[i] = (unsigned short)i;
    for (unsigned i = 0; i < count; i++)
        threads[i] = { { i % sc_block_size.x, i / sc_block_size.x % sc_block_size.y,
                         i / sc_block_size.x / sc_block_size.y },
                       i };
}

static void run_block(void) {
    sc_block_start = sc_last_barrier = ++sc_now;
    shared_bytes = dynamic_bytes;
    at_barrier = 0;
    live = count;
    for (unsigned i = 0; i < count; i++) {
        places[i] = RUNS;
        lines[i] = 0;
    }
    for (unsigned i = 0; i * LANES < count; i++) {
        const unsigned left = count - i * LANES;
        warps[i].live = left < LANES ? (1u << left) - 1 : 0xffffffff;
        warps[i].meetings = 0;
    }
    fill_queue();
    queue_head = 1 % THREADS;
    queued--;
    sc_self = &threads[queue[0]];
    switch_to(&home, &fibers[sc_self->id]);
}

static u64 common_divisor(u64 a, u64 b) { return b ? common_divisor(b, a % b) : a; }

/* Block number step * i + first, all of them once: step has no divisor in common with blocks. */
static void run_blocks(u64 blocks) {
    u64 step = 1, first = 0;
    if (random_state && blocks > 1) {
        const unsigned most = blocks < 0xffffffff ? (unsigned)blocks : 0xffffffff;
        first = draw(most);
        do
            step = 1 + draw(most);
        while (common_divisor(step, blocks) != 1);
    }
    u64 block = first;
    for (u64 i = 0; i < blocks && !failed; i++) {
        sc_block.x = (unsigned)(block % sc_grid_size.x);
        sc_block.y = (unsigned)(block / sc_grid_size.x % sc_grid_size.y);
        sc_block.z = (unsigned)(block / sc_grid_size.x / sc_grid_size.y);
        run_block();
        block = (block + step) % blocks;
    }
}

static int check_sizes(const unsigned grid[3], const unsigned block[3], u64 shared,
                       int words_count) {
    if (words_count < 0 || words_count > SC_HOST_WORDS)
        return refuse("%d words, a kernel takes at most %d", words_count, SC_HOST_WORDS);
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 ||
        grid[2] > 65535)
        return refuse("grid (%u,%u,%u) is outside 1 … (2147483647,65535,65535)", grid[0], grid[1],
                      grid[2]);
    if (!block[0] || !block[1] || !block[2] || block[0] > 1024 || block[1] > 1024 || block[2] > 64)
        return refuse("block (%u,%u,%u) is outside 1 … (1024,1024,64)", block[0], block[1],
                      block[2]);
    if (block[0] * block[1] * block[2] > THREADS)
        return refuse("block (%u,%u,%u) has %u threads, more than %d", block[0], block[1], block[2],
                      block[0] * block[1] * block[2], THREADS);
    if (shared > SC_HOST_SHARED)
        return refuse("%llu bytes of shared memory, more than %d", shared, SC_HOST_SHARED);
    return 0;
}

int sc_host_launch(void *function, const unsigned grid[3], const unsigned block[3], u64 shared,
                   const u64 *parameters, int parameters_count, u64 seed, char *text,
                   size_t text_bytes) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    failed = false;
    report = text;
    report_bytes = text_bytes;
    if (text && text_bytes)
        *text = 0;
    if (!check_sizes(grid, block, shared, parameters_count)) {
        if (make_fibers()) {
            kernel = function;
            memset(words, 0, sizeof words);
            if (parameters_count)
                memcpy(words, parameters, (size_t)parameters_count * sizeof *words);
            sc_grid_size = { grid[0], grid[1], grid[2] };
            sc_block_size = { block[0], block[1], block[2] };
            dynamic_bytes = (unsigned)shared;
            count = block[0] * block[1] * block[2];
            start_times();
            set_order(seed);
            run_blocks((u64)grid[0] * grid[1] * grid[2]);
        } else {
            refuse("no memory for %d stacks of %d bytes", THREADS, STACK_BYTES);
        }
    }
    const int failure = failed;
    pthread_mutex_unlock(&one);
    return failure;
}
