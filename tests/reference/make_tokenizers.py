#!/usr/bin/env python3
"""Small tokenizers of every kind, with what the `tokenizers` package makes of texts.

usage: make_tokenizers.py                      writes tests/reference/tokenizers/
       make_tokenizers.py PROGRAM N [SEED]     compares PROGRAM (build/release/tokenize) on N lines
       make_tokenizers.py PROGRAM N SEED NAME  the same for one kind, with the first differences

Three models, which tokenizers/models.json holds, are trained on the text below if it is missing: bytes (BPE of GPT-2's letters, trained without a split,
so that every split shows), spm (BPE with byte fallback) and unigram. A kind is one of them with the
normalizer, pre_tokenizer, decoder, post_processor and added tokens of a published tokenizer.json,
or with options that none of these has.
"""
import base64
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

TEXT = """It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.
However little known the feelings or views of such a man may be, it's so well fixed that he'll be considered theirs.
I'M SURE WE'VE SEEN IT'S DON'T, he said; they'd 12345 reasons and 3.14159 more: 2026-12-03, 10,000,000.
def main(argc, argv):\n    if argc > 1 and argv[0] != '--help':\n        return {"key": [1, 2, 3], 'x': None}\n
for (int i = 0; i < n; i++) {\n\tsum += a[i] * b[i]; // dot product\n\t}\n\n\n
Er wohnt in der Straße, übrigens größer als früher; à bientôt, garçon, où est l'été? ¿Dónde está el niño? Żółw.
В начале было слово, и слово было у дома; река течёт медленно. Καλημέρα κόσμε, τι κάνεις σήμερα;
今天天气很好，我们去公园散步吧。日本語のテキストも少しあります。カタカナとひらがな。한국어 문장도 있습니다 그리고 더.
नमस्ते दुनिया, यह एक परीक्षण है। สวัสดีชาวโลก ภาษาไทย مرحبا بالعالم، كيف حالك؟ שלום עולם
!!! ... ???  --  == != <= >= && || :: -> => ## @@ $$ %% ^^ ~~ `` "quoted" 'single' (round) [square] {curly} <angle>
"""

WORDS = (TEXT.split() + """'s 'S 'T 'll 'LL 're 'd I'm can't 'ſ ß ẞ İ ı ǅ ﬁ ﬀ ﬃ Å Å K k ℡ ½ ² ① Ⅻ ٣٤ १२ ๓ 〇 𝟙𝟚 𝐀𝐛 e\u0301 a\u0308\u0323 \u0301 한 \u1112\u1161\u11ab
👍 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ 🙂 😀😀😀 🏳️‍🌈 ✨ © ™ € £ ¥ § µ ¶ • … “quotes” ‘x’ – — ‐ · ° ± × ÷ ∑ √ ∞ ≠ 〜 「」 、 。 ！ ？ ＡＢＣ １２３ ｶﾀｶﾅ
<s> </s> <unk> <pad> <mask> <|endoftext|> <|im_start|> [INST] x<s>y <s><s> a<mask>b _<mask> <mask>. \u2581 \u2581\u2581a <0x0A> <0xE2> &amp; http://x.org/a_b?c=d#e a@b.c
snake_case camelCase HTTPServer XMLHttpRequest 0x1F 1e-5 1 12 123 1234 12345 123456 1234567 007 3,000.50 v1.2.3 a1b2 $9 #1 C++ C#
aaaaaaaaaaaaaaaaaaaaaaaa ababababababab zzzzzzzzz ---------- =========== ........ ''''' the the the in in of
\ufeff \u200b \u200d \u00ad \u202e \ufffd \u0000x \x01 \x7f \x85 \U0001f9ff \U00020000 \u0e33 \u0f0b \u17d2 \u3099か\u3099 \uac00\u11a8 \u0344 \u0958""".split())
SPACES = [" "] * 24 + ["", "", "  ", "   ", "      ", "\t", "\t\t", "\n", "\n\n", "\n\n\n\n", "\r\n", " \n", "\n ", "\u00a0",
                       "\u3000", "\u2009", "\u2028", "\x0b", "\x0c", "\u180e", " " * 17]


def character(rng):
    """Any of a few planes' that Unicode 3.2 has already: tables of every age agree on these."""
    while True:
        c = chr(rng.choice([rng.randint(1, 0x2ff), rng.randint(0x300, 0x33ff), rng.randint(0x4e00, 0xffff), rng.randint(0x1d000, 0x1d7ff)]))
        if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs"):
            return c


