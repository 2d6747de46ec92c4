/* main.c - the command: which one, its exit code, its one line of complaint. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "options.h"

static const char help[] =
    "slipcast casts a language model: C source for that one model, every shape a constant.\n"
    "\n"
    "  slipcast inspect MODEL              the graph, and where each value came from\n"
    "  slipcast plan    MODEL              every buffer and the total; what fits\n"
    "  slipcast export  MODEL -o DIR       the casting\n"
    "  slipcast pack    MODEL DIR          weights and tokenizer for a casting of a config alone\n"
    "  slipcast run     MODEL|DIR -p TEXT  export, build (cached), generate; or -i: chat\n"
    "  slipcast bench   MODEL|DIR          prefill and decode tokens/s, time to first token, "
    "memory\n"
    "  slipcast verify  DIR [MODEL]        are these the bytes that the inputs make?\n"
    "  slipcast diff    DIR DIR            what changed between two castings\n"
    "\n"
    "MODEL is a Hugging Face folder, its config.json, or a GGUF file.\n"
    "  --max-cache-len N   tokens that the cache holds (max_position_embeddings, at most 4096)\n"
    "  --batch-size N      rows (1; run: as many as there are prompts)\n"
    "  --dtype T           of weights and cache: float32 (default), bfloat16, float16\n"
    "  --kv-dtype T        of keys and values: --dtype's, float32, bfloat16, float16, q8_0, "
    "fp8_e4m3\n"
    "  --only cache        the cache alone, for a forward pass of your own\n"
    "  --generic           read an unknown model_type by the keys that all families share\n"
    "  --rewind N          room in sliding layers for crop to take back N tokens\n"
    "  --offloading        keep keys and values of layers that do not slide on the host\n"
    "  --no-offload-only-non-sliding  of sliding layers too\n"
    "  --arch A[,A]        native (default), generic, x86-64-v3, x86-64-v4, x86-64-v4-bf16; for "
    "cuda\n"
    "                      also sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_110, "
    "sm_120,\n"
    "                      sm_121 (sm_80,sm_90)\n"
    "  --target T          cpu (default), or cuda: device code too, compiled by NVRTC\n"
    "  --emit-only         cuda: leave the device code to make and nvcc\n"
    "  --offload-weights N cuda: keep the weights of N layers on the host\n"
    "  --name NAME         prefix of the casting's functions (the model_type)\n"
    "  --quiet  --json\n"
    "plan: --memory SIZE  the largest max_cache_len and batch_size that fit (24GiB, 512MiB, 24GB, "
    "bytes)\n"
    "      --html FILE    one page to look at: layers, arena, bytes against length, what fits\n"
    "run: -p TEXT  --token-ids 1,2;3,4  --max-new-tokens N  --ignore-eos  --temperature T  --top-k "
    "K\n"
    "     --top-p P  --min-p P  --repetition-penalty R  --seed S  --prefill-chunk N[,N]  --threads "
    "N\n"
    "     --dump FILE.safetensors  --session FILE  --check  --no-display-prompt\n"
    "     --offload-to DIR  --device cpu|cuda:N|auto  --no-graph\n"
    "     -i               chat, by the model's own template: a line is a message; also --system "
    "TEXT,\n"
    "                      --chat-template FILE, --verbose (tokens kept, fed and written)\n"
    "bench: --bench PROMPT,NEW,RUNS (512,64,3)  --threads N  --device D  --no-graph\n"
    "\n"
    "Exit codes: 0 done, 1 a check said no, 2 usage, 3 bad input, 4 environment.\n";

static const struct {
    const char *name;
    int models; /* at most: MODEL, or MODEL and DIR */
    int (*run)(const sc_cli *, sc_pool *, FILE *, sc_error *);
} commands[] = { { "inspect", 1, sc_cmd_inspect }, { "plan", 1, sc_cmd_plan },
                 { "export", 1, sc_cmd_export },   { "pack", 2, sc_cmd_pack },
                 { "run", 1, sc_cmd_run },         { "bench", 1, sc_cmd_run },
                 { "verify", 2, sc_cmd_verify },   { "diff", 2, sc_cmd_diff } };

static int dispatch(int argc, char **argv, sc_pool *pool, sc_error *err) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name)) {
            sc_cli cli;
            const int rc = sc_cli_read(&cli, pool, argc, argv, err);
            if (!rc && cli.models > commands[i].models)
                return sc_fail(err, SC_EUSAGE,
                               "%s: one argument too many: \"%s\" (see slipcast --help)",
                               cli.command, cli.model[commands[i].models]);
            return rc ? rc : commands[i].run(&cli, pool, stdout, err);
        }
    return sc_fail(err, SC_EUSAGE, "slipcast: %s: there is no such command (see slipcast --help)",
                   argv[1]);
}

int main(int argc, char **argv) {
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
        !strcmp(argv[1], "help")) {
        fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    signal(SIGXFSZ, SIG_IGN); /* write says EFBIG, and what was begun is removed */
    sc_error err = { 0 };
    sc_pool *pool = sc_pool_create();
    int rc = pool ? dispatch(argc, argv, pool, &err) : sc_oom(&err, "starting");
    sc_pool_destroy(pool);
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = sc_fail(&err, SC_EENV, "standard output: %s", strerror(errno));
    if (rc && err.message[0])
        fprintf(stderr, "%s\n", err.message);
    return sc_exit_status(rc);
}
