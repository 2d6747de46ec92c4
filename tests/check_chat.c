/*
 * check_chat.c - where a model's chat template is found, and `run -i` end to end.
 *
 * Conversations are with the bundled example, whose tokenizer is given a BOS to add. It has no
 * template and no turns; with one given it answers all the same. Its layers are rings of 64 slots
 * but for two.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie, ptsname */
#endif
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../codegen/chat.h"
#include "../codegen/json.h"
#include "../codegen/talk.h"
#include "../runtime/tokenizer.h"
#include "support/cast.h"
#include "support/run.h"

Suite *chat_suite(void);

static sc_pool *pool;

static void begin(void) {
    pool = sc_pool_create();
    ck_assert_ptr_nonnull(pool);
    unsetenv("MAKEFLAGS");
    ck_assert(!run(NULL, NULL, "rm -rf build/test-chat/model && mkdir -p build/test-chat/model"));
}

static void end(void) { sc_pool_destroy(pool); }

static void put(const char *file, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "build/test-chat/model/%s", file);
    cast_write(path, text, strlen(text));
}

static const struct {
    const char *settings, *own; /* tokenizer_config.json, chat_template.jinja; NULL: not there */
    const char *text;           /* of one message "Hi" */
    const char *message;        /* or what is wrong */
} places[] = {
    { "{\"chat_template\": \"{{ bos_token }}[{{ messages[0].content }}]\", \"bos_token\": \"<s>\"}",
      NULL, "<s>[Hi]", NULL },
    { "{\"chat_template\": \"{{ bos_token }}a\", \"bos_token\": {\"content\": \"<b>\", \"lstrip\": "
      "false}}",
      NULL, "<b>a", NULL },
    { "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"}, {\"name\": \"default\", "
      "\"template\": \"{{ eos_token }}d\"}], \"eos_token\": \"</s>\", \"bos_token\": null}",
      NULL, "</s>d", NULL },
    { "{\"chat_template\": \"old\", \"bos_token\": \"<s>\"}", "{{ bos_token }}new\n", "<s>new",
      NULL },
    { NULL, "{{ tools is none }}{{ documents is defined }}{{ add_generation_prompt }}{{ x }}",
      "TrueTrueTrue", NULL },
    { "{}", NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL },
    { "{\"chat_template\": 3}", NULL, NULL, "chat_template: is neither a text" },
    { "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"t\"}]}", NULL, NULL,
      "chat_template: is neither a text nor a list with one named default" },
    { "{\"bos_token\": 1}", NULL, NULL, "bos_token: is no text" },
    { "{", NULL, NULL, "tokenizer_config.json" },
    { NULL, "\xff", NULL, "chat_template.jinja: the chat template is no UTF-8" },
};

START_TEST(a_template_is_found_where_models_keep_it) {
    sc_error err = { 0 };
    sc_chat *chat = NULL, *again = NULL;
    if (places[_i].settings)
        put("tokenizer_config.json", places[_i].settings);
    if (places[_i].own)
        put("chat_template.jinja", places[_i].own);
    const int rc = sc_chat_of_folder(&chat, pool, "build/test-chat/model", NULL, &err);
    if (places[_i].message) {
        ck_assert_int_eq(rc, SC_EINPUT);
        ck_assert_msg(strstr(err.message, places[_i].message) != NULL, "%s", err.message);
        return;
    }
    ck_assert_msg(!rc, "%s", err.message);
    ck_assert(!chat->template == !places[_i].text);
    ck_assert_int_eq(chat->inputs, (places[_i].settings != NULL) + (places[_i].own != NULL));
    /* and so it is, once written beside a casting */
    const char *written;
    ck_assert(!sc_chat_write(&written, pool, chat, &err));
    put("x.chat", written);
    ck_assert_msg(!sc_chat_read(&again, pool, "build/test-chat/model/x.chat", &err), "%s",
                  err.message);
    if (!places[_i].text)
        return;
    cJSON *messages = cJSON_Parse("[{\"role\": \"user\", \"content\": \"Hi\"}]");
    const sc_jinja *template = NULL;
    ck_assert(!sc_jinja_read(&template, pool, "t", again->template, strlen(again->template), &err));
    char *text = NULL;
    size_t bytes;
    ck_assert_msg(!sc_chat_render(&text, &bytes, again, template, messages, &err), "%s",
                  err.message);
    ck_assert_str_eq(text, places[_i].text);
    free(text);
    cJSON_Delete(messages);
}
END_TEST

