/* tokenizer_pre.c - see tokenizer_pre.h. */
#include "tokenizer_pre.h"

#include <stddef.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3(digits)                                                                             \
    CONTRACTIONS "|" WORD "\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
#define QWEN35                                                                                     \
    CONTRACTIONS "|" WORD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(behind, digits)                                                                      \
    WORD UPPER "*" LOWER "+" behind "|" WORD UPPER "+" LOWER "*" behind "|" digits                 \
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL
#define O200K CASED(CONTRACTIONS "?", "\\p{N}{1,3}")
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define BAILING                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}"                                  \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SEED CONTRACTIONS "|" WORD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" TAIL
#define EXAONE_MOE                                                                                 \
    CONTRACTIONS "|" WORD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"                           \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

/* DeepSeek's: ideographs and kana on their own, punctuation with the word that it leads. */
#define KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                                        \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" TAIL
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"            \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-"         \
    "\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"             \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                 \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"                 \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"         \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-"                 \
    "\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-"                 \
    "\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}"         \
    "\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-"         \
    "\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"          \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}"         \
    "-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-"                \
    "\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-"                 \
    "\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-"            \
    "\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-"         \
    "\\x{1e943}]+"
#define DEEPSEEK_MARKS                                                                             \
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-"               \
    "\\x{3002}]+"
#define DEEPSEEK_CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

static const sc_pre table[] = {
    { "default",
      .pattern = { "[\\p{P}$+<=>^~|]+", SC_GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { "gpt-2", .pattern = { SC_GPT2_PATTERN } },
    { "gpt2", .pattern = { SC_GPT2_PATTERN } },
    { "phi-2", .pattern = { SC_GPT2_PATTERN } },
    { "mpt", .pattern = { SC_GPT2_PATTERN } },
    { "jais", .pattern = { SC_GPT2_PATTERN } },
    { "exaone4", .pattern = { SC_GPT2_PATTERN } },
    { "granite-docling", .pattern = { SC_GPT2_PATTERN } },
    { "trillion", .pattern = { SC_GPT2_PATTERN } },
    { "gigachat", .pattern = { SC_GPT2_PATTERN } },
    { "a.x-4.0", .pattern = { SC_GPT2_PATTERN } },
    { "mellum", .pattern = { SC_GPT2_PATTERN } },
    { "modern-bert", .pattern = { SC_GPT2_PATTERN } },
    { "olmo", .nfc = true, .pattern = { SC_GPT2_PATTERN } },
    { "smollm", .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "starcoder", .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "refact", .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "codeshell", .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "exaone", .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "minerva-7b", .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "command-r", .nfc = true, .pattern = { "\\p{N}", SC_GPT2_PATTERN } },
    { "falcon", .pattern = { "[\\p{P}$+<=>^~|`]+", SC_GPT2_PATTERN, "[0-9][0-9][0-9]" } },
    { "llama-bpe", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "llama3", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "llama-v3", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "falcon3", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "falcon-h1", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "pixtral", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "lfm2", .ignore_merges = true, .add_bos = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "smaug-bpe", .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "dbrx", .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "chatglm-bpe", .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "glm4", .ignore_merges = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "glm5", .ignore_merges = true, .pattern = { LLAMA3("\\p{N}{1,3}") } },
    { "qwen2", .nfc = true, .pattern = { LLAMA3("\\p{N}") } },
    { "deepseek-r1-qwen", .nfc = true, .pattern = { LLAMA3("\\p{N}") } },
    { "megrez", .pattern = { LLAMA3("\\p{N}") } },
    { "stablelm2", .nfc = true, .pattern = { LLAMA3("\\p{N}") } },
    { "hunyuan", .pattern = { LLAMA3("\\p{N}") } },
    { "solar-open", .pattern = { LLAMA3("\\p{N}") } },
    { "grok-2", .pattern = { LLAMA3("\\p{N}") } },
    { "qwen35", .pattern = { QWEN35 } },
    { "tekken", .ignore_merges = true, .add_bos = true, .pattern = { CASED("", "\\p{N}") } },
    { "gpt-4o", .pattern = { O200K } },
    { "llama4", .pattern = { O200K } },
    { "kanana2", .pattern = { O200K } },
    { "minimax-m2", .pattern = { O200K } },
    { "tiny_aya", .pattern = { "\\d{1,3}(?=(?:\\d{3})*\\b)", O200K } },
    { "bloom", .pattern = { BLOOM } },
    { "poro-chat", .pattern = { BLOOM } },
    { "gpt3-finnish", .pattern = { BLOOM } },
    { "viking", .pattern = { BLOOM, "\\p{N}" } },
    { "bailingmoe", .pattern = { BAILING } },
    { "bailingmoe2", .pattern = { BAILING } },
    { "llada-moe", .pattern = { BAILING } },
    { "seed-coder", .pattern = { SEED } },
    { "exaone-moe", .pattern = { EXAONE_MOE } },
    { "superbpe", .pattern = { "\\p{N}+", "(?=(\\d{3})+(?!\\d))" } },
    { "deepseek-llm", .pattern = { "[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+$",
                                   DEEPSEEK_CJK, "\\p{N}+" } },
    { "deepseek-coder",
      .pattern = { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}" } },
    { "deepseek-v3", .pattern = { "\\p{N}{1,3}", KANA, DEEPSEEK3 } },
    { "hunyuan-dense", .pattern = { "\\p{N}{1,3}", KANA, DEEPSEEK3 } },
    { "gemma4", .plain = true, .pattern = { "[^\\n]+|[\\n]+" } },
};

const sc_pre *sc_pre_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