def lines(count, seed):
    """Bytes: words with spaces, some with bytes that are no UTF-8."""
    rng = random.Random(seed)
    out = [b"", b" ", b"\n", b"   ", b"a", b" a", "\u2581".encode(), b"<s>", b" <s> ", b"Hello", b"\xff", b"a\xe2\x82b\xf0\x9f",
           b"Hello  world\n\n  it's 12345 x", "e\u0301\u0323 \ufb01 \u212b".encode(), "👨‍👩‍👧‍👦🇩🇪日本語".encode(), b"<mask>  x <mask>y"]
    while len(out) < count:
        text = ""
        for _ in range(rng.randint(1, 14)):
            roll = rng.random()
            if roll < 0.06:
                text += "".join(character(rng) for _ in range(rng.randint(1, 4)))
            else:
                text += rng.choice(WORDS)
            text += rng.choice(SPACES)
        raw = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.05:
            at = rng.randint(0, len(raw))
            raw = raw[:at] + rng.choice([b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x99", b"\xfe", b"\xc0\xaf"]) + raw[at:]
        if rng.random() < 0.05:
            raw = raw[:rng.randint(0, len(raw))]
        out.append(raw)
    return out[:count]


# ---- parts of tokenizer.json ----

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = CASED % (("(?i:'s|'t|'re|'ve|'m|'ll|'d)?",) * 2 + (r"\p{N}{1,3}",))
TEKKEN = CASED % ("", "", r"\p{N}")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
SEED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
EXAONE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
TINY_AYA = r"\d{1,3}(?=(?:\d{3})*\b)"


def split(pattern, behavior="Isolated", invert=False, literal=False):
    return {"type": "Split", "pattern": {"String" if literal else "Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def digits(individual=True):
    return {"type": "Digits", "individual_digits": individual}


def pre(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def norm(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def dec(*parts):
    return {"type": "Sequence", "decoders": list(parts)}


def replace(old, new, regex=False):
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": old}, "content": new}


def metaspace(scheme="always", do_split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": do_split}


def template(before=(), after=()):
    names = {"<s>": 0, "</s>": 1}
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": n, "type_id": 0}} for n in before] + [{"Sequence": {"id": "A", "type_id": 0}}]
            + [{"SpecialToken": {"id": n, "type_id": 0}} for n in after],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in names.items()}}


def cased_by_regex(*patterns):
    return pre(*[split(p) for p in patterns], byte_level(regex=False))


def charsmap(table):
    """A compiled map of SentencePiece's form: a double array of the keys, then the strings."""
    strings, trie = b"", {}
    for key, value in sorted(table.items()):
        node = trie
        for c in key.encode():
            node = node.setdefault(c, {})
        node[0] = len(strings)
        strings += value.encode() + b"\0"
    units, taken = {0: 0}, {0}
    nodes = [(0, trie)]
    while nodes:
        at, node = nodes.pop()
        base = next(b for b in range(1, 1 << 20) if not any(b ^ c in taken for c in node))
        taken.update(base ^ c for c in node)
        units[at] |= (at ^ base) << 10 | (0 in node) << 8
        for c, below in node.items():
            units[base ^ c] = c if c else 1 << 31 | below
            if c:
                nodes.append((base ^ c, below))
    count = max(units) | 255
    array = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(count + 1))
    return base64.b64encode(len(array).to_bytes(4, "little") + array + strings).decode()


MAP = {"ﬁ": "fi", "①": "1", "Å": "Å", "e\u0301": "é", "\u200b": "", "\t": " ", "\n": " ", "\r\n": " ", "\u00a0": " ", "Ａ": "A", "…": "..."}
NFC = {"type": "NFC"}
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
LEGACY = norm({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"))
SPACES_BACK = [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
CLEAR = {"mask": dict(lstrip=True, rstrip=False, single_word=False, normalized=False)}


def kinds():
    """name → (model, its options, normalizer, pre_tokenizer, decoder, post_processor, masks)"""
    out = {}

    def kind(name, model, normalizer=None, pre=None, decoder=None, post=None, options=None, mask=None):
        out[name] = (model, options or {}, normalizer, pre, decoder, post, mask or {})

    def bytes_kind(name, pre, normalizer=None, **more):
        kind(name, "bytes", normalizer, pre, BYTES, **more)

    bytes_kind("gpt2", byte_level())
    bytes_kind("gpt2_prefix", byte_level(prefix=True))
    bytes_kind("llama3", cased_by_regex(LLAMA3), options={"ignore_merges": True}, post={"type": "Sequence", "processors": [
        byte_level(), template(["<s>"])]})
    bytes_kind("qwen2", cased_by_regex(QWEN2), NFC)
    bytes_kind("qwen35", cased_by_regex(QWEN35))
    bytes_kind("deepseek3", cased_by_regex(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3), norm(), post=template(["<s>"]))
    bytes_kind("deepseek_coder", pre(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), digits(),
                                     byte_level(regex=False)))
    bytes_kind("deepseek_llm", pre(split("[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+"), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
                                   split(r"\s+$"), split("[一-龥ࠀ-一가-퟿]+"), digits(), byte_level(regex=False)))
    bytes_kind("falcon", pre({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(), digits(False), split("[0-9][0-9][0-9]")))
    bytes_kind("starcoder2", pre(digits(), byte_level()))
    bytes_kind("command_r", pre(digits(), byte_level()), NFC, post=template(["<s>"]))
    bytes_kind("bloom", pre(split(BLOOM), byte_level(regex=False)))
    bytes_kind("o200k", cased_by_regex(O200K))
    bytes_kind("tekken", cased_by_regex(TEKKEN), options={"ignore_merges": True})
    bytes_kind("cl100k", cased_by_regex(CL100K))
    bytes_kind("seed", cased_by_regex(SEED))
    bytes_kind("exaone", cased_by_regex(EXAONE))
    bytes_kind("kimi", cased_by_regex(KIMI))
    bytes_kind("tiny_aya", cased_by_regex(TINY_AYA, O200K))
    bytes_kind("removed", pre(split(r"\s+", "Removed"), byte_level(prefix=True)))
    bytes_kind("previous", pre(split(r"[.,;!?]", "MergedWithPrevious"), byte_level(regex=False)))
    bytes_kind("next", pre(split(" ", "MergedWithNext", literal=True), byte_level(regex=False)))
    bytes_kind("contiguous", pre(split(r"\p{P}", "Contiguous"), byte_level(regex=False)))
    bytes_kind("inverted", pre(split(r"\w+", "Contiguous", invert=True), split(r"\S*", "Isolated"), byte_level(regex=False)))
    bytes_kind("next_regex", pre(split(r"\d|x*", "MergedWithNext"), {"type": "Punctuation", "behavior": "MergedWithPrevious"},
                                 byte_level(regex=False)))
    bytes_kind("byte_normalizer", None, norm(NFC, {"type": "ByteLevel"}))
    bytes_kind("mpt", byte_level(), NFC, mask=dict(normalized=True, single_word=True))
    bytes_kind("opt", byte_level(), post={"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
                                          "trim_offsets": True, "add_prefix_space": False}, mask=dict(lstrip=True, rstrip=True))
    kind("llama2", "spm", LEGACY, None, dec(*SPACES_BACK, STRIP), template(["<s>"]))
    kind("mistral3", "spm", None, metaspace("first", False), dec(*SPACES_BACK, STRIP), template(["<s>"], ["</s>"]))
    kind("metaspace", "spm", None, metaspace(), {**metaspace()}, options={"fuse_unk": True})
    kind("metaspace_never", "spm", None, metaspace("never"), {**metaspace("never")})
    kind("gemma", "spm", replace(" ", "▁"), split(" ", "MergedWithPrevious", literal=True), dec(*SPACES_BACK), template(["<s>"]),
         mask=dict(normalized=True))
    kind("unknown", "spm", replace(" ", "▁"), None, dec(replace("▁", " "), {"type": "Fuse"}), options={"byte_fallback": False})
    kind("unknown_fused", "spm", norm(NFC, LEGACY), None, None, options={"byte_fallback": False, "fuse_unk": True},
         mask=dict(normalized=True))
    kind("nfkc_lower", "spm", norm({"type": "NFKC"}, {"type": "Lowercase"}), metaspace("first"), dec(*SPACES_BACK), mask=dict(normalized=True))
    kind("nfkd_accents", "spm", norm({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Strip", "strip_left": True, "strip_right": True}),
         metaspace(), dec(*SPACES_BACK))
    kind("nfd_nmt", "spm", norm({"type": "Nmt"}, {"type": "NFD"}, replace(r"\s{2,}", " ", True)), metaspace(), dec(*SPACES_BACK))
    kind("whitespace", "spm", None, {"type": "Whitespace"}, None)
    kind("bert_split", "spm", None, {"type": "BertPreTokenizer"}, None)
    kind("white_split", "spm", None, pre({"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": "-"},
                                         {"type": "Punctuation", "behavior": "Removed"}), None)
    kind("unigram", "unigram", None, metaspace(), {**metaspace()}, template([], ["</s>"]))
    kind("unigram_bytes", "unigram", norm({"type": "NFKC"}, replace(" {2,}", " ", True)), metaspace("first", False), dec(*SPACES_BACK, STRIP),
         options={"byte_fallback": True})
    kind("precompiled", "unigram", {"type": "Precompiled", "precompiled_charsmap": charsmap(MAP)}, metaspace(), {**metaspace()})
    kind("unigram_whole", "unigram", replace(" ", "▁"), None, dec(replace("▁", " "), {"type": "Fuse"}))
    return out


# ---- models ----

def train():
    out = {}
    plain = [l for l in TEXT.split("\n") if l]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.train_from_iterator(plain * 2, trainers.BpeTrainer(vocab_size=620, special_tokens=["<s>", "</s>"], show_progress=False,
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=24))
    out["bytes"] = json.loads(tok.to_str())["model"]
    byte_names = ["<0x%02X>" % b for b in range(256)]
    tok = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.train_from_iterator(plain * 2, trainers.BpeTrainer(vocab_size=700, special_tokens=["<s>", "</s>", "<unk>"] + byte_names,
                                                          show_progress=False, limit_alphabet=90, max_token_length=24))
    out["spm"] = json.loads(tok.to_str())["model"]
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.train_from_iterator(plain * 2, trainers.UnigramTrainer(vocab_size=620, special_tokens=["<s>", "</s>", "<unk>"] + byte_names,
                                                              unk_token="<unk>", show_progress=False))
    out["unigram"] = json.loads(tok.to_str())["model"]
    for piece in out["unigram"]["vocab"]:
        piece[1] = round(piece[1], 4)
    out["unigram"]["vocab"] += [["the▁", -9.5], ["▁man▁in▁", -8.0], ["日本", -7.0]]
    return out


def special(i, content, **flags):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **flags}


def tokenizer_json(trained, kind):
    """The file; its model is named by "base" in what is written, to be looked up in models.json."""
    base, options, normalizer, pre_tokenizer, decoder, post, mask = kind
    model = {**trained[base], **options}
    size = len(model["vocab"])
    added = [special(0, "<s>"), special(1, "</s>")] + ([special(2, "<unk>")] if base != "bytes" else [])
    added += [special(size, "<mask>", **{"special": False, **mask}), special(size + 1, "<|im_start|>"),
              special(size + 2, "[INST]", rstrip=True, special=False), special(size + 3, "<|im"), special(size + 4, "\n\n", special=False)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post, "decoder": decoder, "model": model}


def expected(tok, texts):
    out = []
    for raw in texts:
        ids = tok.encode(raw.decode("utf-8", "replace")).ids
        out.append((ids, tok.decode(ids, skip_special_tokens=True)))
    return out


def write(trained, folder):
    texts = [t for t in lines(34, 7) if b"\0" not in t]

    def put(name, what):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(what, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")

    put("models.json", trained)
    put("lines.json", [list(t) for t in texts])
    for name, kind in kinds().items():
        full = tokenizer_json(trained, kind)
        results = expected(Tokenizer.from_str(json.dumps(full)), texts)
        full["model"] = {"base": kind[0], **kind[1]}
        put(name + ".json", {"tokenizer": full, "ids": [r[0] for r in results], "decoded": [r[1] for r in results]})


def run(program, path, texts):
    done = subprocess.run([program, path], input=b"".join(b"%d\n%s" % (len(t), t) for t in texts), capture_output=True)
    if done.returncode:
        return done.stderr.decode().strip()
    out, at, results = done.stdout, 0, []
    for _ in texts:
        end = out.index(b"\n", at)
        ids = [int(x) for x in out[at:end].split()]
        at = out.index(b"\n", end + 1) + 1
        size = int(out[end + 1:at])
        results.append((ids, out[at:at + size].decode()))
        at += size
    return results


def compare(trained, program, count, seed, only):
    texts = lines(count, seed)
    bad = 0
    for name, kind in kinds().items():
        if only and name != only:
            continue
        full = json.dumps(tokenizer_json(trained, kind))
        want = expected(Tokenizer.from_str(full), texts)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write(full)
            f.flush()
            got = run(program, f.name, texts)
        if isinstance(got, str):
            print("%-16s %s" % (name, got))
            bad += 1
            continue
        ids = [i for i in range(count) if got[i][0] != want[i][0]]
        back = [i for i in range(count) if got[i][0] == want[i][0] and got[i][1] != want[i][1]]
        print("%-16s %d texts, %d encoded otherwise, %d decoded otherwise" % (name, count, len(ids), len(back)))
        bad += bool(ids or back)
        for i in (ids + back)[:6 if only else 0]:
            print(repr(texts[i].decode("utf-8", "replace")), got[i], want[i], sep="\n  ")
    print("%d kinds differ" % bad)
    return bad > 0


if __name__ == "__main__":
    where = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
    if os.path.exists(os.path.join(where, "models.json")):  # training twice gives two models
        with open(os.path.join(where, "models.json"), encoding="utf-8") as models_json:
            made = json.load(models_json)
    else:
        made = train()
    if len(sys.argv) == 1:
        write(made, where)
    else:
        sys.exit(compare(made, sys.argv[1], int(sys.argv[2]), int((sys.argv + ["1"])[3]), (sys.argv + [""] * 5)[4]))