/* Texts of tokens are looked up: among added ones, in BPE's vocabulary, in Unigram's. */
static const char *const vocabularies[] = {
    "{\"model\": {\"vocab\": {\"a\": 0, \"<s>\": 1, \"</s>\": 2}}}",
    "{\"model\": {\"vocab\": [[\"a\", 0], [\"<s>\", 0], [\"</s>\", -1.5]]}}",
    "{\"added_tokens\": [{\"id\": 2, \"content\": \"</s>\"}, {\"id\": 1, \"content\": \"<s>\"}]}",
    "{}",
};

START_TEST(a_gguf_has_its_template_and_its_tokens) {
    const sc_gguf gguf = { .config = cJSON_Parse("{\"bos_token_id\": 1}"),
                           .tokenizer = cJSON_Parse(vocabularies[_i]),
                           .chat_template = "{{ bos_token }}" };
    const sc_config config = { .eos_count = 2, .eos_token_id = { 2, 0 } };
    const bool empty = !gguf.tokenizer->child;
    sc_chat *chat = NULL;
    ck_assert(!sc_chat_of_gguf(&chat, pool, "m.gguf", &gguf, &config, NULL));
    ck_assert_str_eq(chat->template, "{{ bos_token }}");
    ck_assert_str_eq(chat->file, "m.gguf");
    ck_assert_pstr_eq(chat->token[0], empty ? NULL : "<s>");
    ck_assert_pstr_eq(chat->token[1], empty ? NULL : "</s>");
    ck_assert(chat->eos_count == 2 && chat->eos_id[0] == 2 && chat->eos_id[1] == 0);
    cJSON_Delete(gguf.config);
    cJSON_Delete(gguf.tokenizer);
}
END_TEST

#define AUSTEN "build/test-chat/austen"
#define CHATML "tests/reference/chat/chatml.jinja"

enum { TURNS = 3, RING = 64, IDS = 1024, TEXT = 16384 };

static sc_tokenizer *tokenizer;

/* Exported once per run of the tests. */
static void begin_austen(void) {
    static const char processor[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<|endoftext|>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
        "\"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": "
        "\"B\", "
        "\"type_id\": 1}}], \"special_tokens\": {\"<|endoftext|>\": {\"id\": \"<|endoftext|>\", "
        "\"ids\": [0], \"tokens\": [\"<|endoftext|>\"]}}}";
    sc_error err = { 0 };
    cJSON *json;
    begin();
    if (access(AUSTEN "/austen.chat", F_OK)) {
        ck_assert(!run(NULL, NULL, "cp examples/austen/* build/test-chat/model"));
        ck_assert(!sc_json_read(&json, "examples/austen/tokenizer.json", 1 << 20, &err));
        ck_assert(cJSON_ReplaceItemInObject(json, "post_processor", cJSON_Parse(processor)));
        char *text = cJSON_Print(json);
        put("tokenizer.json", text);
        cJSON_free(text);
        cJSON_Delete(json);
        ck_assert(!run(NULL, NULL,
                       "$SLIPCAST export build/test-chat/model -o " AUSTEN
                       " --name austen --quiet"));
    }
    ck_assert_msg(!sc_tokenizer_open(&tokenizer, AUSTEN "/austen.tokenizer", &err), "%s",
                  err.message);
}

static void end_austen(void) {
    sc_tokenizer_close(tokenizer);
    end();
}

static int ids_of(int32_t ids[IDS], const char *text) {
    int32_t *made;
    int count;
    ck_assert(!sc_tokenizer_encode(tokenizer, text, strlen(text), false, &made, &count, NULL));
    ck_assert_int_lt(count, IDS);
    memcpy(ids, made, (size_t)count * sizeof *ids);
    free(made);
    return count;
}

/* What the casting's program goes on with, most ids behind the count ones; text: as it reads. */
static void write_on(char text[TEXT], int32_t ids[IDS], int count, int most) {
    char list[8 * IDS] = "", *printed, *rest;
    sc_decoder *decoder = NULL;
    const char *piece;
    size_t bytes;
    for (int i = 0; i < count; i++)
        sprintf(list + strlen(list), "%s%d", i ? "," : "", (int)ids[i]);
    ck_assert(!run(&printed, NULL,
                   "$SLIPCAST run " AUSTEN " --token-ids %s --max-new-tokens %d "
                   "--no-display-prompt",
                   list, most));
    ck_assert(!sc_decoder_create(&decoder, tokenizer, false, true, NULL));
    *text = 0;
    rest = printed;
    for (int i = count; i < count + most; i++, rest += *rest == ',') {
        ids[i] = (int32_t)strtol(rest, &rest, 10);
        ck_assert(!sc_decoder_push(decoder, ids[i], &piece, &bytes, NULL));
        strncat(text, piece, bytes);
    }
    ck_assert_str_eq(rest, "\n");
    ck_assert(!sc_decoder_end(decoder, &piece, &bytes, NULL));
    strncat(text, piece, bytes);
    sc_decoder_destroy(decoder);
    free(printed);
}

/* How many ids both begin with. */
static int common(const int32_t *a, int a_count, const int32_t *b, int b_count) {
    int n = 0;
    while (n < a_count && n < b_count && a[n] == b[n])
        n++;
    return n;
}

#define PLAIN "{% for m in messages %}{{ m.role[0] }}: {{ m.content }}\n{% endfor %}a:"
/* As templates leave earlier thoughts out. */
#define SHORTENED                                                                                  \
    "{% for m in messages %}{{ m.role[0] }}: {{ m.content[5:] if m.role == 'assistant' else "      \
    "m.content }}\n{% endfor %}a:"

/* A template, and what it is to make: head, then users' and assistants' messages between before and
 * after, without the first characters of an answer, then begin. */
static const struct {
    const char *template, *options, *head;
    const char *user_before, *assistant_before, *after, *begin;
    size_t left_out;
    int most; /* tokens of an answer */
} talks[] = {
    { NULL, "", "", "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n",
      "<|im_start|>assistant\n", 0, 9 },
    { NULL, "--system 'Be brief.' --prefill-chunk 7", "<|im_start|>system\nBe brief.<|im_end|>\n",
      "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n", "<|im_start|>assistant\n", 0,
      20 },
    { "{{ bos_token }}" PLAIN, "", "<|endoftext|>", "u: ", "a: ", "\n", "a:", 0, 30 },
    { SHORTENED, "", "", "u: ", "a: ", "\n", "a:", 5, 6 },
    { SHORTENED, "", "", "u: ", "a: ", "\n", "a:", 5, 70 }, /* further than the rings go back */
};

START_TEST(an_answer_is_that_to_the_whole_conversation_and_feeds_what_is_new) {
    static const char *const users[TURNS] = { "Hello there", "How do you do?", "Well" };
    char text[TEXT], conversation[TEXT], *out, *said, *line, *at;
    int32_t ids[IDS], cached[IDS];
    int holds = 0;
    put("chat.jinja", talks[_i].template ? talks[_i].template : "");
    ck_assert_msg(!run(&out, &said,
                       "printf '%%s\\n' '%s' '%s' '%s' | $SLIPCAST run -i " AUSTEN
                       " --verbose --max-new-tokens %d --chat-template %s %s",
                       users[0], users[1], users[2], talks[_i].most,
                       talks[_i].template ? "build/test-chat/model/chat.jinja" : CHATML,
                       talks[_i].options),
                  "%s", said);
    strcpy(conversation, talks[_i].head);
    at = out;
    line = said;
    for (int turn = 0; turn < TURNS; turn++) {
        sprintf(conversation + strlen(conversation), "%s%s%s", talks[_i].user_before, users[turn],
                talks[_i].after);
        snprintf(text, sizeof text, "%s%s", conversation, talks[_i].begin);
        const int count = ids_of(ids, text);
        int kept = common(cached, holds, ids, count - 1);
        if (kept < holds && holds > RING)
            kept = 0; /* a ring cannot go back: begun anew */
        write_on(text, ids, count, talks[_i].most);
        ck_assert_msg(!strncmp(at, text, strlen(text)) && at[strlen(text)] == '\n',
                      "turn %d: said\n%s\nwanted\n%s", turn, at, text);
        at += strlen(text) + 1;
        snprintf(conversation + strlen(conversation), TEXT / 4, "%s%s%s",
                 talks[_i].assistant_before, text + talks[_i].left_out, talks[_i].after);
        snprintf(text, sizeof text, "[%d tokens kept, %d fed, %d written]\n", kept, count - kept,
                 talks[_i].most);
        ck_assert_msg(!strncmp(line, text, strlen(text)), "turn %d: said\n%s\nwanted\n%s", turn,
                      line, text);
        line += strlen(text);
        holds = count + talks[_i].most - 1; /* the last token is written, and never fed */
        memcpy(cached, ids, (size_t)holds * sizeof *ids);
    }
    ck_assert_str_eq(at, "");
    ck_assert_str_eq(line, "");
    free(out);
    free(said);
}
END_TEST

/* So the conversations above that begin with one would have had two. */
START_TEST(the_tokenizer_of_these_tests_adds_a_bos_of_its_own) {
    static const char text[] = "<|endoftext|>u: Hello";
    int32_t *ids;
    int count;
    ck_assert(!sc_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &count, NULL));
    ck_assert_int_gt(count, 2);
    ck_assert_int_eq(ids[0], 0);
    ck_assert_int_eq(ids[1], 0);
    free(ids);
}
END_TEST

static const struct {
    const char *input;   /* of printf */
    const char *options; /* behind `run -i` */
    const char *output;
    const char *talk;
} dialogues[] = {
    { "", "", "", "" },
    { "\\n\\r\\n/exit\\nHello\\n", "", "", "" },
    { "/help\\n", "", "",
      "/reset  begin anew (the system prompt stays)\n/exit   leave (or Ctrl-D)\n/help   this\n"
      "Ctrl-C cuts an answer.\n" },
    /* the same again: but the last token, whose logits are wanted, all is there */
    { "Hello there\\r\\n/reset\\nHello there", "", "After a few\nAfter a few\n",
      "[0 tokens kept, 36 fed, 5 written]\n[35 tokens kept, 1 fed, 5 written]\n" },
    { "Hello there\\n", "--temperature 9 --top-k 1 --seed 3 --threads 1 --device cpu",
      "After a few\n", "[0 tokens kept, 36 fed, 5 written]\n" },
};

START_TEST(a_line_is_a_message_or_a_command) {
    char *out, *said;
    const int status = run(&out, &said,
                           "printf '%s' | $SLIPCAST run -i " AUSTEN
                           " --verbose --max-new-tokens 5 --chat-template " CHATML " %s",
                           dialogues[_i].input, dialogues[_i].options);
    ck_assert_msg(!status, "%s", said);
    ck_assert_str_eq(out, dialogues[_i].output);
    ck_assert_str_eq(said, dialogues[_i].talk);
    free(out);
    free(said);
}
END_TEST

#define CHAT "$SLIPCAST run -i " AUSTEN " --chat-template " CHATML
#define WITH "; printf 'Hi\\n' | $SLIPCAST run -i " AUSTEN " --chat-template $M/t.jinja"

/* $M is a folder of its own. */
static const struct {
    int status;
    const char *talk; /* a part of the one line */
    const char *command;
} refusals[] = {
    { 3, "the model has no chat_template (is it one for chats? give --chat-template FILE)",
      "$SLIPCAST run -i " AUSTEN },
    { 3, "t.jinja:2: {% include %} is beyond the subset (docs/chat.md)",
      "printf 'a\\n{%% include \"x\" %%}' >$M/t.jinja" WITH },
    { 3, "t.jinja:1: the filter xmlattr is beyond the subset (docs/chat.md)",
      "printf '{{ {}|xmlattr }}' >$M/t.jinja" WITH },
    { 3, "t.jinja:1: System role not supported",
      "printf \"{{ raise_exception('System role not supported') }}\" >$M/t.jinja" WITH },
    { 3, "t.jinja:1: needs too much memory (a template may take 64 MiB)",
      "printf '{%% for a in range(99999) %%}{%% for b in range(99999) %%}{%% endfor %%}"
      "{%% endfor %%}' >$M/t.jinja" WITH },
    { 3, "t.jinja: the conversation makes no token", "printf '{#- -#}' >$M/t.jinja" WITH },
    { 3, "t.jinja: the chat template is no UTF-8", "printf '\\377' >$M/t.jinja" WITH },
    { 3, "standard input: a line is no UTF-8 text", "printf '\\377\\n' | " CHAT },
    { 3, "standard input: a line is no UTF-8 text", "printf 'a\\000b\\n' | " CHAT },
    { 3, "standard input: a line has more than 1048576 bytes",
      "head -c 1048577 /dev/zero | tr '\\0' a | " CHAT },
    { 3,
      "austen: the conversation has 532 tokens, the cache room for 512 (max_cache_len; /reset, "
      "or --max-cache-len)",
      "printf '%0500d\\n' 0 | " CHAT },
    { 3,
      "llama.chat: is missing (a model without a tokenizer, or a casting of an older slipcast: "
      "export it again)",
      "$SLIPCAST run -i tests/reference/tiny/llama" },
    { 3, "batch_size: 2, a chat has one row (export with --batch-size 1)",
      "$SLIPCAST run -i examples/austen --batch-size 2 --chat-template " CHATML },
    { 3, "austen.chat",
      "cp -r " AUSTEN " $M/c; echo '{' >$M/c/austen.chat; "
      "$SLIPCAST run -i $M/c" },
    { 3, "austen.chat: eos_token_id: is no list of at most 16 numbers",
      "cp -r " AUSTEN " $M/c; echo '{\"eos_token_id\": [0.5]}' >$M/c/austen.chat; "
      "$SLIPCAST run -i $M/c" },
    { 3, "austen.weights",
      "cp -r " AUSTEN " $M/c; : >$M/c/austen.weights; $SLIPCAST run -i $M/c "
      "--chat-template " CHATML },
    { 2, "austen: device \"cuda:0\": this casting has no device code (export with --target cuda)",
      CHAT " --device cuda:0" },
    { 2, "run: -p: is not for a chat (-i)", CHAT " -p Hello" },
    { 2, "run: --top-p: \"2x\" is no number", CHAT " --top-p 2x" },
    { 2, "run: --max-new-tokens: \"-1\" is no whole number in 1 … 2147483647",
      CHAT " --max-new-tokens -1" },
    { 2, "run: --threads: \"65\" is no whole number in 1 … 64", CHAT " --threads 65" },
    { 2, "top_p: 2 is out of range (0 to 1)", CHAT " --top-p 2" },
    { 2, "run: --system: is no UTF-8 text", CHAT " --system \"$(printf '\\377')\"" },
    { 2, "run: --system, --chat-template, --verbose: are of a chat (-i)",
      "$SLIPCAST run " AUSTEN " -p a --system b" },
};

START_TEST(a_refusal_is_one_line_and_an_exit_code) {
    char *out, *said;
    const int status = run(&out, &said, "M=build/test-chat/model; %s", refusals[_i].command);
    const char *end = strchr(said, '\n');
    ck_assert_msg(status == refusals[_i].status, "%s: %d: %s", refusals[_i].command, status, said);
    ck_assert_msg(strstr(said, refusals[_i].talk) && end && !end[1], "%s: said %s",
                  refusals[_i].command, said);
    ck_assert_str_eq(out, "");
    free(out);
    free(said);
}
END_TEST

START_TEST(an_answer_that_fills_the_cache_is_cut_and_said_to_be) {
    char *out, *said;
    /* 36 tokens of the prompt; the 64th of the cache gives one more */
    ck_assert_int_eq(run(&out, &said,
                         "printf 'Hello there\\nAgain\\n' | $SLIPCAST run -i examples/austen "
                         "--max-cache-len 64 --verbose --chat-template " CHATML),
                     3);
    ck_assert_msg(strstr(said, "[the answer is cut: the cache is full (/reset, or "
                               "--max-cache-len)]\n[0 tokens kept, 36 fed, 29 written]\n"
                               "qwen3: the conversation has ") == said,
                  "%s", said);
    free(out);
    free(said);
}
END_TEST

/* Ends an answer: the first comma's id, however the model's template and configuration say so. */
static const char *const ends[] = { "\"eos_token\": \",\"", "\"eos_token_id\": [9999, %d]" };

START_TEST(an_answer_ends_where_the_model_says) {
    int32_t comma[IDS];
    char *out, *said, members[128], file[256];
    ck_assert_int_eq(ids_of(comma, ","), 1);
    snprintf(members, sizeof members, ends[_i], (int)*comma);
    snprintf(file, sizeof file, "{%s}\n", members);
    ck_assert(!run(NULL, NULL, "cp -r " AUSTEN " build/test-chat/model/c"));
    put("c/austen.chat", file);
    ck_assert(!run(&out, &said,
                   "printf 'Hello there\\n' | $SLIPCAST run -i build/test-chat/model/c "
                   "--max-new-tokens 20 --chat-template " CHATML));
    ck_assert_str_eq(out, "After a few minutes\n");
    free(out);
    free(said);
}
END_TEST

/* A stream that asks for an end once it was written to so often. */
typedef struct {
    volatile sig_atomic_t stop;
    int writes;
} stopper;

static ssize_t count_write(void *cookie, const char *text, size_t bytes) {
    stopper *s = cookie;
    (void)text;
    s->stop = !--s->writes;
    return (ssize_t)bytes;
}

START_TEST(an_answer_can_be_cut_and_the_conversation_goes_on) {
    stopper s = { .writes = 4 };
    FILE *out = fopencookie(&s, "w", (cookie_io_functions_t){ .write = count_write });
    sc_error err = { 0 };
    sc_chat *chat = NULL;
    sc_talk *talk = NULL;
    sc_talk_options options = { .max_new_tokens = 20 };
    sc_talk_taken taken;
    char *answer = NULL;
    cJSON *messages = cJSON_Parse("[{\"role\": \"user\", \"content\": \"Hello there\"}]");
    ck_assert(!run(NULL, NULL, "make -s -C " AUSTEN " libausten.so"));
    ck_assert(!sc_chat_read(&chat, pool, AUSTEN "/austen.chat", &err));
    ck_assert(!sc_chat_replace(chat, pool, CHATML, &err));
    ck_assert_msg(!sc_talk_open(&talk, pool, AUSTEN, "austen", chat, &options, &err), "%s",
                  err.message);
    ck_assert(!sc_talk_answer(&answer, &taken, talk, messages, out, &s.stop, &err));
    ck_assert_str_eq(answer, "After a");
    ck_assert(taken.stopped && !taken.full);
    ck_assert_int_eq(taken.written, 4);
    free(answer);
    /* before the first token: it was fed nothing that is not kept the next time */
    ck_assert(!sc_talk_answer(&answer, &taken, talk, messages, out, &s.stop, &err));
    ck_assert(taken.stopped && !taken.written && !taken.fed);
    ck_assert_str_eq(answer, "");
    free(answer);
    s.stop = 0;
    ck_assert(!sc_talk_answer(&answer, &taken, talk, messages, out, &s.stop, &err));
    ck_assert_int_eq(taken.written, 20);
    ck_assert_int_eq(taken.kept + taken.fed, 36);
    ck_assert_str_eq(answer, "After a few minutes, however, she was not in the habit");
    free(answer);
    fclose(out);
    cJSON_Delete(messages);
    sc_talk_close(talk);
}
END_TEST

/* Waits until the terminal shows that text behind *at, and goes behind it. */
static void wait_for(int terminal, char shown[TEXT], char **at, const char *text) {
    char *found, *end = shown + strlen(shown);
    while (!(found = strstr(*at, text))) {
        struct pollfd ready = { .fd = terminal, .events = POLLIN };
        ck_assert_msg(poll(&ready, 1, 60000) == 1, "no \"%s\" in %s", text, shown);
        const ssize_t n = read(terminal, end, (size_t)(shown + TEXT - 1 - end));
        ck_assert_msg(n > 0, "no \"%s\" in %s", text, shown);
        end += n;
        *end = 0;
    }
    *at = found + strlen(text);
}

/* The command with a terminal of its own for everything. */
static pid_t start_in_terminal(int *terminal, const char *command) {
    *terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(*terminal, 0);
    ck_assert(!grantpt(*terminal) && !unlockpt(*terminal));
    const char *name = ptsname(*terminal);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child)
        return child;
    setsid(); /* what it opens next is its terminal */
    const int own = open(name, O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(own, fd);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

START_TEST(a_terminal_has_a_prompt_and_outlives_mistakes) {
    static const struct {
        const char *types, *shows;
    } steps[] = {
        { "", "> " },
        { "Hello there\n", "\r\nAfter a few\r\n> " },
        { "\x03", "\r\n> " },
        { "\xff\n", "standard input: a line is no UTF-8 text\r\n> " },
        { "/help\n", "Ctrl-C cuts an answer.\r\n> " },
    };
    char shown[TEXT] = "", *at = shown;
    int terminal, status;
    ck_assert(!run(NULL, NULL, "make -s -C " AUSTEN " libausten.so"));
    const pid_t child = start_in_terminal(&terminal, "exec " CHAT " --max-new-tokens 5");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const ssize_t bytes = (ssize_t)strlen(steps[i].types);
        ck_assert_int_eq(write(terminal, steps[i].types, (size_t)bytes), bytes);
        wait_for(terminal, shown, &at, steps[i].shows);
    }
    ck_assert_int_eq(write(terminal, "\x04", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%d: %s", status, shown);
    close(terminal);
}
END_TEST

Suite *chat_suite(void) {
    Suite *suite = suite_create("chat");
    TCase *tc = tcase_create("chat");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, a_template_is_found_where_models_keep_it, 0,
                        sizeof places / sizeof *places);
    tcase_add_loop_test(tc, a_gguf_has_its_template_and_its_tokens, 0,
                        sizeof vocabularies / sizeof *vocabularies);
    suite_add_tcase(suite, tc);
    tc = tcase_create("talk");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, begin_austen, end_austen);
    tcase_add_loop_test(tc, an_answer_is_that_to_the_whole_conversation_and_feeds_what_is_new, 0,
                        sizeof talks / sizeof *talks);
    tcase_add_test(tc, the_tokenizer_of_these_tests_adds_a_bos_of_its_own);
    tcase_add_loop_test(tc, a_line_is_a_message_or_a_command, 0,
                        sizeof dialogues / sizeof *dialogues);
    tcase_add_loop_test(tc, a_refusal_is_one_line_and_an_exit_code, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(tc, an_answer_that_fills_the_cache_is_cut_and_said_to_be);
    tcase_add_loop_test(tc, an_answer_ends_where_the_model_says, 0, sizeof ends / sizeof *ends);
    tcase_add_test(tc, an_answer_can_be_cut_and_the_conversation_goes_on);
    tcase_add_test(tc, a_terminal_has_a_prompt_and_outlives_mistakes);
    suite_add_tcase(suite, tc);
    return suite;
}
